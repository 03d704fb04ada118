"""Verdicts and runs as lines of text that a person understands at a glance; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from swelive_plugin.core.policy import OUT_OF_SCOPE
from swelive_plugin.core.verdict import NO_VERDICT, Reason, Status, TestVerdict, Verdict
from swelive_plugin.files import one_line, visible
from swelive_plugin.reports.json_report import Results, main_reason

__all__ = ["Line", "result_line", "style_of", "summary_lines", "verdict_lines", "verdict_styled_lines"]

Style = Literal["good", "bad", "warn", "dim", "plain"]

_MESSAGE_LIMIT = 1000  # characters: a terminal breaks such a line where it ends; verdict.json holds the whole text
_WORDS = {Status.EMPTY_PATCH: "the patch is empty: nothing was run"}


@dataclass(frozen=True)
class Line:
    """One line, and how it is meant: a face chooses the colours."""

    text: str
    style: Style = "plain"


def style_of(status: Status) -> Style:
    """Return how a status is meant."""
    if status is Status.RESOLVED:
        return "good"
    return "warn" if status in NO_VERDICT else "bad"


def verdict_lines(verdict: Verdict, *, limit: int = 30) -> list[str]:
    """Return a verdict as plain lines: the status, each FAIL_TO_PASS, each regression with its reason, the counts.

    ``limit`` is how many tests of one kind are listed before the rest is only counted.
    """
    return [line.text for line in verdict_styled_lines(verdict, limit=limit)]


def verdict_styled_lines(verdict: Verdict, *, limit: int = 30) -> list[Line]:
    """Return the lines of `verdict_lines` with the style of each."""
    return [
        _headline(verdict),
        *_causes(verdict),
        *_tests("FAIL_TO_PASS", "pass", verdict.fail_to_pass, limit, show_passed=True),
        *_tests("PASS_TO_PASS", "kept", verdict.pass_to_pass, limit, show_passed=False),
        *_patch(verdict),
        *_integrity(verdict),
        *(Line(f"  warning: {_short(warning.message)}", "warn") for warning in verdict.warnings),
    ]


def _headline(verdict: Verdict) -> Line:
    reward = "no verdict, no reward" if verdict.reward is None else f"reward {verdict.reward:g}"
    attempt = f" (attempt {verdict.attempt})" if verdict.attempt > 1 else ""
    review = ", review asked for" if verdict.review else ""
    name = visible(verdict.instance_id) + attempt
    return Line(f"{verdict.status.value.upper()}  {name}  {reward}{review}", style_of(verdict.status))


def _causes(verdict: Verdict) -> Iterator[Line]:
    """Yield the reasons that no test below tells, with the last lines of what shows them."""
    told = {test.id for test in (*verdict.fail_to_pass, *verdict.pass_to_pass)}
    own = [reason for reason in verdict.reasons if reason.test not in told]
    if not own and verdict.status in _WORDS:
        yield Line(f"  {_WORDS[verdict.status]}", "bad")
    for reason in own:
        yield Line(f"  {_short(reason.message)}{_place(reason)}", style_of(verdict.status))
        for line in reason.evidence.splitlines()[-10:]:
            yield Line(f"    | {_short(line)}", "dim")


def _place(reason: Reason) -> str:
    if not reason.file or reason.file in reason.message:
        return ""
    return visible(f" ({reason.file}:{reason.line})" if reason.line else f" ({reason.file})")


def _tests(name: str, verb: str, tests: Sequence[TestVerdict], limit: int, *, show_passed: bool) -> Iterator[Line]:
    if not tests:
        return
    by_judgement = {
        judgement: [test for test in tests if test.judgement == judgement] for judgement in ("pass", "fail", "left_out")
    }
    passed, failed, left_out = by_judgement["pass"], by_judgement["fail"], by_judgement["left_out"]
    counted = len(passed) + len(failed)
    more = f", {len(left_out)} left out" if left_out else ""
    yield Line(f"  {name}: {len(passed)} of {counted} {verb}{more}", "bad" if failed else "good")
    yield from _listed("FAIL", failed, limit, "bad")
    if show_passed:
        yield from _listed("pass", passed, limit, "good")
    yield from _left_out(left_out, limit)


def _listed(word: str, tests: Sequence[TestVerdict], limit: int, style: Style) -> Iterator[Line]:
    for test in tests[:limit]:
        why = f"  {_short(test.message)}" if test.message else ""
        outcomes = ", ".join(dict.fromkeys(test.outcomes)) or "missing"
        said = "" if outcomes == "passed" else f"  {outcomes}"
        if test.message.startswith(outcomes):
            said = ""
        yield Line(f"    {word}  {visible(test.id)}{said}{why}", style)
    if len(tests) > limit:
        yield Line(f"    …     and {len(tests) - limit} more", "dim")


def _left_out(tests: Sequence[TestVerdict], limit: int) -> Iterator[Line]:
    """Yield those left out, by reason: hundreds may share one."""
    by_reason: dict[str, list[TestVerdict]] = {}
    for test in tests:
        by_reason.setdefault(test.message or test.rule, []).append(test)
    for reason, alike in list(by_reason.items())[:limit]:
        which = visible(alike[0].id) + (f" and {len(alike) - 1} more" if len(alike) > 1 else "")
        yield Line(f"    left out  {which}: {_short(reason)}", "dim")


def _patch(verdict: Verdict) -> Iterator[Line]:
    for repair in verdict.patch.repairs:
        yield Line(f"  patch repaired: {_short(repair)}", "dim")
    if verdict.patch.restored:
        names = ", ".join(map(visible, verdict.patch.restored[:5]))
        more = f" and {len(verdict.patch.restored) - 5} more" if len(verdict.patch.restored) > 5 else ""
        yield Line(f"  put back before grading: {names}{more}", "dim")


def _integrity(verdict: Verdict) -> Iterator[Line]:
    for finding in verdict.integrity.findings:
        if finding.severity == "tampered":
            continue  # it is a reason, told above
        where = f" ({finding.file}:{finding.line})" if finding.file else ""
        style: Style = "dim" if finding.severity == "suspicious" else "warn"
        yield Line(f"  {finding.severity}: {_short(finding.message)}{visible(where)}", style)
    if verdict.integrity.mode != "driver":
        yield Line(f"  integrity: {visible(verdict.integrity.mode)}: for code that you trust", "dim")
    elif verdict.integrity.sandbox == "plain":
        yield Line("  integrity: no sandbox: the graded code could reach this machine", "warn")


def result_line(verdict: Verdict, done: int, total: int) -> str:
    """Return one line for a run's progress: how many are done, the status, the instance, the seconds, the cause."""
    width = len(str(total))
    attempt = f" (attempt {verdict.attempt})" if verdict.attempt > 1 else ""
    cause = f"  {_short(main_reason(verdict))}".rstrip()
    name = visible(verdict.instance_id) + attempt
    line = f"[{done:>{width}}/{total}] {verdict.status.value:<16} {name}  {verdict.duration_s:.1f} s{cause}"
    return line + (f"  {not_run}" if (not_run := _not_run(verdict)) else "")


