"""The policies that reproduce upstream graders, rule for rule, quirks included.

``swebench``: SWE-bench 5.0.2. ``swebench-live``: SWE-bench-Live, branch main, as of September 2026 (XFAIL counts as a
pass; code before that counts it as a failure). ``swebench-live-python``: its branch python-only. Each rule is one
function, named after what it does and documented with where it stands upstream; how they read is in
`swelive_plugin.core.upstream`. None of them looks at integrity or at how the session ended: that is how they are.
"""

from __future__ import annotations

from dataclasses import replace

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.core.policy import Context, Policy, Ruling
from swelive_plugin.core.testid import Match, Matcher, has_unclosed_bracket
from swelive_plugin.core.upstream import StatusMap, exit_status, parser_of, printed_lines, status_map, test_output

__all__ = ["SWEBENCH", "SWEBENCH_LIVE", "SWEBENCH_LIVE_PYTHON", "UPSTREAM"]

_OUTCOME_OF = {
    "PASSED": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
    "ERROR": Outcome.ERROR,
    "SKIPPED": Outcome.SKIPPED,
    "XFAIL": Outcome.XFAILED,
}
_PASSING = (Outcome.PASSED, Outcome.XFAILED)


def _seen(session: Session, statuses: StatusMap) -> Session:
    """Return the session as the status map shows it; a word that upstream knows no rule for is ``not_run``."""
    tests = {
        test_id: TestRecord(test_id, _OUTCOME_OF.get(word, Outcome.NOT_RUN), body_ran=True)
        for test_id, word in statuses.items()
    }
    return replace(session, tests=tests, canaries={})


def _refused(session: Session, why: str) -> Session:
    """Return the session of a log that upstream does not accept: every listed test is missing from it."""
    return replace(session, tests={}, canaries={}, notes=(*session.notes, why))


# SWE-bench 5.0.2


def swebench_view(session: Session, instance: Instance) -> Session:
    """``get_logs_eval``: the lines between the markers, the whole log where they show nothing, or nothing at all."""
    lines = list(printed_lines(session))
    within = test_output(lines)
    if within is None:
        return _refused(session, "the harness's own markers say that the run failed: upstream refuses the log")
    parser = parser_of(instance)
    statuses = status_map(within, parser, drops_counts=True, whole_ids=True)
    if not statuses:  # "some runners emit results outside the markers"
        statuses = status_map(lines, parser, drops_counts=True, whole_ids=True)
    status = exit_status(session, lines)
    if swebench_distrusts(status, statuses):
        why = f"exit status {status} without a failed test: upstream takes the log for forged"
        return _refused(session, why)
    return _seen(session, statuses)


def swebench_distrusts(status: int | None, statuses: StatusMap) -> bool:
    """``get_logs_eval``: a non-zero exit status and no failure in the log means that the log is not of this run."""
    if status in (None, 0) or not statuses:
        return False
    return not any(word in ("FAILED", "ERROR") for word in statuses.values())


def swebench_find(session: Session, matcher: Matcher, recorded: str) -> Match:
    """``_resolve_case``: exact; else, for an unclosed bracket, the first of all prefixed ids if they agree on passing.

    A skipped sibling counts as not passing, so it may stand for a failed one, as the order of the log has it.
    """
    if recorded in session.tests:
        return Match(recorded, (recorded,), "exact")
    if not has_unclosed_bracket(recorded):
        return Match(recorded, (), "none")
    candidates = set(matcher.with_prefix(recorded))
    if len({session.tests[found].outcome in _PASSING for found in candidates}) != 1:
        return Match(recorded, (), "none")
    first = next(test_id for test_id in session.tests if test_id in candidates)
    return Match(recorded, (first,), "prefix")


def swebench_f2p(record: TestRecord, _: Context) -> Ruling:
    """``test_passed`` and ``test_failed``: PASSED and XFAIL pass; FAILED, ERROR and SKIPPED fail."""
    if record.outcome in _PASSING:
        return Ruling("pass", f"f2p-{record.outcome.value}")
    return swebench_unread(record) or Ruling("fail", f"f2p-{record.outcome.value}")


def swebench_p2p(record: TestRecord, _: Context) -> Ruling:
    """``test_maintained``: as FAIL_TO_PASS, and a skipped test is no regression."""
    if record.outcome in _PASSING or record.outcome is Outcome.SKIPPED:
        return Ruling("pass", f"p2p-{record.outcome.value}")
    return swebench_unread(record) or Ruling("fail", f"p2p-{record.outcome.value}")


