"""Small repositories and trees for the tests of this room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from swelive_plugin.workspace.git import run_git

Content = str | bytes | None


class Repository:
    """A git repository that a test fills commit by commit; times are fixed, one hour apart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hour = 0
        run_git("init", "--quiet", "--initial-branch=main", str(path))

    def git(self, *args: str) -> str:
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in self.person().items()}
        return run_git(*args, cwd=self.path, env=who).stdout.decode().strip()

    def person(self) -> dict[str, str]:
        return {"NAME": "A", "EMAIL": "a@example.org", "DATE": f"2024-01-01T{self.hour:02}:00:00Z"}

    def commit(self, files: Mapping[str, Content], message: str = "change") -> str:
        self.hour += 1
        write(self.path, files)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


def write(root: Path, files: Mapping[str, Content]) -> Path:
    """Write the files (``None`` deletes) below ``root`` and return it."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def read(root: Path) -> dict[str, bytes]:
    """Return every file below ``root``; a symbolic link reads as ``-> target``."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in (*names, *folders):
            path = Path(folder, name)
            if path.is_dir() and not path.is_symlink():
                continue
            content = f"-> {path.readlink()}".encode() if path.is_symlink() else path.read_bytes()
            found[path.relative_to(root).as_posix()] = content
    return found


def diff_of(folder: Path, old: Mapping[str, Content], new: Mapping[str, Content]) -> str:
    """Return git's own diff between two trees made of these files."""
    trees: list[str] = []
    for files in (old, new):
        work = folder / f"side{len(trees)}"
        work.mkdir(parents=True)
        write(work, files)
        run_git("init", "--quiet", "--bare", str(folder / "git"))
        index = {"GIT_INDEX_FILE": str(folder / f"index{len(trees)}"), "GIT_WORK_TREE": str(work)}
        run_git("-c", "core.bare=false", "add", "--all", "--force", git_dir=folder / "git", cwd=work, env=index)
        trees.append(run_git("write-tree", git_dir=folder / "git", env=index).stdout.decode().strip())
    done = run_git("diff", "--binary", "--full-index", "-M", *trees, git_dir=folder / "git")
    return done.stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "origin")


def plain_git(*args: str, cwd: Path) -> str:
    """Return what the git on PATH says, without our hardening: how a person would look at a result."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *args], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout.strip()
