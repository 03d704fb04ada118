"""Scoring by the default policy: the table of docs/explanation/semantics.md."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.decide import Evidence, decide, score
from swelive_plugin.core.outcome import CollectError, Outcome, Raised, Session, TestRecord, reduce_events
from swelive_plugin.core.policy import ControlOutcome, Controls
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.core.verdict import Finding, Integrity, Status, exit_code, reward_of

from .build import controls, instance, record, session

F, P, Q = "t.py::f", "t.py::p", "u.py::q"


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("passed", Status.RESOLVED),
        ("xpassed", Status.RESOLVED),
        ("xfailed", Status.RESOLVED),
        ("failed", Status.UNRESOLVED),
        ("error", Status.UNRESOLVED),
        ("skipped", Status.UNRESOLVED),
        ("not_run", Status.UNRESOLVED),
        ("deselected", Status.UNRESOLVED),
    ],
)
def test_fail_to_pass(outcome: str, status: Status) -> None:
    assert score(instance([F]), session({F: outcome})).status is status


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("passed", Status.RESOLVED),
        ("xpassed", Status.RESOLVED),
        ("xfailed", Status.RESOLVED),
        ("skipped", Status.RESOLVED),
        ("failed", Status.UNRESOLVED),
        ("error", Status.UNRESOLVED),
    ],
)
def test_pass_to_pass(outcome: str, status: Status) -> None:
    assert score(instance([F], [P]), session({F: "passed", P: outcome})).status is status


def test_a_missing_fail_to_pass_test_fails() -> None:
    verdict = score(instance([F]), session({P: "passed"}))
    assert verdict.status is Status.UNRESOLVED
    assert [(reason.code, reason.test) for reason in verdict.reasons] == [("f2p-missing", F)]


def test_an_xfail_whose_body_never_ran_is_no_pass() -> None:
    found = Session(tests={F: record(F, "xfailed", body_ran=False)})
    assert [reason.code for reason in score(instance([F]), found).reasons] == ["f2p-xfailed-without-run"]


@pytest.mark.parametrize(
    ("outcome", "rule"), [("skipped", "p2p-skipped-by-prediction"), ("xfailed", "p2p-xfailed-by-prediction")]
)
def test_a_skip_or_xfail_raised_by_the_prediction_is_a_failure(outcome: str, rule: str) -> None:
    found = Session(tests={F: record(F, "passed"), P: record(P, outcome, raised_in="pkg/core.py")})
    assert score(instance([F], [P]), found).status is Status.RESOLVED
    verdict = score(instance([F], [P]), found, patched_files={"pkg/core.py"})
    assert [reason.code for reason in verdict.reasons] == [rule]


def test_an_ordinary_exception_under_an_xfail_marker_comes_from_the_prediction_rightly() -> None:
    """Defect: the exception that an xfail marker expects was taken for an xfail that the prediction raised."""
    raised = Raised("NotImplementedError", "later", "pkg/core.py", 3)
    found = Session(tests={F: TestRecord(F, Outcome.XFAILED, raised=raised, body_ran=True)})
    assert score(instance([F]), found, patched_files={"pkg/core.py"}).status is Status.RESOLVED


@pytest.mark.parametrize(
    ("known", "resolved"),
    [
        ({"gold": {F: "passed"}, "base": {F: "failed"}}, False),
        ({"gold": {F: "xfailed"}, "base": {F: "passed"}}, True),
        ({"gold": {F: "xpassed"}}, True),
        ({"gold": {P: "passed"}}, True),  # gold never ran it
        ({"base": {F: "passed"}}, False),
        ({"base": {F: "failed"}}, True),  # may be a strict mark that base disappoints
    ],
)
def test_an_xfail_where_the_control_passes_plainly_was_never_declared(
    known: dict[str, dict[str, str]], resolved: bool
) -> None:
    """Hole: code of the prediction gave the hidden tests an xfail mark while they ran."""
    for lists, rule in (((F,), ()), "f2p"), (((), (F,)), "p2p"):
        verdict = score(
            instance(lists[0] or [Q], lists[1]), session({F: "xfailed", Q: "passed"}), controls=controls(**known)
        )
        assert verdict.resolved is resolved
        assert [reason.code for reason in verdict.reasons] == ([] if resolved else [f"{rule}-xfailed-undeclared"])


def test_what_gold_skips_too_is_normal_and_a_detour_through_a_helper_is_not() -> None:
    raised = Raised("Skipped", "why", "tests/util.py", 3, via=("t.py", "pkg/core.py", "tests/util.py"))
    found = Session(tests={F: record(F, "passed"), P: TestRecord(P, Outcome.SKIPPED, raised=raised, body_ran=True)})
    changed = {"pkg/core.py"}
    gold_skips = controls(gold={F: "passed", P: "skipped"})
    gold_passes = controls(gold={F: "passed", P: "passed"})
    assert score(instance([F], [P]), found, patched_files=changed, controls=gold_skips).resolved
    assert not score(instance([F], [P]), found, patched_files=changed, controls=gold_passes).resolved
    assert score(instance([F], [P]), found, patched_files=changed).resolved  # no control tells


def test_a_missing_pass_to_pass_test_is_left_alone_out_of_scope_but_not_where_gold_ran_it() -> None:
    ran = session({F: "passed"})
    assert score(instance([F], [Q]), ran).status is Status.RESOLVED
    assert score(instance([F], [P]), ran).status is Status.RESOLVED  # no control tells
    judged = score(instance([F], [P]), ran, controls=controls(gold={F: "passed", P: "passed"}))
    assert [reason.code for reason in judged.reasons] == ["p2p-missing-but-ran-under-gold"]
    assert score(instance([F], [P]), ran, controls=controls(gold={F: "passed"})).status is Status.RESOLVED


def test_a_collection_error_makes_the_tests_of_its_file_regressions() -> None:
    ran = session({F: "passed"}, collect_errors=(CollectError("u.py", "ImportError", "no module named x"),))
    verdict = score(instance([F], [Q]), ran)
    assert [(reason.code, reason.test) for reason in verdict.reasons] == [("p2p-missing-session-broke-off", Q)]
    assert "no module named x" in verdict.reasons[0].message


@pytest.mark.parametrize("more", [{"ended": False}, {"timed_out": True}])
def test_a_session_that_broke_off_blames_no_test_that_was_not_to_run(more: dict[str, bool]) -> None:
    """Defect: every PASS_TO_PASS test of a file out of scope was called a regression of a crash or time limit."""
    broke = session({F: "passed"}, **more)
    verdict = score(instance([F], [P, Q]), broke, scope="f2p-files")
    rules = {test.id: (test.judgement, test.rule) for test in verdict.pass_to_pass}
    assert rules == {P: ("fail", "p2p-missing-session-broke-off"), Q: ("left_out", "p2p-out-of-scope")}
    every = score(instance([F], [P, Q]), broke, scope="all")
    assert [reason.test for reason in every.reasons] == ["", P]
    assert every.reasons[1].evidence.splitlines() == [P, Q]


def test_a_record_past_its_size_limit_is_no_crash_of_the_tests() -> None:
    """Defect: a channel that was full looked like a session that broke off."""
    cut = session({F: "passed"}, ended=False, truncated="it fills its limit of 256 MiB, and what came later is gone")
    verdict = score(instance([F, P]), cut)
    assert (verdict.status, verdict.reward) == (Status.UNRESOLVED, 0.0)
    assert verdict.reasons[0].code == "record_cut"
    assert "limit of 256 MiB" in verdict.reasons[0].message


def test_a_pass_to_pass_test_that_fails_under_gold_too_is_left_out() -> None:
    ran = session({F: "passed", P: "failed"})
    verdict = score(instance([F], [P]), ran, controls=controls(gold={F: "passed", P: "failed"}))
    assert verdict.status is Status.RESOLVED
    assert (verdict.pass_to_pass[0].judgement, verdict.pass_to_pass[0].rule) == ("left_out", "p2p-fails-under-gold-too")


def test_tests_that_share_a_cut_id_and_disagree_are_ambiguous() -> None:
    ran = session({F: "passed", "t.py::g[a b]": "passed", "t.py::g[a c]": "failed"})
    verdict = score(instance([F], ["t.py::g[a"]), ran)
    assert [reason.code for reason in verdict.reasons] == ["ambiguous"]
    assert "t.py::g[a b] passed, t.py::g[a c] failed" in verdict.reasons[0].message


def test_a_phantom_id_is_left_out_and_named() -> None:
    verdict = score(instance([F], ["[100%]"]), session({F: "passed"}))
    assert verdict.status is Status.RESOLVED
    assert [warning.code for warning in verdict.warnings] == ["unsatisfiable"]


@pytest.mark.parametrize("listed", [[], ["[100%]"]])
def test_no_fail_to_pass_is_an_invalid_instance(listed: list[str]) -> None:
    verdict = score(instance(listed), session({P: "failed"}))
    assert verdict.status is Status.INVALID_INSTANCE
    assert (verdict.reward, exit_code(verdict.status)) == (None, 3)


def test_a_session_that_did_not_end_by_itself_is_never_resolved() -> None:
    assert score(instance([F]), session({F: "passed"}, ended=False)).status is Status.CRASHED
    hung = session({F: "passed", P: "timed_out"}, ended=False, timed_out=True)
    verdict = score(instance([F]), hung)
    assert verdict.status is Status.TIMED_OUT
    assert P in verdict.reasons[0].message


def test_a_session_that_was_left_early_is_crashed_and_says_by_what() -> None:
    """Defect: pytest.exit() in the code under test was told as tests that were "not passed"."""
    left = {"e": "interrupted", "type": "Exit", "msg": "done", "file": "pkg/core.py", "line": 3}
    verdict = score(instance([F]), reduce_events([{"e": "collected", "ids": [F]}, left, {"e": "end", "exitstatus": 0}]))
    assert verdict.status is Status.CRASHED
    assert "Exit: done (pkg/core.py:3)" in verdict.reasons[0].message


def test_a_non_zero_exit_status_with_all_passed_is_a_warning() -> None:
    verdict = score(instance([F]), session({F: "passed"}, exit_status=1))
    assert verdict.status is Status.RESOLVED
    assert [warning.message for warning in verdict.warnings] == ["exit status 1 without a failed test"]


def test_a_forged_report_is_tampering_unless_the_project_does_it_under_a_control_too() -> None:
    forged = TestRecord(F, Outcome.FAILED, forged=True, reported=Outcome.PASSED)
    assert score(instance([F]), Session(tests={F: forged})).status is Status.TAMPERED
    normal = Controls(gold={F: ControlOutcome(Outcome.FAILED, forged=True)})
    assert score(instance([F]), Session(tests={F: forged}), controls=normal).status is Status.RESOLVED


def test_tampering_comes_before_every_other_status_and_a_flag_changes_nothing() -> None:
    found = Finding("hooks", "tampered", "a hook was replaced")
    evidence = Evidence(instance([F]), session=session({F: "passed"}, ended=False))
    verdict = decide(replace(evidence, integrity=Integrity(findings=(found,))))
    assert (verdict.status, verdict.reward) == (Status.TAMPERED, 0.0)
    flag = Finding("word", "flag", "looks at gc")
    evidence = Evidence(instance([F]), session=session({F: "passed"}))
    resolved = decide(replace(evidence, integrity=Integrity(findings=(flag,))))
    assert (resolved.status, resolved.review) == (Status.RESOLVED, True)


def test_an_unstable_id_is_called_one() -> None:
    verdict = score(instance(["t.py::o[obj-7f00]"]), session({"t.py::o[obj-7f4840ac5bb0]": "passed"}))
    assert [reason.code for reason in verdict.reasons] == ["unstable_id"]


def test_running_as_root_is_said() -> None:
    assert [w.code for w in score(instance([F]), session({F: "passed"}, uid=0)).warnings] == ["ran_as_root"]


def test_the_scope_names_files() -> None:
    row = instance([F, "t.py::g[a"], [P, Q, "[100%]"])
    assert files_to_run(row, "f2p-files") == ("t.py",)
    assert files_to_run(row, "all") == ("t.py", "u.py")


def test_rewards_are_one_zero_or_null() -> None:
    rewards = {status.value: reward_of(status) for status in Status}
    assert {key for key, value in rewards.items() if value is None} == {
        "invalid_instance",
        "env_error",
        "error",
        "incomplete",
    }
    assert [key for key, value in rewards.items() if value == 1.0] == ["resolved"]


SHARED = Path(__file__).parents[2].parent / "shared" / "cases" / "grading"
GRADE_CASES = [
    path for path in sorted(SHARED.glob("*/expected.json")) if json.loads(path.read_text())["kind"] == "grade"
]


@pytest.mark.skipif(not GRADE_CASES, reason="the shared cases are not beside this checkout")
def test_the_shared_grade_cases() -> None:
    wrong = {}
    for path in GRADE_CASES:
        case = json.loads(path.read_text())
        outcomes = {
            "PASSED": "passed",
            "FAILED": "failed",
            "SKIPPED": "skipped",
            "XFAIL": "xfailed",
            "XPASS": "xpassed",
        }
        status = json.loads((path.parent / "input" / "status.json").read_text())
        ran = session({key: outcomes[value] for key, value in status.items()})
        verdict = score(instance(case["F2P"], case["P2P"]), ran)
        if verdict.resolved is not case["resolved"]:
            wrong[case["name"]] = verdict.status.value
    assert wrong == {}
