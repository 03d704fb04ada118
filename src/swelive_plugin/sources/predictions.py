"""Predictions in every public shape: one file, a folder of patches, standard input, or the words gold and empty."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from swelive_plugin.core.instance import SWAPPED, Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.errors import PredictionsError, UsageError
from swelive_plugin.sources.records import (
    Record,
    decode,
    kind_of,
    near_misses,
    pairs_of,
    parse,
    read_bytes,
    repeated_keys,
)

__all__ = ["Predictions", "load_predictions"]

# The first is the field's own name (SWE-bench, SWE-bench-Live); the others are what other tools write:
# SWE-bench Pro `patch`, Multi-SWE-bench `fix_patch`, OpenHands `git_patch` (also inside `test_result`).
_PATCH_KEYS = ("model_patch", "patch", "prediction", "diff", "fix_patch", "git_patch")
_MODEL_KEYS = ("model_name_or_path", "model", "model_name")
_ENTRY_KEYS = ("instance_id", "test_result", *_PATCH_KEYS, *_MODEL_KEYS)  # an object with one of them is no {id: …}
_PATCH_FILES = (".patch", ".diff", ".pred")
# A folder without patch files may hold one of these instead (SWE-agent, mini-swe-agent, OpenHands).
_COLLECTED_FILES = (
    "preds.json",
    "preds.jsonl",
    "all_preds.jsonl",
    "predictions.json",
    "predictions.jsonl",
    "output.jsonl",
)
_NO_NAMES = frozenset({"patch", "diff", "pred", "model", "prediction", "model_patch"})
_SHAPES = "give a file (.json, .jsonl, .patch, …), a folder of patches, or one of the words gold and empty"
_DIFF = re.compile(r"(diff --git |--- |Index: |From [0-9a-f]{40} )")
_NOTED_EACH = 10  # more unknown ids than this are named in one note, without near misses


@dataclass(frozen=True)
class Predictions(Sequence[Prediction]):
    """The predictions of one source: each different patch once, attempts of one instance numbered from 1.

    ``unknown`` names ids that none of the given instances has; their predictions are not among `predictions`. ``notes``
    say in full sentences what was read otherwise than written: aliases, duplicates, entries left out; those about
    unknown ids are in ``notes_of_unknown`` too, for who asked for a part of the dataset and expects them.
    """

    predictions: tuple[Prediction, ...]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    notes_of_unknown: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, index: int | slice) -> Prediction | tuple[Prediction, ...]:
        """Return one prediction, or a tuple of several."""
        return self.predictions[index]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.predictions)

    def __iter__(self) -> Iterator[Prediction]:
        """Return an iterator over them, in the order of the source."""
        return iter(self.predictions)


def load_predictions(
    source: str | Path, *, instances: Sequence[Instance] | None = None, keep_going: bool = False
) -> Predictions:
    """Return the predictions that a source holds, whichever public shape it has.

    ``source`` is ``.json``, ``.jsonl`` (also ``.gz``), ``.pred``, ``.patch``, ``.diff``, a folder of ``<id>/*.patch``
    or ``<id>.patch`` and the like, ``-`` for standard input, or one of the words ``gold`` and ``empty``, which need
    ``instances``. JSON is ``{id: {model_patch: …}}``, ``{id: "diff …"}``, ``{id: [several]}``, a list or lines of
    ``{instance_id, model_patch, …}``, or one such object. A null patch is an empty patch. An
    entry without a readable patch stands as one that does not apply, so that it is judged and refuses no other. With
    ``keep_going`` what names no instance is left out and noted. Raises `PredictionsError`, with file and line.
    """
    known = None if instances is None else {instance.instance_id: None for instance in instances}
    if source in ("gold", "empty"):
        if instances is None:
            raise PredictionsError(
                f"{source}: this word stands for patches of a dataset's instances, and none is given"
            )
        made = [
            Prediction(i.instance_id, i.patch if source == "gold" else "", str(source), 1, str(source))
            for i in instances
        ]
        return Predictions(tuple(made), source=str(source))

    if source == "":  # it would mean the current folder
        raise PredictionsError("the name of the predictions is empty", hint=_SHAPES)
    reader = _Reader(known, keep_going=keep_going)
    if source == "-":
        reader.read_data(sys.stdin.buffer.read(), "<stdin>", lines=False)
    elif Path(source).expanduser().is_dir():
        _read_folder(Path(source).expanduser(), reader)
    else:
        reader.read_file(Path(source).expanduser())
    return reader.result(str(source))


def _read_folder(folder: Path, reader: _Reader) -> None:
    from swelive_plugin.readers.folder import listed_in_results

    files = []
    of_run = listed_in_results(folder)
    for entry in _listed(folder):
        if entry.is_dir():
            patches = [inner for inner in _patch_files(entry) if _of_run(inner, entry, of_run)]
            files += [(entry.name, inner) for inner in patches]
        elif _is_patch_file(entry):
            files.append((entry.stem, entry))
    if files:
        for instance_id, path in files:
            with reader.leaving_out():
                reader.read_file(path, instance_id=instance_id)
        return
    collected = [folder / name for name in _COLLECTED_FILES if (folder / name).is_file()]
    if len(collected) > 1:
        names = " and ".join(path.name for path in collected)
        raise PredictionsError(f"{folder}: which predictions? The folder holds {names}", hint="name one of the files")
    if not collected:
        raise PredictionsError(
            f"{folder}: no predictions in this folder",
            hint="looked for <id>/*.patch, <id>.patch (or .diff, .pred) and preds.json",
        )
    reader.read_file(collected[0])


def _of_run(patch: Path, folder: Path, listed: Collection[tuple[str, int]] | None) -> bool:
    """Return whether an instance's patch is of the run: in our run folders others are left from an earlier one."""
    own = re.fullmatch(r"(?:attempt-([0-9]+)/)?patch\.diff", patch.relative_to(folder).as_posix())
    return listed is None or own is None or (folder.name, int(own[1] or 1)) in listed


def _patch_files(folder: Path) -> list[Path]:
    """Return an instance's patch files: its own, then those of the folders in it (a run folder's ``attempt-2/``)."""
    entries = _listed(folder)
    deeper = [inner for entry in entries if entry.is_dir() for inner in _listed(entry)]
    return [entry for entry in (*entries, *deeper) if _is_patch_file(entry)]


def _listed(folder: Path) -> list[Path]:
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError as problem:
        raise PredictionsError(f"{folder}: can't be read: {problem.strerror}") from problem
    return sorted(entries, key=_natural)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Order names as people do: patch_2 before patch_10, for attempts are numbered in this order."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", path.name)]


def _is_diff(data: bytes, path: Path | None) -> bool:
    suffix = path.suffix if path else ""
    if suffix in (".patch", ".diff"):
        return True
    start = data[:200].decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    return bool(_DIFF.match(start)) or (suffix == ".pred" and not start.startswith(("{", "[")))


def _is_patch_file(path: Path) -> bool:
    return path.suffix in _PATCH_FILES and path.is_file()


class _Reader:
    def __init__(self, known: Collection[str] | None, *, keep_going: bool) -> None:
        self.known = known
        self.keep_going = keep_going
        self.by_instance: dict[str, dict[str, Prediction]] = {}  # id → patch without final newline → it
        self.order: list[tuple[str, str]] = []
        self.refused: list[str] = []
        self.unreadable: list[PredictionsError] = []
        self.aliases: Counter[str] = Counter()
        self.first_alias: dict[str, str] = {}
        self.task_rows = 0

    @contextmanager
    def leaving_out(self) -> Iterator[None]:
        """Note what can't be read and go on, where that was asked for."""
        try:
            yield
        except PredictionsError as problem:
            if not self.keep_going:
                raise
            self.refused.append(str(problem))

    def read_file(self, path: Path, *, instance_id: str | None = None) -> None:
        data = read_bytes(path, PredictionsError, hint=_SHAPES)
        self.read_data(data, str(path), lines=".jsonl" in path.suffixes, instance_id=instance_id, path=path)

    def read_data(
        self, data: bytes, name: str, *, lines: bool, instance_id: str | None = None, path: Path | None = None
    ) -> None:
        if _is_diff(data, path):
            # A patch is bytes: files that are not UTF-8 have patches that are not, and carriage returns count.
            patch = data.decode("utf-8", "surrogateescape")
            self.add(instance_id or self._id_of(name, path), patch, "", name)
            return
        broken: list[UsageError] | None = [] if self.keep_going else None
        text = decode(data, name, PredictionsError)
        try:
            records = parse(text, name, PredictionsError, lines=lines, bad=broken)
        except PredictionsError as problem:
            if not lines or self.keep_going:
                raise
            if not text.strip():
                raise PredictionsError(problem.message, hint="write one prediction on each line") from problem
            rest = "--keep-going grades the rest" if "\n" in text.strip() else ""
            hints = filter(None, (problem.hint, rest))
            raise PredictionsError(problem.message, hint="; ".join(hints)) from problem
        self.refused += map(str, broken or ())
        for record in records:
            self._read_record(record, instance_id)

    def _id_of(self, name: str, path: Path | None) -> str:
        """Return the instance that a lone patch is for: by its file's name, its folder's, or the only one there is."""
        names = [] if path is None else [path.stem, path.absolute().parent.name]
        if self.known is None:
            fitting = [each for each in names if each not in _NO_NAMES]
        else:
            fitting = [each for each in names if each in self.known] or (
                list(self.known) if len(self.known) == 1 else []
            )
        if not fitting:
            raise PredictionsError(
                f"{name}: which instance is this patch for?",
                hint="name the file <instance_id>.patch, or ask for one instance",
            )
        return fitting[0]

    def _read_record(self, record: Record, instance_id: str | None) -> None:
        value = record.value
        if isinstance(value, dict) and value and not any(key in value for key in _ENTRY_KEYS):
            for key, entry in pairs_of(value):
                for number, one in enumerate(entry if isinstance(entry, list) else [entry], 1):
                    where = f"{record.where}: {key}" + (f" [{number}]" if isinstance(entry, list) else "")
                    self._read_entry(one, where, key, named_by_key=True)
            return
        self._read_entry(value, record.where, instance_id)

    def _read_entry(self, entry: Any, where: str, instance_id: str | None, *, named_by_key: bool = False) -> None:
        with self.leaving_out():
            if named_by_key and (entry is None or isinstance(entry, str)):
                self.add(instance_id or "", entry or "", "", where)
            elif isinstance(entry, dict):
                self._read_row(entry, where, instance_id)
            else:
                problem = PredictionsError(f"{where}: {kind_of(entry)}, where {{instance_id, model_patch}} is due")
                if not named_by_key or not instance_id:
                    raise problem
                self.add_unreadable(instance_id, problem, "", where)

    def _read_row(self, row: dict[str, Any], where: str, instance_id: str | None) -> None:
        own_id = row.get("instance_id", instance_id)
        if own_id is None or own_id == "":
            raise PredictionsError(f"{where}: the entry has no 'instance_id'", hint=_keys_there(row))
        if not isinstance(own_id, str):
            raise PredictionsError(f"{where}: instance_id is {kind_of(own_id)}, not text", hint="as in owner__name-123")
        if instance_id is not None and own_id.strip() != instance_id.strip():
            raise PredictionsError(
                f"{where}: the entry's own instance_id is {own_id!r}, its place says {instance_id!r}"
            )
        model = next((row[name] for name in _MODEL_KEYS if isinstance(row.get(name), str)), "")
        try:
            key, patch = _patch_of(row, where)
        except PredictionsError as problem:
            self.add_unreadable(own_id, problem, model, where)
            return
        if key != _PATCH_KEYS[0]:
            self.aliases[key] += 1
            self.first_alias.setdefault(key, where)
            self.task_rows += "test_patch" in row
        self.add(own_id, patch, model, where)

    def add_unreadable(self, instance_id: str, problem: PredictionsError, model: str, where: str) -> None:
        """Keep an entry that names its instance and has no patch that can be read: it is judged, as patch_failed.

        The message stands in place of a patch, and applying it fails with that very message.
        """
        self.unreadable.append(problem)
        self.add(instance_id, f"{problem.message}\n", model, where)

    def add(self, instance_id: str, patch: str, model: str, where: str) -> None:
        instance_id = instance_id.strip()
        if not instance_id:
            raise PredictionsError(f"{where}: the instance id is empty")
        prediction = Prediction(instance_id, patch, model, source=where)
        patches = self.by_instance.setdefault(instance_id, {})
        same = prediction.patch.removesuffix("\n") if patch.strip() else ""  # a final newline makes no other patch
        if same in patches:
            first = patches[same]
            patches[same] = replace(first, duplicates=(*first.duplicates, where))
            return
        patches[same] = replace(prediction, attempt=len(patches) + 1)
        self.order.append((instance_id, same))

    def result(self, source: str) -> Predictions:
        loaded = [self.by_instance[instance_id][same] for instance_id, same in self.order]
        if not loaded:
            raise PredictionsError(f"{source}: no predictions in it", hint=next(iter(self.refused), ""))
        if len(self.unreadable) == len(loaded):  # not one is right: then the file is another than was meant
            raise self.unreadable[0]
        known = self.by_instance if self.known is None else self.known
        kept = tuple(each for each in loaded if each.instance_id in known)
        unknown = tuple(dict.fromkeys(each.instance_id for each in loaded if each.instance_id not in known))
        of_unknown = tuple(self._notes_of_unknown(unknown))
        return Predictions(kept, unknown, (*self._notes(kept), *of_unknown), source, of_unknown)

    def _notes(self, kept: Sequence[Prediction]) -> Iterator[str]:
        for key, count in self.aliases.items():
            entries = "1 entry" if count == 1 else f"{count} entries"
            yield f"{entries}: {key!r} read as 'model_patch', first at {self.first_alias[key]}"
        if self.task_rows:
            yield f"{self.task_rows} of these hold a 'test_patch': rows of a dataset, whose 'patch' is the gold patch?"
        for prediction in kept:
            if prediction.duplicates:
                places = ", ".join((prediction.source, *prediction.duplicates))
                yield f"{prediction.instance_id}: the same patch stands in several places, graded once: {places}"
        for problem in self.unreadable:
            yield f"judged patch_failed: {problem}"
        for refused in self.refused:
            yield f"left out: {refused}"

    def _notes_of_unknown(self, unknown: Sequence[str]) -> Iterator[str]:
        if len(unknown) > _NOTED_EACH:
            listed = ", ".join(unknown[:_NOTED_EACH])
            yield f"{len(unknown)} instances are not in the dataset, not graded: {listed} and more"
            return
        for instance_id in unknown:
            hint = near_misses(instance_id, self.known or ())
            yield f"{instance_id} is not in the dataset, not graded" + (f" ({hint})" if hint else "")


def _patch_of(row: dict[str, Any], where: str) -> tuple[str, str]:
    """Return which key holds the entry's patch, and the patch; null is an empty one."""
    twice = repeated_keys(row)
    if twice:
        raise PredictionsError(f"{where}: the entry has the key {twice[0]!r} more than once")
    holders: list[tuple[str, Mapping[str, Any]]] = [("", row)]
    if isinstance(row.get("test_result"), dict):
        holders.append(("test_result.", row["test_result"]))
    for prefix, holder in holders:
        for key in _PATCH_KEYS:
            if key in holder:
                patch = holder[key]
                if patch is not None and not isinstance(patch, str):
                    raise PredictionsError(f"{where}: {prefix}{key} is {kind_of(patch)}, not the text of a patch")
                return prefix + key, patch or ""
    hint = SWAPPED if "base_commit" in row else _keys_there(row)
    raise PredictionsError(f"{where}: the entry has no 'model_patch'", hint=hint)


def _keys_there(row: Mapping[str, Any]) -> str:
    return f"its keys are {', '.join(list(row)[:8])}" if row else "it is empty"
