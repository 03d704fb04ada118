"""Unified diffs as values: a tolerant reader and an exact writer.

What is graded is always written out again by `render`, so git and our checks can't read one text in two ways.
Everything is bytes, paths excepted (`os.fsdecode`), because files under test need not be UTF-8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Diff", "Hunk", "Kind", "Section", "parse_diff", "render"]

Kind = Literal["added", "deleted", "modified", "renamed", "copied"]

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_MODE = re.compile(rb"(old mode|new mode|new file mode|deleted file mode) ([0-7]{5,6})")
_MOVE = re.compile(rb"(rename|copy) (from|to) (.+)")
_INDEX = re.compile(rb"index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: ([0-7]{6}))?")
_SIMILARITY = re.compile(rb"(?:dis)?similarity index \d{1,3}%")
_BINARY_BLOCK = re.compile(rb"(?:literal|delta) \d{1,12}")
_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,20}[mK]")  # what `git diff` writes for a terminal
_MAX_STRIP = 8
_OFFICIAL_ROOT = "/testbed/"  # where SWE-bench's images have the repository
_NULL = "/dev/null"
_PREFIX = re.compile(r"[a-z12]/")


@dataclass
class Hunk:
    """One hunk. ``lines`` keep their first character but no line feed; ``at`` is its line in the patch, from 1.

    ``missing`` counts the (old, new) lines that the header promises and the body lacks. ``extra`` are lines that look
    like more body after the promised end.
    """

    old_start: int
    new_start: int
    lines: list[bytes]
    heading: bytes = b""
    at: int = 0
    missing: tuple[int, int] = (0, 0)
    extra: list[bytes] = field(default_factory=list)

    @property
    def old_lines(self) -> list[bytes]:
        """The lines that the hunk expects to find, without their first character."""
        return [line[1:] for line in self.lines if line[:1] in (b" ", b"-")]

    @property
    def counts(self) -> tuple[int, int]:
        """The (old, new) line counts of the body as it is."""
        added = sum(line[:1] == b"+" for line in self.lines)
        return len(self.old_lines), sum(line[:1] == b" " for line in self.lines) + added


@dataclass
class Section:
    """What a patch does to one file. ``names`` are as written, with their ``a/`` and ``b/``; moves never have them."""

    at: int
    git: bool = False
    names: tuple[str | None, str | None] = (None, None)
    move: tuple[str | None, str | None] = (None, None)
    copied: bool = False
    similarity: bytes = b""
    index: bytes = b""
    old_mode: str = ""
    new_mode: str = ""
    added: bool = False
    deleted: bool = False
    hunks: list[Hunk] = field(default_factory=list)
    binary: list[bytes] = field(default_factory=list)
    binary_without_data: bool = False
    crlf_headers: bool = False
    old: str = ""
    new: str = ""

    @property
    def kind(self) -> Kind:
        """What happens to the file."""
        if self.added:
            return "added"
        if self.deleted:
            return "deleted"
        if self.move[0] is not None and self.old != self.new:
            return "copied" if self.copied else "renamed"
        return "modified"

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to do: a hunk, data, a mode or a new place."""
        moved = self.kind in ("renamed", "copied")
        return bool(self.hunks or self.binary or self.added or self.deleted or moved or self.mode_changes)

    @property
    def mode_changes(self) -> bool:
        """Whether an existing file gets another mode."""
        return bool(self.old_mode and self.new_mode and self.old_mode != self.new_mode)


@dataclass
class Diff:
    """A patch: its sections in order, and what surrounds them."""

    sections: list[Section] = field(default_factory=list)
    prose: bool = False
    fences: bool = False
    final_newline: bool = True
    byte_order_mark: bool = False
    colours: bool = False
    strip: int = 1
    roots: frozenset[str] = frozenset()

    def resolve(self, exists: Callable[[str], bool] | None = None) -> None:
        """Set ``old`` and ``new`` of each section: its names without the folders that only their writer's machine has.

        ``strip`` says how many parts of the names go: the ``a/`` and ``b/`` of git, none where no name has them. With
        ``exists``, which tells whether a path is in the tree, what is left must be there: so ``/testbed/pkg/x.py``
        becomes ``pkg/x.py``, and ``roots`` names what went of absolute paths.
        """
        names = [str(name) for section in self.sections for name in section.names if name not in (None, _NULL)]
        bare = bool(names) and not any(_PREFIX.match(name) for name in names)
        self.strip = (0 if bare else 1) if exists is None else _strip_that_fits(self.sections, names, bare, exists)
        if self.strip > 1:
            changing = [s for s in self.sections if s.names[0] not in (None, _NULL) and not s.added]
            known = [str(name) for s in changing for name in s.names] or names
            self.roots = frozenset(_root_of(name, self.strip) for name in known if name.startswith("/")) - {""}
        for section in self.sections:
            _resolve(section, self.strip, exists)


