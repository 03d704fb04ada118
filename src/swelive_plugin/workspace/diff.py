"""What an agent changed: the diff of a work tree against base, whatever the agent did to its repository."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.core.paths import is_only_for_tests
from swelive_plugin.errors import PatchError
from swelive_plugin.workspace.git import run_git
from swelive_plugin.workspace.patch import is_compiled, is_dot_git, leaves_tree

__all__ = ["CollectedDiff", "collect_diff"]

_CHUNK = 1 << 20
_MAX_NEW_FILES = 10_000
# What running, testing and installing a Python project leaves behind; base's own .gitignore adds to it.
_RUBBISH = re.compile(
    r"(?:^|/)(?:__pycache__|\.(?:pytest|mypy|ruff|hypothesis|tox|nox|venv|eggs|cache|ipynb_checkpoints)(?:_cache)?"
    r"|node_modules|[^/]*\.(?:egg-info|dist-info)|htmlcov|\.coverage(?:\.[^/]*)?|\.DS_Store|core\.\d+)(?:/|$)"
    r"|\.(?:orig|rej|swp|pyc)$"
)
# The highest of all attributes: contents are compared byte by byte, whatever a .gitattributes in the tree asks for.
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !diff !eol\n"


@dataclass(frozen=True)
class CollectedDiff:
    """An agent's diff, ready to be graded, and what was left out of it: ``path: reason``."""

    patch: str
    left_out: tuple[str, ...] = ()


def collect_diff(
    base: Path, work: Path, *, max_file_mib: float = 10, max_total_mib: float = 50, ignore: bool = True
) -> CollectedDiff:
    """Return the diff from ``base`` to ``work``: changed, new, deleted, renamed and binary files and execute bits.

    Both are folders of files; a ``.git`` in either is passed over, so commits, a rewritten history or hooks of the
    agent change nothing, and nothing of ``work`` is followed or run. Left out are what building and testing leaves
    behind, with ``ignore`` also new files that base's ``.gitignore`` names, and, listed with the reason, what no grade
    accepts or the caps refuse: symbolic links to tests, to folders or out of the tree, compiled code, special and
    unreadable files, files over ``max_file_mib``, and all that comes after ``max_total_mib``. Raises `PatchError` when
    ``work`` is gone.
    """
    if not work.is_dir():
        raise PatchError(f"the work tree {work} is gone", hint="the agent removed it: there is nothing to grade")
    left_out: list[str] = []
    before, after = _files(base, []), _files(work, left_out)
    unreadable = tuple(entry.partition(": ")[0] for entry in left_out)
    gone = [path for path in before if path not in after and not _is_below(path, unreadable)]
    changed = [path for path in after if path in before and _differs(base, work, path, before[path], after[path])]
    new = [path for path in after if path not in before]
    if ignore and new:
        ignored = _ignored(base, new)
        new = [path for path in new if path not in ignored]
    with tempfile.TemporaryDirectory(prefix="swelive-diff-") as name:
        stage = _Stage(Path(name), int(max_file_mib * 2**20), int(max_total_mib * 2**20), left_out)
        for path in gone:
            stage.old(base, path)
        for path in changed:
            if stage.new(work, path, after[path]):
                stage.old(base, path)
        for path in new[:_MAX_NEW_FILES]:
            stage.new(work, path, after[path])
        left_out += [f"{path}: more than {_MAX_NEW_FILES} new files" for path in new[_MAX_NEW_FILES:][:1]]
        return CollectedDiff(stage.diff(), tuple(sorted(left_out)))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(not folder or path.startswith(f"{folder}/") for folder in folders)


def _files(root: Path, left_out: list[str]) -> dict[str, os.stat_result]:
    """Return what could be part of a diff, by relative path in sorted order; folders that can't be read are named."""
    files: dict[str, os.stat_result] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if is_dot_git(entry.name) or _RUBBISH.search(path):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path)
                    else:
                        files[path] = entry.stat(follow_symlinks=False)
        except OSError as error:
            left_out.append(f"{folder}: {error.strerror}")
    return dict(sorted(files.items()))


def _differs(base: Path, work: Path, path: str, old: os.stat_result, new: os.stat_result) -> bool:
    if stat.S_IFMT(old.st_mode) != stat.S_IFMT(new.st_mode):
        return True
    if stat.S_ISLNK(old.st_mode):
        return (base / path).readlink() != (work / path).readlink()
    if not stat.S_ISREG(old.st_mode):
        return False
    if (old.st_size, old.st_mode & 0o100) != (new.st_size, new.st_mode & 0o100):
        return True
    if (old.st_dev, old.st_ino) == (new.st_dev, new.st_ino):
        return False
    try:  # never by time alone: a program can set it
        return any(mine != theirs for mine, theirs in zip(_read(base / path), _read(work / path), strict=False))
    except OSError:
        return True  # staging it names the reason


