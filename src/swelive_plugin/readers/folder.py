"""Finding the evidence of many runs in one folder: CI artefacts, or what an evaluation left behind."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from swelive_plugin.errors import UsageError

__all__ = ["session_files"]

# from the best evidence to the weakest; what stands first for an instance is taken
_NAMES = ("events.jsonl", "events.jsonl.gz")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".xml", ".xml.gz", ".json", ".json.gz")
_LOG_NAMES = ("test_output.txt", "post_patch_log.txt", "test_output.txt.gz")
_LOG_SUFFIXES = (".log", ".log.gz", ".txt", ".txt.gz", ".out")
# what harnesses write beside the evidence: verdicts, settings, their own diary
_NO_EVIDENCE = frozenset(
    {"report.json", "status.json", "verdict.json", "results.json", "results.xml", "timings.json", "run_instance.log"}
)


def session_files(folder: Path, instance_ids: Collection[str]) -> dict[str, Path]:
    """Return for each instance the file in ``folder`` that tells most of its run, in the order of the ids.

    A file belongs to an instance if it, or a folder that it lies in, is called after it (``<id>.log``,
    ``<id>.junit.xml``, ``<id>/test_output.txt``). Instances without any are left out. Raises `UsageError` where
    ``folder`` is no folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="name the folder that holds the runs")
    wanted = set(instance_ids)
    best: dict[str, tuple[int, int, str, Path]] = {}
    for path in _files(folder):
        rank = _rank(path.name)
        owner = _owner(path.relative_to(folder), wanted)
        if rank is None or owner is None:
            continue
        found = (rank, len(path.parts), str(path), path)
        best[owner] = min(best.get(owner, found), found)
    return {instance_id: best[instance_id][3] for instance_id in instance_ids if instance_id in best}


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield Path(parent, name)


def _rank(name: str) -> int | None:
    if name in _NO_EVIDENCE or name.startswith("."):
        return None
    kinds: tuple[tuple[str, ...], ...] = (_NAMES, _SUFFIXES, _LOG_NAMES, _LOG_SUFFIXES)
    for rank, known in enumerate(kinds):
        exact = known in (_NAMES, _LOG_NAMES)
        if name in known if exact else name.endswith(known):
            return rank
    return None


def _owner(path: Path, wanted: Collection[str]) -> str | None:
    name = path.name
    while name:  # an id may hold dots, so the longest name that is one counts
        if name in wanted:
            return name
        name = name.rpartition(".")[0]
    return next((part for part in reversed(path.parts[:-1]) if part in wanted), None)
