"""Two sets of verdicts side by side: how often they agree, and which rule of which test parts them.

Read are our run folders, ``results.json`` and ``verdict.json``; SWE-bench's report folders
(``logs/run_evaluation/<run>/<model>``), ``report.json`` and run reports; SWE-bench-Live's output folders and
``results.json``. Where another harness left its log beside its report, the log says which of its rules decided.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from swelive_plugin.core.decide import score
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.policies import SWEBENCH, SWEBENCH_LIVE
from swelive_plugin.core.policy import Policy
from swelive_plugin.core.verdict import NO_VERDICT, Status, Verdict
from swelive_plugin.errors import SweliveError, UsageError

__all__ = [
    "Comparison",
    "Disagreement",
    "Judged",
    "Side",
    "TestView",
    "compare",
    "comparison_as_dict",
    "comparison_lines",
    "read_side",
    "rescored",
    "side_of",
]

Answer = Literal["resolved", "unresolved", "no verdict"]
ANSWERS: tuple[Answer, ...] = ("resolved", "unresolved", "no verdict")
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
_ATTEMPT = re.compile(r" \(attempt \d+\)\Z")
_LOGS = ("test_output.txt", "post_patch_log.txt")


@dataclass(frozen=True)
class TestView:
    """How one side sees a listed test: its judgement, the outcome where it is known, and the rule that decided."""

    __test__ = False  # pytest must not take it for a test class

    judgement: str
    outcome: str = ""
    rule: str = ""

    def __str__(self) -> str:
        """``fail (skipped; f2p-skipped)``, as far as it is known."""
        known = "; ".join(part for part in (self.outcome, self.rule) if part)
        return f"{self.judgement} ({known})" if known else self.judgement


@dataclass(frozen=True)
class Judged:
    """One side's verdict on one instance; ``tests`` is empty where only the answer was kept.

    Attempts after the first have their number behind ``instance_id``: other harnesses know one prediction of each.
    """

    instance_id: str
    answer: Answer
    status: str
    reason: str = ""
    tests: Mapping[tuple[str, str], TestView] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Side:
    """A set of verdicts: where it was read, which harness gave it, and what to know before reading them."""

    name: str
    harness: str
    judged: Mapping[str, Judged] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def instances(self) -> int:
        """Of how many instances there are verdicts; each may have several attempts."""
        return len({_ATTEMPT.sub("", name) for name in self.judged})

    @property
    def counted(self) -> str:
        """How many verdicts there are, in words."""
        several = "" if self.instances == len(self.judged) else f"{len(self.judged)} attempts at "
        return f"{several}{self.instances} instance{'s' * (self.instances != 1)}"


@dataclass(frozen=True)
class Disagreement:
    """One instance on which the sides differ, and one test that they judge differently.

    ``test`` is empty where no test shows why; then ``a`` and ``b`` are the statuses. ``rule`` names what made the
    difference, as far as either side tells.
    """

    instance_id: str
    listed_in: str
    test: str
    a: str
    b: str
    rule: str


@dataclass(frozen=True)
class Comparison:
    """The agreement table over the instances that both sides judged, and every disagreement.

    ``table`` counts pairs of answers; ``only_a`` and ``only_b`` are instances that one side alone has.
    ``quiet`` are disagreements on single tests that left the answer as it is.
    """

    a: Side
    b: Side
    table: Mapping[tuple[Answer, Answer], int]
    disagreements: tuple[Disagreement, ...]
    quiet: tuple[Disagreement, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def compared(self) -> int:
        """How many instances (attempts, where there are several) both sides have."""
        return sum(self.table.values())

    @property
    def agreed(self) -> int:
        """On how many of them the answers are the same."""
        return sum(count for (one, other), count in self.table.items() if one == other)


def compare(a: Path | Side, b: Path | Side) -> Comparison:
    """Return the comparison of two sets of verdicts. Raises `UsageError` for a path that holds none."""
    left = a if isinstance(a, Side) else read_side(a)
    right = b if isinstance(b, Side) else read_side(b)
    both = [instance_id for instance_id in left.judged if instance_id in right.judged]
    table: Counter[tuple[Answer, Answer]] = Counter()
    loud: list[Disagreement] = []
    quiet: list[Disagreement] = []
    for instance_id in sorted(both):
        one, other = left.judged[instance_id], right.judged[instance_id]
        table[one.answer, other.answer] += 1
        tests = list(_test_disagreements(one, other))
        if one.answer == other.answer:
            quiet += tests
        else:
            loud += [found for found in tests if _decides(found)] or [_status_disagreement(one, other)]
    return Comparison(
        a=left,
        b=right,
        table=dict(table),
        disagreements=tuple(loud),
        quiet=tuple(quiet),
        only_a=tuple(sorted(left.judged.keys() - right.judged.keys())),
        only_b=tuple(sorted(right.judged.keys() - left.judged.keys())),
    )


def _decides(found: Disagreement) -> bool:
    """A test parts the answers only if one side fails it."""
    return "fail" in (found.a.split(" ", 1)[0], found.b.split(" ", 1)[0])


def _test_disagreements(one: Judged, other: Judged) -> Iterator[Disagreement]:
    if not one.tests or not other.tests:
        return
    for key in {**one.tests, **other.tests}:
        mine, theirs = one.tests.get(key), other.tests.get(key)
        if (mine.judgement if mine else "left_out") == (theirs.judgement if theirs else "left_out"):
            continue  # what a harness has in neither list it leaves out
        which, test = key
        rule = " | ".join(dict.fromkeys(view.rule for view in (mine, theirs) if view is not None and view.rule))
        absent = "in neither list"
        yield Disagreement(one.instance_id, which, test, str(mine or absent), str(theirs or absent), rule)


def _status_disagreement(one: Judged, other: Judged) -> Disagreement:
    rule = " | ".join(dict.fromkeys(side.reason or side.status for side in (one, other) if side.answer != "resolved"))
    return Disagreement(one.instance_id, "", "", one.status, other.status, rule)


def comparison_as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain values for JSON: the sides' names, the table, every disagreement."""

    def side(which: Side) -> dict[str, Any]:
        return {
            "name": which.name, "harness": which.harness, "instances": which.instances, "attempts": len(which.judged),
        }  # fmt: skip

    return {
        "a": side(comparison.a),
        "b": side(comparison.b),
        "notes": [*comparison.a.notes, *comparison.b.notes],
        "compared": comparison.compared,
        "agreed": comparison.agreed,
        "table": [{"a": one, "b": other, "count": count} for (one, other), count in comparison.table.items()],
        "disagreements": [asdict(found) for found in comparison.disagreements],
        "quiet": [asdict(found) for found in comparison.quiet],
        "only_a": list(comparison.only_a),
        "only_b": list(comparison.only_b),
    }


