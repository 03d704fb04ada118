"""The readers of structured reports, on what their tools write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.outcome import Session
from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.readers import read_session
from swelive_plugin.readers.junit import rebuilt_id


def outcomes(session: Session) -> dict[str, str]:
    return {test_id: record.outcome.value for test_id, record in session.tests.items()}


def write(path: Path, content: Any) -> Path:
    if isinstance(content, list):
        path.write_text("".join(json.dumps(item) + "\n" for item in content))
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def report(test_id: str, when: str, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"nodeid": test_id, "when": when, "outcome": outcome, "duration": 0.5, "$report_type": "TestReport", **more}


def phases(test_id: str, call: str = "passed", **more: Any) -> list[dict[str, Any]]:
    return [report(test_id, "setup"), report(test_id, "call", call, **more), report(test_id, "teardown")]


# probe events


def test_events_are_recognised_and_may_break_off(tmp_path: Path) -> None:
    path = write(
        tmp_path / "events.jsonl",
        '{"e":"session","v":1,"pytest":"8.3"}\n{"e":"start","id":"t.py::a"}\n{"e":"phase","id":"t.py::a","wh',
    )
    session = read_session(path)
    assert (session.source, session.pytest_version, session.ended) == ("events", "8.3", False)
    assert outcomes(session) == {"t.py::a": "crashed"}


def test_a_file_of_other_json_is_no_events(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not begin with an event"):
        read_session(write(tmp_path / "x", '{"a": 1}\n'), kind="events")


# pytest-reportlog


def report_log(tmp_path: Path, *lines: dict[str, Any], ended: bool = True) -> Session:
    head: dict[str, Any] = {"pytest_version": "9.0", "$report_type": "SessionStart"}
    end = [{"exitstatus": 1, "$report_type": "SessionFinish"}] if ended else []
    session = read_session(write(tmp_path / "report.jsonl", [head, *lines, *end]), root="/p")
    assert session.source == "report-log"
    assert session.ended is ended
    return session


def test_report_log_outcomes(tmp_path: Path) -> None:
    crash = {"reprcrash": {"path": "/p/t.py", "lineno": 4, "message": "ValueError: no"}}
    not_run = {"wasxfail": "reason: [NOTRUN] ", "longrepr": None}
    session = report_log(
        tmp_path,
        *phases("t.py::pass"),
        *phases("t.py::fail", "failed", longrepr=crash),
        report("t.py::setup", "setup", "failed"),
        report("t.py::setup", "teardown"),
        *phases("t.py::teardown")[:2],
        report("t.py::teardown", "teardown", "failed"),
        report("t.py::skip", "setup", "skipped", longrepr=["/p/t.py", 7, "Skipped: why"]),
        report("t.py::skip", "teardown"),
        *phases("t.py::xfail", "skipped", wasxfail="", longrepr=crash),
        *phases("t.py::xpass", "passed", wasxfail=""),
        report("t.py::not_run", "setup", "skipped", **not_run),
        report("t.py::not_run", "teardown"),
    )
    assert outcomes(session) == {
        "t.py::pass": "passed",
        "t.py::fail": "failed",
        "t.py::setup": "error",
        "t.py::teardown": "error",
        "t.py::skip": "skipped",
        "t.py::xfail": "xfailed",
        "t.py::xpass": "xpassed",
        "t.py::not_run": "xfailed",
    }
    assert not session.tests["t.py::not_run"].body_ran
    assert session.exit_status == 1
    failed, skipped = session.tests["t.py::fail"].raised, session.tests["t.py::skip"].raised
    assert failed is not None
    assert skipped is not None
    assert (failed.type, failed.message, failed.file, failed.line) == ("ValueError", "no", "t.py", 4)
    assert (skipped.type, skipped.message, skipped.file, skipped.line) == ("Skipped", "why", "t.py", 7)


def test_report_log_that_breaks_off_shows_the_crash(tmp_path: Path) -> None:
    session = report_log(tmp_path, *phases("t.py::a"), report("t.py::b", "setup"), ended=False)
    assert outcomes(session) == {"t.py::a": "passed", "t.py::b": "crashed"}


def test_report_log_whose_last_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path, [{"pytest_version": "9.0", "$report_type": "SessionStart"}, *phases("t.py::a")])
    with path.open("a") as more:
        more.write('{"nodeid": "t.py::b", "when": "se')
    assert outcomes(read_session(path)) == {"t.py::a": "passed"}


def test_report_log_with_a_broken_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", '{"$report_type": "SessionStart"}\n{"nodei\n{"$report_type": "X"}\n')
    with pytest.raises(UsageError, match=r"r\.jsonl:2: not a line"):
        read_session(path)


def test_report_log_reruns_count_with_the_last_attempt(tmp_path: Path) -> None:
    session = report_log(tmp_path, report("t.py::a", "setup"), report("t.py::a", "call", "rerun"), *phases("t.py::a"))
    record = session.tests["t.py::a"]
    assert (record.outcome.value, record.flaky, record.attempts) == ("passed", True, 2)


@pytest.mark.parametrize("kind", ["SubTestReport", "SubtestReport"])
def test_report_log_failed_subtests_fail_their_test(tmp_path: Path, kind: str) -> None:
    sub = {**report("t.py::a", "call", "failed"), "$report_type": kind, "context": {"msg": "m", "kwargs": {"i": 1}}}
    session = report_log(tmp_path, report("t.py::a", "setup"), sub, *phases("t.py::a")[1:])
    assert outcomes(session) == {"t.py::a": "failed"}


def test_report_log_collection(tmp_path: Path) -> None:
    collect = {"$report_type": "CollectReport"}
    session = report_log(
        tmp_path,
        {**collect, "nodeid": "bad.py", "outcome": "failed", "longrepr": "while importing\nE   ImportError: no x"},
        {**collect, "nodeid": "skip.py", "outcome": "skipped", "longrepr": ["/p/skip.py", 2, "Skipped: mod"]},
        {**collect, "nodeid": "t.py", "outcome": "passed", "longrepr": None},
    )
    assert [(error.id, error.type, error.message, error.skipped) for error in session.collect_errors] == [
        ("bad.py", "ImportError", "no x", False),
        ("skip.py", "Skipped", "mod", True),
    ]


# pytest-json-report


def json_report(tmp_path: Path, tests: list[dict[str, Any]], **more: Any) -> Session:
    document = {"created": 1.0, "duration": 2.0, "exitcode": 1, "root": "/testbed", "tests": tests, **more}
    session = read_session(write(tmp_path / "report.json", document))
    assert session.source == "json-report"
    return session


def json_test(test_id: str, outcome: str, **phase_outcomes: Any) -> dict[str, Any]:
    told = {
        when: {"duration": 0.1, **({"outcome": value} if isinstance(value, str) else value)}
        for when, value in phase_outcomes.items()
    }
    return {"nodeid": test_id, "lineno": 1, "outcome": outcome, **told}


def test_json_report_outcomes(tmp_path: Path) -> None:
    ok = {"setup": "passed", "teardown": "passed"}
    crash = {"outcome": "failed", "crash": {"path": "/testbed/t.py", "lineno": 4, "message": "KeyError: 'x'"}}
    session = json_report(
        tmp_path,
        [
            json_test("t.py::pass", "passed", call="passed", **ok),
            json_test("t.py::fail", "failed", call=crash, **ok),
            json_test("t.py::setup", "error", setup="failed", teardown="passed"),
            json_test("t.py::teardown", "error", setup="passed", call="passed", teardown="failed"),
            json_test(
                "t.py::skip",
                "skipped",
                setup={"outcome": "skipped", "longrepr": "('/testbed/t.py', 7, 'Skipped: why')"},
                teardown="passed",
            ),
            json_test("t.py::xfail", "xfailed", call="skipped", **ok),
            json_test("t.py::xpass", "xpassed", call="passed", **ok),
            json_test("t.py::not_run", "xfailed", setup="skipped", teardown="passed"),
            json_test("t.py::dead", "passed", setup="passed", call="passed"),
        ],
    )
    assert outcomes(session) == {
        "t.py::pass": "passed",
        "t.py::fail": "failed",
        "t.py::setup": "error",
        "t.py::teardown": "error",
        "t.py::skip": "skipped",
        "t.py::xfail": "xfailed",
        "t.py::xpass": "xpassed",
        "t.py::not_run": "xfailed",
        "t.py::dead": "crashed",
    }
    assert not session.tests["t.py::not_run"].body_ran
    skipped = session.tests["t.py::skip"].raised
    assert skipped is not None
    assert (skipped.type, skipped.message, skipped.file, skipped.line) == ("Skipped", "why", "t.py", 7)


def test_json_report_of_a_rootdir_below_the_checkout(tmp_path: Path) -> None:
    test = json_test("t.py::a", "passed", setup="passed", call="passed", teardown="passed")
    assert list(json_report(tmp_path, [test], root="/testbed/sub").tests) == ["sub/t.py::a"]


def test_json_report_without_tests_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", {"created": 1.0, "exitcode": 0, "root": "/testbed"})
    assert read_session(path).notes == ("the report was made without its list of tests",)


def test_json_report_that_breaks_off_is_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="breaks off"):
        read_session(write(tmp_path / "r.json", '{"created": 1.0, "exitcode": 0, "tests": [{"nodeid"'))


# CTRF


def test_ctrf_outcomes(tmp_path: Path) -> None:
    tests = [
        {"name": "t.py::pass[a > b]", "status": "passed", "duration": 1500},
        {
            "name": "t.py::fail",
            "status": "failed",
            "rawStatus": "call_failed",
            "message": "ValueError: no",
            "filePath": "t.py",
        },
        {"name": "t.py::setup", "status": "failed", "rawStatus": "setup_failed"},
        {"name": "t.py::skip", "status": "skipped", "message": "why"},
        {"name": "t.py::xfail", "status": "skipped", "rawStatus": "xfailed"},
        {"name": "t.py::not_run", "status": "skipped", "rawStatus": "xfailed", "message": "[NOTRUN] x"},
        {"name": "t.py::xpass", "status": "passed", "rawStatus": "xpassed"},
        {"name": "t.py::later", "status": "pending"},
        {"name": "t.py::odd", "status": "other"},
        {"name": "t.py::twice", "status": "failed"},
        {"name": "t.py::twice", "status": "passed", "flaky": True, "retries": 1},
    ]
    document = {
        "reportFormat": "CTRF",
        "results": {"tool": {"name": "pytest", "version": "9.0"}, "summary": {}, "tests": tests},
    }
    session = read_session(write(tmp_path / "ctrf.json", document))
    assert session.source == "ctrf"
    assert session.pytest_version == "9.0"
    assert outcomes(session) == {
        "t.py::pass[a > b]": "passed",
        "t.py::fail": "failed",
        "t.py::setup": "error",
        "t.py::skip": "skipped",
        "t.py::xfail": "xfailed",
        "t.py::not_run": "xfailed",
        "t.py::xpass": "xpassed",
        "t.py::later": "not_run",
        "t.py::odd": "error",
        "t.py::twice": "failed",
    }
    assert session.tests["t.py::pass[a > b]"].duration_s == 1.5
    assert not session.tests["t.py::not_run"].body_ran


def test_ctrf_without_node_ids_rebuilds_them_and_says_so(tmp_path: Path) -> None:
    tests = [
        {"name": "a", "suite": ["t.py", "K"], "filePath": "t.py", "status": "passed"},
        {"name": "b", "suite": "t.py > K", "status": "passed"},
        {"name": "c", "filePath": "t.py", "status": "passed"},
    ]
    document = {"results": {"tool": {"name": "x"}, "summary": {}, "tests": tests}}
    session = read_session(write(tmp_path / "ctrf.json", document))
    assert list(session.tests) == ["t.py::K::a", "t.py::K::b", "t.py::c"]
    assert "3 ids were rebuilt" in session.notes[0]


@pytest.mark.parametrize("results", [{}, {"tests": {}}, None, []])
def test_ctrf_of_another_form_is_refused(tmp_path: Path, results: Any) -> None:
    with pytest.raises(UsageError, match="no CTRF report"):
        read_session(write(tmp_path / "x.json", {"results": results}), kind="ctrf")


# JUnit XML


def junit(tmp_path: Path, *cases: str) -> Session:
    path = write(
        tmp_path / "junit.xml",
        f'<?xml version="1.0"?><testsuites><testsuite name="pytest">{"".join(cases)}</testsuite></testsuites>',
    )
    session = read_session(path)
    assert session.source == "junit"
    return session


def test_junit_outcomes(tmp_path: Path) -> None:
    session = junit(
        tmp_path,
        '<testcase classname="t" name="pass[a b]" file="t.py" time="0.5"/>',
        '<testcase classname="t.K" name="fail" file="t.py"><failure message="ValueError: no">text</failure></testcase>',
        '<testcase classname="t" name="td" file="t.py"><error message="failed on teardown"/></testcase>',
        '<testcase classname="t" name="skip" file="t.py"><skipped type="pytest.skip" message="why">'
        "/testbed/t.py:7: why</skipped></testcase>",
        '<testcase classname="t" name="xfail" file="t.py"><skipped type="pytest.xfail" message="why"/></testcase>',
        '<testcase classname="t" name="nr" file="t.py"><skipped type="pytest.xfail" message="[NOTRUN] "/></testcase>',
        '<testcase classname="t" name="two" file="t.py"/>',
        '<testcase classname="t" name="two" file="t.py"><error message="failed on teardown"/></testcase>',
        '<testcase classname="" name="sub.bad"><error message="collection failure">E   ImportError: x</error>'
        "</testcase>",
    )
    assert outcomes(session) == {
        "t.py::pass[a b]": "passed",
        "t.py::K::fail": "failed",
        "t.py::td": "error",
        "t.py::skip": "skipped",
        "t.py::xfail": "xfailed",
        "t.py::nr": "xfailed",
        "t.py::two": "error",
    }
    assert session.notes == ("1 test is skipped, or passed with a skipped subtest: the format can't tell (t.py::skip)",)
    assert not session.tests["t.py::nr"].body_ran
    skipped = session.tests["t.py::skip"].raised
    assert skipped is not None
    assert (skipped.type, skipped.file, skipped.line) == ("Skipped", "t.py", 7)
    assert [(error.id, error.type, error.message) for error in session.collect_errors] == [
        ("sub/bad.py", "ImportError", "x")
    ]


@pytest.mark.parametrize(
    ("classname", "name", "file", "test_id", "certain"),
    [
        ("tests.test_a", "test_x[a.b::c]", "tests/test_a.py", "tests/test_a.py::test_x[a.b::c]", True),
        ("tests.test_a.K.Inner", "test_x", "tests/test_a.py", "tests/test_a.py::K::Inner::test_x", True),
        ("tests.test_a.K", "test_x", "tests/base.py", "tests/test_a.py::K::test_x", False),  # inherited
        ("tests.test_a.describe_it", "test_x", "", "tests/test_a.py::describe_it::test_x", False),
        ("tests.unit.test_a", "test_x", "", "tests/unit/test_a.py::test_x", False),
        ("pkg.mod_test.K", "test_x", "", "pkg/mod_test.py::K::test_x", False),
        ("pkg.tests.K", "test_x", "", "pkg/tests.py::K::test_x", False),
        ("test.test_a", "test_x", "", "test/test_a.py::test_x", False),
        ("testing.python.fixtures.TestK", "test_x", "", "testing/python/fixtures.py::TestK::test_x", False),
        ("pkg.mod", "pkg.mod.f", "", "pkg/mod.py::pkg.mod.f", False),  # a doctest
    ],
)
def test_junit_ids(classname: str, name: str, file: str, test_id: str, certain: bool) -> None:
    assert rebuilt_id(classname, name, file) == (test_id, certain)


def test_junit_says_where_ids_were_rebuilt(tmp_path: Path) -> None:
    session = junit(tmp_path, '<testcase classname="tests.test_a" name="x"/>')
    assert list(session.tests) == ["tests/test_a.py::x"]
    assert "1 ids were rebuilt from classname" in session.notes[0]


def test_junit_suites_inside_suites(tmp_path: Path) -> None:
    session = junit(tmp_path, '<testsuite name="in"><testcase classname="t" name="x" file="t.py"/></testsuite>')
    assert list(session.tests) == ["t.py::x"]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x SYSTEM "http://example.invalid/x.dtd">',
        "<!DOCTYPE testsuites>",
    ],
)
def test_junit_with_a_document_type_is_refused(tmp_path: Path, doctype: str) -> None:
    path = write(
        tmp_path / "junit.xml", f'<?xml version="1.0"?>{doctype}<testsuites><testsuite name="&a;"/></testsuites>'
    )
    with pytest.raises(UsageError, match="declares a document type"):
        read_session(path)


def test_junit_that_breaks_off_is_no_evidence(tmp_path: Path) -> None:
    path = write(tmp_path / "junit.xml", '<?xml version="1.0"?><testsuites><testsuite name="x"><testcase')
    with pytest.raises(InfraError, match="breaks off"):
        read_session(path)


def test_xml_that_is_no_junit_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.xml", '<?xml version="1.0"?><coverage/>')
    with pytest.raises(UsageError, match="not JUnit"):
        read_session(path)
