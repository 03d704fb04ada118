"""A run as Markdown: those that are not resolved first, and nothing of the graded code becomes markup."""

from __future__ import annotations

from dataclasses import replace

from swelive_plugin.reports.json_report import results_of
from swelive_plugin.reports.markdown import markdown_summary
from tests.reports.build import ENV_ERROR, FOUL, RESOLVED, UNRESOLVED


def test_a_small_page() -> None:
    results = results_of([RESOLVED, UNRESOLVED, ENV_ERROR], notes=["unknown instance q"])
    assert markdown_summary(results).splitlines() == [
        "## swelive: 1 of 3 resolved",
        "",
        "1 env_error, 1 unresolved, 1 resolved.",
        "",
        "| | instance | status | reason | s |",
        "|---|---|---|---|---:|",
        r"| ❌ 👀 | a\_\_b-2 | unresolved | t.py::test\_a\[x: AssertionError: 1 \!= 2 (t.py:3) (and 1 more) | 12.3 |",
        r"| ⚠️ | a\_\_b-4 | env\_error | the project does not install | 0.0 |",
        r"| ✅ | a\_\_b-1 | resolved |  | 1.5 |",
        "",
        "- unknown instance q",
    ]


def test_the_graded_code_writes_no_markup() -> None:
    row = markdown_summary(results_of([FOUL])).splitlines()[6]
    assert row.count("|") - row.count(r"\|") == 6
    assert r"\\x1b\[2K\\r\\x00 \<b\>\&\]\]\> \| \`x\` \\u202e" in row


def test_rows_are_limited() -> None:
    results = results_of(replace(RESOLVED, instance_id=f"a__b-{number}") for number in range(1000))
    page = markdown_summary(results, limit=10)
    assert page.count("✅") == 10
    assert page.endswith("\nand 990 more\n")


def test_nothing_graded() -> None:
    assert markdown_summary(results_of([])) == "## swelive: 0 of 0 resolved\n\nnothing was graded.\n\n"