def comparison_lines(comparison: Comparison, *, limit: int = 50) -> list[str]:
    """Return a comparison as lines of text: the table, then at most ``limit`` disagreements with their rules."""
    a, b = comparison.a, comparison.b
    lines = [
        f"A: {a.name} ({a.harness}, {a.counted})",
        f"B: {b.name} ({b.harness}, {b.counted})",
    ]
    lines += [f"note: {note}" for note in (*a.notes, *b.notes)]
    share = f" ({comparison.agreed / comparison.compared:.1%})" if comparison.compared else ""
    lines += ["", f"agreed on {comparison.agreed} of {comparison.compared}{share}", ""]
    lines.append(f"{'A down, B right':<16}" + "".join(f"{answer:>12}" for answer in ANSWERS))
    for one in ANSWERS:
        counts = [comparison.table.get((one, other), 0) for other in ANSWERS]
        lines.append(f"{one:<16}" + "".join(f"{count:>12}" for count in counts))
    for title, found in (
        ("disagreements", comparison.disagreements),
        ("the same answer, other tests", comparison.quiet),
    ):
        if found:
            lines += ["", f"{title} ({len(found)}):", *_told(found[:limit])]
        if len(found) > limit:
            lines.append(f"  and {len(found) - limit} more")
    for name, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            more = f" and {len(only) - 5} more" if len(only) > 5 else ""
            lines += ["", f"only in {name}: {', '.join(only[:5])}{more}"]
    return lines


