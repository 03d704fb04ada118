"""JSON and JSON lines as records that know where they stand, with errors that name file, line and column."""

from __future__ import annotations

import difflib
import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from swelive_plugin.errors import UsageError

__all__ = ["Record", "decode", "kind_of", "near_misses", "pairs_of", "parse", "read_bytes", "repeated_keys"]

_GZIP_MAGIC = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Record:
    """One JSON value and where it stands: ``file:line``, ``file: entry N`` or the file alone."""

    where: str
    value: Any


class _Repeated(dict[str, Any]):
    """An object in which a key stands more than once; ``pairs`` keeps all of them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else _Repeated(pairs)


def pairs_of(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Return the key-value pairs of a parsed object, those with a repeated key included."""
    return value.pairs if isinstance(value, _Repeated) else value.items()


def repeated_keys(value: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys that stand more than once in a parsed object: JSON allows it, and one value would be lost."""
    if not isinstance(value, _Repeated):
        return ()
    keys = [key for key, _ in value.pairs]
    return tuple(sorted({key for key in keys if keys.count(key) > 1}))


def kind_of(value: object) -> str:
    """Return what a parsed JSON value is, in JSON's own words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "a list", str: "text", int: "a number", float: "a number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), type(value).__name__)


def near_misses(wanted: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return ``did you mean …?`` with up to three known names close to the wanted one, or an empty string."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(wanted.lower(), by_lower, n=3, cutoff=likeness)
    return f"did you mean {', '.join(by_lower[name] for name in close)}?" if close else ""


def read_bytes(path: Path, error: type[UsageError], *, hint: str = "") -> bytes:
    """Return the content of a file, unpacked where it is gzip. Raises ``error`` where it can't be read whole.

    ``hint`` says what may be given, for a file that is not there and has no namesake.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        try:
            # Any two names with the same suffix are a little alike, so files have to be more so.
            siblings = [entry.name for entry in path.parent.iterdir()]
        except OSError:
            siblings = []
        raise error(
            f"{path}: no such file or folder", hint=near_misses(path.name, siblings, likeness=0.75) or hint
        ) from None
    except OSError as problem:
        raise error(f"{path}: can't be read: {problem.strerror}") from problem
    if path.suffix == ".gz" or data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error) as problem:
            raise error(f"{path}: the gzip file is cut off or damaged: {problem}", hint="get it again") from problem
        except gzip.BadGzipFile as problem:
            raise error(f"{path}: not a gzip file, whatever its name says") from problem
    return data


def decode(data: bytes, name: str, error: type[UsageError]) -> str:
    """Return UTF-8 text without a byte order mark. Raises ``error`` with the line of the first wrong byte."""
    if data.startswith(_UTF16_MARKS):
        raise error(f"{name}: UTF-16 text", hint="save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise error(
            f"{name}:{line}: not UTF-8: byte 0x{data[problem.start]:02x}", hint="save the file as UTF-8"
        ) from problem


def parse(
    text: str, name: str, error: type[UsageError], *, lines: bool, bad: list[UsageError] | None = None
) -> list[Record]:
    """Return the records of a JSON document (a list's entries, else the document itself) or of JSON lines.

    The content decides, not the file's name: a document in ``.jsonl`` and lines in ``.json`` are both read. ``lines``
    says which of the two an error is about. Broken lines go into ``bad`` where it is given, else the first one raises.
    """
    if not text.strip():
        raise error(f"{name}: the file is empty")
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as problem:
        if not lines and not problem.msg.startswith("Extra data"):
            _refuse(problem, f"{name}:{problem.lineno}", error, cut=True)
    except RecursionError:
        if not lines:
            raise _too_deep(name, error) from None
    else:
        if isinstance(document, list):
            return [Record(f"{name}: entry {number}", value) for number, value in enumerate(document, 1)]
        return [Record(name, document)]
    return _parse_lines(text, name, error, bad)


def _parse_lines(text: str, name: str, error: type[UsageError], bad: list[UsageError] | None) -> list[Record]:
    records = []
    raw = text.split("\n")  # never splitlines(): U+2028 and form feeds are legal inside JSON text
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            try:
                records.append(Record(where, json.loads(line, object_pairs_hook=_object)))
            except json.JSONDecodeError as problem:
                _refuse(problem, where, error, cut=number == len(raw))
            except RecursionError:
                raise _too_deep(where, error) from None
        except UsageError as refused:
            if bad is None:
                raise
            bad.append(refused)
    return records


def _refuse(problem: json.JSONDecodeError, where: str, error: type[UsageError], *, cut: bool) -> NoReturn:
    # The decoder points at the start of a string that never ends, and at the end of anything else that is cut.
    ends_early = cut and (problem.pos >= len(problem.doc.rstrip()) or problem.msg.startswith("Unterminated"))
    hint = "the file ends in the middle of it: get or write it again" if ends_early else ""
    what = problem.msg.removesuffix(" starting at")
    raise error(f"{where}: not JSON: {what} at column {problem.colno}", hint=hint) from problem


def _too_deep(where: str, error: type[UsageError]) -> UsageError:
    return error(f"{where}: the JSON is nested too deeply to be read")
