"""The tree of one session: a private view of the prepared tree with a prediction and the hidden tests in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from filelock import FileLock

from swelive_plugin.environments import Environment
from swelive_plugin.workspace.checkout import export_tree, link_tree, remove_tree, settle_written
from swelive_plugin.workspace.graded import Application, prepare_graded_tree

if TYPE_CHECKING:
    from swelive_plugin.grading.testbed import Testbed

__all__ = ["history_of", "make_graded_tree", "python_sources", "top_level_names"]


def make_graded_tree(testbed: Testbed, patch: str, work: Path) -> tuple[Path, Application]:
    """Return ``work/tree`` with everything in it that one session needs, and how the patch got there.

    Raises `PatchRejected`, `PatchError`, `InstanceError` and `InfraError` as `prepare_graded_tree` does.
    """
    instance, environment, private = testbed.instance, testbed.environment, not testbed.sandbox.overlays
    tree = work / "tree"
    link_tree(environment.tree, tree, private=private)
    application = prepare_graded_tree(
        tree,
        base=environment.tree,
        prediction=patch,
        test_patch=instance.test_patch,
        gold_patch=instance.patch,
        top_level=top_level_names(environment),
    )
    if environment.needs_git:
        link_tree(history_of(environment, testbed.mirror, instance.base_commit), tree / ".git", private=private)
    settle_written(tree, {*application.changed, *application.test_files, *(each.path for each in application.restored)})
    return tree, application


def history_of(environment: Environment, mirror: Path, commit: str) -> Path:
    """Return a ``.git`` that holds nothing newer than ``commit``, packed once and kept beside the prepared tree.

    It is never written again: sessions see it through a throw-away layer, or a copy of it. Raises `InfraError`.
    """
    history = environment.folder / f"history-{commit}"
    if history.is_dir():
        return history
    with FileLock(str(environment.folder / "history.lock")):
        if history.is_dir():
            return history
        part = environment.folder / "history.part"  # whoever left it there was killed: the lock is ours
        remove_tree(part)
        export_tree(mirror, commit, part, with_git=True)
        (part / ".git").rename(history)
        remove_tree(part)
    return history


def python_sources(base: Path, tree: Path, paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (path, its text in ``base``, its text in ``tree``) of the Python files; empty where there is none."""
    for path in paths:
        if path.endswith(".py"):
            yield path, _text(base / path), _text(tree / path)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def top_level_names(environment: Environment) -> frozenset[str]:
    """Return the import names that the environment's site-packages folders hold."""
    names = set()
    for folder in environment.site_folders:
        for path in _on_host(environment, folder).glob("*"):
            name = path.name.split(".", 1)[0]
            if name.isidentifier() and (path.is_dir() or path.suffix in (".py", ".so", ".pyd")):
                names.add(name)
    return frozenset(names)


def _on_host(environment: Environment, inside: str) -> Path:
    for mount in environment.mounts:
        if PurePosixPath(inside).is_relative_to(mount.target):
            return mount.source / PurePosixPath(inside).relative_to(mount.target)
    return Path(inside)