def _told(found: Iterable[Disagreement]) -> Iterator[str]:
    instance_id = ""
    for one in found:
        if one.instance_id != instance_id:
            instance_id = one.instance_id
            yield f"  {instance_id}"
        where = f"{one.listed_in} {one.test}" if one.test else "(no single test)"
        yield f"    {where}"
        yield f"      A: {one.a}"
        yield f"      B: {one.b}"
        if one.rule:
            yield f"      rule: {one.rule}"


# reading the sides


def read_side(path: Path) -> Side:
    """Return the set of verdicts that a file or folder holds. Raises `UsageError` where there is none."""
    if path.is_dir():
        found = _from_folder(path)
    elif path.is_file():
        found = _from_document(path, _load(path))
    else:
        raise UsageError(f"{path} is not there", hint="name a run folder, a report folder or a results file")
    harness, judged = found
    if not judged:
        raise UsageError(
            f"{path} holds no verdicts",
            hint="name a run folder, results.json, or the report folder of SWE-bench or SWE-bench-Live",
        )
    return Side(str(path), harness, judged)


def side_of(verdicts: Iterable[Verdict], name: str) -> Side:
    """Return the side that our own verdicts make; later attempts of an instance are judged apart from its first."""
    return Side(name, "swelive", {judged.instance_id: judged for judged in map(_ours, verdicts)})


def rescored(run: Path, instances: Iterable[Instance], policy: Policy) -> Side:
    """Return what ``policy`` says of the sessions that a run folder keeps: another grader's verdict on our evidence.

    Raises `UsageError` where the folder holds no session of the instances.
    """
    from swelive_plugin.library import scope_note, score_run
    from swelive_plugin.readers.folder import runs_in

    rows = {instance.instance_id: instance for instance in instances}
    runs = [found for found in runs_in(run, rows) if found.evidence or found.stands]
    if not runs:
        raise UsageError(f"{run} holds no session of these instances", hint="name the dataset that was graded with -d")
    side = side_of((score_run(rows[found.instance_id], found, policy=policy) for found in runs), str(run))
    note = scope_note(rows, runs, policy=policy)
    return replace(side, harness=f"policy {policy.name}", notes=(note,) if note else ())


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is no JSON: {error}", hint="name a run folder, a report folder or a results file"
        ) from error


Found = tuple[str, dict[str, Judged]]


def _from_folder(path: Path) -> Found:
    """Return what a folder holds, the most detailed form first."""
    from swelive_plugin.readers.folder import listed_in_results

    own = [file for pattern in ("verdict.json", "*/verdict.json", "*/*/verdict.json") for file in path.glob(pattern)]
    if own:
        judged = [judged for file in own for judged in _own_verdict(file, _load(file))]
        listed = listed_in_results(path)
        names = None if listed is None else {_name(*row) for row in listed}  # others are left from an earlier run
        return "swelive", {one.instance_id: one for one in judged if names is None or one.instance_id in names}
    reports = sorted(path.rglob("*report.json"))
    found: dict[str, Judged] = {}
    harness = ""
    for file in reports:
        try:
            harness, reported = _from_document(file, _load(file))
        except UsageError:
            continue  # another tool's report.json
        found.update(reported)
    if found:
        return harness, found
    for file in sorted(path.glob("*.json")):
        try:
            return _from_document(file, _load(file))
        except UsageError:
            continue
    return "", {}


def _from_document(path: Path, document: Any) -> Found:
    """Return what one JSON document holds; each form is known by its keys."""
    if isinstance(document, Mapping):
        if "status" in document and "fail_to_pass" in document:
            return "swelive", {judged.instance_id: judged for judged in _own_verdict(path, document)}
        if "results_version" in document:
            return "swelive", _own_results(document)
        if "resolved_ids" in document or "success_ids" in document:
            return _summary(document)
        if isinstance(document.get("instance_id"), str) and "resolved" in document:
            return "swebench-live", {document["instance_id"]: _live_report(path, document)}
        reports = {key: value for key, value in document.items() if isinstance(value, Mapping) and "resolved" in value}
        if reports:
            return "swebench", {key: _swebench_report(path, key, value) for key, value in reports.items()}
    raise UsageError(f"{path} holds no verdicts that are known here")


def _own_verdict(path: Path, document: Any) -> Iterator[Judged]:
    from swelive_plugin.reports.json_report import read_verdict

    if isinstance(document, Mapping):
        yield _ours(read_verdict(path))


