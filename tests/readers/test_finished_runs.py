"""Finished runs that were judged wrongly: each test is named after the defect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Session
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.library import score_file
from swelive_plugin.readers import read_session
from swelive_plugin.readers.ids import escaped_characters, without_group
from swelive_plugin.readers.text import session_from_lines

from .test_text import FAILURES, PASSES, START, SUMMARY, end, outcomes, read, summary


def scored(tmp_path: Path, text: str, *f2p: str) -> Verdict:
    path = tmp_path / "result"
    path.write_text(text)
    return score_file(Instance("o__n-1", "o/n", "0" * 40, fail_to_pass=f2p, pass_to_pass=()), path)


def log(*lines: str) -> str:
    return "\n".join(lines) + "\n"


# pytest-subtests up to 0.14


@pytest.mark.parametrize(
    "prefix",
    ["[beta] (n=2)", "(k=1)", "[m]", "(<subtest>)", "[a [b] (c)] (k='x)', n=2)", "[x SUBFAIL y] (n=1)", "[[]"],
)
def test_a_failed_subtest_whose_line_begins_with_brackets_was_not_read(prefix: str) -> None:
    found = outcomes(
        *summary(
            "PASSED t.py::a[x y]",
            "PASSED t.py::b",
            f"{prefix} SUBFAIL t.py::a[x y] - assert 0",
            counts="1 failed, 2 passed",
        )
    )
    assert found == {"t.py::a[x y]": "failed", "t.py::b": "passed"}


def test_a_failed_subtest_whose_message_has_line_breaks_was_not_read() -> None:
    lines = ["PASSED t.py::a", "PASSED t.py::b", "[one", "two] (k=1) SUBFAIL t.py::a - assert 0"]
    assert outcomes(*summary(*lines, counts="1 failed, 2 passed")) == {"t.py::a": "failed", "t.py::b": "passed"}


def test_failed_subtests_in_the_progress_of_workers_were_not_read() -> None:
    found = outcomes(
        START,
        "[gw0] [ 25%] [beta] (n=2) SUBFAIL t.py::a ",
        "[gw0] [ 25%] [gamma] SUBPASS t.py::a ",
        "[gw0] [ 50%] PASSED t.py::a ",
        "[gw1] [100%] SUBFAILED[m x] (i=1) t.py::b ",
        "[gw1] [100%] PASSED t.py::b ",
        end("2 failed, 2 passed, 1 subtests passed"),
    )
    assert found == {"t.py::a": "failed", "t.py::b": "failed"}


def test_the_log_of_old_subtests_was_resolved(tmp_path: Path) -> None:
    lines = summary(
        "PASSED t.py::a", "[beta] (n=2) SUBFAIL t.py::a - AssertionError: nope", counts="1 failed, 1 passed"
    )
    assert scored(tmp_path, log(*lines), "t.py::a").status is Status.UNRESOLVED


# the last line counts more than was read


@pytest.mark.parametrize(
    ("counts", "unread"),
    [("2 failed, 1 passed", "2 failures"), ("1 passed, 1 error", "1 error"), ("1 failed, 1 passed", "1 failure")],
)
def test_passed_tests_were_believed_where_failures_are_counted_and_not_named(
    tmp_path: Path, counts: str, unread: str
) -> None:
    lines = summary("PASSED t.py::a", counts=counts)
    session = read(*lines)
    assert session.tests == {}
    assert f"the last line counts {unread} that no line names, so no passed test is believed" in session.notes
    verdict = scored(tmp_path, log(*lines), "t.py::a")
    assert (verdict.status, verdict.reward) == (Status.ERROR, None)


def test_failures_of_the_progress_and_errors_of_collection_are_read() -> None:
    errors = "==================================== ERRORS ===================================="
    heading = "______ ERROR collecting bad.py ______"
    found = outcomes(
        START, "t.py::a PASSED [ 50%]", "t.py::b FAILED [ 99%]", errors, heading, end("1 failed, 1 passed, 1 error")
    )
    assert found == {"t.py::a": "passed", "t.py::b": "failed"}


# no usual last line


def quiet(*lines: str, dots: str = "..F") -> list[str]:
    return [f"{dots}   [100%]", FAILURES, "____ b ____", "E   assert 0", SUMMARY, *lines]


def test_a_very_quiet_log_was_crashed() -> None:
    """``-qq`` prints neither header nor last line."""
    session = read(*quiet("PASSED t.py::a", "PASSED t.py::c", "FAILED t.py::b - assert 0"))
    assert session.ended
    assert {key: record.outcome.value for key, record in session.tests.items()} == {
        "t.py::a": "passed",
        "t.py::c": "passed",
        "t.py::b": "failed",
    }


def test_a_very_quiet_log_that_names_failures_alone_gives_no_verdict(tmp_path: Path) -> None:
    verdict = scored(tmp_path, log(*quiet("FAILED t.py::b - assert 0")), "t.py::a")
    assert (verdict.status, verdict.reward) == (Status.ERROR, None)
    assert scored(tmp_path, log(*quiet("FAILED t.py::b - assert 0")), "t.py::b").status is Status.UNRESOLVED


def test_a_very_quiet_log_that_is_cut_does_not_hide_an_error() -> None:
    session = read(*quiet("PASSED t.py::a", "PASSED t.py::c", dots="..E"))
    assert session.tests == {}


def test_a_very_quiet_log_that_was_interrupted_did_not_end() -> None:
    lines = [*quiet("FAILED t.py::b - assert 0"), "!!!!!!!! KeyboardInterrupt !!!!!!!!"]
    assert not read(*lines).ended


PRETTY = [
    "                     Summary of Failures",
    "┏━━━━┓",
    "Results (0.19s):",
    "         1 failed",
    "         2 passed",
]


def test_a_log_of_pytest_pretty_was_crashed(tmp_path: Path) -> None:
    text = log(START, "t.py .F.   [100%]", FAILURES, "____ b ____", PASSES, "PASSED t.py::b", *PRETTY)
    verdict = scored(tmp_path, text, "t.py::a")
    assert (verdict.status, verdict.reward) == (Status.ERROR, None)
    assert "counts 3 results without naming them" in verdict.reasons[0].message


def test_a_verbose_log_of_pytest_pretty_is_judged(tmp_path: Path) -> None:
    progress = ["t.py::a PASSED [ 33%]", "t.py::b FAILED [ 66%]", "t.py::c PASSED [100%]"]
    text = log(START, *progress, FAILURES, "____ b ____", *PRETTY, "", "Error: Process completed with exit code 1.")
    assert scored(tmp_path, text, "t.py::a").status is Status.RESOLVED
    assert scored(tmp_path, text, "t.py::b").status is Status.UNRESOLVED


def test_a_log_of_pytest_sugar_is_judged_by_its_counts() -> None:
    lines = ["Results (1m 0.19s):", "       2 passed", "       1 failed", "         - t.py:3 test_b"]
    session = read(START, "t.py::a PASSED [ 99%]", *lines)
    assert session.ended
    assert session.tests == {}  # one failure is counted and not named


def test_a_block_of_results_that_a_test_printed_ends_no_session() -> None:
    session = read(
        START, "t.py::a PASSED [ 33%]", "Results (0.19s):", "   9 passed", "t.py::b PASSED [ 66%]", "t.py::c "
    )
    assert not session.ended
    assert session.tests["t.py::c"].outcome.value == "crashed"


def test_two_sessions_of_pytest_pretty_are_two() -> None:
    one = [START, "t.py::a PASSED [100%]", FAILURES, "Results (0.1s):", "   1 passed"]
    two = [START, "t.py::b PASSED [100%]", "Results (0.1s):", "   1 passed"]
    session = read(*one, *two)
    assert (session.ended, sorted(session.tests)) == (True, ["t.py::a", "t.py::b"])


# carriage returns


@pytest.mark.parametrize("as_file", [True, False])
def test_a_progress_bar_hid_the_result_behind_it(tmp_path: Path, as_file: bool) -> None:
    bar = "  0%|          | 0/3\r100%|##########| 3/3\r"
    lines = [
        START,
        f"{bar}t.py::a PASSED [ 25%]",
        f"t.py::b {bar}PASSED [ 50%]",
        f"t.py::c {bar}FAILED [ 75%]\r",
        SUMMARY,
        f"{bar}PASSED t.py::a",
        "PASSED t.py::b",
        f"{bar}FAILED t.py::c - assert 0",
        f"{bar}{end('1 failed, 2 passed')}",
    ]
    session = session_from_lines(lines)
    if as_file:
        (tmp_path / "log").write_bytes("\n".join(lines).encode())
        session = read_session(tmp_path / "log")
    assert {key: record.outcome.value for key, record in session.tests.items()} == {
        "t.py::a": "passed",
        "t.py::b": "passed",
        "t.py::c": "failed",
    }
    assert session.ended


# pytest-json-report


def json_report(tmp_path: Path, outcome: str, **phases: str) -> Session:
    test = {"nodeid": "t.py::a", "outcome": outcome, **{when: {"outcome": word} for when, word in phases.items()}}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"created": 1.0, "exitcode": 1, "root": "/testbed", "tests": [test]}))
    return read_session(path)


@pytest.mark.parametrize(
    ("outcome", "call", "teardown", "right"),
    [
        ("failed", "passed", "passed", "failed"),
        ("error", "passed", "passed", "error"),
        ("passed", "failed", "passed", "failed"),
        ("passed", "passed", "failed", "error"),
        ("skipped", "passed", "passed", "passed"),  # a subtest was skipped
        ("passed", "passed", "passed", "passed"),
    ],
)
def test_json_report_counts_the_worse_of_a_test_and_its_phases(
    tmp_path: Path, outcome: str, call: str, teardown: str, right: str
) -> None:
    session = json_report(tmp_path, outcome, setup="passed", call=call, teardown=teardown)
    assert session.tests["t.py::a"].outcome.value == right


def test_json_report_of_a_failed_test_without_phases(tmp_path: Path) -> None:
    assert json_report(tmp_path, "failed").tests["t.py::a"].outcome.value == "failed"


# JUnit and CTRF


def junit(name: str, inner: str = "") -> str:
    case = f'<testcase classname="t" name="{name}" file="t.py">{inner}</testcase>'
    return f'<?xml version="1.0"?><testsuites><testsuite name="pytest">{case}</testsuite></testsuites>'


def ctrf(status: str) -> str:
    tests = [{"name": "t.py::a", "status": status}]
    return json.dumps({"results": {"tool": {"name": "pytest"}, "summary": {}, "tests": tests}})


@pytest.mark.parametrize("text", [junit("a", '<skipped type="pytest.skip" message="x"/>'), ctrf("skipped")])
def test_a_skipped_subtest_looked_like_a_skipped_test_without_a_word(tmp_path: Path, text: str) -> None:
    verdict = scored(tmp_path, text, "t.py::a")
    told = "1 test is skipped, or passed with a skipped subtest: the format can't tell (t.py::a)"
    assert told in [warning.message for warning in verdict.warnings]


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("e[#x1F600]", "e[\\U0001f600]"),
        ("e[#x10FFFF]", "e[\\U0010ffff]"),
        ("e[#x1B[31mred]", "e[\\x1b[31mred]"),
        ("e[#x00#x7F]", "e[\\x00\\x7f]"),
        ("s[#xDCFF]", "s[\\udcff]"),
        ("s[#xFFFE]", "s[\\ufffe]"),
        ("plain[#x27 #x0A #xyz]", "plain[#x27 #x0A #xyz]"),
    ],
)
def test_characters_that_xml_cannot_hold_are_a_spelling(name: str, right: str) -> None:
    assert escaped_characters(name) == right


@pytest.mark.parametrize("recorded", ["t.py::e[😀]", "t.py::e[\\U0001f600]"])
def test_an_id_with_an_emoji_in_junit_gave_no_verdict(tmp_path: Path, recorded: str) -> None:
    assert scored(tmp_path, junit("e[#x1F600]"), recorded).status is Status.RESOLVED


# xdist's loadgroup


@pytest.mark.parametrize(
    ("test_id", "right"),
    [
        ("t.py::a@g", "t.py::a"),
        ("t.py::K::a@my group", "t.py::K::a"),
        ("t.py::a[x]@g", "t.py::a[x]"),
        ("t.py::a[x@y]", "t.py::a[x@y]"),
        ("t.py::a[x@y]@g@h", "t.py::a[x@y]"),
        ("t.py::a[x]@y]", "t.py::a[x]@y]"),
        ("t.py::a[b]@c]@g", "t.py::a[b]@c]"),
        ("pkg@1/t.py::a", "pkg@1/t.py::a"),
        ("t.yaml::user@host", "t.yaml::user@host"),
    ],
)
def test_a_group_behind_an_id_is_no_part_of_it(test_id: str, right: str) -> None:
    assert without_group(test_id) == right


GROUPED = "t.py::a[x y]@g"


@pytest.mark.parametrize(
    "text",
    [
        log(*summary(f"PASSED {GROUPED}", "FAILED t.py::b[u v]@g - assert 0", counts="1 failed, 1 passed")),
        log(START, f"[gw0] [ 50%] PASSED {GROUPED} ", "[gw0] [ 99%] FAILED t.py::b[u v]@g ", end("1 failed, 1 passed")),
        junit("a[x y]@g"),
        ctrf("passed").replace("t.py::a", GROUPED),
        log(
            json.dumps({"$report_type": "SessionStart"}),
            *(
                json.dumps({"$report_type": "TestReport", "nodeid": GROUPED, "when": when, "outcome": "passed"})
                for when in ("setup", "call", "teardown")
            ),
            json.dumps({"$report_type": "SessionFinish", "exitstatus": 0}),
        ),
    ],
    ids=["summary", "workers", "junit", "ctrf", "report-log"],
)
def test_a_group_hid_the_test_from_its_recorded_id(tmp_path: Path, text: str) -> None:
    assert scored(tmp_path, text, "t.py::a[x y]").status is Status.RESOLVED


def test_two_groups_of_one_test_count_with_the_worse_outcome(tmp_path: Path) -> None:
    lines = summary("PASSED t.py::a@g", "FAILED t.py::a@h - assert 0", counts="1 failed, 1 passed")
    assert scored(tmp_path, log(*lines), "t.py::a").status is Status.UNRESOLVED


def test_skipped_subtests_are_folded_skips() -> None:
    lines = ["PASSED t.py::a", "[alpha] SUBSKIP [1] t.py:13: not here", "(k=1) SUBSKIPPED [2] t.py:14: nor here"]
    session = read(*summary(*lines, counts="1 passed, 3 skipped"))
    assert session.unnamed == 0
    assert session.notes == ("3 skipped tests are printed without their ids (t.py:13, t.py:14)",)


def test_a_message_that_looks_like_a_skipped_subtest_hides_no_failure() -> None:
    lines = ["FAILED t.py::a - [x] SUBSKIP [1] t.py:3: y", "FAILED t.py::b - SKIPPED [1] t.py:3: y"]
    assert outcomes(*summary(*lines, counts="2 failed")) == {"t.py::a": "failed", "t.py::b": "failed"}


def test_a_failure_without_a_file_does_not_spoil_the_passed_tests() -> None:
    lines = ["PASSED t.py::a", "FAILED ::project - Exception: rst"]
    assert outcomes(*summary(*lines, counts="1 failed, 1 passed")) == {"t.py::a": "passed"}


@pytest.mark.parametrize("line", ["t.py::a [beta] (n=2) SUBFAIL [ 33%]", "t.py::a SUBFAILED[m x] (i=1)   [ 33%]"])
def test_failed_subtests_in_the_verbose_progress_fail_their_test(line: str) -> None:
    assert outcomes(START, line, "t.py::a PASSED [ 99%]", end("1 failed, 1 passed")) == {"t.py::a": "failed"}


def test_dots_without_any_summary_give_no_verdict(tmp_path: Path) -> None:
    """What ``-qq`` prints of a session in which all passed."""
    assert scored(tmp_path, "...    [100%]\n", "t.py::a").status is Status.ERROR
