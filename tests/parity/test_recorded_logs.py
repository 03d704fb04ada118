"""Real evaluation logs with their recorded report: our text reader and policy ``swebench`` give the same answer."""

from __future__ import annotations

import functools

import pytest
from benchmarks.parity import LOGS, Record, judged, records, verdict_lists

from swelive_plugin.core.policies import SWEBENCH
from swelive_plugin.core.policy import SWELIVE

pytestmark = pytest.mark.skipif(not LOGS.is_file(), reason=f"{LOGS} is not here")

# records that judge ids which their row does not list: they were made from another version of the row
JUDGE_MORE_THAN_LISTED = {"pylint-dev__pylint-7080 ce50a07e"}


@functools.cache
def found() -> tuple[Record, ...]:
    return tuple(records())


def test_policy_swebench_gives_the_recorded_answer_and_lists() -> None:
    other = []
    for record in found():
        verdict = judged(record, SWEBENCH)
        if (verdict.resolved, verdict_lists(verdict)) != (record.resolved, record.judged_as_listed):
            other.append(record.name)
    assert other == []
    assert len(found()) == 146


def test_the_exceptions_are_defects_of_the_record() -> None:
    assert {record.name for record in found() if record.unlisted} == JUDGE_MORE_THAN_LISTED


def test_our_own_policy_gives_the_recorded_answer() -> None:
    assert [record.name for record in found() if judged(record, SWELIVE).resolved != record.resolved] == []


def test_our_own_policy_judges_no_test_the_other_way_round() -> None:
    """What it does not judge as recorded it leaves out, and each by a rule of its own."""
    rules = set()
    for record in found():
        verdict = judged(record, SWELIVE)
        for name, tests in (("FAIL_TO_PASS", verdict.fail_to_pass), ("PASS_TO_PASS", verdict.pass_to_pass)):
            success, failure = record.judged_as_listed[name]
            for test in tests:
                assert not (test.id in success and test.judgement == "fail"), (record.name, test)
                assert not (test.id in failure and test.judgement == "pass"), (record.name, test)
                if test.judgement == "left_out":
                    rules.add(test.rule)
    assert rules == {"p2p-missing", "p2p-out-of-scope", "unsatisfiable"}


def test_every_log_shows_the_end_of_its_session() -> None:
    assert all(judged(record, SWELIVE).status.value in ("resolved", "unresolved") for record in found())
