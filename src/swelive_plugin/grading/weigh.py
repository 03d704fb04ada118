"""What a session is worth: its score, held against the controls."""

from __future__ import annotations

from dataclasses import replace

from swelive_plugin.core.policy import Controls
from swelive_plugin.core.scoring import score
from swelive_plugin.core.verdict import Integrity, Reason, Status, Verdict
from swelive_plugin.environments.search import words_of_lacks
from swelive_plugin.grading.rebuild_step import as_built
from swelive_plugin.grading.state import Grade
from swelive_plugin.integrity.judge import loaded_plugins
from swelive_plugin.sandbox.processes import end_of_output

__all__ = ["grade_ran", "score_session"]


def score_session(grade: Grade) -> Verdict:
    """Return the session's verdict, checked against the controls."""
    assert grade.result is not None
    assert grade.application is not None
    assert grade.sandbox is not None
    verdict = score(
        grade.instance,
        grade.result.session,
        policy=grade.policy,
        scope=grade.scope,
        controls=grade.controls.outcomes if grade.controls else Controls(),
        patched_files=grade.application.changed,
        integrity=Integrity(
            mode="driver",
            sandbox=grade.sandbox.name,
            network=grade.settings.network,
            checked=grade.checked,
            findings=grade.findings,
            mutation=grade.mutation,
            plugins=tuple(sorted(loaded_plugins(grade.result.read.events) or ())),
        ),
        root=grade.result.root,
    )
    return as_built(grade.rebuilt, _against_controls(grade, _with_last_words(grade, _ended_by_limit(grade, verdict))))


def _with_last_words(grade: Grade, verdict: Verdict) -> Verdict:
    """Show what pytest printed last where it never came to a test: the reason is often only there."""
    assert grade.result is not None
    if grade.result.session.ran_anything or not verdict.reasons:
        return verdict
    first, *others = verdict.reasons
    told = replace(first, evidence=first.evidence or end_of_output(grade.result.output))
    return replace(verdict, reasons=(told, *others))


def _ended_by_limit(grade: Grade, verdict: Verdict) -> Verdict:
    """Name the limit that ended the session, where one did."""
    assert grade.result is not None
    ended_by = grade.result.completed.ended_by
    if verdict.status is not Status.CRASHED or ended_by in ("exit", "signal"):
        return verdict
    reason = Reason("limit", f"the session was stopped at its limit of {ended_by.replace('_', ' ')}")
    return replace(verdict, reasons=(reason, *verdict.reasons))


def _against_controls(grade: Grade, verdict: Verdict) -> Verdict:
    """`env_error` needs proof: the control fails in the same way. What breaks only under the prediction is its own."""
    controls = grade.controls
    if controls is None or verdict.status not in (Status.UNRESOLVED, Status.CRASHED, Status.TIMED_OUT, Status.RESOLVED):
        return verdict
    if controls.gold is not None and _fails_like(controls.gold.verdict, verdict):
        why = controls.gold.verdict.reasons[0] if controls.gold.verdict.reasons else Reason("unknown", "")
        said = end_of_output(controls.gold.folder / "test_output.txt") if controls.gold.ran_nothing else ""
        first = ": ".join([why.message, *said.splitlines()[-1:]])
        built = f"Gold does not build: {controls.gold.unbuilt}. " if controls.gold.unbuilt else ""
        lacks = words_of_lacks(grade.environment) if grade.environment else ""
        told = Reason(
            "gold_control_fails",
            f"{len(controls.fail_under_gold)} of {len(verdict.fail_to_pass)} FAIL_TO_PASS tests fail here with the "
            f"gold patch too: this environment can't judge it{lacks}. {built}First: {first}",
            test=controls.fail_under_gold[0],
            evidence=said,
        )
        return replace(verdict, status=Status.ENV_ERROR, reasons=(told, *verdict.reasons))
    if controls.gold is None and controls.base.ran_nothing and not grade_ran(grade):
        told = Reason(
            "base_control_ran_nothing", "the session runs no test at base either: the environment is at fault"
        )
        return replace(verdict, status=Status.ENV_ERROR, reasons=(told, *verdict.reasons))
    if controls.pass_at_base:
        told = Reason(
            "passes_at_base",
            f"{len(controls.pass_at_base)} FAIL_TO_PASS tests pass at base without any fix: they show nothing here",
            test=controls.pass_at_base[0],
        )
        if len(controls.pass_at_base) == sum(test.judgement != "left_out" for test in verdict.fail_to_pass):
            return replace(verdict, status=Status.ENV_ERROR, reasons=(told, *verdict.reasons))
        return replace(verdict, warnings=(*verdict.warnings, told))
    return verdict


def _fails_like(control: Verdict, verdict: Verdict) -> bool:
    """Return whether all that fails in ``verdict``, a FAIL_TO_PASS test among it, fails under the control too."""
    failing, known = _failing(verdict), _failing(control)
    ended_alike = verdict.status in (control.status, Status.UNRESOLVED)
    return ended_alike and failing <= known and any(test.judgement == "fail" for test in verdict.fail_to_pass)


def _failing(verdict: Verdict) -> set[str]:
    return {test.id for test in (*verdict.fail_to_pass, *verdict.pass_to_pass) if test.judgement == "fail"}


def grade_ran(grade: Grade) -> bool:
    """Return whether the deciding session started any test."""
    return grade.result is not None and grade.result.session.ran_anything
