"""What a path in a repository is, told by its name alone."""

from __future__ import annotations

import re

__all__ = ["is_python", "is_test_path"]

_TEST_FOLDER = re.compile(
    r"(?:unit|integration|functional|e2e|regression)?[_-]?(?:tests?|testing|testsuite)", re.IGNORECASE
)
_TEST_FILE = re.compile(r"(?:test_[^/]*|[^/]*_tests?|tests?|conftest)\.pyi?")


def is_test_path(path: str) -> bool:
    """Return whether ``path`` belongs to a project's tests: a test module, a conftest, anything in a test folder."""
    *folders, name = path.split("/")
    return any(_TEST_FOLDER.fullmatch(folder) for folder in folders) or _TEST_FILE.fullmatch(name) is not None


def is_python(path: str) -> bool:
    """Return whether ``path`` is Python code, compiled kinds of it included."""
    return path.endswith((".py", ".pyx", ".pxd"))
