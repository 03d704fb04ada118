"""Reduction of probe events to one outcome per test id."""

from __future__ import annotations

from typing import Any

import pytest

from swelive_plugin.core.outcome import Outcome, Session, reduce_events


def phase(when: str, outcome: str = "passed", test_id: str = "t.py::a", **more: Any) -> dict[str, Any]:
    return {"e": "phase", "id": test_id, "when": when, "outcome": outcome, "d": 0.5, **more}


def whole(call: dict[str, Any] | None, *, setup: str = "passed", teardown: str = "passed") -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"e": "collected", "ids": ["t.py::a"]}, {"e": "start", "id": "t.py::a"}]
    events.append(phase("setup", setup))
    return [*events, *([call] if call else []), phase("teardown", teardown), {"e": "end", "exitstatus": 0}]


def one(events: list[dict[str, Any]], *, timed_out: bool = False) -> Outcome:
    return reduce_events(events, timed_out=timed_out).tests["t.py::a"].outcome


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        (whole(phase("call")), "passed"),
        (whole(phase("call", "failed")), "failed"),
        (whole(None, setup="failed"), "error"),
        (whole(phase("call"), teardown="failed"), "error"),
        (whole(phase("call", "skipped")), "skipped"),
        (whole(phase("call", "skipped"), teardown="failed"), "error"),
        (whole(None, setup="skipped"), "skipped"),
        (whole(phase("call", "skipped", wasxfail="bug")), "xfailed"),
        (whole(phase("call", "passed", wasxfail="bug")), "xpassed"),
        (whole(phase("call", "failed", wasxfail="strict")), "failed"),
        (whole(phase("call", "passed", forged=True)), "failed"),
        (whole(phase("call"))[:1], "not_run"),
        (whole(phase("call"))[:2], "crashed"),
        (whole(phase("call"))[:3], "crashed"),
        (whole(phase("call"))[:4], "crashed"),
        ([*whole(phase("call"))[:4], phase("call", "failed", subtest="i=1"), phase("teardown")], "failed"),
        ([*whole(phase("call"))[:4], phase("call", "skipped", subtest="i=1"), phase("teardown")], "passed"),
    ],
)
def test_one_outcome_per_test(events: list[dict[str, Any]], outcome: str) -> None:
    assert one(events) is Outcome(outcome)


def test_a_test_running_at_the_time_limit_is_timed_out_and_the_rest_not_run() -> None:
    events: list[dict[str, Any]] = [
        {"e": "collected", "ids": ["t.py::a", "t.py::b"]},
        {"e": "start", "id": "t.py::a"},
        phase("setup"),
    ]
    session = reduce_events(events, timed_out=True)
    assert {key: record.outcome.value for key, record in session.tests.items()} == {
        "t.py::a": "timed_out",
        "t.py::b": "not_run",
    }
    assert not session.ended


def test_the_last_attempt_counts_and_the_test_is_flaky() -> None:
    events = [
        {"e": "collected", "ids": ["t.py::a"]},
        phase("setup", attempt=1),
        phase("call", "rerun", attempt=1),
        phase("teardown", attempt=1),
        phase("setup", attempt=2),
        phase("call", attempt=2),
        phase("teardown", attempt=2),
    ]
    record = reduce_events(events).tests["t.py::a"]
    assert (record.outcome, record.flaky, record.attempts, record.duration_s) == (Outcome.PASSED, True, 2, 1.5)


def test_interleaved_workers_give_the_same_session() -> None:
    a = [{"e": "start", "id": "t.py::a"}, phase("setup"), phase("call", "failed"), phase("teardown")]
    b = [
        {"e": "start", "id": "t.py::b"},
        *(phase(when, test_id="t.py::b") for when in ("setup", "call", "teardown")),
    ]

    def outcomes(session: Session) -> dict[str, str]:
        return {key: record.outcome.value for key, record in session.tests.items()}

    mixed = [event for pair in zip(a, b, strict=True) for event in pair]
    assert outcomes(reduce_events(a + b)) == outcomes(reduce_events(mixed)) == outcomes(reduce_events(b + a))


def test_a_forged_report_keeps_what_it_claimed() -> None:
    record = reduce_events(whole(phase("call", "passed", forged=True))).tests["t.py::a"]
    assert (record.outcome, record.reported, record.forged) == (Outcome.FAILED, Outcome.PASSED, True)


def test_canaries_and_unknown_events_never_show_in_outcomes() -> None:
    events = [
        {"e": "canaries", "ids": ["t.py::c"]},
        *(phase(when, test_id="t.py::c") for when in ("setup", "call", "teardown")),
        {"e": "from-the-future", "x": 1},
        *whole(phase("call")),
    ]
    session = reduce_events(events)
    assert list(session.tests) == ["t.py::a"]
    assert session.canaries["t.py::c"].outcome is Outcome.PASSED


def test_deselected_tests_are_named() -> None:
    session = reduce_events([{"e": "deselected", "ids": ["t.py::z"]}])
    assert session.tests["t.py::z"].outcome is Outcome.DESELECTED
    assert not session.ran_anything