def _not_run(verdict: Verdict) -> str:
    """Return how many PASS_TO_PASS were judged, where the scope left files of theirs out, else nothing."""
    outside = sum(test.rule == OUT_OF_SCOPE for test in verdict.pass_to_pass)
    if not outside:
        return ""
    judged = sum(test.judgement != "left_out" for test in verdict.pass_to_pass)
    told = f"PASS_TO_PASS {judged} of {len(verdict.pass_to_pass)} judged"
    return f"{told}: the files of {outside} were not run (--scope all runs them)"


def summary_lines(results: Results) -> list[str]:
    """Return a run's counts as plain lines: each status that occurs, what to look at. Notes are told at the start."""
    submitted = sum(results.counts.values())
    resolved = results.counts.get(Status.RESOLVED.value, 0)
    share = f" ({resolved / submitted:.1%})" if submitted else ""
    lines = [f"resolved {resolved} of {submitted}{share}"]
    lines += [
        f"  {status:<16} {count:>5}"
        for status, count in results.counts.items()
        if count and status != Status.RESOLVED.value
    ]
    without = len(results.incomplete_ids) - results.counts.get(Status.INCOMPLETE.value, 0)
    if without > 0:
        lines.append(f"  {'no prediction':<16} {without:>5}")
    for row in results.rows:
        if row.review:
            attempt = f" (attempt {row.attempt})" if row.attempt > 1 else ""
            why = f": {_short(row.review_reason)}" if row.review_reason else ""
            lines.append(f"  review asked for: {visible(row.instance_id)}{attempt}{why}")
    return lines


def _short(text: str) -> str:
    return one_line(text, limit=_MESSAGE_LIMIT)
