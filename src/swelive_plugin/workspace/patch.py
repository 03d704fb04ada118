"""Patches: repaired where that is safe, refused where no fix needs it, applied by git alone."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.errors import InfraError, PatchError, PatchRejected
from swelive_plugin.workspace.git import failure, run_git
from swelive_plugin.workspace.unified import Diff, Hunk, Kind, Section, parse_diff, render

__all__ = ["PathChange", "apply_patch", "check_patch", "is_compiled", "is_dot_git", "normalise_patch", "touched_paths"]

_MAX_PATCH_MIB = 64
_MAX_FILE_BYTES = 64 * 2**20
_MAX_REPAIRS = 1000  # each may search a file, and a hostile patch has millions of hunks
_APPLY_TIMEOUT_S = 120.0
_NO_REPOSITORY = Path(os.devnull) / "none"  # git must not look for one above the tree
_SYMLINK, _GITLINK = "120000", "160000"
_COMPILED = re.compile(r"\.(?:py[cod]|so(?:\.[\d.]+)?|dylib|dll|egg|whl|pyz)$", re.IGNORECASE)
# Code points that HFS+ passes over when it compares names (git's utf8.c, next_hfs_char).
_IGNORED_BY_HFS = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


@dataclass(frozen=True)
class PathChange:
    """What a patch does to one path; ``old`` and ``new`` are the same unless it moves or copies."""

    old: str
    new: str
    kind: Kind

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that is another one afterwards: both sides of a rename, the target of a copy."""
        return (self.old, self.new) if self.kind == "renamed" else (self.new,)


def touched_paths(patch: str) -> tuple[PathChange, ...]:
    """Return what ``patch`` does, file by file and in order; nothing for a text without a diff."""
    diff = parse_diff(_encoded(patch))
    diff.resolve()
    return tuple(PathChange(s.old, s.new, s.kind) for s in diff.sections if s.new)


def is_compiled(path: str) -> bool:
    """Return whether ``path`` names bytecode, a compiled object or an archive of code."""
    return "__pycache__" in path.split("/") or _COMPILED.search(path) is not None


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise PatchError(f"the patch holds text that is no Unicode: {error.reason}") from error


def _read(text: str, tree: Path) -> Diff:
    if len(text) > _MAX_PATCH_MIB * 2**20:
        raise PatchRejected(f"the patch is {len(text) / 2**20:.0f} MiB long; {_MAX_PATCH_MIB} MiB is the limit")
    diff = parse_diff(_encoded(text))
    diff.resolve(lambda path: _is_plain(path) and os.path.lexists(tree / path))
    return diff


