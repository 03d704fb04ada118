"""The decision: one ordered table from evidence to a status and its reasons.

"Why this status?" is answered by `TABLE`: the first row that holds gives the status. Whatever judges a patch ends here:
the driver, ``swelive score``, ``pytest -p swelive`` and tiers. Pure: what is known comes in as `Evidence`.
docs/explanation/semantics.md says the same for people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from swelive_plugin.core.evidence import Control, Evidence, Rebuild
from swelive_plugin.core.extension_modules import is_build_script
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import SWELIVE, Controls, Policy, Scope
from swelive_plugin.core.reasons import group_reasons
from swelive_plugin.core.rebase_ids import overlaps
from swelive_plugin.core.scoring import Scores, judge_tests
from swelive_plugin.core.unrecorded import files_not_recorded, kept_tests_missing
from swelive_plugin.core.verdict import Reason, Status, TestVerdict, Verdict
from swelive_plugin.errors import (
    EnvironmentBuildError,
    InfraError,
    InstanceError,
    Interrupted,
    PatchError,
    PatchRejected,
    SweliveError,
)

__all__ = ["TABLE", "Control", "Evidence", "Rebuild", "decide", "score", "status_of"]


def decide(evidence: Evidence) -> Verdict:
    """Return the verdict that `TABLE` gives on this evidence. Nothing is raised for odd data."""
    case = _Case(evidence)
    status, reasons = _first(case, TABLE)
    scores = case.scores if evidence.session is not None else None
    return Verdict(
        instance_id=evidence.instance.instance_id,
        status=status,
        policy=evidence.policy.name,
        scope=case.scope,
        reasons=tuple(group_reasons(_with_last_output(evidence, reasons))),
        warnings=tuple(_warnings(case)) if scores else (),
        fail_to_pass=case.fail_to_pass,
        pass_to_pass=case.pass_to_pass,
        controls=evidence.outcomes.label,
        integrity=replace(evidence.integrity, findings=evidence.integrity.findings + scores.findings)
        if scores
        else evidence.integrity,
        python_version=evidence.session.python_version if evidence.session else "",
        pytest_version=evidence.session.pytest_version if evidence.session else "",
    )


def score(
    instance: Instance,
    session: Session,
    *,
    policy: Policy = SWELIVE,
    scope: Scope | None = None,
    controls: Controls | None = None,
    patched_files: Collection[str] = (),
    root: str = "",
) -> Verdict:
    """Return the verdict on one session, where nothing else is known of the prediction.

    ``patched_files`` are the files that it changed (posix, relative to the checkout): a skip raised there is no skip.
    ``root`` is the checkout's absolute path where it was not ``/testbed``. Nothing is raised for odd data: an instance
    that can't be judged is ``invalid_instance``.
    """
    return decide(
        Evidence(
            instance,
            policy,
            scope,
            session=session,
            outcomes=controls or Controls(),
            patched_files=patched_files,
            root=root,
        )
    )


def status_of(error: BaseException) -> Status:
    """Return the status of a grade that an error ended."""
    return next((status for kinds, status in _ERRORS if isinstance(error, kinds)), Status.ERROR)


_ERRORS: tuple[tuple[type[SweliveError], Status], ...] = (
    (InstanceError, Status.INVALID_INSTANCE),
    (EnvironmentBuildError, Status.ENV_ERROR),
    (PatchRejected, Status.PATCH_REJECTED),
    (PatchError, Status.PATCH_FAILED),
    (Interrupted, Status.INCOMPLETE),
    (InfraError, Status.ERROR),
)


@dataclass(frozen=True)
class _Case:
    """The evidence, and how the listed tests came out by it."""

    evidence: Evidence

    @property
    def scope(self) -> Scope:
        return self.evidence.scope or self.evidence.policy.default_scope

    @cached_property
    def session(self) -> Session:
        return self.scores.session

    @cached_property
    def scores(self) -> Scores:
        evidence = self.evidence
        return judge_tests(
            evidence.instance,
            evidence.session or Session(tests={}, ended=False),
            policy=evidence.policy,
            scope=self.scope,
            controls=evidence.outcomes,
            patched_files=evidence.patched_files,
            root=evidence.root,
        )

    @cached_property
    def fail_to_pass(self) -> tuple[TestVerdict, ...]:
        return self._explained(self.scores.fail_to_pass) if self.evidence.session is not None else ()

    @cached_property
    def pass_to_pass(self) -> tuple[TestVerdict, ...]:
        return self._explained(self.scores.pass_to_pass) if self.evidence.session is not None else ()

    @cached_property
    def failed(self) -> tuple[TestVerdict, ...]:
        """The listed tests that were judged as failed, FAIL_TO_PASS first."""
        return tuple(test for test in (*self.fail_to_pass, *self.pass_to_pass) if test.judgement == "fail")

    @cached_property
    def alone(self) -> Status:
        """The status by the session alone: nothing but its end and its tests."""
        return _first(self, SESSION_ROWS)[0]

    def _explained(self, tests: tuple[TestVerdict, ...]) -> tuple[TestVerdict, ...]:
        why = self.evidence.deselected
        return tuple(
            replace(test, message=why[test.id]) if test.judgement == "fail" and test.id in why else test
            for test in tests
        )


_Rule = Callable[[_Case], Sequence[Reason]]


@dataclass(frozen=True)
class TableRow:
    """One row of the table: it holds where ``when`` gives reasons. ``more``: those of the session alone follow."""

    status: Status
    when: _Rule
    more: bool = False


def _first(case: _Case, rows: Sequence[TableRow]) -> tuple[Status, Sequence[Reason]]:
    for row in rows:
        reasons = row.when(case)
        if reasons:
            return row.status, [*reasons, *(_first(case, SESSION_ROWS)[1] if row.more else ())]
    return Status.RESOLVED, []


# Before a session: nothing was run, or something ended the grade.


def _empty_patch(case: _Case) -> Sequence[Reason]:
    return [Reason("empty_patch", "the prediction is empty: nothing was run")] if case.evidence.empty else []


def _ended_by(status: Status) -> _Rule:
    def rule(case: _Case) -> Sequence[Reason]:
        error = case.evidence.error
        return [] if error is None or status_of(error) is not status else [_reason_of(error)]

    return rule


def _reason_of(error: BaseException) -> Reason:
    if isinstance(error, SweliveError):
        name = type(error).__name__
        code = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).strip("_")
        return Reason(code, str(error), evidence=error.evidence)
    if isinstance(error, OSError):
        hint = "free some space and run again" if error.errno in (28, 122) else "see error.txt in the report folder"
        return Reason("os_error", f"{error} ({hint})")
    return Reason("internal_error", f"{type(error).__name__}: {error} (a defect of ours; see error.txt)")


def _build_timed_out(case: _Case) -> Sequence[Reason]:
    rebuild = case.evidence.rebuild
    return _does_not_build(case) if rebuild is not None and rebuild.ended_by == "wall_clock" else []


def _does_not_build(case: _Case) -> Sequence[Reason]:
    rebuild = case.evidence.rebuild
    if case.evidence.session is not None or rebuild is None or not rebuild.failed:
        return []
    message = f"the project does not build with this patch: {rebuild.report.failed}"
    return [Reason("does_not_build", message, evidence=rebuild.output)]


def _nothing_recorded(case: _Case) -> Sequence[Reason]:
    if case.evidence.session is not None:
        return []
    return [Reason("no_session", "nothing that its session recorded is left: events.jsonl is not there")]


# What no session can show.


def _no_fail_to_pass(case: _Case) -> Sequence[Reason]:
    if not case.evidence.policy.needs_f2p or any(test.rule != "unsatisfiable" for test in case.fail_to_pass):
        return []
    what = "only ids that can't be tests" if case.evidence.instance.fail_to_pass else "no FAIL_TO_PASS"
    return [Reason("no_fail_to_pass", f"the instance has {what}: nothing to grade")]


def _tampered(case: _Case) -> Sequence[Reason]:
    if not case.evidence.policy.checks_integrity:
        return []
    return [
        Reason(found.code, found.message, file=found.file, line=found.line, evidence=found.evidence)
        for found in (*case.evidence.integrity.findings, *case.scores.findings)
        if found.severity == "tampered"
    ]


# No verdict: `env_error` needs proof that a control fares the same. What breaks only under the prediction is its own.


def _gold_fails_too(case: _Case) -> Sequence[Reason]:
    gold = case.evidence.gold
    if gold is None or not _fares_like(gold.verdict, case):
        return []
    failing = [test.id for test in gold.verdict.fail_to_pass if test.judgement == "fail"]
    why = gold.verdict.reasons[0] if gold.verdict.reasons else Reason("unknown", "")
    output = gold.last_output if gold.ran_nothing else ""
    first = ": ".join([why.message, *output.splitlines()[-1:]])
    built = f"Gold does not build: {gold.build_failure}. " if gold.build_failure else ""
    what = (
        f"{len(failing)} of {len(case.fail_to_pass)} FAIL_TO_PASS tests fail" if failing else "the session breaks off"
    )
    message = (
        f"{what} here with the gold patch too: this environment can't judge it{case.evidence.lacks}. "
        f"{built}First: {first}"
    )
    return [Reason("gold_control_fails", message, test=failing[0] if failing else "", evidence=output)]


def _fares_like(control: Verdict, case: _Case) -> bool:
    """Return whether all that speaks against the prediction speaks against the control too, and something does."""
    broke_off = case.alone in (Status.CRASHED, Status.TIMED_OUT)
    alike = case.alone is control.status or case.alone is Status.UNRESOLVED
    known = {test.id for test in (*control.fail_to_pass, *control.pass_to_pass) if test.judgement == "fail"}
    fails = any(test.judgement == "fail" for test in case.fail_to_pass)
    return alike and {test.id for test in case.failed} <= known and (fails or (broke_off and not control.resolved))


def _base_ran_nothing(case: _Case) -> Sequence[Reason]:
    base = case.evidence.base
    if case.evidence.gold is not None or base is None or not base.ran_nothing or case.session.ran_anything:
        return []
    message = "the session runs no test at base either: the environment is at fault"
    return [Reason("base_control_ran_nothing", message)]


def _all_pass_at_base(case: _Case) -> Sequence[Reason]:
    passing = _pass_at_base(case)
    counted = sum(test.judgement != "left_out" for test in case.fail_to_pass)
    return passing if passing and len(_ids_passing_at_base(case)) == counted else []


def _ids_passing_at_base(case: _Case) -> list[str]:
    base = case.evidence.base
    return [test.id for test in base.verdict.fail_to_pass if test.judgement == "pass"] if base else []


def _pass_at_base(case: _Case) -> Sequence[Reason]:
    passing = _ids_passing_at_base(case)
    if not passing:
        return []
    message = f"{len(passing)} FAIL_TO_PASS tests pass at base without any fix: they show nothing here"
    return [Reason("passes_at_base", message, test=passing[0])]


def _not_rebuilt(case: _Case) -> Sequence[Reason]:
    return [] if _only_build_scripts(case) else _why_not_rebuilt(case)


def _only_build_scripts(case: _Case) -> bool:
    """Return whether all tests pass and nothing but build scripts changed: what was not built again may not matter."""
    rebuild = case.evidence.rebuild
    return rebuild is not None and case.alone is Status.RESOLVED and all(map(is_build_script, rebuild.report.because))


def _why_not_rebuilt(case: _Case) -> Sequence[Reason]:
    rebuild = case.evidence.rebuild
    if rebuild is None or not rebuild.failed:
        return []
    report = rebuild.report
    message = (
        f"{', '.join(report.because[:3])} changed, but extension modules can't be built again here: {report.failed}"
    )
    return [Reason("not_rebuilt", message, evidence=rebuild.output)]


# No verdict: nobody asked the patch the question.


def _another_commit(case: _Case) -> Sequence[Reason]:
    head, base = case.evidence.head, case.evidence.instance.base_commit
    if not head or head.startswith(base.lower()):
        return []
    message = (
        f"this checkout is at {head[:10]}, and the instance is about {base[:10]}: check out its base_commit "
        "(--swelive-any-commit grades it all the same)"
    )
    return [Reason("another_commit", message)]


def _hidden_tests_missing(case: _Case) -> Sequence[Reason]:
    judged = [test for test in case.fail_to_pass if test.judgement != "left_out"]
    missing = case.alone is Status.UNRESOLVED and not any(test.outcomes for test in judged)
    if case.evidence.hidden_tests or not missing:
        return []
    message = "no FAIL_TO_PASS test is here: put the instance's test_patch into the checkout first (git apply)"
    return [Reason("hidden_tests_missing", message)]


def _deselected(case: _Case) -> Sequence[Reason]:
    left_out = {test.id for test in case.failed} & case.evidence.deselected.keys()
    only_these = bool(left_out) and left_out == {test.id for test in case.failed}
    if not only_these or case.alone is not Status.UNRESOLVED or case.session.internal_error:
        return []
    number = "1 listed test was" if len(left_out) == 1 else f"{len(left_out)} listed tests were"
    arguments = ", ".join(case.evidence.arguments)
    return [Reason("deselected", f"your own arguments left tests out ({arguments}): {number} not run")]


def _another_run(case: _Case) -> Sequence[Reason]:
    """A finished run's file that tells nothing of the instance: no verdict, whoever is to blame."""
    evidence, session = case.evidence, case.session
    if not evidence.record or evidence.own_record:
        return []
    if session.tests:
        listed = (*evidence.instance.fail_to_pass, *evidence.instance.pass_to_pass)
        if overlaps(session, listed, root=evidence.root):
            return []
        none = f"none of the {len(listed)} listed ids is among the {len(session.tests)} tests of {evidence.record}"
        return [Reason("another_run", f"{none}: is it the log of another instance?")]
    if session.ended or session.collect_errors or session.internal_error or session.pytest_version:
        return []
    return [Reason("no_session", f"{evidence.record} shows no pytest session: nothing was recorded")]