def _strip_that_fits(
    sections: Sequence[Section], names: Sequence[str], bare: bool, exists: Callable[[str], bool]
) -> int:
    """Return the count of leading parts without which all files that the diff changes are in the tree."""
    sources = [
        (str(s.names[0]), str(s.names[1] or s.names[0]))
        for s in sections
        if s.names[0] not in (None, _NULL) and not s.added
    ]
    if not sources:
        if bare and all(name.startswith(_OFFICIAL_ROOT) for name in names):
            return _OFFICIAL_ROOT.count("/")
        return 0 if bare else 1
    below = all("/" in old for old, _ in sources)
    order: list[int] = [1, 0] if not bare or below else [0, 1]
    # A first folder that the tree has belongs to the repository: then the file is missing, not elsewhere.
    if not any(exists(_strip(old, 0 if bare else 1).split("/")[0]) for old, _ in sources):
        order += range(2, _MAX_STRIP + 1)
    for count in order:
        # Plain diffs may name a backup (x.py.orig) on one side.
        if all(exists(_strip(old, count)) or exists(_strip(new, count)) for old, new in sources):
            return count
    return 1


def _root_of(name: str, count: int) -> str:
    return name.removesuffix(_strip(name, count))


def _strip(name: str, count: int) -> str:
    return name.split("/", count)[-1] if "/" in name else name


def _resolve(section: Section, strip: int, exists: Callable[[str], bool] | None) -> None:
    old_name, new_name = section.names
    section.added = section.added or old_name == _NULL
    section.deleted = section.deleted or new_name == _NULL
    old = None if old_name in (None, _NULL) else _strip(str(old_name), strip)
    new = None if new_name in (None, _NULL) else _strip(str(new_name), strip)
    if section.move[0] is not None and section.move[1] is not None:
        old, new = (_strip(str(name), max(strip - 1, 0)) for name in section.move)
    elif old is not None and new is not None and old != new:
        # Plain diffs may name a backup (x.py.orig) on one side; the file is the side that is there.
        new = old = old if exists is not None and exists(old) and not exists(new) else new
    section.old = (old if old is not None else new or "").removeprefix("./")
    section.new = (new if new is not None else old or "").removeprefix("./")


def parse_diff(data: bytes) -> Diff:
    """Return the diff in ``data``, which may have prose or markdown around it, no final newline, or CRLF line ends."""
    diff = _parse(data)
    if b"\x1b[" in data and not any(section.changes_something for section in diff.sections):
        diff = _parse(_COLOUR.sub(b"", data))
        diff.colours = True
    return diff


def _parse(data: bytes) -> Diff:
    diff = Diff()
    if data.startswith(b"\xef\xbb\xbf"):
        diff.byte_order_mark = True
        data = data[3:]
    diff.final_newline = data.endswith(b"\n")
    lines = data.split(b"\n")
    if diff.final_newline:
        lines.pop()
    _Reader(lines, diff).read()
    return diff


