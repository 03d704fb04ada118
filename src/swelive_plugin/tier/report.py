"""Agents side by side: the numbers, from the folders of one or more runs, and three ways to write them down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from swelive_plugin.core.statistics import mcnemar_exact, pass_at_k, wilson_interval
from swelive_plugin.core.verdict import NO_VERDICT, Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.files import visible
from swelive_plugin.reports.json_report import read_verdict
from swelive_plugin.tier.run import Attempt

__all__ = [
    "AgentComparison",
    "AgentReport",
    "AttemptRow",
    "Pair",
    "Share",
    "as_json",
    "as_markdown",
    "as_text",
    "compare_agents",
]

CONFIDENCE = 0.95
_ALLOWED = frozenset({"edited_tests"})  # counted apart: many an honest agent adds tests


@dataclass(frozen=True)
class AttemptRow:
    """One finished attempt: who, at what, how it was judged, and what is known of the task."""

    agent: str
    instance_id: str
    attempt: Attempt
    verdict: Verdict
    repo: str = ""
    month: str = ""
    difficulty: str = ""


@dataclass(frozen=True)
class Share:
    """So many tasks of so many, with the interval of the rate."""

    resolved: int
    of: int
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """The rate, or ``None`` where nothing was judged."""
        return self.resolved / self.of if self.of else None


@dataclass(frozen=True)
class AgentReport:
    """One agent. ``first`` counts first attempts; those without a verdict (ours, the environment's) count nowhere.

    ``pass_at`` holds k and the mean of the unbiased estimator over the tasks that have k attempts. ``seconds`` are
    wall-clock, per attempt. ``review`` counts attempts that a flag asks to look at. ``cost`` sums the numbers that the
    agent's ``cost.json`` files hold.
    """

    agent: str
    tasks: int
    attempts: int
    first: Share
    pass_at: Mapping[int, float]
    statuses: Mapping[str, int]
    ended_by: Mapping[str, int]
    seconds_median: float
    seconds_total: float
    edited_tests: int
    flags: Mapping[str, int]
    review: int
    tampered: int
    cost: Mapping[str, float]
    alone: tuple[str, ...]
    by: Mapping[str, Mapping[str, Share]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two agents on the tasks that both have a verdict on (first attempts): could the difference be chance?"""

    first: str
    second: str
    shared: int
    both: int
    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class AgentComparison:
    """All agents of the given runs, the best first."""

    agents: tuple[AgentReport, ...]
    pairs: tuple[Pair, ...]
    resolved_by_all: tuple[str, ...]
    resolved_by_none: tuple[str, ...]
    runs: tuple[str, ...] = ()


def compare_runs(runs: Sequence[Path]) -> AgentComparison:
    """Return the comparison of everything that is finished in these run folders.

    An agent that stands in several of them under one name is told apart by the folder. Raises `UsageError` for a folder
    that holds no run.
    """
    folders = list(dict.fromkeys(path.resolve() for path in runs))
    loaded = [(folder, list(_rows(folder))) for folder in folders]
    names = Counter(name for _, rows in loaded for name in {row.agent for row in rows})
    rows = [
        row if names[row.agent] == 1 else _renamed(row, f"{row.agent} ({folder.name})")
        for folder, found in loaded
        for row in found
    ]
    return compare_agents(rows, runs=[folder.name for folder in folders])


def _renamed(row: AttemptRow, name: str) -> AttemptRow:
    return AttemptRow(name, row.instance_id, row.attempt, row.verdict, row.repo, row.month, row.difficulty)


def _rows(run: Path) -> Iterable[AttemptRow]:
    try:
        told = json.loads((run / "run.json").read_bytes())
        agents, tasks = told["agents"], told["tasks"]
    except FileNotFoundError:
        raise UsageError(f"{run}: no run here (run.json is missing)", hint="`swelive run` makes one") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{run / 'run.json'} can't be read: {error}") from error
    for agent in sorted(agents):
        for instance_id in sorted(tasks):
            for folder in sorted((run / agent / instance_id).glob("attempt-*")):
                found = _finished(folder, agent, instance_id)
                if found is not None:
                    attempt, verdict = found
                    yield AttemptRow(agent, instance_id, attempt, verdict, **_known(tasks[instance_id]))


def _known(task: Any) -> dict[str, str]:
    told = task if isinstance(task, dict) else {}
    return {name: str(told.get(name) or "") for name in ("repo", "month", "difficulty")}


def _finished(folder: Path, agent: str, instance_id: str) -> tuple[Attempt, Verdict] | None:
    try:
        verdict = read_verdict(folder / "verdict.json")
    except UsageError:
        return None
    try:
        attempt = msgspec.json.decode((folder / "attempt.json").read_bytes(), type=Attempt)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):  # the agent could not be run at all
        attempt = Attempt(agent, instance_id, verdict.attempt, ended_by="not_run")
    return attempt, verdict


