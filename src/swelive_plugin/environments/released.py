"""Generated files that a repository does not hold, taken from the project's own last release before the cut-off.

Data tables, parsers and translations are often made by a step that needs the wide network, and git ignores what comes
of it. The release of that day has them. Only what git ignores and the tree lacks is taken: no source file is ever
replaced or brought back, and nothing compiled is taken.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from swelive_plugin.workspace.git import run_git

__all__ = ["take_released_files"]

_NOT_TAKEN = frozenset({".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib", ".pth"})


def take_released_files(release: Path, root: Path, *, work: Path) -> list[str]:
    """Return the files, relative to ``root``, that were copied there from an installed ``release``.

    ``root`` is the folder of the project's packaging files; ``work`` holds what git needs for a moment. Raises
    `InfraError` if git fails.
    """
    missing = {
        f"{home}/{path.relative_to(top).as_posix()}": path
        for top in sorted(release.iterdir())
        for home in _homes(root, top)
        for path in sorted(top.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix not in _NOT_TAKEN
    }
    missing = {name: path for name, path in missing.items() if not (root / name).exists()}
    taken = _ignored(root, list(missing), work / "ignore.git")
    for name in taken:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(missing[name], target)
    return taken


def _homes(root: Path, top: Path) -> list[str]:
    """Return where the sources of a released package lie: beside the packaging files, or below ``src`` or ``lib``."""
    if not top.is_dir() or top.name.endswith((".dist-info", ".egg-info", ".data")):
        return []
    return [f"{place}{top.name}" for place in ("", "src/", "lib/") if (root / place / top.name).is_dir()][:1]


def _ignored(root: Path, names: Sequence[str], git_dir: Path) -> list[str]:
    if not names:
        return []
    run_git("init", "-q", "--bare", str(git_dir))
    asked = "\0".join(names).encode("utf-8", "surrogateescape")
    # --no-index: the tree has no index here, and a tracked file would exist already
    answer = run_git(
        f"--work-tree={root}", "check-ignore", "--no-index", "--stdin", "-z", git_dir=git_dir, cwd=root, input=asked,
        check=False,
    )  # fmt: skip
    return [name for name in answer.stdout.decode("utf-8", "surrogateescape").split("\0") if name]
