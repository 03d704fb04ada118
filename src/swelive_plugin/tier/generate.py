"""Render a tier from a dataset: draw candidates, prove them, write what stands."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.core.instance import Instance, instance_from_row
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.run_folder import RunFolder
from swelive_plugin.grading.settings import Settings
from swelive_plugin.tier.layout import Tier, read_tier, read_toml, write_task, write_tier_toml
from swelive_plugin.validation.batch import row_of, validate_all
from swelive_plugin.validation.validate import Options, Validation
from swelive_plugin.workspace.checkout import remove_tree

__all__ = ["Generated", "Selection", "generate"]


@dataclass(frozen=True)
class Selection:
    """Which instances a tier gets: at most ``limit`` in all (``None``: every one) and ``per_repo`` of one repository.

    ``repos`` keeps only these (``owner/name``, or the name alone).
    """

    limit: int | None = 10
    per_repo: int | None = 3
    repos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """A finished tier, and why candidates that were drawn are not in it: instance id to reason."""

    tier: Tier
    left_out: dict[str, str]


def generate(
    instances: Sequence[Instance],
    settings: Settings,
    selection: Selection | None = None,
    *,
    out: Path,
    prove: bool = True,
    options: Options | None = None,
    workers: int = 1,
    finished: Callable[[Validation], None] = lambda _: None,
) -> Generated:
    """Write a tier into ``out`` and return it.

    Candidates are drawn in the order of the dataset. With ``prove`` each is validated (unless its row says that it was)
    and further ones are drawn for those that drop, until the wanted number stands or none is left; the outcome does not
    depend on the number of workers. A generation that was stopped goes on where it was. Raises `UsageError` for a
    folder that holds another tier, and for a selection that nothing fits.
    """
    selection, options = selection or Selection(), options or Options()
    candidates = [one for one in instances if _wanted_repo(one, selection.repos)]
    if not candidates:
        known = ", ".join(sorted({one.repo for one in instances})[:5])
        raise UsageError(
            f"no instance is of {', '.join(selection.repos) or 'this dataset'}", hint=f"there are: {known}"
        )
    key = _key(candidates, selection, options, prove=prove)
    with RunFolder(out):
        _begin(out, key)
        draw = _Draw(candidates, selection)
        left_out: dict[str, str] = {}
        proven: list[Instance] = []
        asked: list[Instance] = []
        while wave := draw.wave(proven):
            ready = [one for one in wave if not _statement_missing(one, left_out)]
            if prove:
                validated = _proven(ready, asked, settings, options, out, workers, finished, left_out)
            else:
                validated = [one for one in ready if _has_lists(one, left_out)]
            proven.extend(validated)
        for one in proven:
            write_task(out, one, settings, difficulty=_difficulty(one))
        kept = [one.instance_id for one in proven]
        for folder in (*(out / "tasks").glob("*"), *(out / "oracle").glob("*")):
            if folder.name not in kept and folder.name != ".validation":
                remove_tree(folder)
        write_tier_toml(out, key=key, complete=True, tasks=kept)
    return Generated(read_tier(out), left_out)


def _wanted_repo(instance: Instance, repos: Collection[str]) -> bool:
    return not repos or instance.repo in repos or instance.name in repos


def _key(candidates: Sequence[Instance], selection: Selection, options: Options, *, prove: bool) -> str:
    told = ([(one.instance_id, one.sha256) for one in candidates], selection, options, prove)
    return hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _begin(out: Path, key: str) -> None:
    if (out / "tier.toml").exists():
        if read_toml(out / "tier.toml", "no tier").get("key") == key:
            return
        raise UsageError(
            f"{out} holds another tier: of other rows, or made with other options", hint="give another folder with -o"
        )
    write_tier_toml(out, key=key, complete=False, tasks=[])


class _Draw:
    """Draws candidates in waves: as many as are missing, no repository over its share."""

    def __init__(self, candidates: Sequence[Instance], selection: Selection) -> None:
        self.waiting = list(candidates)
        self.selection = selection

    def wave(self, kept: Sequence[Instance]) -> list[Instance]:
        """Return the next candidates; none when enough stand or nothing is left."""
        room = len(self.waiting) if self.selection.limit is None else self.selection.limit - len(kept)
        per_repo = Counter(one.repo for one in kept)
        drawn: list[Instance] = []
        passed_over: list[Instance] = []
        for one in self.waiting:
            full = self.selection.per_repo is not None and per_repo[one.repo] >= self.selection.per_repo
            if len(drawn) >= room or full:
                passed_over.append(one)
            else:
                per_repo[one.repo] += 1
                drawn.append(one)
        self.waiting = passed_over
        return drawn


def _proven(
    wave: Sequence[Instance],
    asked: list[Instance],
    settings: Settings,
    options: Options,
    out: Path,
    workers: int,
    finished: Callable[[Validation], None],
    left_out: dict[str, str],
) -> list[Instance]:
    """Return those of the wave that hold, as complete rows, in order."""
    new = [one for one in wave if not one.row.get("validation")]
    if not new:
        return [one for one in wave if _has_lists(one, left_out)]
    asked.extend(new)
    waiting = {one.instance_id for one in new}
    found = validate_all(
        asked,  # the earlier ones are there already, and belong into the files
        settings,
        options,
        out=out / "oracle" / ".validation",
        workers=workers,
        finished=lambda validation: finished(validation) if validation.instance_id in waiting else None,
    )
    by_id = {validation.instance_id: validation for validation in found}
    kept = []
    for one in wave:
        validation = by_id.get(one.instance_id)
        if validation is None:
            if _has_lists(one, left_out):
                kept.append(one)
        elif validation.kept:
            kept.append(instance_from_row(row_of(one, validation)))
        else:
            assert validation.reason is not None
            left_out[one.instance_id] = f"{validation.reason.value}: {validation.message}"
    return kept


def _statement_missing(instance: Instance, left_out: dict[str, str]) -> bool:
    if instance.problem_statement.strip():
        return False
    left_out[instance.instance_id] = "no_statement: the row has no problem_statement, so there is nothing to ask for"
    return True


def _has_lists(instance: Instance, left_out: dict[str, str]) -> bool:
    if instance.fail_to_pass and instance.test_patch.strip():
        return True
    left_out[instance.instance_id] = "no_fail_to_pass: the row has no FAIL_TO_PASS or no test_patch"
    return False


def _difficulty(instance: Instance) -> str:
    """Return what the row says: a rating in words (SWE-bench Verified), or how many files gold changes (Live)."""
    value = instance.row.get("difficulty")
    if isinstance(value, dict):
        files = value.get("files")
        if not isinstance(files, int) or files < 1:
            return ""
        return "1 file" if files == 1 else "2 to 3 files" if files <= 3 else "4 files or more"
    return str(value) if value not in (None, "") else ""
