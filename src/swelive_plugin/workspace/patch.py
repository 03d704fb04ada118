"""Patches: read, and refused where they ask for what no fix needs. Nothing here trusts a patch's content."""

from __future__ import annotations

import base64
import contextlib
import os
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from swelive_plugin.errors import PatchError, PatchRejected
from swelive_plugin.workspace.unified import Diff, Kind, Section, parse_diff

__all__ = [
    "GITLINK",
    "SYMLINK",
    "PathChange",
    "check_patch",
    "encoded",
    "is_compiled",
    "is_dot_git",
    "is_submodule_bump",
    "leaves_tree",
    "links_of",
    "read_patch",
    "touched_paths",
]

SYMLINK, GITLINK = "120000", "160000"
_MIB = 2**20
_MAX_PATCH_MIB = 64
_MAX_LINES = 2_000_000
_MAX_FILES = 20_000
_MAX_WRITTEN_MIB = 1024  # by all files together; compressed data and copies make little text a lot
_MAX_BLOCK_MIB = 128  # git holds the data of one file in memory
_DIGITS = 15  # of a size; more are no size
_MAX_NAME_BYTES = 255  # what file systems take
_MAX_PATH_BYTES = 1024  # they take 4096 from the root on, and where the tree lies must not count
_MAX_FOLDERS = 64
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
    diff = parse_diff(encoded(patch))
    diff.resolve()
    return tuple(PathChange(s.old, s.new, s.kind) for s in diff.sections if s.new)


def is_compiled(path: str) -> bool:
    """Return whether ``path`` names bytecode, a compiled object or an archive of code."""
    return "__pycache__" in path.split("/") or _COMPILED.search(path) is not None


def encoded(text: str) -> bytes:
    """Return a patch's bytes. Raises `PatchError` for a text that no file can hold or that is too long to be read."""
    if len(text) > _MAX_PATCH_MIB * _MIB:
        raise PatchRejected(f"the patch is {len(text) / _MIB:.0f} MiB long; {_MAX_PATCH_MIB} MiB is the limit")
    if (lines := text.count("\n")) > _MAX_LINES:
        raise PatchRejected(f"the patch has {lines} lines; {_MAX_LINES} is the limit")
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise _half_a_pair(text, error.start) from error
    # The same as a Prediction holds it, unless other bytes show that the file is simply not UTF-8.
    if (match := _HALF_A_PAIR.search(text)) and not _BYTE.search(_HALF_A_PAIR.sub("", text)):
        raise _half_a_pair(text, match.start())
    return data


_BYTE = re.compile("[\udc80-\udcff]")
_HALF_A_PAIR = re.compile("\udced[\udca0-\udcbf][\udc80-\udcbf]")


def _half_a_pair(text: str, at: int) -> PatchError:
    line = text.count("\n", 0, at) + 1
    return PatchError(
        f"the patch holds half of a surrogate pair at its line {line}: no file can hold such text",
        hint="was an emoji cut in two?",
    )


_ESCAPED = re.compile(rb"(?:^|\\n|\")(?:diff --git |--- )[^\n]*\\n(?:---|\+\+\+|@@|index|new file) ", re.MULTILINE)


def read_patch(text: str, tree: Path) -> Diff:
    """Return the diff in ``text``, its names resolved against ``tree``. Raises `PatchError` where it can't be read."""
    data = encoded(text)
    diff = parse_diff(data)
    if not any(section.changes_something for section in diff.sections) and _ESCAPED.search(data[:10_000]):
        raise PatchError(
            "the line ends of the diff are written as \\n: the text was escaped twice",
            hint="write the patch's own text into model_patch",
        )
    if len(diff.sections) > _MAX_FILES:
        raise PatchRejected(f"the patch changes {len(diff.sections)} files; {_MAX_FILES} is the limit")
    diff.resolve(lambda path: _is_plain(path) and os.path.lexists(tree / path))
    for section in diff.sections:
        if not section.new and section.changes_something:
            raise PatchError(f"the patch names no file at its line {section.at}", hint="is it a diff from `git diff`?")
    return diff


