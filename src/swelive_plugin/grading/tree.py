"""The tree of one session: a private view of the prepared tree with a prediction and the hidden tests in it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from swelive_plugin.core.instance import Instance
from swelive_plugin.environments import Environment
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.workspace.checkout import export_tree, link_tree
from swelive_plugin.workspace.graded import Application, prepare_graded_tree

__all__ = ["make_graded_tree", "top_level_names"]


def make_graded_tree(
    work: Path, instance: Instance, prediction: str, *, environment: Environment, mirror: Path, sandbox: Sandbox
) -> tuple[Path, Application]:
    """Return ``work/tree`` with everything in it that one session needs, and how the prediction got there.

    Raises `PatchRejected`, `PatchError`, `InstanceError` and `InfraError` as `prepare_graded_tree` does.
    """
    tree = work / "tree"
    link_tree(environment.tree, tree, private=not sandbox.overlays)
    application = prepare_graded_tree(
        tree,
        base=environment.tree,
        prediction=prediction,
        test_patch=instance.test_patch,
        gold_patch=instance.patch,
        top_level=top_level_names(environment),
    )
    if environment.needs_git:
        # made anew: the graded code must never meet a repository that it could have prepared, nor a later object
        export_tree(mirror, instance.base_commit, work / "history", with_git=True)
        (work / "history" / ".git").rename(tree / ".git")
    return tree, application


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
