"""The decision table, and the page that describes it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.decide import TABLE, Control, Evidence, Rebuild, decide, score, status_of
from swelive_plugin.core.verdict import RebuildReport, Status, reward_of
from swelive_plugin.errors import (
    EnvironmentBuildError,
    InfraError,
    InstanceError,
    Interrupted,
    PatchError,
    PatchRejected,
)

from .build import controls, instance, session

F, P = "t.py::f", "t.py::p"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "semantics.md"


def test_the_page_on_semantics_has_the_rows_of_the_table_in_their_order() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| (0|null) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, len(TABLE) + 1))
    assert [status for _, status, _ in rows] == [row.status.value for row in TABLE]
    assert [reward for _, _, reward in rows] == ["null" if reward_of(row.status) is None else "0" for row in TABLE]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InstanceError("x"), Status.INVALID_INSTANCE),
        (EnvironmentBuildError("x"), Status.ENV_ERROR),
        (PatchRejected("x"), Status.PATCH_REJECTED),
        (PatchError("x"), Status.PATCH_FAILED),
        (Interrupted("x"), Status.INCOMPLETE),
        (InfraError("x"), Status.ERROR),
        (RuntimeError("x"), Status.ERROR),
    ],
)
def test_each_error_has_its_status(error: Exception, status: Status) -> None:
    assert status_of(error) is status
    assert decide(Evidence(instance([F]), error=error)).status is status


def test_a_session_that_gold_ends_early_too_is_no_verdict() -> None:
    """Defect: where hidden tests end the session with gold as well, the prediction was `crashed` with reward 0."""
    broke = session({F: "not_run", P: "not_run"}, ended=False)
    gold = Control(score(instance([F], [P]), broke))
    evidence = Evidence(instance([F], [P]), session=broke, gold=gold, outcomes=controls(gold={F: "not_run"}))
    verdict = decide(evidence)
    assert (verdict.status, verdict.reward) == (Status.ENV_ERROR, None)
    assert verdict.reasons[0].code == "gold_control_fails"
    alone = decide(replace(evidence, gold=None))
    assert (alone.status, alone.reward) == (Status.CRASHED, 0.0)


@pytest.mark.parametrize(("ended_by", "status"), [("exit", Status.UNRESOLVED), ("wall_clock", Status.TIMED_OUT)])
def test_a_patch_that_does_not_build_is_judged_without_a_session(ended_by: str, status: Status) -> None:
    report = RebuildReport(("a.c",), failed="a.c:1: error: x")
    verdict = decide(Evidence(instance([F]), rebuild=Rebuild(report, ended_by)))
    assert (verdict.status, verdict.reward, verdict.reasons[0].code) == (status, 0.0, "does_not_build")


def test_an_empty_prediction_comes_before_all() -> None:
    verdict = decide(Evidence(instance(), empty=True, error=InfraError("x")))
    assert (verdict.status, verdict.reward) == (Status.EMPTY_PATCH, 0.0)