def _unnamed_results(case: _Case) -> Sequence[Reason]:
    """A log of dots is no evidence: what it does not name may well be what is missing from it."""
    evidence, count = case.evidence, case.session.unnamed
    if not evidence.record or evidence.own_record or not count:
        return []
    if not case.failed or any(test.outcomes for test in case.failed):
        return []
    message = (
        f"{evidence.record} counts {count} results without naming them, and {len(case.failed)} listed tests "
        "are not named: run pytest with -rA or -v, or take its JUnit XML"
    )
    return [Reason("unnamed_results", message)]


# By the session alone.


def _timed_out(case: _Case) -> Sequence[Reason]:
    if not case.evidence.policy.needs_session_end or not case.session.timed_out:
        return []
    where = _where(case.session, Outcome.TIMED_OUT)
    return [Reason("timed_out", f"the session was stopped at its time limit{where}"), *_failed_tests(case)]


def _record_cut(case: _Case) -> Sequence[Reason]:
    """A record past its size limit: what came later is not known. The tests did not crash, but they showed nothing."""
    session = case.session
    if not case.evidence.policy.needs_session_end or not session.truncated or session.ended:
        return []
    return [Reason("record_cut", f"the record of the session was cut: {session.truncated}"), *_failed_tests(case)]


def _broke_off(case: _Case) -> Sequence[Reason]:
    session = case.session
    if not case.evidence.policy.needs_session_end or (session.ended and not session.interrupted):
        return []
    where = _where(session, Outcome.CRASHED)
    message = f"the session broke off{where} before its end"
    if session.ended:
        message = f"the session was ended early, before its last test: {session.interrupted}"
    limit = case.evidence.ended_by
    stopped = f"the session was stopped at its limit of {limit.replace('_', ' ')}"
    first = [] if limit in ("exit", "signal") else [Reason("limit", stopped)]
    return [*first, Reason("session_incomplete", message), *_failed_tests(case)]