class _Reader:
    def __init__(self, lines: Sequence[bytes], diff: Diff) -> None:
        self.lines = lines
        self.diff = diff
        self.at = 0
        self.section: Section | None = None

    def peek(self, ahead: int = 0) -> bytes:
        index = self.at + ahead
        return self.lines[index].removesuffix(b"\r") if index < len(self.lines) else b""

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.peek()
            if line.startswith(b"diff --git "):
                self.git_header(line)
            elif self.at_file_names():
                self.file_names()
            elif self.section is not None and (match := _HUNK.match(line)):
                self.hunk(self.section, match)
            elif self.section is not None and line == b"GIT binary patch":
                self.binary(self.section)
            elif self.section is not None and line.startswith(b"Binary files ") and line.endswith(b" differ"):
                self.binary_stub(self.section, line)
            else:
                self.diff.fences |= line.startswith(b"```")
                self.diff.prose |= bool(line.strip()) and not line.startswith((b"```", b"\\ "))
                self.at += 1

    def start(self, *, git: bool) -> Section:
        self.section = Section(at=self.at + 1, git=git, crlf_headers=self.lines[self.at].endswith(b"\r"))
        self.diff.sections.append(self.section)
        return self.section

    def git_header(self, line: bytes) -> None:
        section = self.start(git=True)
        section.names = _git_names(line[len(b"diff --git ") :])
        self.at += 1
        while self.at < len(self.lines) and self.extended_header(section, self.peek()):
            self.at += 1

    @staticmethod
    def extended_header(section: Section, line: bytes) -> bool:
        if match := _MODE.fullmatch(line):
            what, mode = match[1], match[2].decode("ascii")
            section.added |= what == b"new file mode"
            section.deleted |= what == b"deleted file mode"
            if what in (b"old mode", b"deleted file mode"):
                section.old_mode = mode
            else:
                section.new_mode = mode
        elif match := _MOVE.fullmatch(line):
            section.copied = match[1] == b"copy"
            name = _one_name(match[3])
            section.move = (name, section.move[1]) if match[2] == b"from" else (section.move[0], name)
        elif match := _INDEX.fullmatch(line):
            section.index = line
            if match[1] and not section.old_mode:
                section.old_mode = section.new_mode = match[1].decode("ascii")
        elif _SIMILARITY.fullmatch(line):
            section.similarity = line
        else:
            return False
        return True

    def at_file_names(self, ahead: int = 0) -> bool:
        return (
            self.peek(ahead).startswith(b"--- ")
            and self.peek(ahead + 1).startswith(b"+++ ")
            and _HUNK.match(self.peek(ahead + 2)) is not None
        )

    def file_names(self) -> None:
        section = self.section
        if section is None or not section.git or section.hunks or section.binary:
            section = self.start(git=False)
        names = (_one_name(self.peek()[4:]), _one_name(self.peek(1)[4:]))
        # What the extended header says of a new or deleted file stands; the names can only complete it.
        section.names = names
        self.at += 2

    def hunk(self, section: Section, match: re.Match[bytes]) -> None:
        old_start, new_start = int(match[1]), int(match[3])
        old_left = 1 if match[2] is None else int(match[2])
        new_left = 1 if match[4] is None else int(match[4])
        hunk = Hunk(old_start, new_start, [], heading=match[5], at=self.at + 1)
        section.hunks.append(hunk)
        self.at += 1
        first = self.at
        while self.at < len(self.lines) and (old_left > 0 or new_left > 0):
            line = self.lines[self.at]
            mark = line[:1] if line not in (b"", b"\r") else b" "
            if mark not in (b" ", b"+", b"-", b"\\"):
                break
            if (mark in (b" ", b"-") and not old_left) or (mark in (b" ", b"+") and not new_left):
                break
            old_left -= mark in (b" ", b"-")
            new_left -= mark in (b" ", b"+")
            hunk.lines.append(line if line[:1] == mark else b" " + line)
            self.at += 1
        if old_left or new_left:
            hunk.missing = (old_left, new_left)
            if old_left != new_left or self.at < len(self.lines):
                self.at = first
                hunk.lines = self.body_without_counts()
        elif self.at < len(self.lines) and self.lines[self.at].startswith(b"\\"):
            hunk.lines.append(self.lines[self.at])
            self.at += 1
        else:
            here = self.at
            hunk.extra = self.body_without_counts() if self.peek()[:1] in (b"+", b"-", b" ") else []
            self.at = here + (len(hunk.extra) if hunk.extra else 0)

    def body_without_counts(self) -> list[bytes]:
        """Return the lines from here on that can be a hunk's body, up to the next header of any kind."""
        body: list[bytes] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            mark = line[:1] if line not in (b"", b"\r") else b" "
            if mark not in (b" ", b"+", b"-", b"\\") or self.at_file_names() or self.at_signature():
                break
            body.append(line if line[:1] == mark else b" " + line)
            self.at += 1
        while body and body[-1].rstrip(b"\r") == b" ":  # blank lines before the next header are nobody's context
            body.pop()
        return body

    def at_signature(self) -> bool:
        """Whether format-patch's last lines (``-- `` and a version) are here."""
        return self.peek() in (b"-- ", b"--") and self.at + 4 >= len(self.lines)

    def binary(self, section: Section) -> None:
        section.binary.append(self.peek())
        self.at += 1
        while self.at < len(self.lines) and _BINARY_BLOCK.fullmatch(self.peek()):
            while self.at < len(self.lines) and self.peek():
                section.binary.append(self.peek())
                self.at += 1
            section.binary.append(b"")
            self.at += 1

    def binary_stub(self, section: Section, line: bytes) -> None:
        section.binary_without_data = True
        if section.names == (None, None) and (match := re.fullmatch(rb"Binary files (.+) and (.+) differ", line)):
            section.names = (_one_name(match[1]), _one_name(match[2]))
        self.at += 1


