"""Patches applied by git alone, whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

from swelive_plugin.errors import InfraError, Interrupted, MissingProgram, PatchError
from swelive_plugin.workspace.git import run_git
from swelive_plugin.workspace.patch import encoded
from swelive_plugin.workspace.unified import parse_diff

__all__ = ["apply_patch"]

_TIMEOUT_S = 900.0
_CPU_S = 20  # git takes a second for the largest honest patches; what needs longer is made to
_STDERR_BYTES = 100_000
_NO_REPOSITORY = Path(os.devnull) / "none"  # git must not look for one above the tree

_LADDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("strict", ()),
    ("recount", ("--recount",)),
    ("whitespace", ("--ignore-whitespace",)),
)
_ZERO_CONTEXT = ("zero-context", ("--unidiff-zero",))


def apply_patch(text: str, tree: Path, *, what: str) -> str:
    """Apply ``text`` to ``tree`` with git, whole or not at all, and return how strictly it fitted.

    ``strict``: each context line matches, maybe at another line number; ``recount``: the same, with the line counts of
    hunks corrected; ``whitespace``: context differs in white space alone; ``zero-context``: the patch has no context
    and goes where its line numbers say. There is no fuzz: a hunk whose context is nowhere does not apply. Files are
    replaced, never written in place, so a farm of hard links is safe. ``what`` names the patch in errors. Raises
    `PatchError` with file, hunk and line, `InfraError` for a full disk.
    """
    data = encoded(text)
    rungs = list(_LADDER)
    first = b""
    while rungs:
        strictness, options = rungs.pop(0)
        done = _git_apply(data, tree, options, what)
        if done.returncode == 0:
            return strictness
        if not first:
            first = done.stderr[:_STDERR_BYTES]
            if _lacks_context(data):
                rungs.append(_ZERO_CONTEXT)
        if not _has_room(tree, len(data)):
            raise InfraError(f"{what} could not be written: the disk is full", hint="free some space and run again")
        if done.returncode < 0:  # killed at one of its limits
            raise PatchError(f"{what}: git does not get through it within {_CPU_S} s of processor time")
    raise _explain(first.decode("utf-8", "surrogateescape"), data, what)


def _git_apply(data: bytes, tree: Path, options: tuple[str, ...], what: str) -> CompletedProcess[bytes]:
    try:
        return run_git(
            "apply",
            "-p1",
            "--whitespace=nowarn",
            *options,
            "-",
            cwd=tree,
            git_dir=_NO_REPOSITORY,
            input=data,
            timeout_s=_TIMEOUT_S,
            cpu_s=_CPU_S,
            check=False,
        )
    except (Interrupted, MissingProgram):
        raise
    except InfraError as error:  # the timeout: what is slow here is the patch
        raise PatchError(f"{what}: {error.message}") from error


def _has_room(tree: Path, size: int) -> bool:
    """Return whether the disk has room for files of this size. git's messages can't tell: they repeat file names."""
    try:
        with tempfile.TemporaryFile(dir=tree.parent) as file:
            file.write(bytes(size + 2**20))
            file.flush()
    except OSError as error:
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)
    return True


def _lacks_context(data: bytes) -> bool:
    hunks = [hunk for s in parse_diff(data).sections if not (s.added or s.deleted) for hunk in s.hunks]
    return any(not any(line[:1] == b" " for line in hunk.lines) for hunk in hunks)


_AT_HUNK = re.compile(r"error: patch failed: (.+):(\d+)$", re.MULTILINE)
_AT_FILE = re.compile(r"error: (.+): (No such file or directory|already exists in working directory|.+)$", re.MULTILINE)
_CORRUPT = re.compile(r"corrupt patch at line (\d+)")
_REASONS = {
    "No such file or directory": "does not exist in the tree",
    "already exists in working directory": "exists already, but the patch creates it",
    "wrong type": "is not of the type that the patch expects",
}


def _explain(stderr: str, data: bytes, what: str) -> PatchError:
    if match := _AT_HUNK.search(stderr):
        path, line = match[1], int(match[2])
        number = _hunk_number(data, path, line)
        place = f"hunk #{number} of {path}, line {line}," if number else f"{path}, line {line},"
        message = f"{what}: {place} does not apply"
    elif match := _CORRUPT.search(stderr):
        message = f"{what}: it is broken at its line {match[1]}"
    elif match := _AT_FILE.search(stderr):
        message = f"{what}: {match[1]} {_REASONS.get(match[2], match[2])}"
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
