"""What a tier is on disk.

::

    TIER/
      tier.toml                 what it was made from, and its tasks
      tasks/<id>/               all that an agent may see: prompt.txt, setup.sh, check.sh, task.toml
      oracle/<id>/              the answer key: instance.json, gold.diff, recipe.toml, environment.lock
      oracle/.validation/       how it was proven

Nothing in it names the folder it lies in: a tier can be moved.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swelive_plugin._version import __version__
from swelive_plugin.core.instance import Instance, instance_from_row, month_of
from swelive_plugin.errors import SweliveError, UsageError
from swelive_plugin.files import json_bytes, write_atomically
from swelive_plugin.grading.settings import Settings, default_cache
from swelive_plugin.workspace.checkout import remove_tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Task", "Tier", "read_task", "read_tier", "read_toml", "write_task", "write_tier_toml"]

SCHEMA_VERSION = 1

PROMPT = """\
You are in a checkout of {repo}. Resolve the issue below by editing the source in place, in the current folder.

Ground rules
- Change the source code, not the tests. Tests that you add or change do not count; hidden tests decide.
- There is no network, and the history of this repository ends at the commit that you see: the fix is nowhere to be
  found, neither online nor in later commits.
- What counts is the state in which you leave the files. You need not commit.

Issue
-----
{issue}
"""
_ISSUE = "\nIssue\n-----\n"

_SCRIPT = """\
#!/bin/sh
# {what}
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ -n "${{SWELIVE_PYTHON:-}}" ]; then
  exec "$SWELIVE_PYTHON" -m swelive_plugin task {verb} "$here" "$@"
elif command -v swelive >/dev/null 2>&1; then
  exec swelive task {verb} "$here" "$@"
fi
exec python3 -m swelive_plugin task {verb} "$here" "$@"
"""
_SETUP = "Make the work tree of this task: setup.sh FOLDER"
_CHECK = "Grade a work tree as it is: check.sh FOLDER. Exit: 0 pass, 1 fail, 3 no verdict."

# what of the settings belongs to the task, so that every check of it is the same
_RECORDED = ("policy", "scope", "timeout_s", "memory_mib", "processes", "network", "repo_url")


@dataclass(frozen=True)
class Task:
    """One task of a tier, as its ``task.toml`` tells. Nothing here is of the answer key."""

    id: str
    folder: Path
    repo: str
    base_commit: str
    created_at: str = ""
    month: str = ""
    difficulty: str = ""
    python: str = ""
    grading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """The prompt. Raises `UsageError` where it can't be read."""
        try:
            return (self.folder / "prompt.txt").read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.folder / 'prompt.txt'} can't be read: {error}", hint=_AGAIN) from error

    @property
    def issue(self) -> str:
        """The issue's own text, as it stands in the prompt."""
        return self.prompt.partition(_ISSUE)[2].strip()

    @property
    def oracle(self) -> Path:
        """The folder with the answer key, beside the tasks."""
        return self.folder.parent.parent / "oracle" / self.id

    def instance(self) -> Instance:
        """Return the instance with its answer key. Raises `UsageError` where that is missing or another task's."""
        path = self.oracle / "instance.json"
        try:
            row = json.loads(path.read_text("utf-8"))
            instance = instance_from_row(row, where=str(path))
        except (OSError, ValueError, SweliveError) as error:
            raise UsageError(
                f"the answer key of {self.id} can't be read: {error}",
                hint="the folder oracle/ must lie beside tasks/, as `swelive gen` wrote them",
            ) from error
        if (instance.instance_id, instance.base_commit) != (self.id, self.base_commit):
            raise UsageError(f"{path} is the answer key of {instance.instance_id}, not of {self.id}", hint=_AGAIN)
        return instance

    def settings(self, given: Settings | None = None) -> Settings:
        """Return how this task is set up and graded: as recorded.

        The variables ``SWELIVE_REPO_URL`` and ``SWELIVE_CACHE_DIR`` count more than what is recorded, and what
        ``given`` says otherwise than by default counts most.
        """
        default = Settings()
        chosen = given or default
        changes: dict[str, Any] = {
            name: value
            for name, value in self.grading.items()
            if name in _RECORDED and getattr(chosen, name) == getattr(default, name)
        }
        if "SWELIVE_REPO_URL" in os.environ:
            changes.pop("repo_url", None)
        cache = self.grading.get("cache")
        if cache and "SWELIVE_CACHE_DIR" not in os.environ and chosen.cache == default.cache and Path(cache).is_dir():
            changes["cache"] = Path(cache)
        return replace(chosen, **changes)


_AGAIN = "make the tier again with `swelive gen`"


