"""Patches repaired where that is safe: damage of transport, which says nothing about a fix."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from swelive_plugin.errors import PatchError
from swelive_plugin.workspace.patch import GITLINK, is_submodule_bump, read_patch
from swelive_plugin.workspace.unified import Hunk, Section, render

__all__ = ["normalise_patch"]

_MAX_FILE_BYTES = 64 * 2**20
_MAX_SEARCHED_BYTES = 2 * 2**30  # by all searches of a patch together: 1000 hunks in a file of 2 MiB
_MAX_LISTED = 200


def normalise_patch(text: str, tree: Path) -> tuple[str, tuple[str, ...]]:
    """Return ``text`` as git would have written it, and a description of each repair.

    Repaired, because agents and their tools do this to right patches: a lost final newline, blank context lines
    stripped from the end, line ends that differ from the file's own, wrong line counts, prose or a markdown fence
    around the diff, a byte order mark, names without ``a/`` and ``b/``. Dropped, and named: binary changes without
    data and moved submodules. What a hunk looks for and what it adds is never invented. Raises `PatchError` for a
    text without a diff.
    """
    diff = read_patch(text, tree)
    repairs: list[str] = []
    if diff.byte_order_mark:
        repairs.append("byte order mark removed")
    if diff.fences:
        repairs.append("markdown fence removed")
    if diff.prose:
        repairs.append("text around the diff removed")
    if diff.colours:
        repairs.append("colour codes removed")
    if diff.strip == 0:
        repairs.append("a/ and b/ added to the paths")
    repairs += [f"{root} removed from the paths" for root in sorted(diff.roots)]
    if not diff.final_newline and not diff.fences:
        repairs.append("missing final newline added")
    if not diff.sections:
        start = " ".join(text[:400].split())[:200]
        raise PatchError(
            f"there is no diff in the patch; it begins: {start}",
            hint="it must be a unified diff, as `git diff` prints it",
        )
    kept: list[Section] = []
    seen: set[str] = set()
    search = _Search()
    for section in diff.sections:
        if reason := _without_effect(section, tree):
            repairs.append(reason)
            continue
        _complete_header(section, tree, repairs)
        # An earlier section may have changed the file already: then the file in the tree is no reference.
        lines = None if section.added or section.old in seen else _lines(tree / section.old)
        _repair_line_ends(section, lines, repairs, search)
        for number, hunk in enumerate(section.hunks, 1):
            _repair_counts(hunk, lines, f"hunk #{number} of {section.new}", repairs, search)
        seen.add(section.new)
        kept.append(section)
    repairs = list(dict.fromkeys(repairs))
    if len(repairs) > _MAX_LISTED:
        repairs[_MAX_LISTED:] = [f"and {len(repairs) - _MAX_LISTED} more"]
    return render(kept).decode("utf-8", "surrogateescape"), tuple(repairs)


def _without_effect(section: Section, tree: Path) -> str:
    if section.binary_without_data and not section.hunks and not section.binary:
        return f"binary hunk dropped: {section.new}"
    if section.new_mode == GITLINK and is_submodule_bump(section, tree):
        return f"submodule change dropped: {section.new}"
    if not section.changes_something:
        return f"section without a change dropped: {section.new}"
    return ""


def _complete_header(section: Section, tree: Path, repairs: list[str]) -> None:
    """Mark a section as a new file where all but its header says so."""
    starts_empty = len(section.hunks) == 1 and section.hunks[0].old_start == 0 and not section.hunks[0].old_lines
    if section.kind == "modified" and starts_empty and not os.path.lexists(tree / section.new):
        section.added = True
        repairs.append(f"marked as a new file: {section.new}")


def _lines(path: Path) -> list[bytes] | None:
    """Return the lines of a regular file without their line feeds, or nothing where there is none to compare with."""
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_FILE_BYTES:
            return path.read_bytes().split(b"\n")
    except OSError:
        pass
    return None


def _repair_line_ends(section: Section, target: list[bytes] | None, repairs: list[str], search: _Search) -> None:
    if section.crlf_headers:
        for hunk in section.hunks:
            hunk.lines = [line.removesuffix(b"\r") if line[:1] == b"\\" else line for line in hunk.lines]
    bodies = [hunk.lines + hunk.extra for hunk in section.hunks]
    lines = [line for body in bodies for line in body if line[:1] != b"\\"]
    here = f"line ends of {section.new}"
    if target is None:
        # No file to compare with: only a patch that is CRLF all over was plainly converted on its way.
        if section.crlf_headers and lines and all(line.endswith(b"\r") for line in lines):
            _set_line_ends(section, b"")
            repairs.append(f"{here}: CRLF to LF")
        return
    looked_for = [line for line in lines if line[:1] in (b" ", b"-")]
    ends, returns = len(target) - 1, sum(line.endswith(b"\r") for line in target[:-1])
    if not returns:
        if any(line.endswith(b"\r") for line in looked_for or (lines if section.crlf_headers else [])):
            _set_line_ends(section, b"")
            repairs.append(f"{here}: CRLF to LF")
    elif returns == ends:
        ended = [line for body in bodies for line in _ended(body) if line[:1] != b"+" or not looked_for]
        if not all(line.endswith(b"\r") for line in ended):
            repairs.append(f"{here}: LF to CRLF")
        elif not section.crlf_headers:
            return
        _set_line_ends(section, b"\r")
    elif _follow_mixed_line_ends(section, target, search):
        repairs.append(f"{here}: as in the file, which mixes them")


def _ended(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines that end in a line feed: not the notes, and not what stands before one."""
    for line, following in zip(lines, [*lines[1:], b""], strict=True):
        if line[:1] != b"\\" and following[:1] != b"\\":
            yield line


