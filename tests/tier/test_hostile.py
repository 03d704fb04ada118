"""Agents that misbehave: what each of them leaves is judged by its files, and nobody else is hurt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.grading.settings import Settings
from swelive_plugin.tier.agents import Agent, Surroundings
from swelive_plugin.tier.attempt import used_bytes
from swelive_plugin.tier.generate import Selection, generate
from swelive_plugin.tier.layout import Tier
from swelive_plugin.tier.run import Attempt, run_agents
from tests.host import Project, host_environments

FIX = "sed -i 's/a - b/a + b/' calc.py"
COMMANDS = {
    "honest": f'{FIX}; echo \'{{"usd": 0.25, "tokens": 10}}\' > {{out_dir}}/cost.json; cp {{prompt_file}} /tmp',
    "fails": f"{FIX}; exit 7",
    "hangs": f"{FIX}; exec sleep 1000",
    "forks": "for n in $(seq 400); do sleep 1000 & done; wait",
    "fills-the-disk": "for n in $(seq 400); do head -c 8M /dev/zero > big$n; done; sleep 1000",
    "one-huge-file": f"{FIX}; head -c 200M /dev/zero > huge.bin; true",
    "deletes-the-tree": "rm -rf {workdir}/* {workdir}/.git {workdir}; true",
    "commits": f"{FIX}; git -c user.name=a -c user.email=a@b commit -qam done; git tag -f v9; git gc -q --prune=now",
    "rewrites-history": (
        f"{FIX}; git checkout -q --orphan other; git -c user.name=a -c user.email=a@b commit -qam all;"
        " git branch -q -D main; git reflog expire --all --expire=now;"
        " echo '[core]\n\tfsmonitor = touch /tmp/x' >> .git/config"
    ),
    "locks-its-files": f"{FIX}; mkdir locked; echo 1 > locked/x.py; chmod 000 locked calc.py; chmod 500 tests .",
    "edits-tests": f"{FIX}; echo 'def test_name(): pass' > tests/test_calc.py; echo 'x = 1' > conftest.py",
    "edits-only-tests": "echo 'def test_add(): pass' > tests/test_calc.py",
    "special-files": f"{FIX}; mkfifo {{out_dir}}/cost.json pipe; ln -s /etc/passwd link; ln -s / root",
    "strange-names": f"{FIX}; mkdir -p 'a b'; printf x > 'a b/ü\"\t.txt'; printf '\\377' > latin.txt",
    "leaves-rubbish": f"{FIX}; python -m pytest -q tests; mkdir x.egg-info; touch x.egg-info/PKG-INFO",
    "cost-in-the-tree": f"{FIX}; echo '{{\"usd\": 1}}' > cost.json",
}


@dataclass(frozen=True)
class Done:
    attempt: Attempt
    verdict: Verdict
    folder: Path

    @property
    def patch(self) -> str:
        return (self.folder / "patch.diff").read_text("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def done(sandboxed: None, project: Project, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """Every agent above, run once into one folder, two at a time."""
    folder = tmp_path_factory.mktemp("hostile")
    settings = project.settings(cache, timeout_s=60.0, sandbox="bwrap", processes=128)
    with host_environments():
        tier = generate([project.instance], settings, Selection(), out=folder / "tier", prove=False).tier
        before = tier.fingerprint
        found = run_agents(
            tier,
            [Agent(name, command) for name, command in COMMANDS.items()],
            Surroundings({}, timeout_s=15.0, memory_mib=2048, processes=128, disk_mib=128),
            settings,
            out=folder / "run",
            workers=2,
        )
    assert tier.fingerprint == before
    assert not list((cache / "work").iterdir())  # whatever an agent left there was taken away
    return {
        attempt.agent: Done(attempt, verdict, folder / "run" / attempt.agent / "o__proj-1" / "attempt-1")
        for attempt, verdict in found
    }


@pytest.mark.parametrize(
    ("agent", "ended_by", "status"),
    [
        ("honest", "exit", Status.RESOLVED),
        ("fails", "exit", Status.RESOLVED),
        ("hangs", "wall_clock", Status.RESOLVED),
        ("forks", "processes", Status.EMPTY_PATCH),
        ("fills-the-disk", "disk", None),
        ("one-huge-file", "exit", Status.RESOLVED),
        ("deletes-the-tree", "exit", Status.UNRESOLVED),
        ("commits", "exit", Status.RESOLVED),
        ("rewrites-history", "exit", Status.RESOLVED),
        ("locks-its-files", "exit", Status.RESOLVED),
        ("edits-tests", "exit", Status.RESOLVED),
        ("edits-only-tests", "exit", Status.UNRESOLVED),
        ("special-files", "exit", Status.RESOLVED),
        ("strange-names", "exit", Status.RESOLVED),
        ("leaves-rubbish", "exit", Status.RESOLVED),
        ("cost-in-the-tree", "exit", Status.RESOLVED),
    ],
)
def test_how_it_ended_and_how_it_was_judged(
    done: dict[str, Done], agent: str, ended_by: str, status: Status | None
) -> None:
    attempt, verdict = done[agent].attempt, done[agent].verdict
    assert attempt.ended_by == ended_by
    assert status is None or verdict.status is status, verdict.reasons
    assert verdict.status is not Status.ERROR


def test_the_exit_status_and_the_log_are_kept(done: dict[str, Done]) -> None:
    assert done["fails"].attempt.exit_status == 7
    assert done["hangs"].attempt.duration_s >= 15
    assert "1 passed" in (done["leaves-rubbish"].folder / "agent.log").read_text()


@pytest.mark.parametrize(
    "agent", ["honest", "commits", "rewrites-history", "leaves-rubbish", "cost-in-the-tree", "hangs"]
)
def test_the_diff_is_the_fix_and_nothing_else(done: dict[str, Done], project: Project, agent: str) -> None:
    changed = [line for line in done[agent].patch.splitlines() if line.startswith(("+", "-"))]
    assert changed == ["--- a/calc.py", "+++ b/calc.py", "-    return a - b", "+    return a + b"]


def test_edited_tests_are_named_and_flagged(done: dict[str, Done]) -> None:
    attempt = done["edits-tests"].attempt
    assert (attempt.edited_tests, attempt.flags) == (("conftest.py", "tests/test_calc.py"), ("edited_tests",))
    assert done["honest"].attempt.flags == ()


def test_what_no_diff_can_hold_is_named(done: dict[str, Done]) -> None:
    assert any(told.startswith("huge.bin") for told in done["one-huge-file"].attempt.left_out)
    assert done["one-huge-file"].attempt.flags == ("left_out",)
    assert {told.partition(":")[0] for told in done["special-files"].attempt.left_out} == {"link", "pipe", "root"}


def test_files_that_nobody_may_read_are_read_all_the_same(done: dict[str, Done]) -> None:
    assert "+++ b/locked/x.py" in done["locks-its-files"].patch
    assert "deleted file" not in done["locks-its-files"].patch


def test_the_cost_is_taken_from_either_place_and_a_pipe_is_none(done: dict[str, Done]) -> None:
    assert done["honest"].attempt.cost == {"usd": 0.25, "tokens": 10}
    assert done["cost-in-the-tree"].attempt.cost == {"usd": 1}
    assert done["special-files"].attempt.cost is None


def test_empty_files_cost_an_entry_each(tmp_path: Path) -> None:
    """A million empty files hold no byte and fill a disk all the same."""
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert used_bytes(tmp_path) == 100 * 4096


def test_without_a_sandbox_writing_into_the_tier_is_flagged_and_changes_no_verdict(
    tier: Tier, settings: Settings, tmp_path: Path
) -> None:
    key = tier.tasks[0].oracle / "instance.json"
    agents = [Agent("cheats", f"echo '{{}}' > {key}; cd {{workdir}}; cd ..; rm -rf {{workdir}}"), Agent("gold")]
    free = Settings(repo_url=settings.repo_url, cache=settings.cache, timeout_s=60.0, sandbox="none")
    found = run_agents(tier, agents, Surroundings({}, timeout_s=20.0), free, out=tmp_path / "run")
    by_agent = {attempt.agent: (attempt, verdict) for attempt, verdict in found}
    assert by_agent["cheats"][0].flags == ("work_tree_gone", "wrote_into_tier")
    assert by_agent["cheats"][1].status is Status.EMPTY_PATCH
    assert (by_agent["gold"][0].flags, by_agent["gold"][1].status) == ((), Status.RESOLVED)
