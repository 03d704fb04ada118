"""Runs of agents: kept, resumed, graded once, refused where they would mix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.settings import Settings
from swelive_plugin.tier.agents import Agent, Surroundings, agents_of
from swelive_plugin.tier.layout import Tier
from swelive_plugin.tier.run import Attempt, run_agents

PLAIN = Surroundings({}, timeout_s=30.0)
FIX = "sed -i 's/a - b/a + b/' calc.py"


def run(tier: Tier, out: Path, *agents: Agent, settings: Settings, **more: Any) -> list[tuple[Attempt, Verdict]]:
    return run_agents(tier, agents, more.pop("surroundings", PLAIN), settings, out=out, **more)


def test_gold_resolves_and_noop_does_not(tier: Tier, settings: Settings, tmp_path: Path) -> None:
    done = run(tier, tmp_path / "run", *agents_of(["gold", "noop"]), settings=settings, attempts=2, workers=2)
    assert [(attempt.agent, attempt.number, verdict.status) for attempt, verdict in done] == [
        ("gold", 1, Status.RESOLVED),
        ("noop", 1, Status.EMPTY_PATCH),
        ("gold", 2, Status.RESOLVED),
        ("noop", 2, Status.EMPTY_PATCH),
    ]
    lines = (tmp_path / "run" / "gold" / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["model_patch"].count("+    return a + b") for line in lines] == [1, 1]


def test_what_is_finished_is_kept_and_an_ungraded_patch_is_graded(
    tier: Tier, settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    agent = Agent(
        "fixer", f"{FIX}; date +%N > {{out_dir}}/when; date +%N >> calc.py; sed -i 's/^\\([0-9]*\\)$/# \\1/' calc.py"
    )
    (first,) = run(tier, out, agent, settings=settings)
    folder = out / "fixer" / "o__proj-1" / "attempt-1"
    patch = (folder / "patch.diff").read_bytes()
    (folder / "verdict.json").unlink()
    (again,) = run(tier, out, agent, settings=settings)
    assert (folder / "patch.diff").read_bytes() == patch  # the agent did not run again
    assert (first[1].status, again[1].status) == (Status.RESOLVED, Status.RESOLVED)
    run(tier, out, agent, settings=settings, surroundings=Surroundings({"A": "1"}, timeout_s=30.0))
    assert (folder / "patch.diff").read_bytes() != patch


def test_a_name_stands_for_one_command(tier: Tier, settings: Settings, tmp_path: Path) -> None:
    run(tier, tmp_path / "run", Agent("a", "true"), settings=settings)
    with pytest.raises(UsageError, match="another command under the name 'a'"):
        run(tier, tmp_path / "run", Agent("a", "false"), settings=settings)
    run(tier, tmp_path / "run", Agent("b", "true"), settings=settings)
    assert set(json.loads((tmp_path / "run" / "run.json").read_text())["agents"]) == {"a", "b"}


def test_two_runs_into_one_folder_and_unknown_tasks_are_refused(tier: Tier, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / ".lock"), pytest.raises(UsageError, match="another run is writing"):
        run(tier, tmp_path / "run", Agent("noop"), settings=settings)
    with pytest.raises(UsageError, match="no task o__proj-2"):
        run(tier, tmp_path / "run", Agent("noop"), settings=settings, tasks=["o__proj-2"])


def test_an_agent_sees_its_task_and_nothing_of_the_tier(
    sandboxed: None, tier: Tier, settings: Settings, tmp_path: Path
) -> None:
    """In the sandbox: the work tree, the prompt, the task's interpreter, the variables it was given; no network."""
    secret = tier.tasks[0].oracle / "gold.diff"
    command = (
        f"cat {secret} {tier.path}/tier.toml; ls /testbed; head -1 {{prompt_file}}; echo $TOKEN; pwd;"
        " python -c 'import sys, pytest; print(sys.executable)';"
        " (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1; cat /proc/net/dev | wc -l; git log --format=%s"
    )
    surroundings = Surroundings({"TOKEN": "t-1"}, timeout_s=30.0)
    run(tier, tmp_path / "run", Agent("looks", command), settings=settings, surroundings=surroundings)
    log = (tmp_path / "run" / "looks" / "o__proj-1" / "attempt-1" / "agent.log").read_text()
    assert log.count("No such file or directory") >= 2
    assert "calc.py\ntests\nYou are in a checkout of o/proj." in log
    assert f"t-1\n/testbed\n{sys.executable}" in log
    assert log.rstrip().endswith("3\nbase")  # two lines of heading and the loopback device; one commit


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["mine"], "has no command"),
        (["gold=x"], "taken by a built-in agent"),
        (["a/b=x"], "can't name a folder"),
        (["..=x"], "can't name a folder"),
        (["a="], "has an empty command"),
        (["a=x", "a=y"], "is given twice"),
    ],
)
def test_a_mistake_in_an_agent_is_told(given: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        agents_of(given)


def test_places_are_quoted_and_other_braces_are_left_alone() -> None:
    agent = Agent("a", "x {workdir} '{json: {}}' ${HOME} {prompt_file}")
    places = {"workdir": "/a b", "prompt_file": "/p", "out_dir": "/o"}
    assert agent.shell(places) == "x '/a b' '{json: {}}' ${HOME} /p"


def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_files(tier: Tier, tmp_path: Path) -> None:
    code = (
        "import sys; from tests.host import host_environments\n"
        "from swelive_plugin.cli import main\n"
        "with host_environments(): main(sys.argv[1:])"
    )
    agents = ["--agent", "gold", "--agent", f"slow={FIX}; sleep 2", "--agent", "noop"]

    def start(out: Path) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", code, "run", str(tier.path), *agents, "-o", str(out)]
        env = {key: value for key, value in os.environ.items() if key != "SWELIVE_CACHE_DIR"}
        quiet = subprocess.DEVNULL
        root = Path(__file__).parents[2]
        return subprocess.Popen(argv, cwd=root, env=env, stdout=quiet, stderr=quiet, start_new_session=True)

    out = tmp_path / "killed"
    with start(out) as process:
        until = time.monotonic() + 120
        while not (out / "slow" / "o__proj-1" / "attempt-1").exists() and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    kept = (out / "gold" / "o__proj-1" / "attempt-1" / "attempt.json").read_bytes()
    for folder in (out, tmp_path / "whole"):
        with start(folder) as process:
            assert process.wait(180) == 0
    assert (out / "gold" / "o__proj-1" / "attempt-1" / "attempt.json").read_bytes() == kept
    assert names(out) == names(tmp_path / "whole")
    for agent in ("gold", "slow", "noop"):
        one, other = (folder / agent / "predictions.jsonl" for folder in (out, tmp_path / "whole"))
        assert one.read_bytes() == other.read_bytes()
        told = [
            json.loads((f / agent / "o__proj-1" / "attempt-1" / "verdict.json").read_text())
            for f in (out, tmp_path / "whole")
        ]
        assert told[0]["status"] == told[1]["status"]


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
