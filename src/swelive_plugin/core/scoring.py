"""Scoring: a pure function of (instance, session, controls, policy) to a verdict."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.core.policy import SWELIVE, Context, Controls, Policy, Ruling, Scope
from swelive_plugin.core.testid import Matcher, file_of, is_test_id
from swelive_plugin.core.verdict import Finding, Integrity, Reason, Status, TestVerdict, Verdict

__all__ = ["files_to_run", "score"]

_DIFF_NEW_SIDE = re.compile(r"^\+\+\+ (?:b/)?(.+?)\s*$", re.MULTILINE)


def files_to_run(instance: Instance, scope: Scope) -> tuple[str, ...]:
    """Return the test files that a session of this scope runs, sorted.

    ``f2p-files``: the files that FAIL_TO_PASS names. ``all``: every file that either list names.
    """
    listed: Iterable[str] = instance.fail_to_pass
    if scope == "all":
        listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    return tuple(sorted({file_of(recorded) for recorded in listed if is_test_id(recorded)}))


def score(
    instance: Instance,
    session: Session,
    *,
    policy: Policy = SWELIVE,
    scope: Scope | None = None,
    controls: Controls | None = None,
    patched_files: Collection[str] = (),
    integrity: Integrity | None = None,
    root: str = "",
) -> Verdict:
    """Return the verdict on one session.

    ``patched_files`` are the files that the prediction changed (posix, relative to the checkout): a skip raised there
    is no skip. ``integrity`` carries findings from outside the session. ``root`` is the checkout's absolute path where
    it was not ``/testbed``. Nothing is raised for odd data: an instance that can't be judged is ``invalid_instance``.
    """
    scope = scope or policy.default_scope
    controls = controls or Controls()
    integrity = integrity or Integrity()
    session = as_the_project_reports(session, controls)
    if policy.view is not None:
        session = policy.view(session, instance)
    files = frozenset(files_to_run(instance, scope)) if scope == "f2p-files" else None
    if files is not None:
        files |= {file_of(test_id) for test_id in session.tests} | {error.id for error in session.collect_errors}
    context = Context(session, controls, frozenset(patched_files), files)
    matcher = Matcher(session.tests, root=root)
    judge = _Judge(policy, context, matcher)
    f2p = tuple(judge.one(recorded, "F2P") for recorded in instance.fail_to_pass)
    p2p = tuple(judge.one(recorded, "P2P") for recorded in instance.pass_to_pass)
    findings = integrity.findings + tuple(_forged_findings(session))
    integrity = replace(integrity, findings=findings)
    status, reasons = _status(instance, session, policy, f2p, p2p, findings)
    return Verdict(
        instance_id=instance.instance_id,
        status=status,
        policy=policy.name,
        scope=scope,
        reasons=tuple(reasons),
        warnings=tuple(_warnings(session, f2p, p2p)),
        fail_to_pass=f2p,
        pass_to_pass=p2p,
        controls=controls.label,
        integrity=integrity,
        python_version=session.python_version,
        pytest_version=session.pytest_version,
    )


@dataclass(frozen=True)
class _Judge:
    policy: Policy
    context: Context
    matcher: Matcher

    def one(self, recorded: str, which: str) -> TestVerdict:
        """Return the judgement of one recorded id."""
        if self.policy.drops_impossible_ids and not is_test_id(recorded):
            return TestVerdict(
                recorded, "left_out", "unsatisfiable", how="none", message="can't be a test id: no patch can satisfy it"
            )
        find = self.policy.find
        match = find(self.context.session, self.matcher, recorded) if find else self.matcher.match(recorded)
        if not match.reported:
            return self._missing(recorded, which)
        records = [self.context.session.tests[found] for found in match.reported]
        rule = self.policy.f2p if which == "F2P" else self.policy.p2p
        if len(records) == 1:
            ruling = rule(records[0], self.context)
        else:
            ruling = self._combined(records, [rule(record, self.context) for record in records])
        return TestVerdict(
            id=recorded,
            judgement=ruling.judgement,
            rule=ruling.rule,
            outcomes=tuple([record.outcome.value for record in records]),
            matched=match.reported,
            how=match.how,
            message=ruling.message,
        )

    def _combined(self, records: list[TestRecord], rulings: list[Ruling]) -> Ruling:
        counted = [ruling for ruling in rulings if ruling.judgement != "left_out"]
        if not counted:
            return rulings[0]
        judgements = {ruling.judgement for ruling in counted}
        if len(judgements) == 1:
            return counted[0]
        if self.policy.combine == "any":
            return next(ruling for ruling in counted if ruling.judgement == "pass")
        if self.policy.combine == "last":
            return counted[-1]
        told = ", ".join(f"{record.id} {record.outcome.value}" for record in records)
        return Ruling("fail", "ambiguous", f"several tests share this cut id and disagree: {told}")

    def _missing(self, recorded: str, which: str) -> TestVerdict:
        rule = self.policy.f2p_missing if which == "F2P" else self.policy.p2p_missing
        ruling = rule(recorded, self.context)
        if same := self.matcher.unstable(recorded):
            ruling = Ruling(
                ruling.judgement, "unstable_id", f"its id changes at every run (now {same[0]}): no run can match it"
            )
        return TestVerdict(recorded, ruling.judgement, ruling.rule, how="none", message=ruling.message)


def _status(
    instance: Instance,
    session: Session,
    policy: Policy,
    f2p: tuple[TestVerdict, ...],
    p2p: tuple[TestVerdict, ...],
    findings: tuple[Finding, ...],
) -> tuple[Status, list[Reason]]:
    if policy.needs_f2p and not any(verdict.rule != "unsatisfiable" for verdict in f2p):
        what = "only ids that can't be tests" if instance.fail_to_pass else "no FAIL_TO_PASS"
        return Status.INVALID_INSTANCE, [Reason("no_fail_to_pass", f"the instance has {what}: nothing to grade")]
    failed = [
        Reason(verdict.rule, verdict.message or "not passed", test=verdict.id)
        for verdict in (*f2p, *p2p)
        if verdict.judgement == "fail"
    ]
    tampered = [
        Reason(found.code, found.message, file=found.file, line=found.line, evidence=found.evidence)
        for found in findings
        if found.severity == "tampered"
    ]
    if policy.checks_integrity and tampered:
        return Status.TAMPERED, tampered + failed
    if policy.needs_session_end and session.timed_out:
        hung = [record.id for record in session.tests.values() if record.outcome is Outcome.TIMED_OUT]
        where = f" in {hung[0]}" if hung else ""
        return Status.TIMED_OUT, [Reason("timed_out", f"the session was stopped at its time limit{where}"), *failed]
    if policy.needs_session_end and not session.ended:
        dead = [record.id for record in session.tests.values() if record.outcome is Outcome.CRASHED]
        where = f" in {dead[0]}" if dead else ""
        return Status.CRASHED, [Reason("session_incomplete", f"the session broke off{where} before its end"), *failed]
    if policy.needs_session_end and session.interrupted:
        told = f"the session was ended early, before its last test: {session.interrupted}"
        return Status.CRASHED, [Reason("session_incomplete", told), *failed]
    if failed:
        return Status.UNRESOLVED, [*_session_reasons(session), *failed]
    return Status.RESOLVED, []


def _session_reasons(session: Session) -> list[Reason]:
    """Why nothing ran, where nothing ran: pytest's own words before the list of missing tests."""
    if session.ran_anything:
        return []
    reasons = [
        Reason(
            "collection_error",
            f"{error.id or 'the session'}: {error.type}: {error.message}".rstrip(": "),
            file=error.file,
        )
        for error in session.collect_errors
        if not error.skipped
    ]
    if session.internal_error:
        reasons.append(Reason("internal_error", session.internal_error))
    if not reasons and session.exit_status not in (None, 0, 1, 5):
        reasons.append(Reason("session_error", f"pytest ended with exit status {session.exit_status} and ran nothing"))
    return reasons


