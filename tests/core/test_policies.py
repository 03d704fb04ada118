"""The policies that reproduce upstream graders: one test per rule, with the verdict that upstream gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from swelive_plugin.core.decide import Evidence, decide, score
from swelive_plugin.core.outcome import Session
from swelive_plugin.core.policies import SWEBENCH, SWEBENCH_LIVE, SWEBENCH_LIVE_PYTHON, UPSTREAM
from swelive_plugin.core.policy import Policy
from swelive_plugin.core.verdict import Finding, Integrity, Status

from .build import instance, session

F, P = "t.py::f", "t.py::p"


def judged(
    policy: Policy, found: Session, f2p: Sequence[str] = (F,), p2p: Sequence[str] = (P,)
) -> tuple[str, str, str]:
    """Return (status, judgement of the first FAIL_TO_PASS, judgement of the first PASS_TO_PASS)."""
    verdict = score(instance(f2p, p2p), found, policy=policy)
    first = [lists[0].judgement if lists else "" for lists in (verdict.fail_to_pass, verdict.pass_to_pass)]
    return verdict.status.value, first[0], first[1]


# outcome of the test in question: its judgement as FAIL_TO_PASS and as PASS_TO_PASS
TABLE = {
    "swebench": {
        "passed": ("pass", "pass"),
        "xfailed": ("pass", "pass"),
        "xpassed": ("fail", "fail"),  # XPASS is never read
        "skipped": ("fail", "pass"),
        "failed": ("fail", "fail"),
        "error": ("fail", "fail"),
        "": ("fail", "fail"),  # missing
    },
    "swebench-live": {
        "passed": ("pass", "pass"),
        "xfailed": ("pass", "pass"),
        "xpassed": ("fail", "left_out"),
        "skipped": ("fail", "left_out"),
        "failed": ("fail", "fail"),
        "error": ("fail", "fail"),
        "": ("fail", "left_out"),
    },
    "swebench-live-python": {
        "passed": ("pass", "pass"),
        "xfailed": ("pass", "pass"),
        "xpassed": ("fail", "fail"),
        "skipped": ("left_out", "left_out"),
        "failed": ("fail", "fail"),
        "error": ("fail", "fail"),
        "": ("fail", "fail"),
    },
}


@pytest.mark.parametrize("policy", UPSTREAM, ids=lambda policy: policy.name)
@pytest.mark.parametrize("outcome", sorted(TABLE["swebench"]))
def test_outcomes(policy: Policy, outcome: str) -> None:
    as_f2p, as_p2p = TABLE[policy.name][outcome]
    mine = {F: outcome} if outcome else {}
    status, judgement, _ = judged(policy, session({**mine, P: "passed"}))
    assert (status, judgement) == ("unresolved" if as_f2p == "fail" else "resolved", as_f2p)
    mine = {P: outcome} if outcome else {}
    status, _, judgement = judged(policy, session({F: "passed", **mine}))
    assert (status, judgement) == ("unresolved" if as_p2p == "fail" else "resolved", as_p2p)


def test_every_policy_has_its_own_name_and_scope() -> None:
    assert [policy.name for policy in UPSTREAM] == list(TABLE)
    assert {policy.default_scope for policy in UPSTREAM} == {"all"}


@pytest.mark.parametrize("policy", UPSTREAM, ids=lambda policy: policy.name)
def test_no_upstream_policy_refuses_an_instance_without_fail_to_pass(policy: Policy) -> None:
    assert judged(policy, session({P: "passed"}), f2p=())[0] == "resolved"


@pytest.mark.parametrize("policy", UPSTREAM, ids=lambda policy: policy.name)
def test_no_upstream_policy_looks_at_integrity(policy: Policy) -> None:
    forged = Integrity(findings=(Finding("forged_report", "tampered", "lies"),))
    evidence = Evidence(instance([F]), policy, session=session({F: "passed"}), integrity=forged)
    assert decide(evidence).status is Status.RESOLVED


@pytest.mark.parametrize("policy", UPSTREAM, ids=lambda policy: policy.name)
def test_a_session_that_broke_off_shows_nothing(policy: Policy) -> None:
    """Without a summary upstream has no line to read: the run is thrown away."""
    found = replace(session({F: "passed", P: "passed"}), ended=False)
    assert judged(policy, found)[0] == "unresolved"


def test_swebench_takes_a_bad_exit_status_without_a_failure_for_forgery() -> None:
    found = replace(session({F: "passed", P: "passed"}), exit_status=1)
    assert judged(SWEBENCH, found)[0] == "unresolved"
    assert judged(SWEBENCH_LIVE, found)[0] == "resolved"
    assert (
        judged(SWEBENCH, replace(session({F: "passed", P: "passed", "t.py::x": "failed"}), exit_status=1))[0]
        == "resolved"
    )


def test_swebench_prefix_needs_agreement_on_passing() -> None:
    cut = "t.py::g[log(photon"
    disagree = session({F: "passed", "t.py::g[log(photon,a)]": "passed", "t.py::g[log(photon,b)]": "failed"})
    assert judged(SWEBENCH, disagree, p2p=[cut])[0] == "unresolved"
    agree = session({F: "passed", "t.py::g[log(photon,a)]": "passed", "t.py::g[log(photon,b)]": "xfailed"})
    assert judged(SWEBENCH, agree, p2p=[cut])[0] == "resolved"
    assert judged(SWEBENCH_LIVE_PYTHON, agree, p2p=[cut])[0] == "unresolved"  # exact ids only


def test_swebench_lets_a_skipped_sibling_stand_for_a_failed_one() -> None:
    """Skips are printed before failures, and the first of the candidates counts."""
    found = session({F: "passed", "t.py::g[a,x]": "skipped", "t.py::g[a,y]": "failed"})
    assert judged(SWEBENCH, found, p2p=["t.py::g[a"])[0] == "resolved"


def test_swebench_cuts_ids_so_that_two_tests_share_a_key() -> None:
    found = session({"t.py::t[a b]": "passed", "t.py::t[a c]": "failed"})
    assert judged(SWEBENCH, found, f2p=["t.py::t[a"], p2p=())[0] == "unresolved"  # the failure is printed last


def test_an_unknown_status_word_is_neither_success_nor_failure() -> None:
    printed = ("PASSED t.py::f", "ERROR: t.py::p")
    found = Session(tests={}, source="log", printed=printed)
    assert judged(SWEBENCH, found) == ("resolved", "pass", "left_out")
    assert judged(SWEBENCH_LIVE, found) == ("unresolved", "pass", "fail")


def test_all_fail_to_pass_skipped_is_resolved_on_the_python_branch() -> None:
    assert judged(SWEBENCH_LIVE_PYTHON, session({F: "skipped", P: "passed"}))[0] == "resolved"


def test_upstream_believes_what_was_printed_in_captured_output() -> None:
    found = Session(tests={}, source="log", printed=(f"PASSED {F}", f"PASSED {P}"))
    for policy in UPSTREAM:
        assert judged(policy, found)[0] == "resolved"
    assert score(instance([F]), found).status is Status.UNRESOLVED


def test_swebench_reads_the_whole_log_where_the_markers_hold_nothing() -> None:
    printed = (f"PASSED {F}", ">>>>> Start Test Output", ">>>>> End Test Output")
    found = Session(tests={}, source="log", printed=printed)
    assert judged(SWEBENCH, found, p2p=())[0] == "resolved"
    assert judged(SWEBENCH_LIVE_PYTHON, found, p2p=())[0] == "unresolved"


def test_a_phantom_id_is_required_as_upstream_requires_it() -> None:
    assert judged(SWEBENCH, session({F: "passed"}), p2p=["[100%]"])[0] == "unresolved"
