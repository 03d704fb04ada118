"""An instance: one task row, as published by SWE-bench, SWE-bench-Live and their like."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from swelive_plugin.errors import DatasetError

__all__ = ["SWAPPED", "Instance", "instance_from_row", "month_of"]

SWAPPED = "are -d (dataset) and -p (predictions) swapped?"
_NEEDED = ("instance_id", "repo", "base_commit")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ID_CHARACTERS = 150  # file systems take 255 bytes for a name, and we add to it
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")


@dataclass(frozen=True)
class Instance:
    """One task. The answer key (``patch``, ``test_patch``, both lists) never reaches the agent or the graded process.

    ``fail_to_pass`` and ``pass_to_pass`` hold recorded ids as published: cut at the first whitespace.
    ``created_at`` is UTC, or ``None`` where the row has none. ``row`` is the row as it came, for what we don't read.
    """

    instance_id: str
    repo: str
    base_commit: str
    patch: str = field(default="", repr=False)
    test_patch: str = field(default="", repr=False)
    fail_to_pass: tuple[str, ...] = field(default=(), repr=False)
    pass_to_pass: tuple[str, ...] = field(default=(), repr=False)
    problem_statement: str = field(default="", repr=False)
    created_at: datetime | None = None
    row: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def owner(self) -> str:
        """The part of ``repo`` before the slash."""
        return self.repo.split("/", 1)[0]

    @property
    def name(self) -> str:
        """The part of ``repo`` after the slash."""
        return self.repo.split("/", 1)[-1]

    @property
    def sha256(self) -> str:
        """The hash of everything that a verdict depends on: what a resumed run compares."""
        return _hash_of(self)


def _hash_of(instance: Instance) -> str:
    depends_on = (
        instance.repo,
        instance.base_commit,
        instance.patch,
        instance.test_patch,
        instance.fail_to_pass,
        instance.pass_to_pass,
    )
    return hashlib.sha256(repr(depends_on).encode("utf-8", "surrogateescape")).hexdigest()


def month_of(instance: Instance) -> str | None:
    """Return ``YYYY-MM`` of the instance's creation, or ``None`` where the row does not tell."""
    return instance.created_at.strftime("%Y-%m") if instance.created_at else None


def instance_from_row(row: Mapping[str, Any], *, where: str = "the dataset") -> Instance:
    """Return the instance that a dataset row describes.

    Lists may be lists or strings that hold one (JSON, or Python's own notation): both are in public use.
    ``where`` names the row in errors. Raises `DatasetError` for a missing key or a value of the wrong kind.
    """
    for key in _NEEDED:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            raise DatasetError(f"{where}: {key} is {value!r:.60}, and must be a string", hint=f'write "{key}": "…"')
        if (value is None or not value.strip()) and _holds_a_prediction(row):
            raise DatasetError(f"{where}: a prediction, where a task row is due", hint=SWAPPED)
        if value is None or not value.strip():
            raise DatasetError(
                f"{where}: the row has no {key!r}", hint=f"a row needs {', '.join(_NEEDED)}, patch and test_patch"
            )
    instance_id, repo, commit = (str(row[key]).strip() for key in _NEEDED)
    if not _ID.fullmatch(instance_id) or len(instance_id) > _ID_CHARACTERS:
        instance_id = instance_id[:60] + "…" if len(instance_id) > _ID_CHARACTERS else instance_id
        raise DatasetError(f"{where}: instance_id {instance_id!r} can't name a folder", hint="use owner__name-number")
    if not _REPO.fullmatch(repo):
        raise DatasetError(f"{where} ({instance_id}): repo {repo!r} is not owner/name")
    if not _COMMIT.fullmatch(commit):
        raise DatasetError(f"{where} ({instance_id}): base_commit {commit!r} is not a commit hash")
    return Instance(
        instance_id=instance_id,
        repo=repo,
        base_commit=commit,
        patch=_text(row, "patch", where, instance_id),
        test_patch=_text(row, "test_patch", where, instance_id),
        fail_to_pass=_ids(row, ("FAIL_TO_PASS", "fail_to_pass", "F2P"), where, instance_id),
        pass_to_pass=_ids(row, ("PASS_TO_PASS", "pass_to_pass", "P2P"), where, instance_id),
        problem_statement=_text(row, "problem_statement", where, instance_id),
        created_at=_time(row.get("created_at"), where, instance_id),
        row=dict(row),
    )


def _holds_a_prediction(row: Mapping[str, Any]) -> bool:
    texts = (value for value in row.values() if isinstance(value, str))
    return "model_patch" in row or (
        "repo" not in row and any(text.startswith(("diff --git ", "--- ")) for text in texts)
    )


def _text(row: Mapping[str, Any], key: str, where: str, instance_id: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DatasetError(f"{where} ({instance_id}): {key} is {type(value).__name__}, not text")
    return value


def _ids(row: Mapping[str, Any], names: Sequence[str], where: str, instance_id: str) -> tuple[str, ...]:
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if value is None:
        return ()
    if isinstance(value, str):
        value = _list_in_text(value)
    if hasattr(value, "tolist"):  # a numpy array, which is what parquet readers hand out
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise DatasetError(f"{where} ({instance_id}): {names[0]} is neither a list of test ids nor a string of one")
    return tuple(dict.fromkeys(value))


def _list_in_text(text: str) -> Any:
    if not text.strip():
        return []
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def _time(value: Any, where: str, instance_id: str) -> datetime | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text) if text.isdecimal() else datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            raise DatasetError(
                f"{where} ({instance_id}): created_at {text[:60]!r} is not a date", hint="use YYYY-MM-DDTHH:MM:SSZ"
            ) from None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = _from_epoch(value, where, instance_id)
    if not isinstance(value, datetime):
        raise DatasetError(f"{where} ({instance_id}): created_at is {type(value).__name__}, not a date")
    return value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)


def _from_epoch(value: float, where: str, instance_id: str) -> datetime:
    """Return the time of a count since 1970 in seconds or, as `Dataset.to_json` writes it, a smaller unit."""
    seconds = value
    for _ in range(3):  # milliseconds, microseconds, nanoseconds
        if abs(seconds) >= _YEAR_5138_S:
            seconds /= 1000
    try:
        return datetime.fromtimestamp(seconds, tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise DatasetError(
            f"{where} ({instance_id}): created_at {value!r} is not a date", hint="use YYYY-MM-DDTHH:MM:SSZ"
        ) from None


_YEAR_5138_S = 1e11
