"""results.xml: any CI's reader finds a suite per prediction and a case per recorded test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from swelive_plugin.core.verdict import Reason, Status, Verdict
from swelive_plugin.reports.junit import junit_bytes, write_junit
from tests.reports.build import ALL, EMPTY, ENV_ERROR, FOUL, PATCH_FAILED, RESOLVED, TAMPERED, UNRESOLVED, judged


def cases(verdict: Verdict) -> list[tuple[str, str, str]]:
    (suite,) = JUnitXml.fromstring(junit_bytes([verdict]))
    return [(case.classname, case.name, case.result[0].message if case.result else "") for case in suite]


def test_a_case_per_recorded_test() -> None:
    assert cases(UNRESOLVED) == [
        ("FAIL_TO_PASS", "t.py::test_ok", ""),
        ("FAIL_TO_PASS", "t.py::test_a[x", "AssertionError: 1 != 2 (t.py:3)"),
        ("PASS_TO_PASS", "t.py::test_fine", ""),
        ("PASS_TO_PASS", "t.py::test_b", "KeyError: 'x'"),
        ("PASS_TO_PASS", "u.py::test_c", "its file was not run"),
        ("PASS_TO_PASS", "u.py::test_d", "its file was not run"),
    ]


def test_kinds_and_counts_of_a_suite() -> None:
    (suite,) = JUnitXml.fromstring(junit_bytes([UNRESOLVED]))
    assert (suite.name, suite.tests, suite.failures, suite.skipped, suite.errors, suite.time) == (
        "a__b-2", 6, 2, 2, 0, 12.34,
    )  # fmt: skip
    assert [type(case.result[0]) for case in suite if case.result] == [Failure, Failure, Skipped, Skipped]
    told = {each.get("name"): each.get("value") for each in ET.fromstring(junit_bytes([UNRESOLVED])).iter("property")}
    assert told == {"status": "unresolved", "policy": "swelive", "scope": "f2p-files", "model": ""}


@pytest.mark.parametrize(
    ("verdict", "expected", "kind"),
    [
        (PATCH_FAILED, ("verdict", "patch_failed", "hunk 2 does not apply"), Failure),
        (TAMPERED, ("verdict", "tampered", TAMPERED.reasons[0].message), Failure),
        (EMPTY, ("verdict", "empty_patch", "empty_patch"), Failure),
        (ENV_ERROR, ("verdict", "env_error", "the project does not install"), Error),
        (Verdict("a", Status.UNRESOLVED), ("verdict", "unresolved", "unresolved"), Failure),
    ],
)
def test_what_no_test_shows_is_a_case_of_its_own(verdict: Verdict, expected: tuple[str, str, str], kind: type) -> None:
    """A CI counts failed cases: a verdict that is not resolved must never look green."""
    assert cases(verdict)[-1] == expected
    (suite,) = JUnitXml.fromstring(junit_bytes([verdict]))
    assert type(list(suite)[-1].result[0]) is kind


def test_message_of_several_lines_is_joined() -> None:
    several = Verdict("a", Status.UNRESOLVED, fail_to_pass=(judged("t", "fail", message="one\n  two"),))
    assert cases(several) == [("FAIL_TO_PASS", "t", "one two")]
    assert cases(replace(PATCH_FAILED, reasons=(Reason("x", "one\n  two"),)))[-1][2] == "one two"


def test_a_resolved_verdict_has_nothing_but_its_tests() -> None:
    assert [name for _, name, _ in cases(RESOLVED)] == ["t.py::test_a", "t.py::test_b", "u.py::test_c"]
    assert [message for *_, message in cases(RESOLVED)] == ["", "", "not run"]


def test_control_characters_are_written_out() -> None:
    """XML 1.0 has no escape for them: one in a message, and no CI reads the file."""
    root = ET.fromstring(junit_bytes([FOUL]))
    (case,) = root.iter("testcase")
    assert case.get("name") == r"t.py::test_n[\x1b[2K\r\x00 <b>&]]> | `x` \u202e \udc80 \uffff\nsecond line]"


def test_evidence_is_kept_line_by_line() -> None:
    root = ET.fromstring(junit_bytes([PATCH_FAILED]))
    assert [found.text for found in root.iter("failure")] == ["error: one\nerror: two"]


def test_a_suite_per_prediction_and_totals(tmp_path: Path) -> None:
    write_junit(tmp_path / "results.xml", [*ALL, replace(RESOLVED, attempt=2)])
    document = JUnitXml.fromfile(str(tmp_path / "results.xml"))
    names = [suite.name for suite in document]
    assert names == [*(verdict.instance_id for verdict in ALL), "a__b-1 (attempt 2)"]
    assert (document.tests, document.failures, document.errors, document.skipped) == (18, 6, 1, 4)
