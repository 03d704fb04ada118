"""A rendered task: what its files hold, what its scripts do, and what a work tree must not hold."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from swelive_plugin.errors import UsageError
from swelive_plugin.grading.settings import Settings
from swelive_plugin.tier.layout import Tier, read_task, read_tier
from swelive_plugin.tier.worktree import collect_from, set_up
from tests.grading.conftest import GOLD
from tests.host import Project, run_git_for_tests, write_files
from tests.tier.conftest import STATEMENT, gold_commit

ROOT = Path(__file__).parents[2]


def script(path: Path, *args: object, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run one of a task's scripts as a person would, graded in this interpreter."""
    python = tmp_path / "python"
    code = (
        "import sys; from tests.host import host_environments\n"
        "from swelive_plugin.cli import main\n"
        "with host_environments(): main(sys.argv[3:])"
    )
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    python.chmod(0o755)
    env = {**os.environ, "SWELIVE_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
    env.pop("SWELIVE_CACHE_DIR", None)
    return subprocess.run([path, *map(str, args)], env=env, capture_output=True, text=True, check=False)


def test_setup_and_check_judge_a_work_tree_also_after_the_tier_was_moved(
    tier: Tier, project: Project, tmp_path: Path
) -> None:
    moved = tmp_path / "some where" / "else"
    moved.parent.mkdir()
    tier.path.rename(moved)
    task, work = moved / "tasks" / "o__proj-1", tmp_path / "work tree"
    made = script(task / "setup.sh", work, tmp_path=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (work / "calc.py").read_text().startswith("def add(a, b):\n    return a - b\n")

    failed = script(task / "check.sh", work, tmp_path=tmp_path)
    assert (failed.returncode, failed.stdout.splitlines()[0]) == (1, "FAIL  o__proj-1"), failed.stderr
    assert "the prediction is empty" in failed.stdout

    write_files(work, {**GOLD, "tests/test_calc.py": "def test_name():\n    assert True\n"})
    passed = script(task / "check.sh", work, tmp_path=tmp_path)
    assert (passed.returncode, passed.stdout.splitlines()[0]) == (0, "PASS  o__proj-1"), passed.stdout
    assert "edited test, not counted: tests/test_calc.py" in passed.stdout

    shutil.rmtree(moved / "oracle")
    lost = script(task / "check.sh", work, tmp_path=tmp_path)
    assert lost.returncode == 2
    assert "the folder oracle/ must lie beside tasks/" in lost.stderr


def test_a_work_tree_holds_nothing_that_came_after_base(
    tier: Tier, project: Project, settings: Settings, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    set_up(tier.tasks[0], work, settings)

    def git(*args: str) -> str:
        return run_git_for_tests(*args, cwd=work).strip()

    gold = subprocess.run(["git", "cat-file", "-e", gold_commit(project)], cwd=work, capture_output=True, check=False)
    assert gold.returncode != 0
    assert git("log", "--all", "--reflog", "--format=%H") == project.instance.base_commit
    assert (git("tag"), git("remote"), git("reflog")) == ("", "", "")
    assert git("status", "--porcelain") == ""
    commits = [
        line for line in git("cat-file", "--batch-check", "--batch-all-objects").splitlines() if " commit " in line
    ]
    assert len(commits) == 1
    assert not (work / ".git" / "objects" / "info" / "alternates").exists()


def test_nothing_of_the_answer_key_is_under_tasks(tier: Tier, project: Project) -> None:
    seen = "\n".join(path.read_text() for path in (tier.path / "tasks").rglob("*") if path.is_file())
    secrets = ["test_add", "test_calc", "return a + b", "FAIL_TO_PASS", "diff --git", gold_commit(project)]
    assert [secret for secret in secrets if secret in seen] == []
    assert {path.name for path in (tier.path / "tasks" / "o__proj-1").iterdir()} == {
        "prompt.txt",
        "setup.sh",
        "check.sh",
        "task.toml",
    }
    assert stat.S_IMODE((tier.path / "tasks" / "o__proj-1" / "setup.sh").stat().st_mode) == 0o755
    assert (tier.path / "oracle" / "o__proj-1" / "gold.diff").read_text() == project.instance.patch


def test_the_prompt_holds_the_issue_as_it_is_and_the_ground_rules(tier: Tier) -> None:
    task = tier.tasks[0]
    assert task.issue == STATEMENT
    assert "not the tests" in task.prompt
    assert "no network" in task.prompt


def test_a_task_is_graded_as_recorded_unless_somebody_says_otherwise(
    tier: Tier, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = read_task(tier.path / "tasks" / "o__proj-1")
    monkeypatch.delenv("SWELIVE_CACHE_DIR")
    recorded = task.settings()
    assert (recorded.repo_url, recorded.cache, recorded.timeout_s) == (settings.repo_url, settings.cache, 60.0)
    monkeypatch.setenv("SWELIVE_CACHE_DIR", str(tmp_path / "mine"))
    monkeypatch.setenv("SWELIVE_REPO_URL", "file:///elsewhere/{name}")
    assert task.settings().cache == tmp_path / "mine"
    assert task.settings().repo_url == "file:///elsewhere/{name}"
    assert task.settings(Settings(timeout_s=5.0)).timeout_s == 5.0


def test_a_folder_in_use_is_not_overwritten(tier: Tier, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.txt").write_text("kept")
    with pytest.raises(UsageError, match="is there already"):
        set_up(tier.tasks[0], tmp_path / "work", settings)


def test_a_folder_named_from_where_one_stands_is_set_up(
    tier: Tier, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect: a relative folder, as the how-to has it, left half a work tree."""
    monkeypatch.chdir(tmp_path)
    set_up(tier.tasks[0], Path("work"), settings)
    assert (tmp_path / "work" / "calc.py").exists()
    assert run_git_for_tests("status", "--porcelain", cwd=tmp_path / "work") == ""


def test_a_folder_that_is_no_work_tree_is_not_graded(tier: Tier, settings: Settings, tmp_path: Path) -> None:
    """Defect: any folder was graded, and failed."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="is no work tree of o__proj-1"):
        collect_from(tier.tasks[0], tmp_path / "other", settings)


def test_a_broken_tier_is_told_in_one_line(tier: Tier) -> None:
    with pytest.raises(UsageError, match="no tier here"):
        read_tier(tier.path / "tasks")
    (tier.path / "tasks" / "o__proj-1" / "task.toml").write_text("id = ")
    with pytest.raises(UsageError, match=r"task\.toml can't be read"):
        read_tier(tier.path)
