"""Ids that are relative to another directory than the recorded ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swelive_plugin.core.outcome import CollectError
from swelive_plugin.core.rebase_ids import overlaps, rebased

from .build import session


@pytest.mark.parametrize(
    ("reported", "listed"),
    [
        (["../test_a.py::a"], ["pkg/test_a.py::a"]),  # started in pkg/sub
        (["../../tests/x/test_a.py::a[p - q]"], ["tests/x/test_a.py::a[p"]),
        (["tests/test_a.py::a", "tests/test_b.py::b"], ["sub/tests/test_a.py::a", "sub/tests/test_b.py::b"]),
        (["project/tests/test_a.py::a"], ["tests/test_a.py::a"]),  # started above the checkout
        (["one/test_a.py::a", "one/test_b.py::b"], ["two/test_a.py::a", "two/test_b.py::b"]),
    ],
)
def test_one_change_of_directory_brings_them_together(reported: list[str], listed: list[str]) -> None:
    found = rebased(session(dict.fromkeys(reported, "passed")), listed)
    assert overlaps(found, listed) == len(listed)
    assert [record.id for record in found.tests.values()] == list(found.tests)
    assert "relative to another directory" in found.notes[-1]


@pytest.mark.parametrize(
    ("reported", "listed"),
    [
        (["test_a.py::a"], ["test_a.py::b"]),  # the file is there, the test is not
        (["test_a.py::a"], ["sub/test_b.py::a"]),
        (["test_a.py::a", "sub/test_b.py::b"], ["test_a.py::a", "test_b.py::b"]),  # something matches already
        (["test_a.py::a"], ["x/test_a.py::a", "y/test_a.py::a"]),  # two are as good
        (["test_a.py::a"], ["x/test_a.py::a", "x/test_a.py::b", "x/test_a.py::c"]),  # another run, one name in common
        ([], ["test_a.py::a"]),
        (["test_a.py::a"], []),
        (["test_a.py::a"], ["[100%]"]),
    ],
)
def test_otherwise_ids_stay_as_they_are(reported: list[str], listed: list[str]) -> None:
    before = session(dict.fromkeys(reported, "passed"))
    assert rebased(before, listed) == before


def test_files_that_could_not_be_collected_move_too() -> None:
    before = replace(session({"../test_a.py::a": "passed"}), collect_errors=(CollectError("../bad.py"),))
    assert [error.id for error in rebased(before, ["pkg/test_a.py::a"]).collect_errors] == ["pkg/bad.py"]
