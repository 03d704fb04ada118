"""Scoring: how each recorded test came out in one session, by the rules of a policy. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.core.policy import SWELIVE, Context, Controls, Policy, Ruling, Scope
from swelive_plugin.core.testid import Matcher, file_of, is_test_id
from swelive_plugin.core.verdict import Finding, Reason, TestVerdict

__all__ = ["Scores", "files_to_run", "judge_tests"]


@dataclass(frozen=True)
class Scores:
    """How the listed tests of an instance came out.

    ``session`` is the session as it was judged: as the policy reads it, and with reports believed where the project's
    own hooks overrule exceptions under a control too. ``findings`` are reports that overrule an exception elsewhere.
    """

    session: Session
    fail_to_pass: tuple[TestVerdict, ...]
    pass_to_pass: tuple[TestVerdict, ...]
    findings: tuple[Finding, ...] = ()
    warnings: tuple[Reason, ...] = ()


def files_to_run(instance: Instance, scope: Scope) -> tuple[str, ...]:
    """Return the test files that a session of this scope runs, sorted.

    ``f2p-files``: the files that FAIL_TO_PASS names. ``all``: every file that either list names.
    """
    listed: Iterable[str] = instance.fail_to_pass
    if scope == "all":
        listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    return tuple(sorted({file_of(recorded) for recorded in listed if is_test_id(recorded)}))


def judge_tests(
    instance: Instance,
    session: Session,
    *,
    policy: Policy = SWELIVE,
    scope: Scope | None = None,
    controls: Controls | None = None,
    patched_files: Collection[str] = (),
    root: str = "",
) -> Scores:
    """Return how each listed test came out, by the rules of ``policy``. Nothing is raised for odd data.

    ``patched_files`` are the files that the prediction changed (posix, relative to the checkout): a skip raised there
    is no skip. ``root`` is the checkout's absolute path where it was not ``/testbed``.
    """
    controls = controls or Controls()
    session = as_the_project_reports(session, controls)
    if policy.view is not None:
        session = policy.view(session, instance)
    files = None
    if (scope or policy.default_scope) == "f2p-files":
        files = frozenset(files_to_run(instance, "f2p-files"))
        files |= {file_of(test_id) for test_id in session.tests} | {error.id for error in session.collect_errors}
    context = Context(session, controls, frozenset(patched_files), files)
    judge = _Judge(policy, context, Matcher(session.tests, root=root))
    f2p = tuple(judge.one(recorded, "F2P") for recorded in instance.fail_to_pass)
    p2p = tuple(judge.one(recorded, "P2P") for recorded in instance.pass_to_pass)
    return Scores(session, f2p, p2p, tuple(_forged_findings(session)), tuple(_warnings(session, f2p, p2p)))


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
