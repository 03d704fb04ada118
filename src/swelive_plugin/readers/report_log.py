"""The reader of pytest-reportlog's JSON lines: pytest's own reports, phase by phase, as they came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Session, reduce_events
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.files import head_of
from swelive_plugin.readers.reports import first_key, raised_in, records_of, relative_to

__all__ = ["ReportLogReader", "events_from_reports"]


class ReportLogReader:
    """Reads what ``pytest --report-log=FILE`` wrote; a log that breaks off shows the crash."""

    name = "report-log"

    def recognises(self, head: bytes) -> bool:
        """Return whether the first line is one of pytest-reportlog's."""
        return first_key(head.partition(b"\n")[0], (b"$report_type",), within=len(head))

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the reports tell of. Raises `UsageError` where a line is no report."""
        if not self.recognises(head_of(path)):
            raise UsageError(f"{path} does not begin with a line of pytest-reportlog", hint="name a --report-log file")
        session = reduce_events(events_from_reports(records_of(path, "pytest-reportlog"), root=root))
        return replace(session, source=self.name)


def events_from_reports(reports: Iterable[Mapping[str, Any]], *, root: str = "/testbed") -> Iterator[dict[str, Any]]:
    """Yield the probe's events for pytest's serialized reports; kinds that other plugins add are passed over."""
    reruns: dict[str, int] = {}
    for report in reports:
        kind = report.get("$report_type")
        if kind == "SessionStart":
            yield {"e": "session", "pytest": report.get("pytest_version", "")}
        elif kind == "SessionFinish":
            yield {"e": "end", "exitstatus": report.get("exitstatus")}
        elif kind == "CollectReport":
            yield from _collect_events(report, root)
        elif kind in ("TestReport", "SubTestReport", "SubtestReport"):
            yield _phase_event(report, root, reruns)


def _collect_events(report: Mapping[str, Any], root: str) -> Iterator[dict[str, Any]]:
    outcome = report.get("outcome")
    if outcome not in ("failed", "skipped"):
        return
    file, line, message = _crash(report.get("longrepr"), root)
    told = raised_in(message)
    event = {"e": "collect_skip" if outcome == "skipped" else "collect_error", "id": report.get("nodeid", "")}
    yield {**event, "type": told["type"], "msg": told["msg"], "file": file, "line": line}


def _phase_event(report: Mapping[str, Any], root: str, reruns: dict[str, int]) -> dict[str, Any]:
    test_id = str(report.get("nodeid", ""))
    event: dict[str, Any] = {
        "e": "phase",
        "id": test_id,
        "when": report.get("when", "call"),
        "outcome": report.get("outcome", "failed"),
        "d": report.get("duration", 0.0),
        "attempt": reruns.get(test_id, 0) + 1,
    }
    if report.get("outcome") == "rerun":
        reruns[test_id] = reruns.get(test_id, 0) + 1
    if report.get("wasxfail") is not None:
        event["wasxfail"] = report["wasxfail"]
    if report.get("$report_type") != "TestReport":
        context = report.get("context") or report.get("_subtest.context") or {}
        event["subtest"] = f"{context.get('msg') or ''} {context.get('kwargs') or ''}".strip() or "subtest"
    if report.get("longrepr") is not None:
        file, line, message = _crash(report["longrepr"], root)
        event["raised"] = {**raised_in(message), "file": file, "line": line}
    return event


def _crash(longrepr: Any, root: str) -> tuple[str, int, str]:
    """Return file, line and message of the forms in which pytest tells of an exception."""
    if isinstance(longrepr, list) and len(longrepr) == 3:  # a skip: where, line, why
        return relative_to(str(longrepr[0]), root), longrepr[1] if isinstance(longrepr[1], int) else 0, str(longrepr[2])
    if isinstance(longrepr, Mapping):
        crash = longrepr.get("reprcrash") or {}
        return (
            relative_to(str(crash.get("path", "")), root),
            int(crash.get("lineno") or 0),
            str(crash.get("message", "")),
        )
    text = str(longrepr or "")
    last = next((line[2:].strip() for line in reversed(text.splitlines()) if line.startswith("E ")), "")
    return "", 0, last or text.strip().partition("\n")[0]