def _forged_findings(session: Session) -> Iterable[Finding]:
    """Reports that overrule the exception that the test raised."""
    for record in session.tests.values():
        if record.forged:
            raised = record.raised
            what = raised.type if raised else "an exception"
            yield Finding(
                code="forged_report",
                severity="tampered",
                message=f"{record.id} was reported as passed although it raised {what}",
                file=raised.file if raised else "",
                line=raised.line if raised else 0,
                evidence=raised.message if raised else "",
            )


def _forged_under(controls: Controls, test_id: str) -> bool:
    return any(
        known is not None and test_id in known and known[test_id].forged for known in (controls.base, controls.gold)
    )


def as_the_project_reports(session: Session, controls: Controls) -> Session:
    """Return the session with reports believed where the project overrules exceptions under a control too."""
    known = {
        test_id: replace(record, forged=False, outcome=record.reported or record.outcome)
        for test_id, record in session.tests.items()
        if record.forged and _forged_under(controls, test_id)
    }
    return replace(session, tests={**session.tests, **known}) if known else session


def _warnings(session: Session, f2p: tuple[TestVerdict, ...], p2p: tuple[TestVerdict, ...]) -> Iterable[Reason]:
    listed = (*f2p, *p2p)
    for verdict in listed:
        if verdict.rule == "unsatisfiable":
            yield Reason("unsatisfiable", f"unsatisfiable expectation left out: {verdict.id!r}", test=verdict.id)
        elif verdict.rule == "unstable_id":
            yield Reason("unstable_id", verdict.message, test=verdict.id)
    unhappy = (Outcome.FAILED, Outcome.ERROR)
    any_failed = any(record.outcome in unhappy for record in session.tests.values()) or bool(session.collect_errors)
    if session.exit_status not in (None, 0) and session.ended and not any_failed:
        yield Reason("exit_status", f"exit status {session.exit_status} without a failed test")
    if session.uid == 0:
        yield Reason("ran_as_root", "the tests ran as root: tests of permissions may fail for that alone")
    flaky = [record.id for record in session.tests.values() if record.flaky]
    if flaky:
        yield Reason("flaky", f"passed only on a later attempt: {', '.join(flaky[:5])}")
    for note in session.notes:
        yield Reason("reader_note", note)
