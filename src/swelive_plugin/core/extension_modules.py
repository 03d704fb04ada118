"""Compiled code: does a patch ask for a new build of a project's extension modules, and what may come back from it.

Pure: paths come in, decisions go out. All paths are relative to the tree, with slashes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from swelive_plugin.core.paths import is_test_module

__all__ = ["Compiled", "is_artefact", "is_build_script", "may_come_back", "module_of", "only_sources", "why_rebuild"]

_ARTEFACT = re.compile(r"\.(?:so|pyd)$")
# Plain units: what is made of one of them is older than it, and every build tool sees that by itself.
_UNIT = re.compile(r"\.(?:c|cc|cpp|cxx|c\+\+|m|mm|cu|pyx|rs|f|for|f77|f90|f95|f03|f08|s|asm|i|swg|py)$", re.IGNORECASE)
# What others include, and templates that units are made from.
_INCLUDED = re.compile(
    r"\.(?:h|hh|hpp|hxx|h\+\+|inl|inc|tcc|tpp|cuh|pxd|pxi|tp|src|(?:c|cpp|h|hpp|pyx|pxd|pxi|f90)\.(?:in|tp|src))$",
    re.IGNORECASE,
)
_SCRIPT = re.compile(
    r"^(?:setup\.py|setup_package\.py|pyproject\.toml|setup\.cfg|meson\.build|meson_options\.txt|meson\.options|"
    r"CMakeLists\.txt|.+\.cmake|Cargo\.(?:toml|lock)|rust-toolchain(?:\.toml)?|build\.py|hatch_build\.py)$"
)
# These describe the project that they lie beside; elsewhere they belong to an example or a fixture.
_OF_THE_PROJECT = frozenset({"setup.py", "pyproject.toml", "setup.cfg", "build.py", "hatch_build.py"})
_STARTS_BY_ITSELF = frozenset({"conftest", "sitecustomize", "usercustomize"})


@dataclass(frozen=True)
class Compiled:
    """How the compiled parts of an environment's tree were built, so that they can be built again.

    ``artefacts`` are those that the base build left in the tree, ``site`` those that it left in the environment's own
    package folder (scikit-build-core, maturin), relative to that. ``how``: ``setuptools`` (``build_ext --inplace``),
    ``meson`` (ninja in its build folder), ``hook`` (the back end's editable hook), or ``none``, and then ``note`` says
    why that is not possible here. ``folder`` is where it is run; ``subdir`` where the packaging files are.
    """

    how: Literal["setuptools", "meson", "hook", "none"]
    artefacts: tuple[str, ...]
    folder: str = ""
    subdir: str = ""
    note: str = ""
    site: tuple[str, ...] = ()


def is_artefact(path: str) -> bool:
    """Return whether ``path`` names an importable compiled module."""
    return _ARTEFACT.search(path) is not None


def module_of(artefact: str) -> str:
    """Return an artefact's path without its suffixes: ``pkg/_fast`` for ``pkg/_fast.cpython-311-darwin.so``."""
    folder, name = posixpath.split(artefact)
    return posixpath.join(folder, name.split(".", 1)[0])


def is_build_script(path: str) -> bool:
    """Return whether ``path`` says how something is built, and is no source of it."""
    return _SCRIPT.match(posixpath.basename(path)) is not None


def why_rebuild(paths: Iterable[str], compiled: Compiled | None) -> tuple[str, ...]:
    """Return those of the touched ``paths`` from which the compiled parts are made; none: the old ones hold.

    A Python file counts where an artefact of the same name lies beside it (Cython's pure mode, mypyc).
    """
    if compiled is None or not (compiled.artefacts or compiled.site):
        return ()
    modules = {module_of(artefact) for artefact in compiled.artefacts}
    return tuple(path for path in paths if _makes(path, modules, compiled.subdir))


def _makes(path: str, modules: Collection[str], subdir: str) -> bool:
    folder, name = posixpath.split(path)
    if name in _OF_THE_PROJECT:
        return folder == subdir
    if name.endswith(".py") and name != "setup_package.py":
        return path[:-3] in modules
    return is_build_script(path) or any(kind.search(name) for kind in (_UNIT, _INCLUDED))


def only_sources(because: Iterable[str]) -> bool:
    """Return whether only plain units were touched, so that a build tool sees by itself what is out of date.

    It does not see who includes a header, nor that a script now passes other flags: then all is to be built.
    """
    return all(_UNIT.search(path) and not is_build_script(path) for path in because)


def may_come_back(
    artefact: str,
    *,
    known: Collection[str],
    tree: Collection[str],
    test_folders: Collection[str],
    names_taken: Collection[str],
) -> str:
    """Return why an artefact that a prediction's build left must not enter the graded tree; empty if it may.

    ``known`` are the artefacts of base and gold, ``tree`` the names beside the artefact in the graded tree.
    A known path may be replaced: it is the project's own module. A new one has to lie where others do, and must not
    be what Python or pytest would take in place of something else: an extension module comes before a source file.
    """
    folder, _ = posixpath.split(artefact)
    name = posixpath.basename(module_of(artefact))
    if any(artefact.startswith(f"{tests}/") for tests in test_folders):
        return "it is in a test folder"
    if artefact in known:
        return ""
    if folder not in {posixpath.dirname(path) for path in known}:
        return "neither base nor gold has a compiled module in that folder"
    if f"{name}.py" in tree or name in tree:
        return "it takes the place of a module that is there"
    in_package = "__init__.py" in tree
    plain = name.lower()
    if plain in _STARTS_BY_ITSELF or is_test_module(f"{plain}.py") or (not in_package and name in names_taken):
        return "its name belongs to another module"
    return ""
