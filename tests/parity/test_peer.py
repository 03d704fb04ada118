"""Policy ``swebench`` beside the ``swebench`` package itself, on generated logs.

The package brings 80 others, so it is no test dependency of every run: dependency group ``parity`` installs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.parity import PARSERS, generated, has_markers, peer_says, we_say
from hypothesis import given, settings
from hypothesis import strategies as st

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.upstream import parser_of, status_map

parsers = pytest.importorskip("swebench.harness.log_parsers.python", reason="dependency group parity is not installed")

WORDS = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS", "t.py::a", "MouseButton.LEFT")
MARKS = (
    " ",
    "  ",
    " - ",
    "[x",
    "]",
    "/p/q",
    "//",
    "*",
    "[2]",
    "[100%]",
    ":",
    "\t",
    "\x1b[32m",
    "[0m",
    "é",
    "-",
    "\u00a0",
)
PIECES = st.sampled_from((*WORDS, *MARKS))
LINES = st.lists(st.lists(PIECES, max_size=7).map("".join), max_size=6)


@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=300)
@given(lines=LINES)
def test_each_parser_makes_the_same_of_any_lines(name: str, lines: list[str]) -> None:
    parse: Callable[[str, Any], dict[str, str]] = getattr(parsers, name)
    instance = Instance("o__n-1", "o/n", "0" * 40, row={"log_parser": name})
    ours = status_map(lines, parser_of(instance), drops_counts=True, whole_ids=True)
    theirs = parse("\n".join(lines), None)
    assert (ours, list(ours)) == (theirs, list(theirs))


def test_each_repository_has_the_parser_that_it_has_there() -> None:
    table: dict[str, Callable[..., Any]] = parsers.MAP_REPO_TO_PARSER_PY
    kinds = {
        parsers.parse_log_pytest: "plain",
        parsers.parse_log_pytest_v2: "v2",
        parsers.parse_log_pytest_options: "options",
        parsers.parse_log_matplotlib: "buttons",
        parsers.parse_log_seaborn: "seaborn",
    }
    for repo, parser in table.items():
        if parser in kinds:  # django and sympy do not run pytest
            assert parser_of(Instance("o__n-1", repo, "0" * 40)) == kinds[parser], repo


@settings(deadline=None, max_examples=400)
@given(seed=st.integers(0, 10**9))
def test_the_same_verdict_and_lists_on_any_log(seed: int) -> None:
    instance, log = generated(seed)
    if has_markers(log):
        assert we_say(instance, log) == peer_says(instance, log)
