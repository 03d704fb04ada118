"""Readers: what others recorded of a pytest run, turned into a `Session`.

A reader is matched by Protocol, never inherited. Built in: ``events`` (the probe's own), ``report-log``
(pytest-reportlog), ``json-report`` (pytest-json-report), ``ctrf``, ``junit`` and ``log`` (what pytest printed).
Others add theirs through the hook ``swelive_log_readers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from swelive_plugin.core.outcome import Session
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.files import head_of

__all__ = ["Reader", "built_in_readers", "read_session"]


class Reader(Protocol):
    """Three members: its name, what it knows, and how it reads."""

    @property
    def name(self) -> str:
        """``log``, ``junit``, … or a name of one's own: what ``--log``, ``--junit`` and ``kind`` choose by."""

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
        reader = next((reader for reader in readers if reader.name == kind), None)
        if reader is None:
            known = ", ".join(dict.fromkeys(reader.name for reader in readers))
            raise UsageError(f"no reader is called {kind!r}", hint=f"there are: {known}")
        return _read(reader, path, root)
    head = head_of(path)
    reader = next((reader for reader in readers if reader.recognises(head)), None)
    if reader is None:
        raise UsageError(f"{path}: no reader knows what this is", hint="say which reader is to read it")
    return _read(reader, path, root)


def _read(reader: Reader, path: Path, root: str) -> Session:
    try:
        return reader.read(path, root=root)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        # a value of a kind that no such report holds: what is wrong is the file
        raise UsageError(
            f"{path} is not of the form that reader {reader.name} knows: {type(error).__name__}: {error}",
            hint="name the file as the tool wrote it, or say which reader is to read it",
        ) from error
