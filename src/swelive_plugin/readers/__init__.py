"""Readers: what others recorded of a pytest run, turned into a `Session`.

A reader is matched by Protocol, never inherited. Built in: ``events`` (the probe's own), ``report-log``
(pytest-reportlog), ``json-report`` (pytest-json-report), ``ctrf``, ``junit`` and ``log`` (what pytest printed).
Others add theirs through the hook ``swelive_log_readers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from swelive_plugin.core.outcome import Session, TestRecord
from swelive_plugin.errors import SweliveError, UsageError
from swelive_plugin.readers.files import head_of

__all__ = ["Reader", "built_in_readers", "read_session", "reader_named"]


class Reader(Protocol):
    """Three members: its name, what it knows, and how it reads."""

    @property
    def name(self) -> str:
        """``log``, ``junit``, … or a name of one's own: what ``swelive score --format`` and ``kind`` choose by."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file whose content begins with ``head`` (up to 64 KiB, decompressed) is of this kind."""

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the file tells of; ``root`` is where the checkout was when the tests ran.

        Raises `UsageError` for a file of another kind and `InfraError` for one that breaks off.
        """


def built_in_readers() -> tuple[Reader, ...]:
    """Return the readers of this package, in the order in which they are asked; text comes last: it takes anything."""
    from swelive_plugin.readers.ctrf import CtrfReader
    from swelive_plugin.readers.events import EventsReader
    from swelive_plugin.readers.json_report import JsonReportReader
    from swelive_plugin.readers.junit import JUnitReader
    from swelive_plugin.readers.report_log import ReportLogReader
    from swelive_plugin.readers.text import TextReader

    return (EventsReader(), ReportLogReader(), JsonReportReader(), CtrfReader(), JUnitReader(), TextReader())


def read_session(
    path: Path, *, kind: str | None = None, readers: Sequence[Reader] | None = None, root: str = "/testbed"
) -> Session:
    """Return the session that a file tells of.

    ``kind`` is a reader's name; without it the content decides. ``readers`` are those to choose from, in the order in
    which they are asked; without them, those of this package.
    Raises `UsageError` for an unknown kind or a file that can't be read as it, `InfraError` for a file that is empty,
    damaged or breaks off: no evidence, so no verdict.
    """
    readers = built_in_readers() if readers is None else readers
    if kind is not None:
        return _read(reader_named(kind, readers), path, root)
    head = head_of(path)
    reader = next((reader for reader in readers if _recognises(reader, head)), None)
    if reader is None:
        raise UsageError(f"{path}: no reader knows what this is", hint=f"say which is to read it: {_names(readers)}")
    return _read(reader, path, root)


def _recognises(reader: Reader, head: bytes) -> bool:
    try:
        return bool(reader.recognises(head))
    except Exception as error:  # whatever a plugin's reader raises
        raise UsageError(
            f"reader {reader.name} can't look at a file: {type(error).__name__}: {error}", hint="mend or uninstall it"
        ) from error


def reader_named(name: str, readers: Sequence[Reader]) -> Reader:
    """Return the first reader of that name. Raises `UsageError` with the names that there are."""
    reader = next((reader for reader in readers if reader.name == name), None)
    if reader is None:
        raise UsageError(f"no reader is called {name!r}", hint=f"there are: {_names(readers)}")
    return reader


def _names(readers: Sequence[Reader]) -> str:
    return ", ".join(dict.fromkeys(reader.name for reader in readers))


def _read(reader: Reader, path: Path, root: str) -> Session:
    try:
        session: object = reader.read(path, root=root)
    except (SweliveError, OSError):
        raise
    except Exception as error:  # a value of a kind that no such report holds, or a defect of a plugin's reader
        raise UsageError(
            f"{path} is not of the form that reader {reader.name} knows: {type(error).__name__}: {error}",
            hint="name the file as the tool wrote it, or say which reader is to read it",
        ) from error
    if not isinstance(session, Session) or not all(isinstance(test, TestRecord) for test in session.tests.values()):
        raise UsageError(
            f"reader {reader.name} returned {type(session).__name__}, not a Session of TestRecords",
            hint="mend or uninstall it",
        )
    return session
