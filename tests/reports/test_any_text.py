"""Whatever the graded code calls its tests, a report stays readable by what reads it."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from swelive_plugin.core.verdict import Reason, Status, Verdict
from swelive_plugin.files import json_bytes, visible
from swelive_plugin.reports.json_report import results_of, verdict_as_dict
from swelive_plugin.reports.junit import junit_bytes
from swelive_plugin.reports.markdown import markdown_summary
from swelive_plugin.reports.terminal import result_line, verdict_lines
from tests.reports.build import judged

# Surrogates too: bytes that are no UTF-8 arrive as such.
anything = st.text(st.characters(codec=None), max_size=60)


def verdict_with(text: str, *, tests: bool) -> Verdict:
    return Verdict(
        "a__b-1",
        Status.UNRESOLVED,
        reasons=(Reason("code", text, test=text, file=text, evidence=text),),
        fail_to_pass=(judged(f"t.py::t[{text}]", "fail", "rule", text, outcome="failed"),) if tests else (),
        model=text,
    )


@given(anything, st.booleans())
def test_junit_is_xml(text: str, tests: bool) -> None:
    root = ET.fromstring(junit_bytes([verdict_with(text, tests=tests)]))
    assert len(list(root.iter("failure"))) == 1


@given(anything)
def test_terminal_lines_are_lines(text: str) -> None:
    verdict = verdict_with(text, tests=True)
    for line in (*verdict_lines(verdict), result_line(verdict, 1, 1)):
        assert "\x1b" not in line
        assert line.splitlines() == [line]


@given(anything)
def test_a_markdown_row_keeps_its_columns(text: str) -> None:
    page = markdown_summary(results_of([verdict_with(text, tests=True)]))
    row = page.splitlines()[6]
    assert row.replace("\\\\", "").replace("\\|", "").count("|") == 6


@given(anything)
def test_json_is_utf8(text: str) -> None:
    json.loads(json_bytes(verdict_as_dict(verdict_with(text, tests=True))).decode("utf-8"))


@given(anything, st.integers(1, 30))
def test_visible_text_is_cut_before_it_grows(text: str, limit: int) -> None:
    shown = visible(text, limit=limit)
    assert shown == visible(text) or shown.endswith("…")
