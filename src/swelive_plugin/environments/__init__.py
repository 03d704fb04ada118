"""Environments: the interpreter and packages of a commit's day, found, built by uv and kept.

`recipe` finds how (pure), `build` makes it, `store` keeps it, `search` lets the controls choose, `provider` is the
door that grading uses. Nothing here imports from grading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from swelive_plugin.core.extension_modules import Compiled
from swelive_plugin.core.instance import Instance
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.sandbox import Mount, Sandbox

__all__ = ["SYSTEM_PATH", "TESTBED", "VENV", "Environment", "EnvironmentProvider"]

TESTBED = "/testbed"
VENV = "/opt/swelive/venv"
# Tests call `python` and the tools of their own environment by name, as in an activated one: it comes before these.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Environment:
    """A built recipe: an interpreter, a venv and a prepared tree, kept in the store, read-only for graded code.

    ``python`` and ``site_folders`` are paths as the command sees them. ``tree`` is the prepared tree on the host: the
    base
    commit and what the build generated; it is never written again. An editable install points at `TESTBED`, or at
    ``tree`` itself where the sandbox mounts nothing: then the launch maps import paths below it to the grade's own
    tree.
    ``mounts`` is everything that a session needs except the tree itself. ``needs_git`` says that the tests look at a
    ``.git``: the graded view gets one with nothing newer than base. ``compiled`` says how extension modules in ``tree``
    are built again; ``None``: there are none. ``lacks`` names what of the commit could not be had: files that the
    mirror does not have, and submodules.
    """

    key: str
    folder: Path
    python: str
    python_version: tuple[int, int, int]
    site_folders: tuple[str, ...]
    tree: Path
    mounts: tuple[Mount, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    lock_text: str = field(default="", repr=False)
    needs_git: bool = False
    compiled: Compiled | None = None
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """What the controls say of one environment.

    ``good`` counts what came out as it should (tests that turn green, tests that stay green); ``output`` is what both
    sessions printed, which the lessons are learnt from. ``pass_at_base``: tests that must fail without the fix do not,
    as a bug of another interpreter's day may not show.
    """

    holds: bool
    good: int = 0
    output: str = field(default="", repr=False)
    note: str = ""
    pass_at_base: bool = False


class EnvironmentProvider(Protocol):
    """Who can hand out the environment of an instance."""

    def provide(
        self,
        instance: Instance,
        *,
        mirror: Path,
        sandbox: Sandbox,
        offline: bool = False,
        progress: Callable[[str], None] | None = None,
        check: Callable[[Environment], Trial] | None = None,
    ) -> Environment:
        """Return the instance's environment, built if it is not there yet.

        ``check`` runs the controls in an environment and tells whether they hold: with it, what is built first is
        chosen by them, and the best one comes back where none holds.

        Raises `EnvironmentBuildError` (with the log's last lines as evidence), `NoInterpreter`, `InfraError`.
        """
