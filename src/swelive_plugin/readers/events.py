"""The probe's own events: JSON lines that may break off anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["parse_events", "read_events"]


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
