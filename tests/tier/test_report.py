"""Agents side by side, from attempts that are made up here."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from swelive_plugin.core.verdict import Finding, Integrity, Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.reports.json_report import write_verdict
from swelive_plugin.tier.report import AttemptRow, as_json, as_markdown, as_text, compare_agents, compare_runs
from swelive_plugin.tier.run import Attempt


def row(agent: str, task: str, status: str, *, number: int = 1, month: str = "", **attempt: object) -> AttemptRow:
    flagged = attempt.pop("review", False)
    findings = (Finding("x", "flag", "suspicious"),) if flagged else ()
    return AttemptRow(
        agent,
        task,
        Attempt(agent, task, number, **{"ended_by": "exit", "duration_s": 2.0, **attempt}),  # type: ignore[arg-type]
        Verdict(task, Status(status), attempt=number, integrity=Integrity(findings=findings)),
        repo=task.split("-")[0],
        month=month,
    )


ROWS = [
    row("a", "r-1", "resolved", month="2025-01", duration_s=1.0, cost={"usd": 0.5, "tokens": 10, "model": "x"}),
    row("a", "r-2", "resolved", month="2025-02", duration_s=5.0, cost={"usd": 0.25}),
    row("a", "s-3", "unresolved", month="2025-02", edited_tests=("t.py",), flags=("edited_tests",)),
    row("a", "s-4", "env_error"),
    row("b", "r-1", "resolved", month="2025-01", flags=("edited_tests", "left_out")),
    row("b", "r-2", "timed_out", month="2025-02", ended_by="wall_clock"),
    row("b", "s-3", "tampered", month="2025-02", review=True),
    row("b", "s-4", "error", ended_by="not_run"),
]


def test_rates_leave_out_what_has_no_verdict() -> None:
    first, second = compare_agents(ROWS).agents
    assert (first.agent, first.first.resolved, first.first.of, first.attempts) == ("a", 2, 3, 4)
    assert (second.first.resolved, second.first.of) == (1, 3)
    assert first.first.low == pytest.approx(0.2077, abs=5e-5)
    assert first.first.high == pytest.approx(0.9385, abs=5e-5)
    assert first.statuses == {"env_error": 1, "resolved": 2, "unresolved": 1}


def test_time_cost_edited_tests_and_flags() -> None:
    first, second = compare_agents(ROWS).agents
    assert (first.seconds_median, first.seconds_total, second.seconds_total) == (2.0, 10.0, 6.0)
    assert first.cost == {"tokens": 10, "usd": 0.75}
    assert (first.edited_tests, first.flags, second.review, second.tampered) == (1, {"edited_tests": 1}, 2, 1)
    assert second.ended_by == {"exit": 2, "not_run": 1, "wall_clock": 1}


def test_groups_pairs_and_what_each_alone_solved() -> None:
    comparison = compare_agents(ROWS)
    first, second = comparison.agents
    assert {name: (share.resolved, share.of) for name, share in first.by["repo"].items()} == {"r": (2, 2), "s": (0, 1)}
    assert list(first.by["month"]) == ["2025-01", "2025-02"]
    assert first.by["difficulty"] == {}
    assert (first.alone, second.alone) == (("r-2",), ())
    (pair,) = comparison.pairs
    assert (pair.shared, pair.both, pair.only_first, pair.only_second, pair.p_value) == (3, 1, 1, 0, 1.0)
    assert (comparison.resolved_by_all, comparison.resolved_by_none) == (("r-1",), ("s-3",))


def test_pass_at_k_is_the_mean_over_tasks_with_k_attempts() -> None:
    rows = [
        row("a", "r-1", "resolved"),
        row("a", "r-1", "unresolved", number=2),
        row("a", "r-2", "unresolved"),
        row("a", "r-2", "unresolved", number=2),
        row("a", "s-3", "resolved"),
        row("a", "s-3", "error", number=2),
    ]
    (agent,) = compare_agents(rows).agents
    assert agent.pass_at == {1: pytest.approx((0.5 + 0 + 1) / 3), 2: pytest.approx(0.5)}
    assert "k=2" in as_text(compare_agents(rows))


def test_three_ways_to_write_it_down() -> None:
    comparison = compare_agents(ROWS)
    text, markdown = as_text(comparison), as_markdown(comparison)
    assert "a      2 of 3    66.7 %  20.8 % to 93.9 %  1" in text
    assert "| a | 2 of 3 | 66.7 % | 20.8 % to 93.9 % | 1 | 2.0 | 1 | 0 | 0 | 0 |" in markdown
    assert "| 2025-02 | 1 of 2 | 0 of 2 |" in markdown
    told = json.loads(as_json(comparison))
    assert [agent["agent"] for agent in told["agents"]] == ["a", "b"]
    assert told["agents"][0]["pass_at"] == {"1": pytest.approx(2 / 3)}
    assert as_text(compare_agents([])) == "nothing is finished yet"


def save(run: Path, rows: list[AttemptRow]) -> None:
    run.mkdir()
    content = {
        "agents": {one.agent: "" for one in rows},
        "tasks": {one.instance_id: {"repo": one.repo, "month": one.month, "difficulty": "easy"} for one in rows},
    }
    (run / "run.json").write_text(json.dumps(content))
    for one in rows:
        folder = run / one.agent / one.instance_id / f"attempt-{one.attempt.number}"
        write_verdict(folder / "verdict.json", one.verdict)
        if one.attempt.ended_by != "not_run":
            (folder / "attempt.json").write_bytes(msgspec.json.encode(one.attempt))


def test_folders_are_read_back_and_one_name_in_two_of_them_is_told_apart(tmp_path: Path) -> None:
    save(tmp_path / "x", ROWS)
    save(tmp_path / "y", [row("b", "r-2", "resolved"), row("c", "r-1", "resolved")])
    (tmp_path / "x" / "a" / "r-1" / "attempt-9").mkdir()  # begun, not finished
    comparison = compare_runs([tmp_path / "x", tmp_path / "y", tmp_path / "x"])
    assert {agent.agent for agent in comparison.agents} == {"a", "b (x)", "b (y)", "c"}
    first = next(agent for agent in comparison.agents if agent.agent == "a")
    assert (first.first.resolved, first.first.of, list(first.by["difficulty"])) == (2, 3, ["easy"])


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run here"):
        compare_runs([tmp_path])
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="can't be read"):
        compare_runs([tmp_path])
