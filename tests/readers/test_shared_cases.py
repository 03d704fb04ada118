"""The shared cases of kinds ``log`` and ``pytest``: what their logs show, as far as text can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.readers import read_session

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "grading"
NAMES = {"XFAIL": "xfailed", "XPASS": "xpassed", "TIMEOUT": "timed_out"}
# what text can't show, and why
BEYOND_TEXT = {
    "12": "ids are printed relative to the directory that pytest was started in",
    "32": "dots name no test",
    "35": "the log tells what the tampered reports say",
    "40": "dots name no test",
}


def cases() -> list[Any]:
    return list(_cases())


def _cases() -> Iterator[Any]:
    if not CASES.is_dir():
        yield pytest.param("", {}, marks=pytest.mark.skip(reason=f"{CASES} is not here"))
        return
    for folder in sorted(CASES.iterdir()):
        expected = json.loads((folder / "expected.json").read_text()) if folder.is_dir() else {}
        log = {"log": "input/log.txt", "pytest": "observed_log.txt"}.get(expected.get("kind", ""))
        if log and "expected" in expected and folder.name[:2] not in BEYOND_TEXT:
            yield pytest.param(str(folder / log), expected, id=folder.name)


@pytest.mark.parametrize(("log", "expected"), cases())
def test_shared_case(log: str, expected: dict[str, Any]) -> None:
    session = read_session(Path(log), kind="log")
    wanted = {test_id: NAMES.get(word, word.lower()) for test_id, word in expected["expected"].items()}
    found = {test_id: record.outcome.value for test_id, record in session.tests.items()}
    unnamed = {test_id for test_id, outcome in wanted.items() if outcome == "skipped" and test_id not in found}
    assert found == {test_id: outcome for test_id, outcome in wanted.items() if test_id not in unnamed}
    if unnamed:  # folded skips name no test, but they are counted
        assert any("skipped tests are printed without their ids" in note for note in session.notes)
    assert [error.id for error in session.collect_errors if error.id] == expected.get("collect_errors", [])
