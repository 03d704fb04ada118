"""Files that are whole or not there, and text that is safe to show."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from swelive_plugin.errors import InfraError

__all__ = ["json_bytes", "one_line", "visible", "write_atomically"]

# What moves a cursor, changes colours, reverses reading order or is no text at all. The graded code chooses its own
# test ids and messages, so that all of this arrives here.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str, *, limit: int | None = None) -> str:
    """Return text as one line in which control characters are written out (``\\x1b``, ``\\n``).

    ``limit`` is the greatest length in characters; what is longer is cut, and ends in ``…``.
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, *, limit: int | None = None) -> str:
    """Return a message of several lines as one that a person can read: lines joined by spaces, then as `visible`."""
    return visible(" ".join(line.strip(" \t\r") for line in text.split("\n") if line.strip(" \t\r")), limit=limit)


def json_bytes(value: Any) -> bytes:
    """Return JSON for people and machines: indented, UTF-8, a final newline; what is no text becomes ``?``."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, and a run that is killed, finds the old content or the new, never a part.

    Missing folders are made. Raises `InfraError` where it can't be written: no disk, no permission.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as problem:
        raise InfraError(f"{path}: can't be written: {problem.strerror}", hint="make room, then run again") from problem
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