def _read(path: Path) -> Iterator[bytes]:
    """Yield a regular file in pieces; a symbolic link is not followed and a pipe not waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        while piece := file.read(_CHUNK):
            yield piece


def _ignored(base: Path, paths: list[str]) -> set[str]:
    with tempfile.TemporaryDirectory(prefix="swelive-ignore-") as name:
        git_dir = Path(name) / "git"
        run_git("init", "--quiet", "--bare", "--template=", str(git_dir))
        done = run_git(
            "-c", "core.bare=false", "--work-tree=.", "check-ignore", "-z", "--stdin", "--no-index",
            cwd=base, git_dir=git_dir, input=b"\0".join(map(os.fsencode, paths)), check=False,
        )  # fmt: skip
    return {os.fsdecode(path) for path in done.stdout.split(b"\0") if path}


def _is_plain_link(work: Path, path: str) -> bool:
    """Return whether a symbolic link leads to a file of the tree that is no test; its target is not opened."""
    target = os.path.realpath(work / path)
    inside = os.path.relpath(target, os.path.realpath(work))
    if leaves_tree(path, str((work / path).readlink())) or inside.split("/")[0] == ".." or Path(target).is_dir():
        return False
    return not is_only_for_tests(path) and not is_only_for_tests(inside)


class _Stage:
    """Copies of the files that differ, old and new side by side, for git to compare."""

    def __init__(self, folder: Path, max_file: int, room: int, left_out: list[str]) -> None:
        self.folder = folder
        self.max_file = max_file
        self.room = room
        self.left_out = left_out
        for side in ("old", "new"):
            (folder / side).mkdir()

    def old(self, base: Path, path: str) -> None:
        source, target = base / path, self.folder / "old" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy(source, target, source.lstat().st_mode)

    def new(self, work: Path, path: str, status: os.stat_result) -> bool:
        """Copy a file of the agent's if it may be in the diff; say whether the path is part of it."""
        reason = self.refusal(work, path, status)
        if not reason:
            try:
                self.copy(work / path, self.folder / "new" / path, status.st_mode)
            except OSError as error:
                reason = error.strerror or "can't be read"
                (self.folder / "new" / path).unlink(missing_ok=True)
        if reason:
            self.left_out.append(f"{path}: {reason}")
            return False
        self.room -= status.st_size
        return True

    def refusal(self, work: Path, path: str, status: os.stat_result) -> str:
        if stat.S_ISLNK(status.st_mode):
            return "" if _is_plain_link(work, path) else "a symbolic link to a test, to a folder or out of the tree"
        if not stat.S_ISREG(status.st_mode):
            return "a special file"
        if is_compiled(path):
            return "compiled code"
        if status.st_size > self.max_file:
            return f"{status.st_size / 2**20:.0f} MiB, more than {self.max_file / 2**20:g} MiB"
        if status.st_size > self.room:
            return "the diff is too large already"
        return ""

    def copy(self, source: Path, target: Path, mode: int) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(mode):
            target.symlink_to(source.readlink())
            return
        with target.open("wb") as file:
            for piece in _read(source):
                file.write(piece)
        target.chmod(0o755 if mode & 0o100 else 0o644)

    def diff(self) -> str:
        git_dir = self.folder / "git"
        run_git("init", "--quiet", "--bare", "--template=", str(git_dir))
        (git_dir / "info").mkdir()
        (git_dir / "info" / "attributes").write_text(_ATTRIBUTES)
        old, new = (self.tree(git_dir, side) for side in ("old", "new"))
        done = run_git(
            "diff", "--binary", "--full-index", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv",
            old, new, git_dir=git_dir,
        )  # fmt: skip
        return done.stdout.decode("utf-8", "surrogateescape")

    def tree(self, git_dir: Path, side: str) -> str:
        env = {"GIT_INDEX_FILE": str(self.folder / f"{side}.index")}
        options = ("-c", "core.bare=false", "--work-tree=.")
        run_git(*options, "add", "--all", "--force", ".", cwd=self.folder / side, git_dir=git_dir, env=env)
        return run_git("write-tree", git_dir=git_dir, env=env).stdout.decode("ascii").strip()
