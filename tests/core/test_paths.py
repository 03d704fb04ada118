"""Which paths are tests."""

from __future__ import annotations

import pytest

from swelive_plugin.core.paths import is_test_path


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "test/unit/data/a.json",
        "pkg/tests/helpers.py",
        "pkg/test_a.py",
        "pkg/a_test.py",
        "conftest.py",
        "src/pkg/testing/fixtures.py",
        "unit_tests/a.py",
        "integration-tests/a.py",
        "app/tests.py",
    ],
)
def test_these_are_tests(path: str) -> None:
    assert is_test_path(path)


@pytest.mark.parametrize("path", ["src/pkg/a.py", "pkg/contest.py", "docs/test.md", "pkg/attest/a.py", "latest.py"])
def test_these_are_not(path: str) -> None:
    assert not is_test_path(path)