def _where(session: Session, outcome: Outcome) -> str:
    return next((f" in {record.id}" for record in session.tests.values() if record.outcome is outcome), "")


def _not_passed(case: _Case) -> Sequence[Reason]:
    return [*_why_nothing_ran(case.session), *_failed_tests(case)] if case.failed else []


def _failed_tests(case: _Case) -> list[Reason]:
    return [Reason(test.rule, test.message or "not passed", test=test.id) for test in case.failed]


def _why_nothing_ran(session: Session) -> Iterator[Reason]:
    """Give pytest's own words before the list of missing tests, where nothing ran."""
    if session.ran_anything:
        return
    errors = [error for error in session.collect_errors if not error.skipped]
    for error in errors:
        message = f"{error.id or 'the session'}: {error.type}: {error.message}".rstrip(": ")
        yield Reason("collection_error", message, file=error.file)
    if session.internal_error:
        yield Reason("internal_error", session.internal_error)
    elif not errors and session.exit_status not in (None, 0, 1, 5):
        yield Reason("session_error", f"pytest ended with exit status {session.exit_status} and ran nothing")


SESSION_ROWS: tuple[TableRow, ...] = (
    TableRow(Status.TIMED_OUT, _timed_out),
    TableRow(Status.UNRESOLVED, _record_cut),
    TableRow(Status.CRASHED, _broke_off),
    TableRow(Status.UNRESOLVED, _not_passed),
)
"""What a session by itself says; where none of them holds, it says `resolved`."""

