"""Compiled parts of a project: what the base build left of them, and what is needed to build them once more.

A grade has no network. So where a build made extension modules, its build requirements are kept beside the
environment; everywhere else nothing is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swelive_plugin.core.compiled import Compiled, is_artefact
from swelive_plugin.environments import SYSTEM_PATH, TESTBED, Environment
from swelive_plugin.environments.build import BuildRoom, install_build_requirements, split_lock
from swelive_plugin.environments.recipe import Recipe
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.sandbox import Mount, Sandbox
from swelive_plugin.workspace.checkout import remove_tree

__all__ = ["BUILD_ENV", "build_requirements", "compiled_from", "find_artefacts", "keep_compiled", "rebuild_argv"]

BUILD_ENV = "/opt/swelive/build-env"
_FOLDER = "build-env"
_ON_THE_WAY = re.compile(r"(?:^|/)build/(?:lib|temp|bdist)[^/]*/")  # where setuptools keeps what it copies later
_WITHOUT_SETUP = "import setuptools; setuptools.setup()"
_HOOK = """
import importlib, os, sys, tempfile
module, _, name = sys.argv[1].partition(":")
backend = importlib.import_module(module)
for part in name.split(".") if name else ():
    backend = getattr(backend, part)
with tempfile.TemporaryDirectory() as folder:
    print("built", backend.build_editable(folder))
"""


def find_artefacts(tree: Path, *, tracked: Collection[str] = ()) -> tuple[str, ...]:
    """Return the compiled modules in ``tree`` that are not ``tracked`` by git: what a build has left there."""
    found = []
    for root, _, names in os.walk(tree):
        for name in names:
            if is_artefact(name):
                path = Path(root, name)
                relative = path.relative_to(tree).as_posix()
                if relative not in tracked and not path.is_symlink() and not _ON_THE_WAY.search(relative):
                    found.append(relative)
    return tuple(sorted(found))


def keep_compiled(
    room: BuildRoom, recipe: Recipe, lock: str, *, folder: Path, tracked: Collection[str]
) -> Compiled | None:
    """Return how the tree's compiled parts are built again, with all that takes in ``folder``; ``None``: it has none.

    Where the build requirements can't be had once more the environment is as good as before, and the note says so.
    """
    artefacts = find_artefacts(room.tree, tracked=tracked)
    if not artefacts:
        return None
    compiled = _how(room, recipe, artefacts)
    if compiled.how in ("setuptools", "hook"):
        _, build, _ = split_lock(lock)
        try:
            install_build_requirements(room, recipe, build, room.mount(folder / _FOLDER, BUILD_ENV))
        except EnvironmentBuildError as error:
            remove_tree(folder / _FOLDER)
            return Compiled("none", artefacts, note=error.message)
    return compiled


def _how(room: BuildRoom, recipe: Recipe, artefacts: tuple[str, ...]) -> Compiled:
    root = room.tree / recipe.subdir
    if recipe.install != "develop" and recipe.build_backend.startswith("mesonpy"):
        made_in = [
            path.parent
            for path in (*root.glob("*/build.ninja"), *root.glob("*/*/build.ninja"))
            if (path.parent / "meson-info").is_dir()
        ]
        if room.testbed != TESTBED:
            # ninja's rules name the store's own tree: run there, they would write into it
            return Compiled("none", artefacts, note="meson's build folder holds absolute paths: it needs the sandbox")
        if len(made_in) != 1:
            return Compiled("none", artefacts, note="meson's build folder is not there")
        return Compiled("meson", artefacts, made_in[0].relative_to(room.tree).as_posix(), recipe.subdir)
    if recipe.install == "develop" or "setuptools" in recipe.build_backend or (root / "setup.py").exists():
        return Compiled("setuptools", artefacts, recipe.subdir, recipe.subdir)
    return Compiled("hook", artefacts, recipe.subdir, recipe.subdir)


def rebuild_argv(environment: Environment, compiled: Compiled, tree: Path) -> tuple[str, ...]:
    """Return the command that builds ``tree`` (on the host) again, run in `Compiled.folder`."""
    if compiled.how == "meson":
        return ("ninja",)
    if compiled.how == "hook":
        return (environment.python, "-c", _HOOK, environment.recipe.build_backend)
    has_setup = (tree / compiled.folder / "setup.py").is_file()
    script = ("setup.py",) if has_setup else ("-c", _WITHOUT_SETUP)
    return (environment.python, *script, "build_ext", "--inplace")


def build_requirements(environment: Environment, sandbox: Sandbox) -> tuple[tuple[Mount, ...], dict[str, str]]:
    """Return the mounts and variables with which a command finds the kept build requirements."""
    venv_bin = environment.python.rpartition("/")[0]
    folder = environment.folder / _FOLDER
    if not folder.is_dir():
        return (), {"PATH": f"{venv_bin}:{SYSTEM_PATH}"}
    mount = Mount(folder, BUILD_ENV, "ro")
    there = sandbox.inside(mount)
    # a rebuild has no network: cargo is to say so at once
    env = {"PATH": f"{there}/bin:{venv_bin}:{SYSTEM_PATH}", "PYTHONPATH": there, "CARGO_NET_OFFLINE": "true"}
    return (mount,), env


def compiled_as_dict(compiled: Compiled | None) -> dict[str, Any] | None:
    """Return the value as ``environment.json`` holds it."""
    return None if compiled is None else asdict(compiled)


def compiled_from(data: Any) -> Compiled | None:
    """Return what ``environment.json`` says; ``None`` for nothing compiled."""
    if not isinstance(data, dict):
        return None
    return Compiled(
        data["how"],
        tuple(data.get("artefacts", ())),
        str(data.get("folder", "")),
        str(data.get("subdir", "")),
        str(data.get("note", "")),
    )
