"""How readers open what they are given: compressed or not, any encoding, never whole in memory, never a traceback."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from swelive_plugin.errors import InfraError, UsageError

__all__ = ["LINE_CHARS", "head_of", "lines_of", "open_bytes", "whole"]

HEAD_BYTES = 64 * 1024
LINE_CHARS = 64 * 1024  # what stands beyond this in one line is noise: no test result is that long
LOG_MIB = 1024  # characters of a whole log

_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as raw:
        magic = raw.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if magic.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(path, "rb"))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return cast("IO[bytes]", lzma.open(path, "rb"))
    return path.open("rb")


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Give the file's content as a stream of bytes, decompressed where it is gzip, bzip2 or xz.

    Raises `UsageError` for a path that is not a readable file and `InfraError` where the file breaks off or is damaged
    (also while it is read): such a file is no evidence, so it must not become a verdict.
    """
    try:
        stream = _opened(path)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}") from error
    with stream:
        try:
            yield stream
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise InfraError(
                f"{path} is damaged: the compressed file breaks off or is corrupt ({error})", hint="fetch it again"
            ) from error
        except OSError as error:
            raise InfraError(f"{path} could not be read to its end: {error}", hint="fetch it again") from error


def head_of(path: Path) -> bytes:
    """Return the first 64 KiB of the content. Raises as `open_bytes`, and `InfraError` for an empty file."""
    with open_bytes(path) as stream:
        head = stream.read(HEAD_BYTES)
    if not head.strip():
        raise InfraError(f"{path} is empty: nothing was recorded", hint="run the tests again, or name another file")
    return head


def lines_of(path: Path, *, limit: int = LINE_CHARS) -> Iterator[str]:
    """Yield the content line by line without line ends; bytes that are not of the encoding show as ``\\xNN``.

    Lone carriage returns end a line too, as on a terminal. Of a line longer than ``limit`` characters only the
    beginning is given. Raises as `head_of`, and `UsageError` for a file that is no text or goes on beyond `LOG_MIB`.
    """
    head = head_of(path)
    encoding = encoding_of(path, head)
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding, errors="backslashreplace") as text:
        within, left = False, LOG_MIB * 2**20
        while line := text.readline(limit):
            left -= len(line)
            if left < 0:
                raise UsageError(f"{path} holds more than {LOG_MIB} MiB", hint="a log of that size is not read")
            ended = line.endswith("\n")
            if not within:
                yield line[:-1] if ended else line
            within = not ended


def encoding_of(path: Path, head: bytes) -> str:
    """Return the encoding of a text whose first bytes are ``head``. Raises `UsageError` where it is no text."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding
    strange = sum(head.count(bytes([code])) for code in (0, 1, 2, 3, 4, 5, 6, 14, 15, 16, 17, 18, 19, 20))
    if strange * 20 > len(head):
        raise UsageError(
            f"{path} is binary, not a log or report", hint="name the text that pytest printed, or a report"
        )
    return "utf-8"


def whole(path: Path, *, limit_mib: int = 512) -> bytes:
    """Return the whole content. Raises as `head_of`, and `UsageError` above ``limit_mib``."""
    head_of(path)
    with open_bytes(path) as stream:
        content = stream.read(limit_mib * 1024 * 1024 + 1)
    if len(content) > limit_mib * 1024 * 1024:
        raise UsageError(f"{path} holds more than {limit_mib} MiB", hint="a report of that size is not read whole")
    return content
