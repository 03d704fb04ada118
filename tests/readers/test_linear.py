"""Whatever a log or report holds, reading it costs time in proportion to its size.

Defect: one line of 140 kB held the driver for more than 150 s, and four times as long at twice the size.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from swelive_plugin.errors import SweliveError
from swelive_plugin.readers import built_in_readers, read_session
from swelive_plugin.readers.text import session_from_lines

from .test_text import FAILURES, START, SUMMARY, end

SIZES = (100_000, 200_000, 400_000)
ENOUGH_S = 0.1  # below that the clock measures noise
BOUND_S = 4.0  # for the largest


def filled(start: str, unit: str, stop: str = "") -> Callable[[int], str]:
    return lambda size: start + unit * (size // len(unit)) + stop


LINES = {
    "spaces": filled("t.py::a PASSED", " ", "x"),
    "spaces before a bracket": filled("PASSED t.py::a", " ", "[ 5%"),
    "tabs": filled("PASSED t.py::a[", "\t", "["),
    "id with spaces": filled("PASSED t.py::a[", "x "),
    "id in one word": filled("t.py::", "a"),
    "dashes": filled("FAILED t.py::a", " - x"),
    "dashes after brackets": filled("FAILED t.py::a", "[] - x", "["),
    "status words": filled("t.py::a[", " PASSED", " x"),
    "status words in brackets": filled("t.py::a[ PASSED (", " PASSED (", ")"),
    "status words and closing brackets": filled("t.py::a[", " PASSED ()", "])"),
    "subtests": filled("", "[x] SUBFAIL "),
    "subtests with parameters": filled("", "(k=1) SUBFAILED(a) "),
    "subtests without id": filled("SUBFAILED", "[x] (y) "),
    "opening brackets": filled("SUBFAILED[", "["),
    "workers": filled("[gw0] [ 50%] PASSED (", ") ", "x"),
    "workers' words": filled("[gw0] [ 5%] [a] ", "SUBFAIL ("),
    "workers' spaces": filled("[gw0]", " ", "PASSED"),
    "percentages": filled("", "%]"),
    "percentages with ids": filled("", "t.py::a PASSED [ 5%]"),
    "digits": filled("", "1"),
    "digits in the end": filled("=== ", "1", " passed in 1s ==="),
    "times": filled("=== 1 passed", " in 1s", " x ==="),
    "times without end": filled("1 passed", " in 1s", "="),
    "equals signs": filled("", "=", "x"),
    "equals signs and spaces": filled("", "= ", "="),
    "underscores": filled("_", " __", " x"),
    "exclamation marks": filled("!!! Interrupted", " !!!", "x"),
    "escapes": filled("", "\x1b[1", "m"),
    "lost escapes": filled("", " [1m[0m", "x"),
    "lost escapes and equals signs": filled(" [1m", "=", "m"),
    "skips": filled("SKIPPED [1] t.py", ":1", "x"),
    "skip digits": filled("SKIPPED [1] t.py:", "1", "x"),
    "skipped subtests": filled("", "[x] SUBSKIP [1] "),
    "half words": filled("t.py::a ", "PAS ", "x"),
    "arrows": filled("t.py::a", " <- b", " "),
    "colons": filled("", "::"),
    "stamps": filled("#", "1", " 1.1 x"),
    "carriage returns": filled("", "x\r"),
    "broken ids": filled("FAILED t.py::a[\n", "x\n"),
    "many broken ids": filled("", "FAILED t.py::a[x\n"),
    "many open ids": filled("", "t.py::a[x y\n"),
    "many results": filled("", "t.py::a PASSED\n"),
    "headings": filled("", "____ a ____\n"),
    "starts": filled("", START + "\n"),
    "ends": filled("", end("1 passed") + "\n"),
    "summaries": filled("", SUMMARY + "\n"),
    "blocks of counts": filled("Results (1s):\n", "  1 passed\n"),
    "letters": filled("", "."),
    "conftests": filled("", "x", " while loading conftest"),
}
PLACES = {
    "alone": ([], []),
    "in the progress": ([START], []),
    "in a summary": ([START, FAILURES, "____ a ____", "____ b ____", SUMMARY], [end("1 failed, 1 passed")]),
    "in the details": ([START, FAILURES], []),
    "in a quiet summary": ([SUMMARY], []),
}


def seconds(read: Callable[[], object]) -> float:
    started = time.process_time()
    read()
    return time.process_time() - started


def assert_linear(read: Callable[[int], Callable[[], object]]) -> None:
    """Assert that twice the size takes less than three times as long, and the largest less than a bound."""
    times: list[float] = []
    for size in SIZES:
        once = read(size)
        taken = seconds(once)
        if times and taken > ENOUGH_S and taken > 3 * times[-1]:  # a second look: other processes disturb
            taken = min(taken, seconds(once))
        times.append(taken)
        assert taken < BOUND_S, (size, times)
    for before, after in pairwise(times):
        assert after < max(3 * before, ENOUGH_S), times


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", LINES)
def test_a_log_is_read_in_linear_time(kind: str, place: str) -> None:
    before, after = PLACES[place]

    def read(size: int) -> Callable[[], object]:
        lines = [*before, *LINES[kind](size).split("\n"), *after]
        return lambda: session_from_lines(lines)

    assert_linear(read)


def junit(attributes: str = "", inner: str = "") -> str:
    return f"<testsuites><testsuite><testcase {attributes}>{inner}</testcase></testsuite></testsuites>"


REPORTS: dict[str, Callable[[int], str]] = {
    "junit, classname of many parts": lambda n: junit(f'classname="{"test_a." * (n // 7)}x" name="a"'),
    "junit, packages called tests": lambda n: junit(f'classname="{"tests." * (n // 6)}x" name="a"'),
    "junit, skip of spaces": lambda n: junit('classname="t" name="a"', f"<skipped>{' ' * n}x</skipped>"),
    "junit, skip of digits": lambda n: junit('classname="t" name="a"', f"<skipped>x:{'1' * n}</skipped>"),
    "junit, escapes": lambda n: junit(f'classname="t" name="{"#x1" * (n // 3)}"'),
    "junit, message of lines": lambda n: junit(
        'classname="" name="a"', f'<error message="collection failure">{"E x&#10;" * (n // 8)}</error>'
    ),
    "junit, cases": lambda n: "<testsuite>" + '<testcase classname="t" name="a"/>' * (n // 35) + "</testsuite>",
    "ctrf, tests": lambda n: json.dumps(
        {"results": {"tool": {"name": "pytest"}, "summary": {}, "tests": [{"name": "t.py::a@"}] * (n // 20)}}
    ),
    "ctrf, message": lambda n: json.dumps(
        {
            "results": {
                "tool": {"name": "pytest"},
                "summary": {},
                "tests": [{"name": "t.py::a", "status": "failed", "message": "a." * (n // 2) + " "}],
            }
        }
    ),
    "json-report, tests": lambda n: json.dumps(
        {"created": 1, "exitcode": 1, "tests": [{"nodeid": "t.py::a", "outcome": "failed"}] * (n // 40)}
    ),
    "json-report, skip": lambda n: json.dumps(
        {
            "created": 1,
            "exitcode": 1,
            "tests": [
                {"nodeid": "t", "outcome": "skipped", "setup": {"outcome": "skipped", "longrepr": "(, " * (n // 3)}}
            ],
        }
    ),
    "report-log, lines": lambda n: (
        '{"$report_type":"TestReport","nodeid":"t","when":"call","outcome":"rerun"}\n' * (n // 80)
    ),
    "report-log, message": lambda n: (
        json.dumps({"$report_type": "TestReport", "nodeid": "t", "longrepr": "E a\n" * (n // 4)}) + "\n"
    ),
    "report-log, keys": lambda n: '{"$report_type": ' + '"' * n + "}\n",
    "events, lines": lambda n: '{"e":"start","id":"a"}\n' * (n // 23),
    "events, one test": lambda n: '{"e":"phase","id":"a","when":"call","outcome":"passed"}\n' * (n // 56),
    "events, attempts": lambda n: "".join(
        f'{{"e":"phase","id":"a","when":"call","outcome":"rerun","attempt":{number}}}\n' for number in range(n // 70)
    ),
    "events, noise": lambda n: '{"e":"x"}\n' + "x\n" * (n // 2),
    "events, brackets": lambda n: '{"e":"x"}\n' + "[" * n + "\n",
    "events, digits": lambda n: '{"e":"x"}\n' + "1" * n + "\n",
    "events, foreign lines": lambda n: '{"e":"key","key":"' + "0" * 32 + '"}\n' + "x\n" * (n // 2),
    "events, numbers": lambda n: '{"e":"key","key":"' + "0" * 32 + '"}\n{' + ',"n":1' * (n // 6) + ',"k":"x"}\n',
}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_is_read_in_linear_time(kind: str, tmp_path: Path) -> None:
    name = kind.partition(",")[0]
    assert name in {reader.name for reader in built_in_readers()}

    def read(size: int) -> Callable[[], object]:
        path = tmp_path / str(size)
        path.write_text(REPORTS[kind](size))

        def once() -> None:
            with suppress(SweliveError):  # what is told is another test's matter
                read_session(path, kind=name)

        return once

    assert_linear(read)
