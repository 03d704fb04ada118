"""The reader of pytest-json-report's document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Outcome, Session, TestRecord, reduce_events, with_prefix, worst
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.reports import first_key, json_document, raised_in, relative_to

__all__ = ["JsonReportReader"]

_PHASES = ("setup", "call", "teardown")
_FAILED = {"failed": Outcome.FAILED, "error": Outcome.ERROR}


class JsonReportReader:
    """Reads what ``pytest --json-report`` wrote at the end of a run."""

    name = "json-report"

    def recognises(self, head: bytes) -> bool:
        """Return whether the content has pytest-json-report's keys."""
        return first_key(head, (b"exitcode",)) and b'"created"' in head[:4096]

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the document tells of.

        Raises `InfraError` for a document that breaks off and `UsageError` for one of another form.
        """
        document = json_document(path, "a pytest-json-report")
        if "exitcode" not in document:
            raise UsageError(f"{path} is no pytest-json-report: it has no exitcode", hint="name a --json-report file")
        rootdir = str(document.get("root", ""))
        session = reduce_events(_events(document, root, rootdir))
        below = relative_to(rootdir, root) if rootdir.startswith(root.rstrip("/") + "/") else ""
        notes = () if "tests" in document else ("the report was made without its list of tests",)
        tests = {**session.tests, **_worse_than_phases(document, session)}
        return with_prefix(replace(session, tests=tests, source=self.name, rootdir=rootdir, notes=notes), below)


def _worse_than_phases(document: Mapping[str, Any], session: Session) -> dict[str, TestRecord]:
    """Return the tests that failed although all their phases passed: a failed subtest has no phase of its own."""
    found: dict[str, TestRecord] = {}
    for test in _objects(document.get("tests")):
        test_id, outcome = str(test.get("nodeid", "")), _FAILED.get(str(test.get("outcome")))
        record = found.get(test_id) or session.tests.get(test_id)
        if outcome is None:
            continue
        if record is None:
            found[test_id] = TestRecord(test_id, outcome)
        elif worst((record.outcome, outcome)) is not record.outcome:
            found[test_id] = replace(record, outcome=outcome)
    return found


def _events(document: Mapping[str, Any], root: str, rootdir: str) -> Iterator[dict[str, Any]]:
    for collector in _objects(document.get("collectors")):
        if collector.get("outcome") in ("failed", "skipped"):
            text = str(collector.get("longrepr", ""))
            if collector["outcome"] == "skipped":
                kind, told = "collect_skip", _skip(text, (root, rootdir))
            else:
                last = next((line[2:].strip() for line in reversed(text.splitlines()) if line.startswith("E ")), text)
                kind, told = "collect_error", raised_in(last)
            yield {"e": kind, "id": collector.get("nodeid", ""), **told}
    for test in _objects(document.get("tests")):
        expected = test.get("outcome") in ("xfailed", "xpassed")
        for when in _PHASES:
            phase = test.get(when)
            if isinstance(phase, Mapping):
                yield _phase(test, when, phase, expected, (root, rootdir))
    yield {"e": "end", "exitstatus": document.get("exitcode")}


def _phase(
    test: Mapping[str, Any], when: str, phase: Mapping[str, Any], expected: bool, bases: tuple[str, ...]
) -> dict[str, Any]:
    event: dict[str, Any] = {
        "e": "phase",
        "id": test.get("nodeid", ""),
        "when": when,
        "outcome": phase.get("outcome", "failed"),
        "d": phase.get("duration", 0.0),
    }
    # the document keeps the final word only: which phase was expected to fail follows from it
    if expected and (phase.get("outcome") == "skipped" or (when == "call" and test["outcome"] == "xpassed")):
        event["wasxfail"] = ""
    crash = phase.get("crash")
    if isinstance(crash, Mapping):
        event["raised"] = raised_in(
            str(crash.get("message", "")),
            relative_to(str(crash.get("path", "")), *bases),
            int(crash.get("lineno") or 0),
        )
    elif phase.get("outcome") == "skipped" and phase.get("longrepr"):
        event["raised"] = _skip(str(phase["longrepr"]), bases)
    return event


def _skip(text: str, bases: tuple[str, ...]) -> dict[str, Any]:
    """Return a skip told as Python's notation of (file, line, reason)."""
    parts = text.strip("()").split(", ", 2)
    if len(parts) == 3 and parts[1].isdecimal():
        return raised_in(parts[2].strip("'\""), relative_to(parts[0].strip("'\""), *bases), int(parts[1]))
    return raised_in(text)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item