def _is_plain(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/") and "\0" not in path


# --- what is refused -------------------------------------------------------------------------------------------------


def check_patch(text: str, tree: Path) -> None:
    """Return if ``text`` asks for nothing that a fix never needs; ``tree`` is what it would be applied to.

    Refused: paths in ``.git`` in any spelling, absolute paths and ``..``, symbolic links and submodules that ``tree``
    does not have, files below a symbolic link, bytecode and compiled objects. Sections that can't take effect (binary
    without data) are left alone. Raises `PatchRejected` with the path.
    """
    for section in _read(text, tree).sections:
        if section.binary_without_data and not section.hunks:
            continue
        for name in _all_names(section):
            if reason := _bad_path(name):
                raise PatchRejected(f"the patch writes to {name!r}: {reason}", hint="a fix stays inside the tree")
        _check_modes(section, tree)
        for path in dict.fromkeys((section.old, section.new)):
            if through := _symlink_above(path, tree):
                raise PatchRejected(f"the patch writes to {path!r} through the symbolic link {through!r}")
        if not section.deleted and is_compiled(section.new):
            raise PatchRejected(f"the patch brings {section.new!r}: bytecode and compiled code are not accepted")


def _all_names(section: Section) -> Iterator[str]:
    yield section.old
    yield section.new
    for name in (*section.names, *section.move):
        if name is not None and name != "/dev/null":
            yield name


def _bad_path(name: str) -> str:
    if not name or "\0" in name:
        return "that is no path"
    if name.startswith("/"):
        return "an absolute path"
    parts = re.split(r"[/\\]", name)
    if ".." in parts:
        return "it leaves the tree"
    if any(is_dot_git(part) for part in parts):
        return "it is inside .git"
    return ""


def is_dot_git(part: str) -> bool:
    """Return whether any file system would take this name for ``.git`` (git's path.c and utf8.c)."""
    plain = part.translate(_IGNORED_BY_HFS).casefold().partition(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _check_modes(section: Section, tree: Path) -> None:
    if section.new_mode == _GITLINK and not _is_submodule_bump(section, tree):
        raise PatchRejected(f"the patch adds the submodule {section.new!r}", hint="a fix has no need of one")
    old = tree / section.old
    moves_link = section.kind in ("renamed", "copied") and old.is_symlink()
    if (section.new_mode == _SYMLINK or moves_link) and not section.deleted and not _same_link(section, tree):
        raise PatchRejected(f"the patch makes {section.new!r} a symbolic link", hint="a fix has no need of one")


def _is_submodule_bump(section: Section, tree: Path) -> bool:
    """Whether the section moves a submodule that base has: an empty folder here, and without effect."""
    return section.kind == "modified" and section.old_mode == _GITLINK and (tree / section.old).is_dir()


def _same_link(section: Section, tree: Path) -> bool:
    path = tree / section.new
    added = [line[1:] for hunk in section.hunks for line in hunk.lines if line[:1] == b"+"]
    return path.is_symlink() and [os.fsencode(path.readlink())] == added


def _symlink_above(path: str, tree: Path) -> str:
    parts = path.split("/")
    for end in range(1, len(parts)):
        above = "/".join(parts[:end])
        if (tree / above).is_symlink():
            return above
    return ""


# --- what is repaired ------------------------------------------------------------------------------------------------


def normalise_patch(text: str, tree: Path) -> tuple[str, tuple[str, ...]]:
    """Return ``text`` as git would have written it, and each repair that it took, in words.

    Repaired, because agents and their tools do this to right patches: a lost final newline, blank context lines
    stripped from the end, line ends that differ from the file's own, wrong line counts, prose or a markdown fence
    around the diff, a byte order mark, names without ``a/`` and ``b/``. Dropped, and named: binary changes without
    data and moved submodules. What a hunk looks for and what it adds is never invented. Raises `PatchError` for a
    text without a diff.
    """
    diff = _read(text, tree)
    repairs: list[str] = []
    if diff.byte_order_mark:
        repairs.append("byte order mark removed")
    if diff.fences:
        repairs.append("markdown fence removed")
    if diff.prose:
        repairs.append("text around the diff removed")
    if diff.strip == 0:
        repairs.append("a/ and b/ added to the paths")
    if not diff.final_newline and not diff.fences:
        repairs.append("missing final newline added")
    if not diff.sections:
        raise PatchError("there is no diff in the patch", hint="it must be a unified diff, as `git diff` prints it")
    kept: list[Section] = []
    seen: set[str] = set()
    for section in diff.sections:
        if reason := _without_effect(section, tree):
            repairs.append(reason)
            continue
        _complete_header(section, tree, repairs)
        # An earlier section may have changed the file already: then the one in the tree tells nothing.
        lines = None if section.added or section.old in seen else _lines(tree / section.old)
        _repair_line_ends(section, lines, repairs)
        for number, hunk in enumerate(section.hunks, 1):
            _repair_counts(hunk, lines, f"hunk #{number} of {section.new}", repairs)
        if len(repairs) > _MAX_REPAIRS:
            raise PatchError(f"the patch needs more than {_MAX_REPAIRS} repairs", hint="is it a diff at all?")
        seen.add(section.new)
        kept.append(section)
    return render(kept).decode("utf-8", "surrogateescape"), tuple(dict.fromkeys(repairs))


def _without_effect(section: Section, tree: Path) -> str:
    if section.binary_without_data and not section.hunks and not section.binary:
        return f"binary hunk dropped: {section.new}"
    if section.new_mode == _GITLINK and _is_submodule_bump(section, tree):
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


def _repair_line_ends(section: Section, target: list[bytes] | None, repairs: list[str]) -> None:
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
    elif _follow_mixed_line_ends(section, target):
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


def _follow_mixed_line_ends(section: Section, target: list[bytes]) -> bool:
    """Give each line that is looked for the line end that the file has; added lines follow the one above them."""
    bare_target = [line.removesuffix(b"\r") for line in target]
    changed = False
    for hunk in section.hunks:
        bare = Hunk(hunk.old_start, hunk.new_start, [line.removesuffix(b"\r") for line in hunk.lines])
        at = _position(bare, bare_target)
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


def _repair_counts(hunk: Hunk, target: list[bytes] | None, where: str, repairs: list[str]) -> None:
    if hunk.extra:
        longer = Hunk(hunk.old_start, hunk.new_start, hunk.lines + hunk.extra)
        if target is not None and _position(longer, target) is not None:
            hunk.lines = longer.lines
            repairs.append(f"line counts corrected: {where}")
        else:
            repairs.append(f"lines after the end of the hunk left out: {where}")
    if hunk.missing == (0, 0):
        return
    if not any(line[:1] in (b"+", b"-") for line in hunk.lines):
        raise PatchError(f"{where} breaks off at line {hunk.at} of the patch", hint="the patch is cut off")
    blank = _stripped_context(hunk, target)
    if blank is None:
        repairs.append(f"line counts corrected: {where}")
    else:
        hunk.lines += blank
        repairs.append(f"stripped last context lines restored: {where}")


def _stripped_context(hunk: Hunk, target: list[bytes] | None) -> list[bytes] | None:
    """Return the blank lines that ``str.strip`` took from the hunk's end, if that is what happened."""
    count = hunk.missing[0]
    if target is None or hunk.missing[1] != count:
        return None
    start = _position(hunk, target)
    if start is None:
        return None
    after = start + len(hunk.old_lines)
    found = target[after : after + count]
    return [b" " + line for line in found] if len(found) == count and not any(map(bytes.strip, found)) else None


def _position(hunk: Hunk, lines: list[bytes]) -> int | None:
    """Return the line, from 0, at which the hunk's old lines stand: where it says, else the only place there is."""
    wanted = hunk.old_lines
    said = max(hunk.old_start - 1, 0)
    if not wanted:
        return None
    if lines[said : said + len(wanted)] == wanted:
        return said
    places = [at for at, line in enumerate(lines) if line == wanted[0] and lines[at : at + len(wanted)] == wanted]
    return places[0] if len(places) == 1 else None


# --- how it is applied -----------------------------------------------------------------------------------------------

_LADDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("strict", ()),
    ("recount", ("--recount",)),
    ("whitespace", ("--ignore-whitespace",)),
)


def apply_patch(text: str, tree: Path, *, what: str) -> str:
    """Apply ``text`` to ``tree`` with git, whole or not at all, and return how strictly it fitted.

    ``strict``: every context line as it stands, maybe on other lines than said; ``recount``: the same, line counts of
    hunks corrected; ``whitespace``: context differs in white space alone; ``zero-context``: the patch has no context
    and goes where its line numbers say. There is no fuzz: a hunk whose context is nowhere does not apply. Files are
    replaced, never written in place, so a farm of hard links is safe. ``what`` names the patch in errors. Raises
    `PatchError` with file, hunk and line.
    """
    data = _encoded(text)
    rungs = list(_LADDER)
    if _lacks_context(data):
        rungs.append(("zero-context", ("--unidiff-zero",)))
    first = b""
    for strictness, options in rungs:
        done = run_git(
            "apply",
            "-p1",
            "--whitespace=nowarn",
            *options,
            "-",
            cwd=tree,
            git_dir=_NO_REPOSITORY,
            input=data,
            timeout_s=_APPLY_TIMEOUT_S,
            check=False,
        )
        if done.returncode == 0:
            return strictness
        first = first or done.stderr
        if b"No space left on device" in done.stderr or b"unable to write" in done.stderr:
            raise failure(f"{what} could not be written", done)
    raise _explain(first.decode("utf-8", "surrogateescape"), data, what)


def _lacks_context(data: bytes) -> bool:
    hunks = [hunk for s in parse_diff(data).sections if not (s.added or s.deleted) for hunk in s.hunks]
    return any(not any(line[:1] == b" " for line in hunk.lines) for hunk in hunks)


_AT_HUNK = re.compile(r"error: patch failed: (.+):(\d+)$", re.MULTILINE)
_AT_FILE = re.compile(r"error: (.+): (No such file or directory|already exists in working directory|.+)$", re.MULTILINE)
_CORRUPT = re.compile(r"corrupt patch at line (\d+)")
_SAID = {
    "No such file or directory": "does not exist in the tree",
    "already exists in working directory": "is there already, but the patch creates it",
    "wrong type": "is not of the type that the patch expects",
}


def _explain(stderr: str, data: bytes, what: str) -> InfraError | PatchError:
    if found := _AT_HUNK.search(stderr):
        path, line = found[1], int(found[2])
        number = _hunk_number(data, path, line)
        place = f"hunk #{number} of {path}, line {line}," if number else f"{path}, line {line},"
        message = f"{what}: {place} does not apply"
    elif found := _CORRUPT.search(stderr):
        message = f"{what}: it is broken at its line {found[1]}"
    elif found := _AT_FILE.search(stderr):
        message = f"{what}: {found[1]} {_SAID.get(found[2], found[2])}"
    else:
        message = f"{what} does not apply: {(stderr.splitlines() or ['git gave no reason'])[0]}"
    return PatchError(message, hint="is it a diff against base_commit?", evidence=stderr.strip()[-4000:])


def _hunk_number(data: bytes, path: str, line: int) -> int:
    diff = parse_diff(data)
    diff.resolve()
    for section in diff.sections:
        if path in (section.old, section.new):
            for number, hunk in enumerate(section.hunks, 1):
                if hunk.old_start == line:
                    return number
    return 0