def compare_agents(rows: Sequence[AttemptRow], *, runs: Sequence[str] = ()) -> AgentComparison:
    """Return the comparison of finished attempts; pure."""
    by_agent: dict[str, list[AttemptRow]] = {}
    for row in sorted(rows, key=lambda row: (row.agent, row.instance_id, row.attempt.number)):
        by_agent.setdefault(row.agent, []).append(row)
    solved = {agent: {row.instance_id for row in found if row.verdict.resolved} for agent, found in by_agent.items()}
    tried = {row.instance_id for row in rows if row.verdict.status not in NO_VERDICT}
    reports = [_agent(agent, found, solved) for agent, found in by_agent.items()]
    reports.sort(key=lambda report: (-(report.first.rate or 0.0), report.agent))
    order = [report.agent for report in reports]
    return AgentComparison(
        agents=tuple(reports),
        pairs=tuple(_pair(one, other, by_agent) for one, other in combinations(order, 2)),
        resolved_by_all=tuple(sorted(set.intersection(*solved.values()))) if solved else (),
        resolved_by_none=tuple(sorted(tried - set().union(*solved.values()))),
        runs=tuple(runs),
    )


def _agent(agent: str, rows: Sequence[AttemptRow], solved: Mapping[str, set[str]]) -> AgentReport:
    judged = [row for row in rows if row.verdict.status not in NO_VERDICT]
    firsts = [row for row in judged if row.attempt.number == 1]
    others = set().union(*(ids for name, ids in solved.items() if name != agent))
    seconds = [row.attempt.duration_s for row in rows if row.attempt.ended_by != "not_run"]
    kinds: dict[str, Callable[[AttemptRow], str]] = {
        "repo": lambda row: row.repo,
        "month": lambda row: row.month,
        "difficulty": lambda row: row.difficulty,
    }
    return AgentReport(
        agent=agent,
        tasks=len({row.instance_id for row in rows}),
        attempts=len(rows),
        first=_share(firsts),
        pass_at=_pass_at(judged),
        statuses=_counted(row.verdict.status.value for row in rows),
        ended_by=_counted(row.attempt.ended_by for row in rows),
        seconds_median=round(median(seconds), 3) if seconds else 0.0,
        seconds_total=round(sum(seconds), 3),
        edited_tests=sum(bool(row.attempt.edited_tests) for row in rows),
        flags=_counted(flag for row in rows for flag in row.attempt.flags),
        review=sum(row.verdict.review or bool(set(row.attempt.flags) - _ALLOWED) for row in rows),
        tampered=sum(row.verdict.status is Status.TAMPERED for row in rows),
        cost=_cost(rows),
        alone=tuple(sorted(solved[agent] - others)) if len(solved) > 1 else (),
        by={
            kind: {
                value: _share([row for row in firsts if of(row) == value])
                for value in sorted({of(row) for row in firsts})
                if value
            }
            for kind, of in kinds.items()
        },
    )


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _share(rows: Sequence[AttemptRow]) -> Share:
    resolved = sum(row.verdict.resolved for row in rows)
    low, high = wilson_interval(resolved, len(rows), confidence=CONFIDENCE)
    return Share(resolved, len(rows), low, high)


def _pass_at(rows: Sequence[AttemptRow]) -> dict[int, float]:
    """Return pass@k for each k that at least one task has attempts for, over the tasks that do."""
    tried = Counter(row.instance_id for row in rows)
    right = Counter(row.instance_id for row in rows if row.verdict.resolved)
    found: dict[int, float] = {}
    for k in range(1, max(tried.values(), default=0) + 1):
        values = [pass_at_k(trials, right[name], k) for name, trials in tried.items()]
        known = [value for value in values if value is not None]
        found[k] = sum(known) / len(known)
    return found


def _cost(rows: Sequence[AttemptRow]) -> dict[str, float]:
    total: dict[str, float] = {}
    for row in rows:
        for name, value in (row.attempt.cost or {}).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                total[name] = total.get(name, 0.0) + value
    return dict(sorted(total.items()))


