"""Every shared case of the kinds that a pytest run decides gives the recorded outcomes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from .support import WORDS, run_probe

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "grading"


def _cases() -> list[Any]:
    if not CASES.is_dir():
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason="no ../shared/cases/grading here"))]
    return [
        pytest.param(path.parent, id=path.parent.name)
        for path in sorted(CASES.glob("*/expected.json"))
        if json.loads(path.read_text(encoding="utf-8"))["kind"] in ("pytest", "tamper")
    ]


@pytest.mark.parametrize("case", _cases())
def test_outcomes_are_those_that_were_recorded(case: Path, tmp_path: Path) -> None:
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    tree = Path(shutil.copytree(case / "input", tmp_path / "tree", copy_function=shutil.copyfile))
    for folder in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    if expected.get("venv"):
        pytest.importorskip("xdist")
    ran = run_probe(
        tree,
        expected.get("args", ()),
        cwd=expected.get("cwd", "."),
        timeout_s=expected.get("timeout", 60),
        env=expected.get("env", {}),
    )
    if "expected_pattern" in expected:
        [(pattern, word)] = expected["expected_pattern"].items()
        assert ran.outcomes
        assert all(re.fullmatch(pattern, test_id) for test_id in ran.outcomes)
        assert set(ran.outcomes.values()) == {WORDS[word].value}
    else:
        assert ran.outcomes == {test_id: WORDS[word].value for test_id, word in expected["expected"].items()}
    assert [error.id for error in ran.session.collect_errors] == expected.get("collect_errors", [])
