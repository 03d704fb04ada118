"""The tree of one session, and the ``.git`` of projects whose tests look at their own repository."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.environments import Environment
from swelive_plugin.grading import tree as room
from swelive_plugin.grading.tree import history_of
from swelive_plugin.workspace.checkout import export_tree, link_tree


def git(*args: str, folder: Path) -> str:
    name = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A repository of two commits on one branch, with a tag on each."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git("init", "-q", "-b", "main", folder=folder)
    for number in ("1", "2"):
        (folder / "file").write_text(number)
        git("add", "file", folder=folder)
        git("commit", "-qm", f"commit {number}", folder=folder)
        git("tag", f"v{number}", folder=folder)
    return folder / ".git"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    (tmp_path / "kept").mkdir()
    return Environment("key", tmp_path / "kept", "python", (3, 11, 0), (), tmp_path / "kept", ())


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commits whose history was packed."""
    commits: list[str] = []

    def counted(mirror: Path, commit: str, dest: Path, **how: Any) -> object:
        commits.append(commit)
        return export_tree(mirror, commit, dest, **how)

    monkeypatch.setattr(room, "export_tree", counted)
    return commits


def test_history_is_packed_once_for_all_grades(
    mirror: Path, environment: Environment, packed: list[str], tmp_path: Path
) -> None:
    """Each grade of a project whose tests need git repacked the whole history: seconds where links take none."""
    base = git("rev-parse", "v1", folder=mirror)
    for number in range(3):
        tree = tmp_path / f"tree{number}"
        tree.mkdir()
        (tree / "file").write_text("1")
        link_tree(history_of(environment, mirror, base), tree / ".git")
        assert git("log", "--all", "--format=%s", folder=tree) == "commit 1"
        assert git("status", "--porcelain", folder=tree) == ""
        assert git("tag", folder=tree) == "v1"
    assert packed == [base]


def test_history_of_another_commit_is_another(mirror: Path, environment: Environment, packed: list[str]) -> None:
    """Two commits with the same tree share their environment, not their history."""
    first, second = (git("rev-parse", tag, folder=mirror) for tag in ("v1", "v2"))
    assert history_of(environment, mirror, first) != history_of(environment, mirror, second)
    assert packed == [first, second]


def test_half_a_history_of_a_killed_grade_is_made_again(mirror: Path, environment: Environment, tmp_path: Path) -> None:
    (environment.folder / "history.part" / ".git").mkdir(parents=True)
    (environment.folder / "history.part" / "file").write_text("half")
    base = git("rev-parse", "v2", folder=mirror)
    link_tree(history_of(environment, mirror, base), tmp_path / "tree" / ".git")
    assert git("log", "--format=%s", folder=tmp_path / "tree").split("\n") == ["commit 2", "commit 1"]
    assert not (environment.folder / "history.part").exists()


def test_parallel_grades_pack_it_once(mirror: Path, environment: Environment, packed: list[str]) -> None:
    base, found = git("rev-parse", "v2", folder=mirror), []
    threads = [threading.Thread(target=lambda: found.append(history_of(environment, mirror, base))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, packed) == ([environment.folder / f"history-{base}"] * 4, [base])
