"""How the upstream graders read: each parser's rule, quirks included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import CollectError, Session
from swelive_plugin.core.upstream import parser_of, printed_lines, status_map, test_output

from .build import session


def new(parser: str, *lines: str) -> dict[str, str]:
    """SWE-bench 5."""
    return status_map(lines, parser, drops_counts=True, whole_ids=True)


def old(parser: str, *lines: str) -> dict[str, str]:
    """SWE-bench-Live and SWE-bench before 5."""
    return status_map(lines, parser, drops_counts=False, whole_ids=False)


def test_the_plain_parser_cuts_ids_and_the_last_line_wins() -> None:
    assert new("plain", "PASSED t.py::t[a b]", "FAILED t.py::t[a c] - x") == {"t.py::t[a": "FAILED"}


def test_the_plain_parser_parts_failures_at_dashes() -> None:
    assert new("plain", "FAILED t.py::t - x", "FAILED - t.py::u") == {"t.py::t": "FAILED", "t.py::u": "FAILED"}


def test_the_plain_parser_believes_any_line() -> None:
    assert new("plain", "PASSED [100%]", "PASSED", "ERROR: not found", " PASSED t.py::t", "XPASS t.py::x") == {
        "[100%]": "PASSED",
        "not": "ERROR:",
    }


def test_folded_skips_became_tests_before_version_5() -> None:
    line = "SKIPPED [2] t.py:3: why"
    assert new("plain", line) == {}
    assert old("plain", line) == {"[2]": "SKIPPED"}


def test_the_second_version_keeps_whole_ids_and_takes_a_status_at_the_end() -> None:
    lines = ("PASSED t.py::t[a  b]", "FAILED t.py::t[a - c] - x", "\x1b[32mt.py::u\x1b[0m PASSED", "XFAIL t.py::v")
    assert new("v2", *lines) == {
        "t.py::t[a b]": "PASSED",
        "t.py::t[a": "FAILED",
        "t.py::u": "PASSED",
        "t.py::v": "XFAIL",
    }
    assert old("v2", *lines) == {"t.py::t[a": "FAILED", "t.py::u": "PASSED", "t.py::v": "XFAIL"}


def test_the_options_parser_shortens_absolute_paths() -> None:
    lines = ("PASSED t.py::t[/one/etc]", "FAILED t.py::t[//two/etc]", "PASSED t.py::t[/a/*]", "PASSED t.py::t")
    assert new("options", *lines) == {
        "t.py::t[/etc]": "PASSED",
        "t.py::t[//two/etc]": "FAILED",
        "t.py::t[/a/*]": "PASSED",
        "t.py::t": "PASSED",
    }


def test_the_buttons_parser_writes_enum_members_as_numbers() -> None:
    lines = ("PASSED t.py::t[MouseButton.LEFT-MouseButton.RIGHT]",)
    assert new("buttons", *lines) == {"t.py::t[1-3]": "PASSED"}


def test_the_seaborn_parser_reads_passed_and_failed_only() -> None:
    lines = (
        "PASSED t.py::a",
        "FAILED t.py::b - x",
        "t.py::c PASSED [ 5%]",
        "XFAIL t.py::d",
        "x y PASSED [ 5%]",
        "FAILED",
    )
    assert new("seaborn", *lines) == {"t.py::a": "PASSED", "t.py::b": "FAILED", "t.py::c": "PASSED"}


@pytest.mark.parametrize(
    ("lines", "within"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", ">>>>> Start Test Output", "b", "+ : '>>>>> End Test Output'", "c"], ["b"]),
        (["a", ">>>>> Start Test Output", "b"], None),
        (["a", ">>>>> End Test Output", "b", ">>>>> Start Test Output", "c"], ["c"]),
        ([">>>>> Start Test Output", ">>>>> Tests Timed Out", ">>>>> End Test Output"], None),
        ([">>>>> Patch Apply Failed"], None),
    ],
)
def test_the_markers_of_the_harness(lines: list[str], within: list[str] | None) -> None:
    assert test_output(lines) == within


def test_a_session_is_printed_as_pytest_would() -> None:
    found = replace(
        session(
            {"t.py::f": "failed", "t.py::x": "xpassed", "t.py::p": "passed", "t.py::s": "skipped", "t.py::n": "not_run"}
        ),
        collect_errors=(CollectError("bad.py"), CollectError("skipped.py", skipped=True)),
    )
    assert list(printed_lines(found)) == [
        "PASSED t.py::p",
        "SKIPPED t.py::s",
        "XPASS t.py::x",
        "ERROR bad.py",
        "FAILED t.py::f",
    ]


def test_a_session_that_broke_off_prints_no_summary() -> None:
    assert list(printed_lines(replace(session({"t.py::p": "passed"}), ended=False))) == []


def test_a_text_log_is_taken_as_it_was_printed() -> None:
    found = Session(tests={}, source="log", printed=("PASSED t.py::anything",), ended=False)
    assert list(printed_lines(found)) == ["PASSED t.py::anything"]


@pytest.mark.parametrize(
    ("repo", "row", "kind"),
    [
        ("o/n", {}, "plain"),
        ("psf/requests", {}, "options"),
        ("psf/requests", {"log_parser": "parse_log_pytest"}, "plain"),
        ("o/n", {"log_parser": "parse_log_pytest_v2"}, "v2"),
        ("o/n", {"log_parser": "pytest"}, "plain"),
        ("mwaskom/seaborn", {"log_parser": None}, "seaborn"),
    ],
)
def test_the_row_names_the_parser_or_the_repository_does(repo: str, row: dict[str, object], kind: str) -> None:
    assert parser_of(Instance("o__n-1", repo, "0" * 40, row=row)) == kind
