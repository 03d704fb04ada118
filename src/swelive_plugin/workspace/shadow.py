"""Shadowing: new modules that Python would import in place of the standard library, a package or the project itself."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from swelive_plugin.core.paths import is_conftest, is_test_module

__all__ = ["Shadow", "find_shadows"]

# Modules that newer interpreters have dropped and that graded ones may still have.
_FORMER_STDLIB = frozenset(
    re.split(
        r"\s+",
        """_bootlocale aifc asynchat asyncore audioop binhex cgi cgitb chunk crypt distutils dummy_threading formatter
        imghdr imp lib2to3 macpath mailcap nis nntplib ossaudiodev parser pipes smtpd sndhdr spwd sunau symbol
        telnetlib uu xdrlib""",
    )
)
# In the standard library by name only: a project's own folder of that name takes nothing from anybody.
_STDLIB = (sys.stdlib_module_names | _FORMER_STDLIB) - {"test", "this", "antigravity", "idlelib", "turtledemo"}
# What any pytest run imports, whatever else is installed.
_RUNNER = frozenset({"_pytest", "iniconfig", "pluggy", "py", "pytest"})
# Names that careless distributions install beside their package; a project's own folder is no attack on them.
_COMMON = frozenset({"benchmarks", "conftest", "docs", "examples", "scripts", "setup", "test", "tests", "tools"})


@dataclass(frozen=True)
class Shadow:
    """A new importable entry at a root of ``sys.path``: a file, or a folder with an ``__init__.py``."""

    entry: str
    why: str


def find_shadows(
    new: Iterable[str],
    *,
    base: Collection[str],
    tree: Collection[str],
    top_level: Collection[str],
    tests: Iterable[str] = (),
) -> list[Shadow]:
    """Return which of the ``new`` paths take the place of a module that is not the prediction's to replace.

    ``base`` and ``tree`` hold the paths before and after; ``top_level`` the importable names of what is installed,
    ``tests`` test files that are still to come.
    Only roots of ``sys.path`` count: the top of the tree, ``src``, and the folders that pytest inserts there for test
    modules and conftest files (docs.pytest.org, "pytest import mechanisms"). Names that base has are left alone.
    """
    roots = _roots(base, tests)
    shadows: dict[str, Shadow] = {}
    for path in new:
        folder, file = posixpath.split(path)
        if file == "__init__.py":
            entry, (folder, name) = folder, posixpath.split(folder)
        elif file.endswith(".py"):
            entry, name = path, file[:-3]
        else:
            continue
        if folder in roots and name and not _importable(folder, name, base):
            why = _why(folder, name, base, tree, top_level)
            if why:
                shadows[entry] = Shadow(entry, why)
    return sorted(shadows.values(), key=lambda shadow: shadow.entry)


def _why(folder: str, name: str, base: Collection[str], tree: Collection[str], top_level: Collection[str]) -> str:
    if name in _STDLIB:
        return "shadow-stdlib"
    for home in {"", "src"} - {folder}:
        # Moving the project from one home to the other is a fix's good right: then it is gone from the old one.
        stays = folder not in ("", "src") or _importable(home, name, tree)
        if _importable(home, name, base) and stays and name not in _COMMON:
            return "shadow-project"
    if name in _RUNNER or (name in top_level and name not in _COMMON):
        return "shadow-package"
    return ""


def _importable(folder: str, name: str, paths: Collection[str]) -> bool:
    stem = posixpath.join(folder, name)
    return f"{stem}.py" in paths or f"{stem}/__init__.py" in paths


def _roots(base: Collection[str], tests: Iterable[str]) -> set[str]:
    roots = {""} if "src/__init__.py" in base else {"", "src"}
    for path in (*base, *tests):
        if path.endswith(".py") and (is_test_module(path) or is_conftest(path)):
            folder = posixpath.dirname(path)
            while folder and f"{folder}/__init__.py" in base:
                folder = posixpath.dirname(folder)
            roots.add(folder)
    return roots
