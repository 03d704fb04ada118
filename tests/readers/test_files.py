"""Bad input: a clear error or an empty session with a note, never a traceback."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from swelive_plugin.errors import InfraError, SweliveError, UsageError
from swelive_plugin.readers import built_in_readers, files, read_session
from swelive_plugin.readers.files import lines_of

KINDS = [reader.name for reader in built_in_readers()]
LOG = (
    "============================= test session starts ==============================\n"
    "=========================== short test summary info ============================\n"
    "PASSED t.py::a[é]\n"
    "============================== 1 passed in 0.01s ===============================\n"
)


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gzip", "bzip2", "xz"]
)
def test_compressed_logs_are_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(compress(LOG.encode()))
    assert list(read_session(path).tests) == ["t.py::a[é]"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_with_a_mark_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOG.encode(encoding))
    assert list(read_session(path).tests) == ["t.py::a[é]"]


def test_bytes_of_another_encoding_show_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"caf\xe9\n" + LOG.encode().replace("é".encode(), b"\xe9"))
    assert list(read_session(path).tests) == ["t.py::a[\\xe9]"]


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_a_compressed_file_that_breaks_off_is_no_evidence(
    tmp_path: Path, kind: str | None, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(compress(os.urandom(9000).hex().encode() + LOG.encode())[:-20])
    with pytest.raises(InfraError, match="damaged") as caught:
        read_session(path, kind=kind)
    assert caught.value.hint == "fetch it again"


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("content", [b"", b"\n \n"], ids=["empty", "blank"])
def test_an_empty_file_is_no_evidence(tmp_path: Path, kind: str | None, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(InfraError, match="is empty"):
        read_session(path, kind=kind)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_binary_file_is_refused(tmp_path: Path, kind: str | None) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(SweliveError):
        read_session(path, kind=kind)
    if kind in (None, "log"):
        with pytest.raises(UsageError, match="binary"):
            read_session(path, kind=kind)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_path_that_is_no_file_is_refused(tmp_path: Path, kind: str | None) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="can't be read"):
            read_session(path, kind=kind)


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("content", [LOG, "{", "[1, 2]", "<a", "<a/>", '{"x": 1}', '"text"', "[" * 100_000])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, kind: str, content: str) -> None:
    path = tmp_path / "report"
    path.write_text(content)
    with pytest.raises(SweliveError, match=re.escape(str(path))):
        read_session(path, kind=kind)


def test_an_unknown_kind_names_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="events, report-log, json-report, ctrf, junit, log"):
        read_session(tmp_path / "x", kind="tap")


@pytest.mark.parametrize(
    "text", ["\x00\x01", "no tests here", "=== FAILURES ===", "=" * 3000, "[gw0] PASSED", "\x1b[", "_" * 3000]
)
def test_any_text_is_a_log_perhaps_without_results(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text + " and more text to go on with" * 20 + "\n")
    session = read_session(path, kind="log")
    assert session.tests == {}
    assert not session.ended


def test_lines_end_at_carriage_returns_too(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\r\nb\rc\nd")
    assert list(lines_of(path)) == ["a", "b", "c", "d"]


def test_of_a_very_long_line_only_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 5000 + "\nnext\n")
    assert list(lines_of(path, limit=1000)) == ["x" * 1000, "next"]


def test_a_big_log_is_streamed(tmp_path: Path) -> None:
    """The peak stays far below the size of the log, whatever fills it."""
    path = tmp_path / "log"
    noise = ["DEBUG noise\n" * 100, "PASSED t.py::forged\n", "x" * 3000 + "\n", "=== short test summary info ===\n"]
    with path.open("w") as log:
        log.write("=== test session starts ===\n=== PASSES ===\n")
        while log.tell() < 24 * 1024 * 1024:
            log.writelines(noise)
        log.write(LOG.split("\n", 1)[1])
    path_size = path.stat().st_size
    tracemalloc.start()
    try:
        session = read_session(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(session.tests) == ["t.py::a[é]"]
    assert peak < path_size / 4


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(LOG)
    path.chmod(0)
    with pytest.raises(UsageError, match="can't be read"):
        read_session(path)


def test_a_long_line_is_read_in_part_and_said(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"=== short test summary info ===\nPASSED t.py::a\n{'x' * 200_000}\n=== 1 passed in 0.1s ===\n")
    session = read_session(path)
    assert list(session.tests) == ["t.py::a"]
    assert session.notes[-1] == "1 line is longer than 65536 characters: only the beginning was read"


def test_a_log_beyond_every_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOG_MIB", 1)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"x\n" * 2**20))
    with pytest.raises(UsageError, match="holds more than 1 MiB"):
        read_session(path)
