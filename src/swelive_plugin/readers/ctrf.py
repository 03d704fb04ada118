"""The reader of CTRF, the Common Test Report Format (ctrf.io), as pytest plugins write it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Outcome, Raised, Session, TestRecord, worst
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.reports import first_key, json_document, raised_in, skipped_note

__all__ = ["CtrfReader"]

_RAW = {
    "xfailed": Outcome.XFAILED,
    "xpassed": Outcome.XPASSED,
    "error": Outcome.ERROR,
    "setup_failed": Outcome.ERROR,
    "teardown_failed": Outcome.ERROR,
}
_STATUS = {
    "passed": Outcome.PASSED,
    "failed": Outcome.FAILED,
    "skipped": Outcome.SKIPPED,
    "pending": Outcome.NOT_RUN,
    "other": Outcome.ERROR,
}


class CtrfReader:
    """Reads a CTRF document: one status per test, no phases.

    XFAIL, XPASS and errors show only where a plugin gives ``rawStatus``; without it they are skipped, passed, failed.
    """

    name = "ctrf"

    def recognises(self, head: bytes) -> bool:
        """Return whether the content has CTRF's keys."""
        start = head[:4096]
        return first_key(head, (b"results",)) and (b"CTRF" in start or (b'"tool"' in start and b'"summary"' in start))

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the document tells of.

        Raises `InfraError` for a document that breaks off and `UsageError` for one of another form.
        """
        results = json_document(path, "a CTRF report").get("results")
        if not isinstance(results, Mapping) or not isinstance(results.get("tests"), list):
            raise UsageError(f"{path} is no CTRF report: it has no results.tests")
        tests: dict[str, TestRecord] = {}
        rebuilt = 0
        for test in results["tests"]:
            if not isinstance(test, Mapping):
                continue
            test_id, certain = _test_id(test)
            rebuilt += not certain
            record = _record(test_id, test)
            known = tests.get(test_id)
            if known is None or worst((known.outcome, record.outcome)) is not known.outcome:
                tests[test_id] = record
        notes = list(skipped_note(tests))
        if rebuilt:
            notes.append(f"{rebuilt} ids were rebuilt from suite and name: the report does not hold pytest's own")
        tool = results.get("tool")
        version = str(tool.get("version", "")) if isinstance(tool, Mapping) and tool.get("name") == "pytest" else ""
        return Session(tests=tests, source=self.name, pytest_version=version, notes=tuple(notes))


def _test_id(test: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the id of a test and whether it is pytest's own."""
    name = str(test.get("name", ""))
    if "::" in name.split("[", 1)[0]:
        return name, True
    suite = test.get("suite") or []
    parts = suite.split(" > ") if isinstance(suite, str) else [str(part) for part in suite]
    file = str(test.get("filePath") or "")
    if file and file not in parts:
        parts = [file, *parts]
    return "::".join([*parts, name]), False


def _record(test_id: str, test: Mapping[str, Any]) -> TestRecord:
    raw = str(test.get("rawStatus") or "")
    outcome = _RAW.get(raw) or _STATUS.get(str(test.get("status")), Outcome.ERROR)
    message = str(test.get("message") or "")
    raised = None
    if message:
        told = raised_in(message) if outcome in (Outcome.FAILED, Outcome.ERROR) else {"type": "", "msg": message}
        raised = Raised(told["type"], told["msg"], str(test.get("filePath") or ""), int(test.get("line") or 0))
    retries = test.get("retries")
    return TestRecord(
        id=test_id,
        outcome=outcome,
        duration_s=float(test.get("duration") or 0) / 1000,
        body_ran=outcome not in (Outcome.SKIPPED, Outcome.NOT_RUN, Outcome.ERROR) and "[NOTRUN]" not in message,
        flaky=bool(test.get("flaky")),
        attempts=1 + (retries if isinstance(retries, int) else 0),
        raised=raised,
    )
