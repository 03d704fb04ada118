"""Agents over a tier: every attempt in a folder of its own, graded, resumable, in parallel."""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from swelive_plugin._version import __version__
from swelive_plugin.core.decide import status_of
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Reason, Verdict
from swelive_plugin.errors import SweliveError, UsageError
from swelive_plugin.extensions import sandbox_named
from swelive_plugin.files import json_bytes, write_atomically
from swelive_plugin.grading.controls import run_controls, trial_of
from swelive_plugin.grading.pipeline import grade
from swelive_plugin.grading.pool import in_pool, listening, report_step
from swelive_plugin.grading.run_folder import UNFINISHED, RunFolder
from swelive_plugin.grading.settings import Settings
from swelive_plugin.grading.testbed import open_testbed
from swelive_plugin.reports.json_report import read_verdict, write_verdict
from swelive_plugin.tier.agents import Agent, Surroundings
from swelive_plugin.tier.attempt import AgentRun, run_agent
from swelive_plugin.tier.layout import Task, Tier
from swelive_plugin.workspace.checkout import remove_tree

__all__ = ["Attempt", "run_agents"]


@dataclass(frozen=True)
class Attempt:
    """One attempt of one agent at one task, as ``attempt.json`` keeps it.

    ``ended_by``: ``exit``, or the limit that ended the agent. ``flags`` are codes of what asks for review:
    ``agent_failed`` (its command ended with another status than 0), ``work_tree_gone``, ``edited_tests``, ``left_out``
    (something of its work no diff can hold), ``wrote_into_tier``.
    """

    agent: str
    instance_id: str
    number: int
    key: str = ""
    started_at: str = ""
    ended_by: str = ""
    exit_status: int = 0
    duration_s: float = 0.0
    peak_rss_mib: float | None = None
    edited_tests: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cost: Mapping[str, Any] | None = None
    patch_bytes: int = 0
    tool_version: str = field(default=__version__)


Finished = Callable[[Attempt, Verdict], None]


@dataclass(frozen=True)
class _Item:
    agent: Agent
    task: Task
    instance: Instance
    number: int
    folder: Path


def run_agents(
    tier: Tier,
    agents: Sequence[Agent],
    surroundings: Surroundings,
    settings: Settings | None = None,
    *,
    out: Path,
    attempts: int = 1,
    tasks: Sequence[str] = (),
    workers: int = 1,
    executor: str = "threads",
    finished: Finished = lambda _, __: None,
    step: Callable[[str, str], None] = lambda _, __: None,
    kept: Callable[[int], None] = lambda _: None,
) -> list[tuple[Attempt, Verdict]]:
    """Return each attempt with its verdict, by number, agent and task; ``out`` keeps them as they come.

    ``tasks`` names those to run, all by default. What ``out`` holds of the same agent, task and surroundings is kept;
    a patch that is there ungraded is graded. ``kept`` is told how many attempts are there, before any other begins.
    The tier is read before any agent starts, so what an agent writes into it (possible only without a sandbox) changes
    nothing and is flagged. Raises `UsageError` for unknown tasks, an agent's name that stood for another command in
    ``out``, or a folder that another run holds.
    """
    chosen = _chosen(tier, tasks)
    given = {task.id: (task.instance(), task.settings(settings)) for task in chosen}
    items = [
        _Item(agent, task, given[task.id][0], number, _folder(out, agent.name, task.id, number))
        for number in range(1, attempts + 1)
        for agent in agents
        for task in chosen
    ]
    with RunFolder(out):
        _write_run(out, tier, agents, chosen)
        for _, task_settings in given.values():
            sandbox_named(task_settings.sandbox, require=task_settings.require_sandbox)
        runner = _Runner(tier, surroundings, {name: chosen for name, (_, chosen) in given.items()})
        kept(sum(runner.there(item, runner.settings[item.task.id]) is not None for item in items))
        done: list[tuple[Attempt, Verdict]] = []
        try:
            with listening(lambda name, _, text: step(name, text)) as runner.listener:
                for _, (attempt, verdict) in in_pool(runner.one, items, workers=workers, executor=executor):
                    done.append((attempt, verdict))
                    finished(attempt, verdict)
        finally:
            _write_predictions(out, done)
    order = {(item.agent.name, item.task.id, item.number): place for place, item in enumerate(items)}
    return sorted(done, key=lambda pair: order[pair[0].agent, pair[0].instance_id, pair[0].number])


