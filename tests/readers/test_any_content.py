"""Whatever a file holds, a reader gives a session or an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swelive_plugin.core.outcome import Outcome
from swelive_plugin.errors import SweliveError
from swelive_plugin.readers import built_in_readers, read_session
from swelive_plugin.readers.text import session_from_lines

KINDS = [reader.name for reader in built_in_readers()]
anything = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

PIECES = st.sampled_from(
    (
        *("=== test session starts ===", "=== short test summary info ===", "=== FAILURES ===", "=== PASSES ==="),
        *("=== 1 failed, 2 passed in 0.1s ===", "1 passed in 0.1s", "____ test_a ____", "!!! Interrupted: x !!!"),
        *(
            "PASSED ",
            "FAILED ",
            "ERROR ",
            "SKIPPED ",
            "XFAIL ",
            "XPASS ",
            "SUBFAILED[m] (i=1) ",
            "RERUN ",
            "SKIPPED [2] t.py:1: x",
        ),
        *(
            "t.py::test_a",
            "t.py::test_b[x",
            "y]",
            "[",
            "]",
            " - ",
            " ",
            "\n",
            "\r",
            "\x1b[32m",
            " <- u.py",
            "::",
            " PASSED",
            " [ 50%]",
        ),
        *(
            "[gw0] [ 9%] ",
            "PAS",
            "SED",
            "INTERNALERROR> ",
            "E   ",
            "collected 3 items",
            ">>>>> Test Exit Code: 1",
            "\ufeff",
            "é",
        ),
    )
)
LOGS = st.lists(PIECES, max_size=40).map("".join)
NAMES = (
    "e",
    "id",
    "ids",
    "when",
    "outcome",
    "d",
    "raised",
    "$report_type",
    "nodeid",
    "longrepr",
    "wasxfail",
    "exitcode",
)
MORE = (
    "created",
    "tests",
    "collectors",
    "root",
    "setup",
    "call",
    "teardown",
    "crash",
    "results",
    "tool",
    "summary",
    "name",
)
KEYS = st.sampled_from((*NAMES, *MORE, "suite"))
WORDS = st.sampled_from(
    ["phase", "session", "end", "TestReport", "CollectReport", "passed", "failed", "skipped", "setup", "t.py::a"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


@anything
@given(log=LOGS)
def test_any_text_gives_a_session(log: str) -> None:
    session = session_from_lines(log.split("\n"))
    assert all(test_id == record.id and test_id for test_id, record in session.tests.items())
    assert all(record.outcome in Outcome for record in session.tests.values())


@anything
@given(log=LOGS, noise=LOGS)
def test_noise_before_a_session_changes_no_outcome(log: str, noise: str) -> None:
    """Noise that draws no structure of pytest's own."""
    quiet = [line for line in noise.split("\n") if not line.startswith("=") and " in 0.1s" not in line]
    lines = ["=== test session starts ===", *log.split("\n")]
    assert session_from_lines([*quiet, *lines]).tests == session_from_lines(lines).tests


@pytest.mark.parametrize("kind", [None, *KINDS])
@anything
@given(
    value=st.lists(st.dictionaries(KEYS, VALUES, max_size=6) | VALUES, min_size=1, max_size=4), as_lines=st.booleans()
)
def test_any_json_gives_a_session_or_an_error_of_ours(
    tmp_path: Path, kind: str | None, value: Any, as_lines: bool
) -> None:
    path = tmp_path / "report"
    path.write_text("\n".join(map(json.dumps, value)) if as_lines else json.dumps(value[0]))
    try:
        session = read_session(path, kind=kind)
    except SweliveError:
        return
    assert session.source in KINDS


@pytest.mark.parametrize("kind", [None, *KINDS])
@anything
@given(content=st.binary(min_size=1, max_size=300))
def test_any_bytes_give_a_session_or_an_error_of_ours(tmp_path: Path, kind: str | None, content: bytes) -> None:
    path = tmp_path / "report"
    path.write_bytes(content)
    try:
        session = read_session(path, kind=kind)
    except SweliveError:
        return
    assert session.source in KINDS
