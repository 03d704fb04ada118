"""What the readers of structured reports share: JSON that may be broken, and how exceptions are told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Outcome, TestRecord
from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.readers.files import lines_of, whole

__all__ = ["first_key", "json_document", "raised_in", "records_of", "relative_to", "skipped_note"]

_LINE_LIMIT = 64 * 1024 * 1024
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.DOTALL)
_KEYS = re.compile(rb'"([$\w]+)"\s*:')


def first_key(head: bytes, wanted: tuple[bytes, ...], *, within: int = 4096) -> bool:
    """Return whether the content is JSON and one of the ``wanted`` keys stands near its beginning."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:within]
    return start.startswith(b"{") and any(key in wanted for key in _KEYS.findall(start))


def records_of(path: Path, what: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file of JSON lines; a last line that breaks off is passed over, as a crash leaves it.

    Raises `UsageError` for a line in the middle that is no JSON object.
    """
    broken = 0
    for number, line in enumerate(lines_of(path, limit=_LINE_LIMIT), start=1):
        if broken:
            raise UsageError(
                f"{path}:{broken}: not a line of {what}", hint="name the file that the tool wrote, unchanged"
            )
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            broken = number
            continue
        if not isinstance(value, dict):
            broken = number
            continue
        yield value


def json_document(path: Path, what: str) -> Mapping[str, Any]:
    """Return the one object that the file holds.

    Raises `InfraError` where it breaks off and `UsageError` for another form.
    """
    try:
        value = json.loads(whole(path))
    except (ValueError, RecursionError) as error:
        raise InfraError(
            f"{path} is not whole: {what} is written at the end of a run, and this one breaks off ({error})",
            hint="run the tests again, or name another file",
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds {type(value).__name__}, not {what}")
    return value


def skipped_note(tests: Mapping[str, TestRecord]) -> Iterator[str]:
    """Yield what a person should know of skipped tests where the format has one outcome a test."""
    skipped = [test_id for test_id, record in tests.items() if record.outcome is Outcome.SKIPPED]
    if skipped:
        names = ", ".join(skipped[:3]) + (", …" if len(skipped) > 3 else "")
        number = "1 test is" if len(skipped) == 1 else f"{len(skipped)} tests are"
        yield f"{number} skipped, or passed with a skipped subtest: the format can't tell ({names})"


def relative_to(path: str, *bases: str) -> str:
    """Return ``path`` without the first of the ``bases`` that it lies in."""
    for base in bases:
        prefix = base.rstrip("/") + "/"
        if prefix != "/" and path.startswith(prefix):
            return path[len(prefix) :]
    return path


def raised_in(message: str, file: str = "", line: int = 0) -> dict[str, Any]:
    """Return an exception as the probe's events tell it, from a text like ``ValueError: why``."""
    found = _EXCEPTION.fullmatch(message.strip())
    name, text = (found[1], found[2] or "") if found else ("", message.strip())
    return {"type": name.rpartition(".")[2], "msg": text, "file": file, "line": line}
