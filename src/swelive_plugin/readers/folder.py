"""Finding the evidence of many runs in one folder: CI artefacts, or what an evaluation left behind."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import UsageError

__all__ = ["FoundRun", "listed_in_results", "runs_in", "session_files"]

# from the best evidence to the weakest; what stands first for an instance is taken
_NAMES = ("events.jsonl", "events.jsonl.gz")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".xml", ".xml.gz", ".json", ".json.gz")
_LOG_NAMES = ("test_output.txt", "post_patch_log.txt", "test_output.txt.gz")
_LOG_SUFFIXES = (".log", ".log.gz", ".txt", ".txt.gz", ".out")
# what harnesses write beside the evidence: verdicts, settings, their own diary
_NO_EVIDENCE = frozenset(
    {"report.json", "status.json", "verdict.json", "results.json", "results.xml", "timings.json", "run_instance.log"}
)

_OWN_EVIDENCE = ("events.jsonl", "events.jsonl.gz", "test_output.txt")
# what these say holds whatever a session recorded, if there was one
_STANDS = frozenset(
    {
        Status.EMPTY_PATCH,
        Status.INVALID_INSTANCE,
        Status.ENV_ERROR,
        Status.PATCH_REJECTED,
        Status.PATCH_FAILED,
        Status.ERROR,
        Status.INCOMPLETE,
    }
)


@dataclass(frozen=True)
class FoundRun:
    """One run of an instance: its attempt, the file that tells most of it, and our own verdict where one lies beside.

    ``evidence`` is ``None`` where no session was recorded, or where its record was taken away.
    """

    instance_id: str
    attempt: int
    evidence: Path | None
    kept: Verdict | None = None

    @property
    def stands(self) -> bool:
        """Whether ``kept`` was given without the tests, so that no record of a session can say more."""
        kept = self.kept
        return kept is not None and (kept.status in _STANDS or not (kept.fail_to_pass or kept.pass_to_pass))


def runs_in(folder: Path, instance_ids: Collection[str]) -> list[FoundRun]:
    """Return the runs of these instances in ``folder``, in the order of the ids and of the attempts.

    In a run folder of ours these are the attempts that its ``results.json`` has: others are left from an earlier run.
    Where there is none (a run that was killed), they are those on disk. For any other folder see `session_files`.
    Raises `UsageError` where ``folder`` is no folder.
    """
    evidence = session_files(folder, instance_ids)
    listed = listed_in_results(folder)
    runs: list[FoundRun] = []
    for instance_id in instance_ids:
        own = list(_attempts(folder / instance_id, instance_id))
        if own and (listed is not None or any(run.kept for run in own)):
            runs += [run for run in own if listed is None or (instance_id, run.attempt) in listed]
        elif instance_id in evidence:
            first = evidence[instance_id]
            runs.append(FoundRun(instance_id, 1, first))
            runs += [run for run in own if run.attempt > 1 and run.evidence not in (None, first)]
    return runs


def listed_in_results(folder: Path) -> frozenset[tuple[str, int]] | None:
    """Return instance and attempt of each row in the folder's ``results.json``; ``None`` if it has none of ours."""
    from swelive_plugin.reports.json_report import read_results

    try:
        return frozenset((row.instance_id, row.attempt) for row in read_results(folder / "results.json").rows)
    except UsageError:  # not there, or another harness's
        return None


def _attempts(folder: Path, instance_id: str) -> Iterator[FoundRun]:
    """Yield what an instance's folder holds in our layout: the first attempt in itself or in ``attempt-1``."""
    numbered = {
        int(number): path
        for path in (folder.glob("attempt-*") if folder.is_dir() else ())
        if (number := path.name.removeprefix("attempt-")).isdecimal()
    }
    for attempt, place in sorted({1: folder, **numbered}.items()):
        evidence = next((place / name for name in _OWN_EVIDENCE if (place / name).is_file()), None)
        kept = _kept(place / "verdict.json")
        if evidence is not None or kept is not None:
            yield FoundRun(instance_id, attempt, evidence, kept)


def _kept(path: Path) -> Verdict | None:
    from swelive_plugin.reports.json_report import read_verdict

    try:
        return read_verdict(path)
    except UsageError:
        return None


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
