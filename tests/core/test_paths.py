"""What a path is, by whole parts of its name."""

from __future__ import annotations

import pytest

from swelive_plugin.core.paths import folder_of_tests, is_only_for_tests, is_test_module, is_test_path, is_test_support


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
        "pkg/testsuite/cases.json",
        "app/tests.py",
    ],
)
def test_these_are_tests(path: str) -> None:
    assert is_test_path(path)


@pytest.mark.parametrize("path", ["src/pkg/a.py", "pkg/contest.py", "docs/test.md", "pkg/attest/a.py", "latest.py"])
def test_these_are_not(path: str) -> None:
    assert not is_test_path(path)
    assert not is_only_for_tests(path)


@pytest.mark.parametrize("name", ["test_a", "a_test", "a_tests", "test", "tests"])
def test_module_of_tests_by_its_name(name: str) -> None:
    assert is_test_module(f"any/where/{name}.py")
    assert not is_test_module(f"{name}.txt")
    assert not is_test_module(f"{name}/x.py")


def test_conftest_is_no_module_of_tests() -> None:
    assert not is_test_module("tests/conftest.py")


@pytest.mark.parametrize("path", ["pkg/testing/a.py", "pandas/_testing/asserters.py", "pylint/testutils.py"])
def test_what_a_package_offers_to_tests_is_its_own_code(path: str) -> None:
    assert is_test_support(path)
    assert not is_only_for_tests(path)


def test_top_folder_called_testing_holds_tests() -> None:
    assert is_only_for_tests("testing/x.py")


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("tests/unit/test_a.py", "tests"),
        ("pkg/core/tests/test_a.py", "pkg/core/tests"),
        ("pkg/testsuite/test_a.py", "pkg/testsuite"),
        ("test/x.py", "test"),
        ("testing/x.py", "testing"),
        ("unit_tests/x.py", "unit_tests"),
        ("pkg/testing/test_a.py", ""),
        ("pkg/test_a.py", ""),
        ("latest/x.py", ""),
    ],
)
def test_outermost_folder_of_tests(path: str, folder: str) -> None:
    assert folder_of_tests(path) == folder