def swebench_unread(record: TestRecord) -> Ruling | None:
    """A status word like ``ERROR:`` is in no list of upstream's: the test is neither success nor failure."""
    if record.outcome is Outcome.NOT_RUN:
        return Ruling("left_out", "unread-status", "its status word is none that upstream knows")
    return None


def swebench_missing(_: str, __: Context) -> Ruling:
    """``test_failed``: an id that is not in the log failed, in both lists. XPASS is never read, so it is missing."""
    return Ruling("fail", "missing", "not in the log as upstream reads it")


SWEBENCH = Policy(
    name="swebench",
    default_scope="all",
    f2p=swebench_f2p,
    p2p=swebench_p2p,
    f2p_missing=swebench_missing,
    p2p_missing=swebench_missing,
    needs_session_end=False,
    checks_integrity=False,
    combine="last",
    drops_impossible_ids=False,
    needs_f2p=False,
    view=swebench_view,
    find=swebench_find,
)


# SWE-bench-Live, branch main


def live_view(session: Session, _: Instance) -> Session:
    """``default_pytest_parser``: the plain parser over the whole log; folded skips become tests called ``[2]``."""
    return _seen(session, status_map(printed_lines(session), "plain", drops_counts=False, whole_ids=False))


def exact_find(session: Session, _: Matcher, recorded: str) -> Match:
    """Exact ids only (``set(suc) & set(instance[...])``; ``case in sm``)."""
    return Match(recorded, (recorded,), "exact") if recorded in session.tests else Match(recorded, (), "none")


def live_f2p(record: TestRecord, _: Context) -> Ruling:
    """``run_instance``: every FAIL_TO_PASS must be among the successes; XFAIL is one since September 2026."""
    return Ruling("pass" if record.outcome in _PASSING else "fail", f"f2p-{record.outcome.value}")


def live_p2p(record: TestRecord, _: Context) -> Ruling:
    """``run_instance``: a PASS_TO_PASS among the failures breaks it; a skipped one is neither."""
    if record.outcome in _PASSING:
        return Ruling("pass", f"p2p-{record.outcome.value}")
    if record.outcome is Outcome.SKIPPED:
        return Ruling("left_out", "p2p-skipped", "skipped: neither success nor failure")
    return Ruling("fail", f"p2p-{record.outcome.value}")


def live_f2p_missing(_: str, __: Context) -> Ruling:
    """``run_instance``: a FAIL_TO_PASS that is not in the log is no success."""
    return Ruling("fail", "f2p-missing", "not in the log as upstream reads it")


def live_p2p_missing(_: str, __: Context) -> Ruling:
    """``run_instance``: a PASS_TO_PASS that is not in the log is no failure, so it passes over."""
    return Ruling("left_out", "p2p-missing", "not in the log: upstream passes over it")


SWEBENCH_LIVE = replace(
    SWEBENCH,
    name="swebench-live",
    f2p=live_f2p,
    p2p=live_p2p,
    f2p_missing=live_f2p_missing,
    p2p_missing=live_p2p_missing,
    view=live_view,
    find=exact_find,
)


# SWE-bench-Live, branch python-only


def live_python_view(session: Session, instance: Instance) -> Session:
    """``get_logs_eval``: the lines between the markers and nothing else; no check of the exit status."""
    within = test_output(list(printed_lines(session)))
    if within is None:
        return _refused(session, "the harness's own markers say that the run failed: upstream refuses the log")
    return _seen(session, status_map(within, parser_of(instance), drops_counts=False, whole_ids=False))


def live_python_judge(record: TestRecord, _: Context) -> Ruling:
    """``test_passed`` and ``test_failed``: a skipped test is in neither list, also as FAIL_TO_PASS.

    Shares are counted over what is in a list, so an instance whose every FAIL_TO_PASS is skipped is resolved.
    """
    if record.outcome in _PASSING:
        return Ruling("pass", record.outcome.value)
    if record.outcome is Outcome.SKIPPED:
        return Ruling("left_out", "skipped", "skipped: upstream counts it in neither list")
    return swebench_unread(record) or Ruling("fail", record.outcome.value)


SWEBENCH_LIVE_PYTHON = replace(
    SWEBENCH,
    name="swebench-live-python",
    f2p=live_python_judge,
    p2p=live_python_judge,
    view=live_python_view,
    find=exact_find,
)

UPSTREAM = (SWEBENCH, SWEBENCH_LIVE, SWEBENCH_LIVE_PYTHON)
