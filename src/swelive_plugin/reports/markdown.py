"""A run as Markdown, for the job summary of a CI (GitHub: ``$GITHUB_STEP_SUMMARY``)."""

from __future__ import annotations

import re

from swelive_plugin.core.verdict import Status
from swelive_plugin.files import one_line
from swelive_plugin.reports.json_report import Results, ResultsRow

__all__ = ["markdown_summary"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!@$&])")
_MARKS = {Status.RESOLVED: "✅", Status.INVALID_INSTANCE: "⚠️", Status.ENV_ERROR: "⚠️", Status.ERROR: "⚠️"}


def markdown_summary(results: Results, *, limit: int = 100) -> str:
    """Return a small Markdown page: the counts, then a row for each prediction, those that are not resolved first.

    ``limit`` is the greatest number of rows, for a job summary holds 1 MiB.
    """
    submitted = sum(results.counts.values())
    resolved = results.counts.get(Status.RESOLVED.value, 0)
    counts = ", ".join(f"{count} {status}" for status, count in results.counts.items() if count)
    lines = [f"## swelive: {resolved} of {submitted} resolved", "", f"{counts or 'nothing was graded'}.", ""]
    rows = sorted(results.rows, key=lambda row: row.status is Status.RESOLVED)
    if rows:
        lines += ["| | instance | status | reason | s |", "|---|---|---|---|---:|"]
        lines += map(_row, rows[:limit])
    if len(rows) > limit:
        lines += ["", f"and {len(rows) - limit} more"]
    if results.notes:
        lines += ["", *(f"- {_plain(note)}" for note in results.notes[:limit])]
    return "\n".join(lines) + "\n"


def _row(row: ResultsRow) -> str:
    mark = _MARKS.get(row.status, "❌") + (" 👀" if row.review else "")
    name = _plain(row.instance_id) + (f" (attempt {row.attempt})" if row.attempt > 1 else "")
    return f"| {mark} | {name} | {_plain(row.status.value)} | {_plain(row.reason)} | {row.duration_s:.1f} |"


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is: the graded code chooses its own words, which must form no markup."""
    return _SPECIAL.sub(r"\\\1", one_line(text, limit=300))