def _pair(first: str, second: str, rows: Mapping[str, Sequence[AttemptRow]]) -> Pair:
    judged = [
        {
            row.instance_id: row.verdict.resolved
            for row in rows[agent]
            if row.attempt.number == 1 and row.verdict.status not in NO_VERDICT
        }
        for agent in (first, second)
    ]
    one, other = judged
    shared = one.keys() & other.keys()
    only_first = sum(one[name] and not other[name] for name in shared)
    only_second = sum(other[name] and not one[name] for name in shared)
    both = sum(one[name] and other[name] for name in shared)
    p_value = mcnemar_exact(only_first, only_second)
    return Pair(first, second, len(shared), both, only_first, only_second, p_value)


# --- three ways to write it down -------------------------------------------------------------------------------------


def as_json(comparison: AgentComparison) -> str:
    """Return the comparison as JSON, indented."""
    return json.dumps(msgspec.to_builtins(comparison, str_keys=True), indent=1, ensure_ascii=False)


def as_text(comparison: AgentComparison) -> str:
    """Return the comparison as aligned text for a terminal."""
    return "\n".join(_written(comparison, _text_table, heading=lambda text: f"{text}\n"))


def as_markdown(comparison: AgentComparison) -> str:
    """Return the comparison as Markdown, for a pull request or a page."""
    return "\n".join(_written(comparison, _markdown_table, heading=lambda text: f"### {text}\n"))


_Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def _written(comparison: AgentComparison, table: _Table, *, heading: Callable[[str], str]) -> list[str]:
    agents = comparison.agents
    if not agents:
        return ["nothing is finished yet"]
    parts = [heading("Agents"), table(_HEAD, [_line(agent) for agent in agents]), ""]
    most = max((max(agent.pass_at, default=0) for agent in agents), default=0)
    if most > 1:
        ks = range(1, most + 1)
        rows = [[agent.agent, *(_percent(agent.pass_at.get(k)) for k in ks)] for agent in agents]
        parts += [heading("pass@k"), table(["agent", *(f"k={k}" for k in ks)], rows), ""]
    if comparison.pairs:
        head = ["first", "second", "shared", "both", "only first", "only second", "p"]
        rows = [
            [
                pair.first,
                pair.second,
                *map(str, (pair.shared, pair.both, pair.only_first, pair.only_second)),
                f"{pair.p_value:.3g}",
            ]
            for pair in comparison.pairs
        ]
        parts += [heading("Pairs (first attempts; p: McNemar's exact test)"), table(head, rows), ""]
    for kind in ("repo", "month", "difficulty"):
        values = sorted({value for agent in agents for value in agent.by.get(kind, {})})
        if values:
            rows = [[value, *(_cell(agent.by.get(kind, {}).get(value)) for agent in agents)] for value in values]
            parts += [heading(f"By {kind}"), table([kind, *(agent.agent for agent in agents)], rows), ""]
    alone = [(agent.agent, ", ".join(agent.alone)) for agent in agents if agent.alone]
    if alone:
        parts += [heading("Solved by this one alone"), table(["agent", "tasks"], alone), ""]
    costs = [(agent.agent, _told_cost(agent.cost)) for agent in agents if agent.cost]
    if costs:
        parts += [heading("Cost"), table(["agent", "sum of cost.json"], costs), ""]
    parts.append(f"solved by all: {len(comparison.resolved_by_all)}, by none: {len(comparison.resolved_by_none)}")
    return parts


_HEAD = [
    "agent",
    "resolved",
    "rate",
    "95 %",
    "no verdict",
    "median s",
    "edited tests",
    "to review",
    "tampered",
    "cut off",
]


def _line(agent: AgentReport) -> list[str]:
    first = agent.first
    without = sum(count for status, count in agent.statuses.items() if Status(status) in NO_VERDICT)
    cut_off = sum(count for how, count in agent.ended_by.items() if how not in ("exit", "not_run"))
    return [
        agent.agent,
        f"{first.resolved} of {first.of}",
        _percent(first.rate),
        f"{_percent(first.low)} to {_percent(first.high)}" if first.of else "",
        str(without),
        f"{agent.seconds_median:.1f}",
        str(agent.edited_tests),
        str(agent.review),
        str(agent.tampered),
        str(cut_off),
    ]


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.1f} %"


def _cell(share: Share | None) -> str:
    return f"{share.resolved} of {share.of}" if share else ""


def _told_cost(cost: Mapping[str, float]) -> str:
    return ", ".join(f"{visible(name, limit=40)} {value:g}" for name, value in cost.items())


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
    return "\n".join(lines)


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
