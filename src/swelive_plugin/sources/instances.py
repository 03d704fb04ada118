"""Instances from wherever they are published: the hub, JSON lines, JSON, parquet, a folder of one of those."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from swelive_plugin.core.instance import SWAPPED, Instance, instance_from_row, month_of
from swelive_plugin.errors import DatasetError, UsageError
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

__all__ = ["DEFAULT_DATASET", "DEFAULT_SPLIT", "Instances", "load_instances"]

DEFAULT_DATASET = "SWE-bench-Live/SWE-bench-Live"
DEFAULT_SPLIT = "lite"

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
_PATCH_FILES = (".patch", ".diff", ".pred")
_HUB_NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_SHAPES = "give a hub name such as owner/name, or a .jsonl, .json or .parquet file"
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Instances(Sequence[Instance]):
    """The instances of one dataset, in its order.

    ``left_out`` names those that a month filter could not place, because their rows have no ``created_at``.
    ``source`` says where they came from.
    """

    instances: tuple[Instance, ...]
    left_out: tuple[str, ...] = ()
    source: str = ""

    @overload
    def __getitem__(self, index: int) -> Instance: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Instance, ...]: ...
    def __getitem__(self, index: int | slice) -> Instance | tuple[Instance, ...]:
        """Return one instance, or a tuple of several."""
        return self.instances[index]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.instances)

    def __iter__(self) -> Iterator[Instance]:
        """Return an iterator over them, in the dataset's order."""
        return iter(self.instances)


def load_instances(
    dataset: str | Path = DEFAULT_DATASET,
    *,
    split: str | None = None,
    ids: Collection[str] | None = None,
    start_month: str | None = None,
    end_month: str | None = None,
) -> Instances:
    """Return the instances of a dataset: a hub name, ``.jsonl``, ``.json`` (also ``.gz``), ``.parquet`` or a folder.

    ``ids`` keeps only these, and rows that are not asked for are not checked. ``start_month`` and ``end_month``
    (``YYYY-MM``, both included) keep those created in between; rows without ``created_at`` are then in `left_out`.
    ``split`` is for hub names and for folders with splits; the default dataset has ``lite`` by default.
    Raises `DatasetError`: missing, broken at line N, a row without a needed key, a repeated or unknown id.
    """
    within_months = _month_filter(start_month, end_month)
    source, records = _read(dataset, split)
    picked = _pick(records, ids, source)
    left_out = tuple(key for key, instance in picked.items() if within_months(instance) is None)
    return Instances(tuple(filter(within_months, picked.values())), left_out, source)


def _month_filter(start: str | None, end: str | None) -> Callable[[Instance], bool | None]:
    """Return whether an instance lies in the months; ``None`` where its row does not tell."""
    for name, month in (("start month", start), ("end month", end)):
        if month is not None and not _MONTH.fullmatch(month):
            raise UsageError(f"the {name} {month!r} is not a month", hint="write it as YYYY-MM")
    if start and end and start > end:
        raise UsageError(f"no month lies between {start} and {end}", hint="the start month comes first")

    def within(instance: Instance) -> bool | None:
        if not start and not end:
            return True
        month = month_of(instance)
        return None if month is None else (start or month) <= month <= (end or month)

    return within


def _pick(records: Iterable[Record], ids: Collection[str] | None, source: str) -> dict[str, Instance]:
    wanted = None if ids is None else frozenset(ids)
    picked: dict[str, Instance] = {}
    places: dict[str, str] = {}
    known: list[str] = []
    for where, row in _rows(records):
        instance_id = row.get("instance_id")
        if isinstance(instance_id, str):
            known.append(instance_id.strip())
        if wanted is not None and (not isinstance(instance_id, str) or instance_id.strip() not in wanted):
            continue  # a broken row that nobody asked for is no reason to refuse the others
        instance = instance_from_row(row, where=where)
        if instance.instance_id in places:
            first = places[instance.instance_id]
            raise DatasetError(f"{where}: {instance.instance_id} appears twice, first at {first}")
        places[instance.instance_id] = where
        picked[instance.instance_id] = instance
    if not known:
        raise DatasetError(f"{source}: no instances in it")
    if wanted is not None:
        _refuse_unknown(sorted(wanted - picked.keys()), known, source)
    return picked


def _refuse_unknown(unknown: Sequence[str], known: Sequence[str], source: str) -> None:
    if not unknown:
        return
    listed = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
    what = "instance" if len(unknown) == 1 else "instances"
    hint = near_misses(unknown[0], known) or f"it holds {len(known)}, such as {known[0]}"
    raise DatasetError(f"{source}: no {what} {listed}", hint=hint)