def _is_plain(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def check_patch(text: str, tree: Path, *, links: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """Return if ``text`` asks for nothing that a fix never needs; ``tree`` is what it would be applied to.

    Refused: paths in ``.git`` in any spelling, absolute paths and ``..``, names that file systems don't take, symbolic
    links out of the tree that are not among ``links``, submodules that ``tree`` does not have, files below a symbolic
    link, bytecode and compiled objects, more data than any fix has. Sections that can't take effect (binary without
    data) are left alone. Raises `PatchRejected` with the path, `PatchError` for a text that can't be read.
    """
    diff = read_patch(text, tree)
    folders = _Folders(tree)
    room = _MAX_WRITTEN_MIB * _MIB
    for section in diff.sections:
        if not section.new or (section.binary_without_data and not section.hunks):
            continue
        for name in _all_names(section, diff.roots):
            if reason := _bad_path(name):
                shown = name if len(name) < 100 else f"{name[:60]}…{name[-20:]}"
                raise PatchRejected(f"the patch writes to {shown!r}: {reason}", hint="a fix stays inside the tree")
        _check_modes(section, tree, links)
        for path in dict.fromkeys((section.old, section.new)):
            if through := folders.link_above(path):
                raise PatchRejected(f"the patch writes to {path!r} through the symbolic link {through!r}")
        if not section.deleted and is_compiled(section.new):
            raise PatchRejected(f"the patch brings {section.new!r}: bytecode and compiled code are not accepted")
        room -= _written(section, tree)
        if room < 0:
            raise PatchRejected(f"the patch writes more than {_MAX_WRITTEN_MIB} MiB")


def _all_names(section: Section, roots: frozenset[str]) -> Iterator[str]:
    """Yield the paths of a section, and its names as written, for git must not read them otherwise than we do."""
    yield section.old
    yield section.new
    for name in (*section.names, *section.move):
        if name is not None and name != "/dev/null":
            root = next((root for root in roots if name.startswith(root)), "")
            yield name.removeprefix(root)


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
    if len(os.fsencode(name)) > _MAX_PATH_BYTES or len(parts) > _MAX_FOLDERS:
        return f"longer than {_MAX_PATH_BYTES} bytes or {_MAX_FOLDERS} folders"
    if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in name.split("/")):
        return f"no file system takes a name of more than {_MAX_NAME_BYTES} bytes"
    return ""


def is_dot_git(part: str) -> bool:
    """Return whether any file system would take this name for ``.git`` (git's path.c and utf8.c)."""
    plain = part.translate(_IGNORED_BY_HFS).casefold().partition(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _check_modes(section: Section, tree: Path, links: Mapping[str, bytes]) -> None:
    if section.new_mode == GITLINK and not is_submodule_bump(section, tree):
        raise PatchRejected(f"the patch adds the submodule {section.new!r}", hint="a fix has no need of one")
    if section.new_mode == SYMLINK and not section.deleted:
        target = _link_target(section)
        if target != links.get(section.new) and leaves_tree(section.new, os.fsdecode(target)):
            shown = os.fsdecode(target[:100])
            raise PatchRejected(f"the patch makes {section.new!r} a symbolic link to {shown!r}, outside the tree")


def links_of(patch: str) -> dict[str, bytes]:
    """Return the symbolic links that a patch makes, with their targets."""
    diff = parse_diff(encoded(patch))
    diff.resolve()
    return {s.new: _link_target(s) for s in diff.sections if s.new_mode == SYMLINK and not s.deleted}


def _link_target(section: Section) -> bytes:
    return b"\n".join(line[1:] for hunk in section.hunks for line in hunk.lines if line[:1] == b"+")


def leaves_tree(path: str, target: str) -> bool:
    """Return whether a link leads out of the tree, or into ``.git``, by its text alone."""
    if not target or target.startswith("/") or "\0" in target:
        return bool(target)
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return inside.split("/")[0] == ".." or any(map(is_dot_git, inside.split("/")))


def is_submodule_bump(section: Section, tree: Path) -> bool:
    """Return whether the section moves a submodule that base has: an empty folder here, and without effect."""
    return section.kind == "modified" and section.old_mode == GITLINK and (tree / section.old).is_dir()


class _Folders:
    """Which folders of a tree are symbolic links; each is looked at once."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.known: dict[str, bool] = {}

    def link_above(self, path: str) -> str:
        """Return the outermost symbolic link among the folders above ``path``, or nothing."""
        at = path.find("/")
        while at >= 0:
            folder = path[:at]
            if folder not in self.known:
                self.known[folder] = (self.tree / folder).is_symlink()
            if self.known[folder]:
                return folder
            at = path.find("/", at + 1)
        return ""


# --- how much it writes ----------------------------------------------------------------------------------------------


def _written(section: Section, tree: Path) -> int:
    """Return how many bytes applying a section makes, at most; refuse data that git would hold in memory for long."""
    total = sum(len(line) for hunk in section.hunks for line in hunk.lines)
    if not section.added and not section.deleted:
        with contextlib.suppress(OSError):  # it does not exist, and git reports that
            total += (tree / section.old).lstat().st_size
    for at, line in enumerate(section.binary):
        kind, _, size = line.partition(b" ")
        if kind not in (b"literal", b"delta") or not size.isdigit():
            continue
        made = int(size[:_DIGITS])
        if kind == b"delta":
            made = max(made, _size_of_delta(section.binary[at + 1 : at + 2]))
        if made > _MAX_BLOCK_MIB * _MIB:
            raise PatchRejected(
                f"the patch makes {section.new!r} {made / _MIB:.0f} MiB large; {_MAX_BLOCK_MIB} MiB is the limit"
            )
        total += made
    return total


def _size_of_delta(lines: list[bytes]) -> int:
    """Return the size of what a delta makes, from the first line of its data; 0 where git will refuse it anyway."""
    if not lines:
        return 0
    try:
        head = zlib.decompressobj().decompress(base64.b85decode(lines[0][1:]), 64)
    except (ValueError, zlib.error):
        return 0
    sizes, shift, size = [], 0, 0
    for byte in head[:20]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            sizes.append(size)
            shift = size = 0
    return sizes[1] if len(sizes) > 1 else 0
