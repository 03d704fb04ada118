"""The probe's own events: the one reader of ``events.jsonl`` (its form: ``docs/reference/events.md``).

The driver, ``swelive score`` and ``pytest -p swelive`` all read here. In a signed file each line carries a number and a
tag; a line whose number or tag does not hold was not written by the recorder and is never believed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from swelive_plugin.core.outcome import Session, reduce_events
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.files import head_of, open_bytes
from swelive_plugin.readers.reports import first_key

__all__ = ["CHANNEL_MIB", "ChannelRead", "EventsReader", "read_channel", "read_lines", "session_of"]

CHANNEL_MIB = 256
"""What a channel holds at most; a longer record is cut there."""

VERSION = 1  # the form of the events, ``v`` of the ``session`` event
LINE_BYTES = 16 * 1024 * 1024
RECORDS = 2_000_000  # no session writes so many
FOREIGN_LINES = 1_000_000  # after so many nothing more is read
_FOREIGN_KEPT = 20
_KEY_BYTES, _TAG_BYTES = 16, 8
_TAG, _TAIL = b',"k":"', b'"}\n'
_TAIL_BYTES = len(_TAG) + 2 * _TAG_BYTES + len(_TAIL)
_NUMBER_DIGITS = 12


@dataclass(frozen=True)
class ChannelRead:
    """The records that the probe itself wrote, in order, and what else was on the channel.

    ``foreign`` holds the beginnings of the first lines that the recorder did not write, ``foreign_count`` counts all.
    ``damaged`` says why the rest of a signed file, or all of it, can't be verified: lines are missing, or were
    changed after they were written. ``truncated`` says at which limit the record was cut. ``cut`` tells that the last
    line has no end.
    """

    events: tuple[Mapping[str, Any], ...]
    foreign: tuple[str, ...] = ()
    signed: bool = False
    foreign_count: int = 0
    damaged: str = ""
    truncated: str = ""
    cut: bool = False


class EventsReader:
    """Reads ``events.jsonl``, compressed or not."""

    name = "events"

    def recognises(self, head: bytes) -> bool:
        """Return whether the content begins with an event."""
        return first_key(head.partition(b"\n")[0], (b"e",), within=256)

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the events tell of.

        Raises `UsageError` where the first line is no event, or where the events are of a form that is not known.
        """
        if not self.recognises(head_of(path)):
            raise UsageError(f"{path} does not begin with an event of the probe", hint="name an events.jsonl")
        with open_bytes(path) as stream:
            read = _read_stream(stream, CHANNEL_MIB)
        version = next((event.get("v", VERSION) for event in read.events if event.get("e") == "session"), VERSION)
        if version != VERSION:
            raise UsageError(
                f"{path} holds events of form {version}; this version of swelive reads form {VERSION}",
                hint="score it with the version of swelive that recorded it",
            )
        return session_of(read)


def session_of(read: ChannelRead, *, timed_out: bool = False) -> Session:
    """Return the session that a record tells of, with what is wrong with the record itself."""
    session = reduce_events(read.events, timed_out=timed_out)
    return replace(
        session,
        foreign_records=read.foreign_count,
        damaged=read.damaged,
        truncated=read.truncated,
        notes=(*session.notes, *_notes(read)),
    )


def _notes(read: ChannelRead) -> Iterator[str]:
    if read.foreign_count:
        first = read.foreign[0]
        yield f"{read.foreign_count} lines were not written by the recorder and are not believed, first: {first!r}"
    if read.truncated:
        yield f"the record was cut: {read.truncated}"
    elif read.cut:
        yield "the last line of the record breaks off: the process died while it wrote, or the file is not whole"


def read_channel(path: Path, *, limit_mib: int = CHANNEL_MIB) -> ChannelRead:
    """Return the records of a channel's ``events.jsonl``, see `read_lines`; one that fills ``limit_mib`` was cut."""
    with path.open("rb") as stream:
        return _read_stream(stream, limit_mib)


def _read_stream(stream: IO[bytes], limit_mib: int) -> ChannelRead:
    lines = _Lines(stream, limit_mib * 2**20)
    read = read_lines(lines)
    if lines.left > 0:
        return read
    return replace(read, truncated=f"it fills its limit of {limit_mib} MiB, and what came later is not there")