@dataclass(frozen=True)
class Tier:
    """A tier: its folder and its tasks, in the order in which they were drawn."""

    path: Path
    tasks: tuple[Task, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of every task's and answer key's files: it tells whether somebody wrote into the tier."""
        digest = hashlib.sha256()
        for task in self.tasks:
            for folder in (task.folder, task.oracle):
                for path in sorted(folder.glob("*")) if folder.is_dir() else []:
                    digest.update(f"{task.id}/{path.name}\0".encode("utf-8", "surrogateescape"))
                    if path.is_file() and not path.is_symlink():
                        digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def read_tier(path: Path) -> Tier:
    """Return the tier in ``path``. Raises `UsageError` where there is none, or only a part of one."""
    told = read_toml(path / "tier.toml", "no tier")
    if not told.get("complete"):
        raise UsageError(f"{path}: the tier is not finished", hint="run the same `swelive gen` again: it goes on")
    ids = told.get("tasks")
    if not isinstance(ids, list):
        raise UsageError(f"{path / 'tier.toml'}: no list of tasks", hint=_AGAIN)
    return Tier(path, tuple(read_task(path / "tasks" / str(name)) for name in ids))


def read_task(folder: Path) -> Task:
    """Return the task in ``folder``. Raises `UsageError` where there is none."""
    told = read_toml(folder / "task.toml", "no task")
    try:
        known = {name: str(told[name]) for name in ("repo", "base_commit")}
        optional = {name: str(told.get(name, "")) for name in ("created_at", "month", "difficulty", "python")}
        return Task(id=str(told["id"]), folder=folder, grading=dict(told.get("grading", {})), **known, **optional)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder / 'task.toml'}: {error} is missing or wrong", hint=_AGAIN) from error


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return what a TOML file of a tier holds. Raises `UsageError`, with ``what`` is missing where it is."""
    try:
        told: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        hint = "name TIER/tasks/<id>" if what == "no task" else "`swelive gen` makes one"
        raise UsageError(f"{path.parent}: {what} here ({path.name} is missing)", hint=hint) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}", hint=_AGAIN) from error
    return told


def write_task(tier: Path, instance: Instance, settings: Settings, *, difficulty: str = "") -> None:
    """Write one task and its answer key; each of the two folders is whole or not there."""
    validation = instance.row.get("validation") or {}
    told: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "id": instance.instance_id,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "created_at": instance.created_at.isoformat() if instance.created_at else "",
        "month": month_of(instance) or "",
        "difficulty": difficulty,
        "python": str(validation.get("python", "")),
    }
    grading = {name: getattr(settings, name) for name in _RECORDED}
    if settings.cache != default_cache() or "SWELIVE_CACHE_DIR" in os.environ:
        grading["cache"] = str(settings.cache)
    issue = instance.problem_statement.strip()
    files = {
        "prompt.txt": PROMPT.format(repo=instance.repo, issue=issue),
        "setup.sh": _SCRIPT.format(what=_SETUP, verb="setup"),
        "check.sh": _SCRIPT.format(what=_CHECK, verb="check"),
        "task.toml": toml_text(told, grading=grading),
    }
    key = {
        "instance.json": json_bytes(_plain_row(instance)).decode("utf-8"),
        "gold.diff": instance.patch,
        "recipe.toml": str(validation.get("recipe", "")),
        "environment.lock": str(validation.get("lock", "")),
    }
    _write_folder(tier / "oracle" / instance.instance_id, {name: text for name, text in key.items() if text})
    _write_folder(tier / "tasks" / instance.instance_id, files)


def _plain_row(instance: Instance) -> dict[str, Any]:
    from swelive_plugin.validation.batch import json_lines

    row: dict[str, Any] = json.loads(json_lines([instance.row]))
    return row


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    part = folder.with_name(f".{folder.name}.part")
    remove_tree(part)
    part.mkdir(parents=True)
    for name, text in files.items():
        (part / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        if name.endswith(".sh"):
            (part / name).chmod(0o755)
    remove_tree(folder)
    part.replace(folder)


def write_tier_toml(path: Path, *, key: str, complete: bool, tasks: list[str]) -> None:
    """Write ``tier.toml``, whole or not at all."""
    told = {
        "schema_version": SCHEMA_VERSION,
        "complete": complete,
        "key": key,
        "tool_version": __version__,
        "tasks": tasks,
    }
    write_atomically(path / "tier.toml", toml_text(told).encode("utf-8"))


def toml_text(told: Mapping[str, Any], **tables: Mapping[str, Any]) -> str:
    """Return flat values and tables of them as TOML; what is ``None`` is left out."""
    lines = [f"{name} = {_value(value)}" for name, value in told.items() if value is not None]
    for table, values in tables.items():
        lines += ["", f"[{table}]"]
        lines += [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + "".join(f"\n  {_value(item)}," for item in value) + ("\n]" if value else "]")
    return json.dumps(value).replace("\x7f", "\\u007f")
