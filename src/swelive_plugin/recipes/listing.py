"""A repository's files as discovery sees them: names first, text on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

__all__ = ["FolderFiles", "MemoryFiles", "RepoFiles"]

_TOO_BIG = 2_000_000
_SKIPPED = frozenset({".git", ".hg", "node_modules", "__pycache__", ".tox", ".venv", "venv"})


class RepoFiles(Protocol):
    """What recipe discovery needs to know of a repository: nothing is run, nothing is written."""

    @property
    def paths(self) -> Sequence[str]:
        """Every file's path, relative, with forward slashes, sorted."""

    def read(self, path: str) -> str | None:
        """Return the text of one file, or ``None`` where there is none or it is no text."""


class MemoryFiles:
    """Files that a mapping holds."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)
        self.paths: Sequence[str] = sorted(self._files)

    def read(self, path: str) -> str | None:
        """Return the text at ``path``."""
        return self._files.get(path)


class FolderFiles:
    """Files below a folder; symbolic links are not followed out of it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    @cached_property
    def paths(self) -> Sequence[str]:
        """Every file's path below the folder."""
        found: list[str] = []
        folders = [self._root]
        while folders:
            for entry in folders.pop().iterdir():
                if entry.name in _SKIPPED:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    folders.append(entry)
                elif entry.is_file():
                    found.append(entry.relative_to(self._root).as_posix())
        return sorted(found)

    def read(self, path: str) -> str | None:
        """Return the text of one file below the folder."""
        target = self._root / path
        try:
            real = target.resolve(strict=True)
            if not real.is_relative_to(self._root) or not real.is_file() or real.stat().st_size > _TOO_BIG:
                return None
            return real.read_text(encoding="utf-8-sig", errors="replace")
        except (OSError, ValueError):
            return None
