"""Compiled parts of a project: what the base build left of them, and what is needed to build them once more.

A grade has no network. So where a build made extension modules, its build requirements are kept beside the
environment; everywhere else nothing is.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from swelive_plugin.core.extension_modules import Compiled, is_artefact
from swelive_plugin.environments import SYSTEM_PATH, TESTBED, VENV, Environment
from swelive_plugin.environments.build import BuildRoom, install_build_requirements, site_folders
from swelive_plugin.environments.lock import split_lock
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.recipes.listing import FolderFiles
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.recipes.toml import parse_toml, table
from swelive_plugin.sandbox import Mount, Sandbox
from swelive_plugin.workspace.checkout import remove_tree

__all__ = [
    "BUILD_ENV",
    "BUILD_LIB",
    "WHEEL_FOLDER",
    "build_requirements",
    "compiled_from",
    "find_artefacts",
    "keep_compiled",
    "rebuild_argv",
    "seeds",
]

BUILD_ENV = "/opt/swelive/build-env"
_FOLDER = "build-env"
BUILD_LIB = ".swelive-build"
_ON_THE_WAY = re.compile(
    r"(?:^|/)(?:build/(?:lib|temp|bdist)[^/]*|\.swelive-build)/"
)  # where setuptools keeps what it copies later
_WITHOUT_SETUP = "import setuptools; setuptools.setup()"
WHEEL_FOLDER = ".swelive-wheel"
_BACKEND = """
import importlib, os, sys
module, _, name = sys.argv[1].partition(":")
sys.path[0:1] = [os.path.join(os.getcwd(), folder) for folder in sys.argv[3:]]
backend = importlib.import_module(module)
for part in name.split(".") if name else ():
    backend = getattr(backend, part)
"""
_HOOK = (
    _BACKEND
    + """
os.makedirs(sys.argv[2])
print("built", backend.build_editable(os.path.abspath(sys.argv[2])))
"""
)
_ASKS_FOR = (
    _BACKEND
    + """
ask = getattr(backend, "get_requires_for_build_editable", list)
with open(sys.argv[2], "w") as file:
    file.write("\\n".join(ask()))
"""
)


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
    artefacts, site = find_artefacts(room.tree, tracked=tracked), _in_site(room, recipe)
    if not (artefacts or site):
        return None
    compiled = replace(_how(room, recipe, artefacts), site=site)
    if site and room.prefix != VENV:
        return replace(compiled, how="none", note="compiled modules lie in the environment: it needs the sandbox")
    if compiled.how in ("setuptools", "hook"):
        build = split_lock(lock).build
        try:
            target = room.mount(folder / _FOLDER, BUILD_ENV)
            install_build_requirements(room, recipe, build, target)
            if compiled.how == "hook":
                _install_what_it_asks_for(room, recipe, target)
        except EnvironmentBuildError as error:
            remove_tree(folder / _FOLDER)
            return replace(compiled, how="none", note=error.message)
    return compiled


def _in_site(room: BuildRoom, recipe: Recipe) -> tuple[str, ...]:
    """Return the project's own compiled modules in the environment's package folders, by what its wheel recorded."""
    found = set()
    for folder in site_folders(room.venv):
        for record in folder.glob("*.dist-info/RECORD"):
            name = record.parent.name.rpartition(".")[0].partition("-")[0]
            if recipe.project and canonicalize_name(name) == canonicalize_name(recipe.project):
                rows = csv.reader(record.read_text("utf-8", "replace").splitlines())
                found |= {row[0] for row in rows if row and is_artefact(row[0]) and (folder / row[0]).is_file()}
    return tuple(sorted(path for path in found if not path.startswith(("/", ".."))))


def _install_what_it_asks_for(room: BuildRoom, recipe: Recipe, target: str) -> None:
    """Install what the back end's own hook wants besides its declared requirements (cmake, ninja)."""
    asked = room.work / "asked.txt"
    asked.unlink(missing_ok=True)
    room.must(
        [
            room.python,
            "-c",
            _ASKS_FOR,
            recipe.build_backend,
            f"{room.workdir}/{asked.name}",
            *recipe_paths(room.tree, recipe),
        ],
        "asking the build back end what it needs",
        cwd=f"{room.testbed}/{recipe.subdir}".rstrip("/"),
        env={"PYTHONPATH": target},
    )
    if wanted := asked.read_text("utf-8").strip():
        install_build_requirements(room, recipe, wanted + "\n", target)


def recipe_paths(tree: Path, recipe: Recipe) -> tuple[str, ...]:
    """Return the ``backend-path`` of a project whose build back end lies in the tree, be it a patched one."""
    name = f"{recipe.subdir}/pyproject.toml".lstrip("/")
    try:
        data = parse_toml(FolderFiles(tree).read(name) or "")
    except ValueError:
        return ()
    paths = table(data, "build-system").get("backend-path")
    return tuple(map(str, paths)) if isinstance(paths, list) else ()


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
    """Return the command that builds ``tree`` (on the host) again, run in `Compiled.folder`.

    A back end's hook leaves its wheel in `WHEEL_FOLDER` there; setuptools looks in `BUILD_LIB` for what is up to date.
    """
    if compiled.how == "meson":
        return ("ninja",)
    if compiled.how == "hook":
        paths = recipe_paths(tree, environment.recipe)
        return (environment.python, "-c", _HOOK, environment.recipe.build_backend, WHEEL_FOLDER, *paths)
    has_setup = (tree / compiled.folder / "setup.py").is_file()
    script = ("setup.py",) if has_setup else ("-c", _WITHOUT_SETUP)
    return (environment.python, *script, "build_ext", "--inplace", "--build-lib", BUILD_LIB)


def seeds(artefacts: Collection[str], folder: str, tree: Path) -> dict[str, str]:
    """Return where setuptools looks for the modules that it built before: artefacts by their place below `BUILD_LIB`.

    It goes by the package's name there: ``src/pkg/_x.so`` is ``pkg/_x.so``. What two would claim nobody gets: it is
    built again.
    """
    claims: dict[str, set[str]] = {}
    for artefact in artefacts:
        if folder and not artefact.startswith(f"{folder}/"):
            continue
        parts = artefact[len(folder) :].lstrip("/").split("/")
        claims.setdefault("/".join(parts), set()).add(artefact)
        for end in range(1, len(parts)):
            if (tree / folder).joinpath(*parts[:end], "__init__.py").exists():
                break
            claims.setdefault("/".join(parts[end:]), set()).add(artefact)
    return {name: artefact for name, (artefact, *others) in claims.items() if not others}


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
        tuple(data.get("site", ())),
    )
