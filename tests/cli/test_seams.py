"""One plugin of somebody else per seam, used through the command line (readers: tests/test_extensions.py)."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.policy import SWELIVE, Policy
from swelive_plugin.environments import EnvironmentProvider
from swelive_plugin.extensions import plugin_manager
from swelive_plugin.grading.settings import Settings
from swelive_plugin.hookspecs import hookimpl
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.sandbox.plain import Plain
from tests.cli.test_cli import swelive
from tests.host import HostPlugin, HostProvider, Project


class Padded(Plain):
    """A sandbox of somebody else."""

    name = "padded"


def register_host() -> None:
    """Let a worker process know what the tests register in their own."""
    plugin_manager().register(HostPlugin())


class Theirs:
    """One of everything but a reader."""

    @hookimpl
    def swelive_sandboxes(self, require: bool) -> Mapping[str, Callable[[], Sandbox]]:
        return {"padded": Padded}

    @hookimpl
    def swelive_environments(self, settings: Settings) -> Mapping[str, Callable[[], EnvironmentProvider]]:
        return {"here": lambda: HostProvider(settings.cache)}

    @hookimpl
    def swelive_executors(self, workers: int) -> Mapping[str, Callable[[], Executor]]:
        spawn = multiprocessing.get_context("spawn")
        return {"processes": lambda: ProcessPoolExecutor(workers, mp_context=spawn, initializer=register_host)}

    @hookimpl
    def swelive_policies(self) -> Sequence[Policy]:
        return [replace(SWELIVE, name="theirs")]


@pytest.fixture(autouse=True)
def _theirs() -> Iterator[None]:
    plugin = Theirs()
    plugin_manager().register(plugin)
    yield
    plugin_manager().unregister(plugin)


def grade(project: Project, out: Path, *args: object) -> dict[str, Any]:
    """Return the verdict that ``swelive grade -p gold`` writes."""
    given = ("-d", project.dataset, "--repo-url", project.repo_url, "--cache", out.parent / "cache")
    assert swelive("grade", *given, "-p", "gold", "-o", out, *args) == 0
    verdict: dict[str, Any] = json.loads((out / "o__proj-1" / "verdict.json").read_bytes())
    return verdict


def test_a_plugins_sandbox_is_chosen_by_its_name(project: Project, tmp_path: Path) -> None:
    verdict = grade(project, tmp_path / "run", "--sandbox", "padded")
    assert (verdict["status"], verdict["integrity"]["sandbox"]) == ("resolved", "padded")


def test_a_plugins_environments_are_chosen_by_their_name(project: Project, tmp_path: Path) -> None:
    """Defect: no option and no setting named a provider, so that nothing could choose one."""
    verdict = grade(project, tmp_path / "run", "--environment", "here")
    assert (verdict["status"], verdict["environment"][:5]) == ("resolved", "host-")


def test_a_plugins_policy_is_chosen_by_its_name(project: Project, tmp_path: Path) -> None:
    verdict = grade(project, tmp_path / "run", "--policy", "theirs")
    assert (verdict["status"], verdict["policy"]) == ("resolved", "theirs")


def test_a_pool_of_processes_grades(project: Project, tmp_path: Path) -> None:
    """Defect: the work was a closure, which no process pool can take."""
    verdict = grade(project, tmp_path / "run", "--executor", "processes", "-w", "2")
    assert (verdict["status"], verdict["reward"]) == ("resolved", 1.0)


def test_a_pool_of_processes_validates(project: Project, tmp_path: Path) -> None:
    given = ("-d", project.dataset, "--repo-url", project.repo_url, "--cache", tmp_path / "cache")
    out = tmp_path / "proven"
    assert swelive("validate", *given, "-o", out, "--executor", "processes", "--runs", "1", "--base-runs", "1") == 0
    rows = [json.loads(line) for line in (out / "validated.jsonl").read_text().splitlines()]
    assert [row["instance_id"] for row in rows] == ["o__proj-1"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--sandbox", "no sandbox is called 'nobody'"),
        ("--environment", "no environment provider is called 'nobody'"),
        ("--executor", "no executor is called 'nobody'"),
        ("--policy", "no policy is called 'nobody'"),
    ],
)
def test_a_name_that_no_plugin_has_is_one_clear_line(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, message: str
) -> None:
    assert swelive("grade", "-d", project.dataset, "-p", "gold", "-o", tmp_path / "run", option, "nobody") == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_a_pool_of_processes_runs_agents(project: Project, tmp_path: Path) -> None:
    given = ("--repo-url", project.repo_url, "--cache", tmp_path / "cache")
    out = tmp_path / "proven"
    row = {**json.loads(project.dataset.read_bytes()), "problem_statement": "add() subtracts."}
    project.dataset.write_text(json.dumps(row) + "\n")
    assert swelive("validate", "-d", project.dataset, *given, "-o", out, "--runs", "1", "--base-runs", "1") == 0
    assert swelive("gen", "-d", out / "validated.jsonl", "-o", tmp_path / "tier", *given) == 0
    agents = ("--agent", "gold", "--agent", "noop")
    assert swelive("run", tmp_path / "tier", *agents, "-o", tmp_path / "run", *given, "--executor", "processes") == 0
    statuses = {
        agent: json.loads((tmp_path / "run" / agent / "o__proj-1" / "attempt-1" / "verdict.json").read_bytes())[
            "status"
        ]
        for agent in ("gold", "noop")
    }
    assert statuses == {"gold": "resolved", "noop": "empty_patch"}
