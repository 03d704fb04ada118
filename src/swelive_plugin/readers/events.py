"""The probe's own events: JSON lines that may break off anywhere (their form: ``docs/reference/events.md``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Session, reduce_events
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.files import head_of, open_bytes
from swelive_plugin.readers.reports import first_key

__all__ = ["EventsReader", "parse_events", "read_events"]


class EventsReader:
    """Reads ``events.jsonl``, compressed or not."""

    name = "events"

    def recognises(self, head: bytes) -> bool:
        """Return whether the content begins with an event."""
        return first_key(head.partition(b"\n")[0], (b"e",), within=256)

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the events tell of. Raises `UsageError` where the first line is no event."""
        if not self.recognises(head_of(path)):
            raise UsageError(f"{path} does not begin with an event of the probe", hint="name an events.jsonl")
        with open_bytes(path) as lines:
            return reduce_events(parse_events(lines))


def read_events(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events in the file ``path``, see `parse_events`."""
    with path.open("rb") as lines:
        yield from parse_events(lines)


def parse_events(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield the events in ``lines``; what is no event (cut short by a crash, or noise) is passed over."""
    for line in lines:
        try:
            event = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event
