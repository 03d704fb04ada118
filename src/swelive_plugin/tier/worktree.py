"""Work trees for agents: set up, and what an agent made of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.core.paths import is_test_path
from swelive_plugin.errors import PatchError, UsageError
from swelive_plugin.grading.settings import Progress, Settings, scratch
from swelive_plugin.grading.testbed import mirror_of
from swelive_plugin.tier.layout import Task
from swelive_plugin.workspace.checkout import export_tree, remove_tree
from swelive_plugin.workspace.diff import collect_diff
from swelive_plugin.workspace.patch import touched_paths

__all__ = ["Work", "collect_work", "set_up"]


@dataclass(frozen=True)
class Work:
    """What an agent left: its diff, what no diff can hold (``path: reason``), and the tests among its changes."""

    patch: str
    left_out: tuple[str, ...] = ()
    edited_tests: tuple[str, ...] = ()
    gone: bool = False


def set_up(task: Task, folder: Path, settings: Settings, progress: Progress | None = None) -> None:
    """Make ``folder`` a checkout of the task's base commit; its repository holds no object, ref or tag from later.

    Raises `UsageError` if the folder is there and not empty, `MirrorError`, `InfraError`.
    """
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already", hint="name a new folder, or an empty one")
    folder = folder.absolute()  # git is told of it from another folder
    new = not folder.exists()
    try:
        export_tree(mirror_of(task.repo, task.base_commit, settings, progress), task.base_commit, folder, with_git=True)
    except BaseException:
        if new:  # half a work tree would be refused next time, and graded as a whole one
            remove_tree(folder)
        raise


def collect_from(task: Task, folder: Path, settings: Settings, progress: Progress | None = None) -> Work:
    """Return what was changed in a work tree of this task since `set_up`. Raises `UsageError` if it is none."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="name the work tree that setup.sh made")
    mirror = mirror_of(task.repo, task.base_commit, settings, progress)
    with scratch(settings.cache) as work:
        export_tree(mirror, task.base_commit, work / "base")
        if not {path.name for path in (work / "base").iterdir()} & {path.name for path in folder.iterdir()}:
            raise UsageError(f"{folder} is no work tree of {task.id}", hint="name the work tree that setup.sh made")
        return collect_work(work / "base", folder)


def collect_work(base: Path, folder: Path) -> Work:
    """Return what differs between ``base`` and ``folder``, whatever was done to the latter."""
    if folder.is_symlink() or not folder.is_dir():
        return Work("", gone=True)
    _open_up(folder)
    try:
        collected = collect_diff(base, folder)
    except PatchError:
        return Work("", gone=True)
    return Work(collected.patch, collected.left_out, edited_tests(collected.patch))


def edited_tests(patch: str) -> tuple[str, ...]:
    """Return the tests that a patch changes, adds or deletes."""
    return tuple(sorted({path for change in touched_paths(patch) for path in change.paths if is_test_path(path)}))


def _open_up(folder: Path) -> None:
    """Make folders and files that their owner took all rights from readable again."""
    pending = [folder]
    while pending:
        here = pending.pop()
        for path in _children(here):
            if path.is_symlink():
                continue
            try:
                mode = path.lstat().st_mode
                if path.is_dir():
                    if mode & 0o700 != 0o700:
                        path.chmod(mode | 0o700)
                    pending.append(path)
                elif path.is_file() and not mode & 0o400:
                    path.chmod(mode | 0o400)
            except OSError:  # another user's: the diff names it
                continue


def _children(folder: Path) -> Sequence[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