def _chosen(tier: Tier, wanted: Sequence[str]) -> list[Task]:
    known = {task.id: task for task in tier.tasks}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(f"{tier.path}: no task {unknown[0]}", hint="`swelive list` names them")
    return [task for task in tier.tasks if not wanted or task.id in wanted]


def _folder(out: Path, agent: str, instance_id: str, number: int) -> Path:
    return out / agent / instance_id / f"attempt-{number}"


def _write_run(out: Path, tier: Tier, agents: Sequence[Agent], tasks: Sequence[Task]) -> None:
    """Write ``run.json``: what a report needs to know of agents and tasks, also when the tier is elsewhere by then."""
    path = out / "run.json"
    try:
        told = json.loads(path.read_bytes()) if path.exists() else {}
    except ValueError:
        told = {}
    known = told.get("agents", {})
    for agent in agents:
        if known.get(agent.name, agent.command) != agent.command:
            raise UsageError(
                f"{out} holds runs of another command under the name {agent.name!r}", hint="choose another name or -o"
            )
        known[agent.name] = agent.command
    rows = told.get("tasks", {})
    for task in tasks:
        rows[task.id] = {"repo": task.repo, "month": task.month, "difficulty": task.difficulty}
    content = {"tool_version": __version__, "tier": tier.path.resolve().name, "agents": known, "tasks": rows}
    write_atomically(path, json_bytes(content))


def _write_predictions(out: Path, done: Sequence[tuple[Attempt, Verdict]]) -> None:
    """Write ``<agent>/predictions.jsonl``, which every grader of the field reads."""
    by_agent: dict[str, list[Attempt]] = {}
    for attempt, _ in done:
        by_agent.setdefault(attempt.agent, []).append(attempt)
    for agent, attempts in by_agent.items():
        lines = []
        for attempt in sorted(attempts, key=lambda one: (one.instance_id, one.number)):
            patch = _read_patch(_folder(out, agent, attempt.instance_id, attempt.number))
            row = {"instance_id": attempt.instance_id, "model_name_or_path": agent, "model_patch": patch}
            lines.append(json.dumps(row, ensure_ascii=True) + "\n")
        write_atomically(out / agent / "predictions.jsonl", "".join(lines).encode("ascii"))


def _read_patch(folder: Path) -> str:
    try:
        return (folder / "patch.diff").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