def _ours(verdict: Verdict) -> Judged:
    tests = {
        (which, test.id): TestView(test.judgement, ", ".join(sorted(set(test.outcomes))) or "missing", test.rule)
        for which, listed in zip(_LISTS, (verdict.fail_to_pass, verdict.pass_to_pass), strict=True)
        for test in listed
    }
    reason = verdict.reasons[0].code if verdict.reasons else ""
    name = _name(verdict.instance_id, verdict.attempt)
    return Judged(name, _answer(verdict.status), verdict.status.value, reason, tests)


def _name(instance_id: str, attempt: int) -> str:
    return instance_id if attempt == 1 else f"{instance_id} (attempt {attempt})"


def _answer(status: Status) -> Answer:
    if status in NO_VERDICT:
        return "no verdict"
    return "resolved" if status is Status.RESOLVED else "unresolved"


def _own_results(document: Mapping[str, Any]) -> dict[str, Judged]:
    judged: dict[str, Judged] = {}
    for row in document.get("rows", ()):
        status, name = Status(row["status"]), _name(row["instance_id"], row.get("attempt", 1))
        judged[name] = Judged(name, _answer(status), status.value)
    return judged


def _summary(document: Mapping[str, Any]) -> Found:
    """Return the answers of SWE-bench's run report (``resolved_ids``) or SWE-bench-Live's (``success_ids``)."""
    live = "resolved_ids" not in document
    keys: tuple[tuple[str, Answer], ...] = (
        ("success_ids" if live else "resolved_ids", "resolved"),
        ("failure_ids" if live else "unresolved_ids", "unresolved"),
        ("empty_patch_ids", "unresolved"),
        ("error_ids", "no verdict"),
    )
    judged = {
        instance_id: Judged(instance_id, answer, key.removesuffix("_ids"))
        for key, answer in reversed(keys)
        for instance_id in document.get(key) or ()
    }
    return "swebench-live" if live else "swebench", judged


def _live_report(path: Path, document: Mapping[str, Any]) -> Judged:
    instance_id = document["instance_id"]
    lists = {which: document[which] for which in _LISTS if isinstance(document.get(which), Mapping)}
    return _reported(path, instance_id, document, lists, SWEBENCH_LIVE)


def _swebench_report(path: Path, instance_id: str, report: Mapping[str, Any]) -> Judged:
    lists = report.get("tests_status")
    return _reported(path, instance_id, report, lists if isinstance(lists, Mapping) else {}, SWEBENCH)


def _reported(
    path: Path, instance_id: str, report: Mapping[str, Any], lists: Mapping[str, Any], policy: Policy
) -> Judged:
    tests: dict[tuple[str, str], TestView] = {}
    for which in _LISTS:
        for name, judgement in (("success", "pass"), ("failure", "fail")):
            for test in (lists.get(which) or {}).get(name) or ():
                tests[which, str(test)] = TestView(judgement)
    resolved = report["resolved"]
    answer: Answer = "no verdict" if resolved is None else "resolved" if resolved else "unresolved"
    reason = "" if report.get("patch_successfully_applied", True) else "the log was not accepted"
    if report.get("patch_exists") is False:
        reason = "no patch"
    log = next((path.parent / name for name in _LOGS if (path.parent / name).is_file()), None)
    if log is not None and tests:
        tests = _with_rules(log, instance_id, tests, policy)
    return Judged(instance_id, answer, answer, reason, tests)


def _with_rules(
    log: Path, instance_id: str, tests: Mapping[tuple[str, str], TestView], policy: Policy
) -> dict[tuple[str, str], TestView]:
    """Return the tests with outcome and rule from the harness's own log, where it gives the same judgement."""
    from swelive_plugin.readers import read_session

    owner, _, rest = instance_id.partition("__")
    lists = [tuple(test for which, test in tests if which == listed) for listed in _LISTS]
    row = Instance(
        instance_id, f"{owner}/{rest.rpartition('-')[0]}", "0" * 40, fail_to_pass=lists[0], pass_to_pass=lists[1]
    )
    try:
        verdict = _ours(score(row, read_session(log, kind="log"), policy=policy))
    except SweliveError:
        return dict(tests)
    told = verdict.tests
    return {key: told[key] if told[key].judgement == view.judgement else view for key, view in tests.items()}