def _set_line_ends(section: Section, ending: bytes) -> None:
    for hunk in section.hunks:
        for lines in (hunk.lines, hunk.extra):
            for index, line in enumerate(lines):
                if line[:1] == b"\\":
                    continue
                unended = index + 1 < len(lines) and lines[index + 1][:1] == b"\\"
                lines[index] = line.removesuffix(b"\r") + (b"" if unended else ending)


def _follow_mixed_line_ends(section: Section, target: list[bytes], search: _Search) -> bool:
    """Give each line that is looked for the line end that the file has; added lines follow the one above them."""
    bare_target = [line.removesuffix(b"\r") for line in target]
    changed = False
    for hunk in section.hunks:
        bare = Hunk(hunk.old_start, hunk.new_start, [line.removesuffix(b"\r") for line in hunk.lines])
        at = search.position(bare, bare_target)
        if at is None:
            continue
        before, ending = list(hunk.lines), b""
        for index, line in enumerate(bare.lines):
            if line[:1] in (b" ", b"-"):
                ending = b"\r" if target[at].endswith(b"\r") else b""
                at += 1
            if line[:1] != b"\\":
                hunk.lines[index] = line + ending
        changed |= hunk.lines != before
    return changed


def _repair_counts(hunk: Hunk, target: list[bytes] | None, where: str, repairs: list[str], search: _Search) -> None:
    if hunk.extra:
        longer = Hunk(hunk.old_start, hunk.new_start, hunk.lines + hunk.extra)
        if target is not None and search.position(longer, target) is not None:
            hunk.lines = longer.lines
            repairs.append(f"line counts corrected: {where}")
        else:
            repairs.append(f"lines after the end of the hunk left out: {where}")
    if hunk.missing == (0, 0):
        return
    if not any(line[:1] in (b"+", b"-") for line in hunk.lines):
        raise PatchError(f"{where} breaks off at line {hunk.at} of the patch", hint="the patch is cut off")
    blank = _stripped_context(hunk, target, search)
    if blank is None:
        repairs.append(f"line counts corrected: {where}")
    else:
        hunk.lines += blank
        repairs.append(f"stripped last context lines restored: {where}")


def _stripped_context(hunk: Hunk, target: list[bytes] | None, search: _Search) -> list[bytes] | None:
    """Return the blank lines that ``str.strip`` took from the hunk's end, if that is what happened."""
    count = hunk.missing[0]
    if target is None or hunk.missing[1] != count:
        return None
    start = search.position(hunk, target)
    if start is None:
        return None
    after = start + len(hunk.old_lines)
    lines = target[after : after + count]
    return [b" " + line for line in lines] if len(lines) == count and not any(map(bytes.strip, lines)) else None


class _Search:
    """Finds where the old lines of hunks stand in a file, and stops where a patch asks for too much of it."""

    def __init__(self) -> None:
        self.left = _MAX_SEARCHED_BYTES
        self.lines: list[bytes] = []
        self.text = b""

    def position(self, hunk: Hunk, lines: list[bytes]) -> int | None:
        """Return the line, from 0, at which the hunk stands: where it says, else the only place there is."""
        wanted = hunk.old_lines
        stated = max(hunk.old_start - 1, 0)
        if not wanted:
            return None
        if lines[stated : stated + len(wanted)] == wanted:
            return stated
        if self.lines is not lines:
            self.lines, self.text = lines, b"\n" + b"\n".join(lines) + b"\n"
        self.left -= 2 * len(self.text)
        if self.left < 0:
            raise PatchError("the patch needs too many repairs", hint="is it a diff at all?")
        sought = b"\n" + b"\n".join(wanted) + b"\n"
        first = self.text.find(sought)
        if first < 0 or self.text.find(sought, first + 1) >= 0:
            return None
        return self.text.count(b"\n", 0, first)
