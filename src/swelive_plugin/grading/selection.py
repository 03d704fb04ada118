"""Which test files a session runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.errors import NoTestFiles
from swelive_plugin.workspace.graded import Application

__all__ = ["FileScope", "choose_files", "test_files_of"]

FileScope = Literal["f2p-files", "all", "touched", "suite"]

_TEST_MODULE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_tests?|tests)\.py$")
_TEST_FIRST = re.compile(r"test_[^/]*\.py$")


def choose_files(scope: FileScope, instance: Instance, tree: Path, application: Application) -> Sequence[str]:
    """Return the files that pytest is to run in a finished tree, none standing for the whole suite.

    ``f2p-files``: those that FAIL_TO_PASS names; ``all``: those that either list names; ``touched``: those that the
    test patch touches and those that FAIL_TO_PASS names, as SWE-bench runs them; ``suite``: all that the project has,
    as SWE-bench-Live runs it. Raises `NoTestFiles` where ``touched`` leaves nothing to run.
    """
    if scope == "suite":
        return ()
    if scope != "touched":
        files = files_to_run(instance, scope)
        return [name for name in files if (tree / name).exists()] or files
    listed = [name for name in files_to_run(instance, "f2p-files") if (tree / name).exists()]
    chosen = sorted({*listed, *test_files_of(application.test_files, tree)})
    if not chosen:
        raise NoTestFiles(
            "the test patch leaves no file that pytest could run", hint="--scope all runs the whole suite instead"
        )
    return chosen


def test_files_of(touched: Sequence[str], tree: Path) -> list[str]:
    """Return what pytest is to run for a test patch that touches these paths.

    Its test modules; and for data that none of them lies near, the nearest folder above that holds test modules.
    """
    modules = [path for path in touched if _TEST_MODULE.search(path)]
    folders: set[str] = set()
    for path in touched:
        if path in modules or path.endswith(("conftest.py", "__init__.py")):
            continue
        folder = _nearest(posixpath.dirname(path), tree)
        if folder and not any(module.startswith(f"{folder}/") for module in modules):
            folders.add(folder)
    if modules or folders:
        return [*modules, *sorted(folders)]
    return [path for path in touched if path.endswith(".py") and posixpath.basename(path) != "conftest.py"]


def _nearest(folder: str, tree: Path) -> str:
    """Return the nearest folder, from ``folder`` upwards, that holds test modules; empty where none does.

    Names like ``test_x.py`` come first: a linter's sample may well be called ``using_constant_test.py``.
    """
    above = [folder[:end] for end in range(len(folder), 0, -1) if end == len(folder) or folder[end] == "/"]
    for named in (_TEST_FIRST, _TEST_MODULE):
        for each in above:
            if any(named.match(entry.name) for entry in _files(tree / each)):
                return each
    return ""


def _files(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if entry.is_file()] if folder.is_dir() else []