class _Lines:
    """The lines of a stream up to a number of bytes; of a line beyond `LINE_BYTES` only the beginning."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self.stream = stream
        self.left = limit

    def __iter__(self) -> Iterator[bytes]:
        within = False
        while self.left > 0 and (line := self.stream.readline(min(LINE_BYTES, self.left))):
            self.left -= len(line)
            too_long = len(line) == LINE_BYTES and not line.endswith(b"\n")
            if not within:
                yield line + b"\n" if too_long else line
            within = too_long


def read_lines(lines: Iterable[bytes]) -> ChannelRead:
    """Return the records that the probe wrote; all other lines are foreign.

    In a signed file, one with a key in its first line or with tags, a record's number and tag must hold. A file without
    either (``pytest -p swelive`` and other writers) is taken as it is, and what is no event in it is passed over. A
    last line without its end is what a crash leaves, and no foreign record.
    """
    state: _Plain | _Signed = _Plain()
    cut = False
    for line in lines:
        cut = not line.endswith(b"\n")
        if cut:
            continue
        if isinstance(state, _Plain) and (signed := _signed_from(line)):
            state = signed.after(state)
            if signed.key:
                continue
        state.take(line)
        if len(state.events) >= RECORDS or state.foreign_count >= FOREIGN_LINES:
            break
    return state.read(cut=cut)


def _signed_from(line: bytes) -> _Signed | None:
    """Return the reader of a signed file where this line shows one: by a key, or by a tag although no key came."""
    if line.startswith(b'{"e":"key"'):
        event = _event_in(line) or {}
        try:
            key = bytes.fromhex(str(event.get("key", "")))
        except ValueError:
            key = b""
        return _Signed(key if len(key) == _KEY_BYTES else b"", "the key in its first line is not whole")
    return None if _split(line) is None else _Signed(b"", "its first line, which carries the key, is missing")


class _Plain:
    """Reads records without tags."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.first: list[str] = []
        self.line_number = 0
        self.foreign_count = 0

    def take(self, line: bytes) -> None:
        """Take one line."""
        self.line_number += 1
        if len(self.first) < _FOREIGN_KEPT:
            self.first.append(_beginning(line))
        event = _event_in(line)
        if event is None:
            self.foreign_count += 1
        else:
            self.events.append(event)

    def read(self, *, cut: bool) -> ChannelRead:
        """Return what was read."""
        return ChannelRead(tuple(self.events), truncated=_too_many(self), cut=cut)


class _Signed:
    """Reads records with numbers and tags; without a ``key`` nothing can be verified, for the reason ``without``."""

    def __init__(self, key: bytes, without: str) -> None:
        self.key = key
        self.events: list[Mapping[str, Any]] = []
        self.foreign: list[str] = []
        self.foreign_count = 0
        self.line_number = 0
        self.damaged = "" if key else without
        self.number = 0

    def after(self, plain: _Plain) -> _Signed:
        """Return itself, with what stood before the first line of the signed file as foreign."""
        self.foreign = plain.first
        self.foreign_count = plain.line_number
        self.line_number = plain.line_number + bool(self.key)
        return self

    def take(self, line: bytes) -> None:
        """Take one line."""
        self.line_number += 1
        found = _split(line)
        if found is not None and self.key:
            body, number, tag = found
            digest = hashlib.blake2b(body, key=self.key, digest_size=_KEY_BYTES + _TAG_BYTES).digest()
            if number == self.number and digest[_KEY_BYTES:].hex().encode() == tag:
                event = _event_in(line)
                if event is not None:
                    self.events.append(event)
                self.key = digest[:_KEY_BYTES]
                self.number += 1
                self.damaged = ""
                return
            if not self.damaged:
                self.damaged = self._why(number)
        self.foreign_count += 1
        if len(self.foreign) < _FOREIGN_KEPT:
            self.foreign.append(_beginning(line))

    def _why(self, number: int) -> str:
        if number > self.number:
            why = f"its number is {number}, the last one that holds is {self.number - 1}: lines are missing"
        else:
            why = "its tag does not hold: it was changed after it was written"
        return f"line {self.line_number}: {why}, so nothing after it can be verified"

    def read(self, *, cut: bool) -> ChannelRead:
        """Return what was read."""
        ended = bool(self.events) and self.events[-1].get("e") == "end"  # nothing of the recorder's can be missing
        return ChannelRead(
            tuple(self.events),
            tuple(self.foreign),
            signed=True,
            foreign_count=self.foreign_count,
            damaged="" if ended else self.damaged,
            truncated=_too_many(self),
            cut=cut,
        )


def _too_many(state: _Signed | _Plain) -> str:
    if state.foreign_count >= FOREIGN_LINES:
        return f"{FOREIGN_LINES} lines in it are no records, and no more is read"
    return f"it holds {RECORDS} records, and no more is read" if len(state.events) >= RECORDS else ""


def _split(line: bytes) -> tuple[bytes, int, bytes] | None:
    """Return what the tag of a line covers, its number and the tag; ``None`` where it has none."""
    if not line.endswith(_TAIL) or line[-_TAIL_BYTES : len(_TAG) - _TAIL_BYTES] != _TAG:
        return None
    body, tag = line[:-_TAIL_BYTES], line[len(_TAG) - _TAIL_BYTES : -len(_TAIL)]
    _, separator, digits = body[-_NUMBER_DIGITS - 8 :].rpartition(b',"n":')
    if not separator or not digits.isdigit():
        return None
    return body, int(digits), tag


def _beginning(line: bytes) -> str:
    return line[:120].decode("utf-8", "replace").rstrip("\n")


def _event_in(line: bytes) -> Mapping[str, Any] | None:
    try:
        event = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