def _read(dataset: str | Path, split: str | None) -> tuple[str, Iterable[Record]]:
    if dataset == "":  # it would mean the current folder
        raise DatasetError("the dataset's name is empty", hint=_SHAPES)
    path = Path(dataset).expanduser()
    if not path.exists() and dataset in ("gold", "empty"):
        raise DatasetError(f"{dataset}: this word stands for predictions", hint=SWAPPED)
    if path.suffix in _PATCH_FILES:
        raise DatasetError(f"{path}: a patch, where a dataset is due", hint=SWAPPED)
    if path.is_dir():
        inside = sorted(entry for entry in path.iterdir() if entry.name.endswith(_SUFFIXES) and entry.is_file())
        own = [entry for entry in inside if entry.name not in _LAYOUT_FILES]
        if len(own) == 1 and len(inside) == 1:
            return _read_file(own[0], split)
        if _is_datasets_layout(path):
            return _from_datasets(str(path), split, on_disk=(path / "state.json").exists() or _is_saved_dict(path))
        if not own and any(each.suffix in _PATCH_FILES for each in (*path.glob("*"), *path.glob("*/*"))):
            raise DatasetError(f"{path}: a folder of patches, where a dataset is due", hint=SWAPPED)
        if own:
            names = ", ".join(entry.name for entry in own[:5])
            raise DatasetError(f"{path}: which dataset? The folder holds {names}", hint="name one of the files")
        raise DatasetError(f"{path}: no dataset in this folder", hint=f"looked for {', '.join(_SUFFIXES)}")
    if isinstance(dataset, str) and not path.exists() and _is_hub_name(dataset):
        return _from_datasets(dataset, split or (DEFAULT_SPLIT if dataset == DEFAULT_DATASET else None))
    return _read_file(path, split)


def _is_hub_name(name: str) -> bool:
    return bool(_HUB_NAME.fullmatch(name)) and not name.endswith(_SUFFIXES)


def _read_file(path: Path, split: str | None) -> tuple[str, Iterable[Record]]:
    if split is not None:
        raise DatasetError(f"{path}: one file has no split {split!r}", hint="leave the split out")
    if path.suffix == ".parquet":
        return str(path), _from_parquet(path)
    text = decode(read_bytes(path, DatasetError, hint=_SHAPES), str(path), DatasetError)
    return str(path), parse(text, str(path), DatasetError, lines=".jsonl" in path.suffixes)


def _rows(records: Iterable[Record]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield where each row stands and the row: a row by itself, or the values of ``{id: row}``."""
    for record in records:
        if not isinstance(record.value, dict):
            raise DatasetError(f"{record.where}: {kind_of(record.value)}, where a row (an object) is due")
        if record.value and all(isinstance(value, dict) for value in record.value.values()):
            for key, row in pairs_of(record.value):
                where = f"{record.where}: {key}"
                inner = row.get("instance_id", key)
                if inner != key:
                    raise DatasetError(f"{where}: the row's own instance_id is {inner!r}")
                _refuse_repeated(row, where)
                yield where, {**row, "instance_id": key}
            continue
        _refuse_repeated(record.value, record.where)
        yield record.where, record.value


def _refuse_repeated(row: dict[str, Any], where: str) -> None:
    twice = repeated_keys(row)
    if twice:
        raise DatasetError(f"{where}: the row has the key {twice[0]!r} more than once")


def _from_parquet(path: Path) -> list[Record]:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types; heavy, and comes with `datasets`
    from pyarrow import parquet

    data = read_bytes(path, DatasetError, hint=_SHAPES)
    try:
        rows = parquet.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, OSError) as problem:
        raise DatasetError(f"{path}: not a parquet file: {_first_line(problem)}", hint="get it again") from problem
    return [Record(f"{path}: row {number}", row) for number, row in enumerate(rows, 1)]


_LAYOUT_FILES = frozenset({"dataset_info.json", "state.json", "dataset_dict.json"})


def _is_saved_dict(path: Path) -> bool:
    return (path / "dataset_dict.json").exists()


def _is_datasets_layout(path: Path) -> bool:
    """Whether `datasets` itself knows this folder: saved to disk, or laid out like a dataset repository."""
    if _is_saved_dict(path) or (path / "state.json").exists():
        return True
    return any(path.glob("data/*.parquet")) or len(list(path.glob("*.parquet"))) > 1


def _from_datasets(name: str, split: str | None, *, on_disk: bool = False) -> tuple[str, list[Record]]:
    import datasets  # type: ignore[import-untyped]  # it ships no types; a second to import, so only here

    name_of_split = split
    try:
        with _quiet(datasets):
            loaded = datasets.load_from_disk(name) if on_disk else datasets.load_dataset(name, split=split)
        if on_disk and isinstance(loaded, datasets.DatasetDict) and split in loaded:
            loaded = loaded[split]
    except Exception as problem:  # anything may come out of the hub's client: it all means "can't be had"
        raise DatasetError(
            f"{name}: the dataset can't be loaded: {_first_line(problem)}",
            hint="check the name, the split and the network, or give a file: .jsonl, .json or .parquet",
        ) from problem
    if isinstance(loaded, datasets.DatasetDict):
        if name_of_split is not None or len(loaded) != 1:
            splits = ", ".join(sorted(map(str, loaded)))
            problem_with_it = f"no split {name_of_split}" if name_of_split else "which split?"
            raise DatasetError(f"{name}: {problem_with_it}", hint=f"it has {splits}")
        name_of_split, loaded = next(iter(loaded.items()))
    source = f"{name}[{name_of_split}]" if name_of_split else name
    return source, [Record(f"{source}: row {number}", dict(row)) for number, row in enumerate(loaded, 1)]


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Keep progress bars and the hub's "Retrying in 1s" off the terminal: a failure is reported in one line."""
    bars = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            datasets.enable_progress_bars()


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]
