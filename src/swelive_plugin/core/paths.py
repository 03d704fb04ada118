"""What a path in a repository is, by its name alone.

Every rule works on whole parts: ``latest.py`` is no test. Paths are relative to the repository's root, with slashes.
"""

from __future__ import annotations

import posixpath
import re

__all__ = [
    "folder_of_tests",
    "is_conftest",
    "is_only_for_tests",
    "is_python",
    "is_test_folder",
    "is_test_module",
    "is_test_path",
    "is_test_support",
]

# A module's name without its suffix: pytest's ``python_files``, and what other runners collect.
_TEST_MODULE = re.compile(r"test_.*|.*_tests?|tests?", re.DOTALL)
_TEST_FOLDER = re.compile(
    r"(?:unit|integration|functional|e2e|regression)?[_-]?(?:tests?|testing|testsuites?)", re.IGNORECASE
)
# A folder ``testing`` inside a package is code that others import: pandas._testing, xarray.testing, pylint.testutils.
_TEST_SUPPORT = re.compile(r"_?(?:testing|test_?(?:utils?|helpers?|tools?|support|case))", re.IGNORECASE)
_PYTHON = (".py", ".pyx", ".pxd")
_MODULE = (".py", ".pyi")


def is_python(path: str) -> bool:
    """Return whether ``path`` is Python code, compiled kinds of it included."""
    return path.endswith(_PYTHON)


def is_conftest(path: str) -> bool:
    """Return whether ``path`` is a file that pytest loads by its name."""
    return posixpath.basename(path) == "conftest.py"


def is_test_module(path: str) -> bool:
    """Return whether ``path`` is named like a module that holds tests; in which folder it lies plays no part."""
    stem, suffix = posixpath.splitext(posixpath.basename(path))
    return suffix in _MODULE and _TEST_MODULE.fullmatch(stem) is not None


def is_test_folder(name: str) -> bool:
    """Return whether a folder of this name (one part of a path) holds a project's tests."""
    return _TEST_FOLDER.fullmatch(name) is not None


def folder_of_tests(path: str) -> str:
    """Return the outermost test folder above ``path`` (``tests``, ``pkg/test``, …), or nothing.

    A package's ``testing`` is none, unless it lies at the top: it is what the package offers to others' tests.
    """
    parts = path.split("/")[:-1]
    for end, part in enumerate(parts, 1):
        if is_test_folder(part) and (end == 1 or not _TEST_SUPPORT.fullmatch(part)):
            return "/".join(parts[:end])
    return ""


def is_test_path(path: str) -> bool:
    """Return whether ``path`` belongs to a project's tests, in the widest sense: a package's ``testing`` counts too."""
    return is_only_for_tests(path) or any(map(is_test_folder, path.split("/")[:-1]))


def is_only_for_tests(path: str) -> bool:
    """Return whether ``path`` is a test module, a conftest or in a test folder: no other code imports it."""
    return is_test_module(path) or is_conftest(path) or bool(folder_of_tests(path))


def is_test_support(path: str) -> bool:
    """Return whether ``path`` is code that tests are made with: ``pkg/testing/…``, ``testutils.py``."""
    *folders, name = path.split("/")
    return any(map(_TEST_SUPPORT.fullmatch, [*folders, posixpath.splitext(name)[0]]))