_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


def _unquote(text: bytes) -> tuple[str, bytes]:
    """Return the path that a C-style quoted string at the start of ``text`` stands for, and what follows it."""
    out = bytearray()
    index = 1
    while index < len(text) and text[index : index + 1] != b'"':
        char = text[index : index + 1]
        if char == b"\\" and (octal := re.match(rb"[0-3][0-7]{2}", text[index + 1 : index + 4])):
            out.append(int(octal[0], 8))
            index += 4
        elif char == b"\\" and text[index + 1 : index + 2] in _ESCAPES:
            out.append(_ESCAPES[text[index + 1 : index + 2]])
            index += 2
        else:
            out += char
            index += 1
    return os.fsdecode(bytes(out)), text[index + 1 :]


def _one_name(text: bytes) -> str:
    if text.startswith(b'"'):
        return _unquote(text)[0]
    return os.fsdecode(text.partition(b"\t")[0])  # a tab ends the name: a time follows, or nothing


def _git_names(rest: bytes) -> tuple[str | None, str | None]:
    """Return both names of a ``diff --git`` line, or nothing where a space makes them ambiguous."""
    if rest.startswith(b'"'):
        old, rest = _unquote(rest)
        return old, _one_name(rest[1:])
    if rest.endswith(b'"') and (start := rest.find(b' "')) > 0:
        return os.fsdecode(rest[:start]), _unquote(rest[start + 1 :])[0]
    half = len(rest) // 2
    old_name, new_name = rest[:half], rest[half + 1 :]
    if rest[half : half + 1] == b" " and (
        old_name == new_name or old_name.partition(b"/")[2] == new_name.partition(b"/")[2] != b""
    ):
        return os.fsdecode(old_name), os.fsdecode(new_name)
    parts = rest.split(b" ")
    return (os.fsdecode(parts[0]), os.fsdecode(parts[1])) if len(parts) == 2 else (None, None)


def render(sections: Sequence[Section]) -> bytes:
    """Return the sections as git writes them, with every count and header exact."""
    return b"".join(line + b"\n" for section in sections for line in _section_lines(section))


def _section_lines(section: Section) -> list[bytes]:
    old, new = _quoted("a/" + section.old), _quoted("b/" + section.new)
    kind = section.kind
    out = [b"diff --git " + old + b" " + new]
    if kind == "added":
        out.append(b"new file mode " + (section.new_mode or "100644").encode("ascii"))
    elif kind == "deleted":
        out.append(b"deleted file mode " + (section.old_mode or "100644").encode("ascii"))
    elif section.mode_changes:
        out += [f"old mode {section.old_mode}".encode("ascii"), f"new mode {section.new_mode}".encode("ascii")]
    if kind in ("renamed", "copied"):
        word = b"copy" if kind == "copied" else b"rename"
        out += [section.similarity] if section.similarity else []
        out += [word + b" from " + _quoted(section.old), word + b" to " + _quoted(section.new)]
    if section.index:
        out.append(section.index)
    if section.hunks:
        out.append(b"--- " + (_NULL.encode() if kind == "added" else _with_tab(old)))
        out.append(b"+++ " + (_NULL.encode() if kind == "deleted" else _with_tab(new)))
        for hunk in section.hunks:
            before, after = hunk.counts
            out.append(b"@@ -%d,%d +%d,%d @@" % (hunk.old_start, before, hunk.new_start, after) + hunk.heading)
            out += hunk.lines
    return out + section.binary


def _with_tab(name: bytes) -> bytes:
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


_NEEDS_QUOTES = re.compile(rb'[\x00-\x1f"\\\x7f]')


def _quoted(path: str) -> bytes:
    raw = os.fsencode(path)
    if not _NEEDS_QUOTES.search(raw):
        return raw
    return b'"' + re.sub(_NEEDS_QUOTES, lambda match: b"\\%03o" % match[0][0], raw) + b'"'
