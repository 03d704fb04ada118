"""What a trusted patch makes of single files of base, without the prediction's files anywhere near."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from swelive_plugin.errors import InstanceError, PatchError
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.checkout import copy_file, link_tree
from swelive_plugin.workspace.patch import touched_paths
from swelive_plugin.workspace.patch_repair import normalise_patch

__all__ = ["PatchedFiles", "place"]


class PatchedFiles:
    """What a trusted patch makes of single files of base, made only when one is asked for.

    It never sees the prediction's files, so a test patch that copies a source file (``git diff -C``) applies whatever
    the prediction did to it.
    """

    def __init__(self, base: Path, patch: str, what: str, stack: contextlib.ExitStack) -> None:
        self.base = base
        self.patch = patch
        self.what = what
        self.stack = stack
        try:
            self.changes = touched_paths(patch)
        except PatchError as error:
            raise self.broken(error) from error
        self.paths = frozenset(path for change in self.changes for path in change.paths)
        self.folder: Path | None = None
        self.repairs: tuple[str, ...] = ()

    def file(self, path: str) -> Path:
        """Return where the patched ``path`` is; nothing is there if the patch deletes it."""
        if self.folder is None:
            folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="swelive-patched-")))
            for old in {change.old for change in self.changes}:
                if os.path.lexists(self.base / old):
                    (folder / old).parent.mkdir(parents=True, exist_ok=True)
                    place(self.base / old, folder / old, link=False)
            try:
                text, self.repairs = normalise_patch(self.patch, folder)
                if text:
                    apply_patch(text, folder, what=self.what)
            except PatchError as error:
                raise self.broken(error) from error
            self.folder = folder
        return self.folder / path

    def broken(self, error: PatchError) -> InstanceError:
        """Return the error for a patch of the task row itself."""
        message = error.message if self.what in error.message else f"{self.what}: {error.message}"
        return InstanceError(message, hint="the task row is broken", evidence=error.evidence)


def place(source: Path, target: Path, *, link: bool) -> None:
    """Make ``target`` what ``source`` is: the same file by a hard link if asked for, else a copy; links stay links."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        link_tree(source, target, private=not link)
    elif link:
        os.link(source, target)
    else:
        copy_file(str(source), str(target))