TABLE: tuple[TableRow, ...] = (
    # nothing was run, or something ended the grade
    TableRow(Status.EMPTY_PATCH, _empty_patch),
    *(TableRow(status, _ended_by(status)) for _, status in _ERRORS),
    # the prediction was built, and no session followed
    TableRow(Status.TIMED_OUT, _build_timed_out),
    TableRow(Status.UNRESOLVED, _does_not_build),
    TableRow(Status.ERROR, _nothing_recorded),
    # a session ran: what it can't show
    TableRow(Status.INVALID_INSTANCE, _no_fail_to_pass),
    TableRow(Status.TAMPERED, _tampered, more=True),
    TableRow(Status.ENV_ERROR, _gold_fails_too, more=True),
    TableRow(Status.ENV_ERROR, _base_ran_nothing, more=True),
    TableRow(Status.ENV_ERROR, _all_pass_at_base, more=True),
    TableRow(Status.ENV_ERROR, _not_rebuilt, more=True),
    TableRow(Status.ERROR, _another_commit, more=True),
    TableRow(Status.ERROR, _hidden_tests_missing, more=True),
    TableRow(Status.ERROR, _deselected, more=True),
    TableRow(Status.ERROR, _another_run),
    TableRow(Status.ERROR, _unnamed_results),
    # by the session alone
    *SESSION_ROWS,
)
"""Status and condition, in order: the first row that holds decides; where none does, the prediction is resolved."""


def _with_last_output(evidence: Evidence, reasons: Sequence[Reason]) -> Sequence[Reason]:
    """Show what pytest printed last where it never came to a test: the reason is often only there."""
    ran = evidence.session is None or evidence.session.ran_anything
    if ran or not reasons or reasons[0].evidence:
        return reasons
    return [replace(reasons[0], evidence=evidence.last_output), *reasons[1:]]


def _warnings(case: _Case) -> Iterator[Reason]:
    yield from case.scores.warnings
    judged = _first(case, TABLE)[0]
    if judged in (Status.UNRESOLVED, Status.CRASHED, Status.TIMED_OUT, Status.RESOLVED):
        yield from _pass_at_base(case)
    if judged is Status.RESOLVED:
        yield from _why_not_rebuilt(case)
        yield from kept_tests_missing(case.pass_to_pass)
    if case.evidence.record and case.scope == "all":
        yield from files_not_recorded(case.session, (*case.fail_to_pass, *case.pass_to_pass))