class _Runner:
    """Runs and grades one attempt at a time; shared by the workers, and picklable for those of other processes."""

    def __init__(
        self,
        tier: Tier,
        surroundings: Surroundings,
        settings: Mapping[str, Settings],
    ) -> None:
        self.tier, self.surroundings, self.settings = tier, surroundings, settings
        self.listener = ""
        self.fingerprint = tier.fingerprint
        self.prompts = {task.id: task.prompt for task in tier.tasks}

    def one(self, item: _Item) -> tuple[Attempt, Verdict]:
        settings = self.settings[item.task.id]
        attempt = self.there(item, settings) or self.attempt(item, settings)
        if isinstance(attempt, Verdict):
            return Attempt(item.agent.name, item.task.id, item.number, ended_by="not_run"), attempt
        prediction = Prediction(
            item.instance.instance_id, _read_patch(item.folder), model=item.agent.name, attempt=item.number
        )
        return attempt, self.verdict(item, prediction, settings)

    def key(self, item: _Item, settings: Settings) -> str:
        depends_on = (
            item.agent.command,
            item.instance.sha256,
            self.prompts[item.task.id],
            self.surroundings,
            settings.sandbox,
        )
        return hashlib.sha256(repr(depends_on).encode("utf-8", "surrogateescape")).hexdigest()[:24]

    def there(self, item: _Item, settings: Settings) -> Attempt | None:
        try:
            found = msgspec.json.decode((item.folder / "attempt.json").read_bytes(), type=Attempt)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        same = found.key == self.key(item, settings) and (item.folder / "patch.diff").is_file()
        return found if same else None

    def attempt(self, item: _Item, settings: Settings) -> Attempt | Verdict:
        """Return the finished attempt, kept in its folder, or the verdict that says why there is none."""
        remove_tree(item.folder)
        item.folder.mkdir(parents=True)
        started_at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

        say = partial(report_step, self.listener, f"{item.agent.name} {item.task.id}", item.number)

        try:
            check = None if settings.controls == "off" else (lambda testbed: trial_of(run_controls(testbed)))
            testbed = open_testbed(item.instance, settings, check=check, progress=say)
            ran = run_agent(item.agent, item.task, testbed, self.surroundings, log=item.folder / "agent.log")
        except UsageError:
            raise
        except Exception as error:  # whatever it is, it must not end the other attempts
            evidence = error.evidence if isinstance(error, SweliveError) else traceback.format_exc()
            reason = Reason("agent_not_run", f"the agent was not run: {error}", evidence=evidence)
            verdict = Verdict(
                item.task.id, status_of(error), reasons=(reason,), model=item.agent.name, attempt=item.number
            )
            write_verdict(item.folder / "verdict.json", verdict)
            return verdict
        (item.folder / "patch.diff").write_bytes(ran.work.patch.encode("utf-8", "surrogateescape"))
        attempt = self.record(item, ran, started_at, self.key(item, settings))
        write_atomically(item.folder / "attempt.json", json_bytes(msgspec.to_builtins(attempt)))
        return attempt

    def record(self, item: _Item, ran: AgentRun, started_at: str, key: str) -> Attempt:
        fingerprint, self.fingerprint = self.fingerprint, self.tier.fingerprint
        flags = [
            flag
            for flag, holds in (
                ("agent_failed", ran.ended_by == "exit" and ran.exit_status != 0),
                ("work_tree_gone", ran.work.gone),
                ("edited_tests", bool(ran.work.edited_tests)),
                ("left_out", bool(ran.work.left_out)),
                ("wrote_into_tier", fingerprint != self.fingerprint),
            )
            if holds
        ]
        return Attempt(
            agent=item.agent.name,
            instance_id=item.task.id,
            number=item.number,
            key=key,
            started_at=started_at,
            ended_by=ran.ended_by,
            exit_status=ran.exit_status,
            duration_s=ran.duration_s,
            peak_rss_mib=ran.peak_rss_mib,
            edited_tests=ran.work.edited_tests,
            left_out=ran.work.left_out,
            flags=tuple(flags),
            cost=ran.cost,
            patch_bytes=len(ran.work.patch.encode("utf-8", "surrogateescape")),
        )

    def verdict(self, item: _Item, prediction: Prediction, settings: Settings) -> Verdict:
        """Return the verdict that is there for the same patch, instance and options, else a fresh one."""
        path = item.folder / "verdict.json"
        try:
            known = read_verdict(path) if path.exists() else None
        except UsageError:
            known = None
        same = known is not None and (known.patch_sha256, known.instance_sha256, known.options_key) == (
            prediction.sha256,
            item.instance.sha256,
            settings.key,
        )
        if known is not None and same and known.status not in UNFINISHED:
            return known

        say = partial(report_step, self.listener, f"{item.agent.name} {item.task.id}", item.number)

        verdict = grade(item.instance, prediction, settings, folder=item.folder, progress=say)
        write_verdict(path, verdict)
        return verdict
