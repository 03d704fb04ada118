"""Many instances validated into one folder: resumable, stopped without loss, and the files that come of it.

``DIR/<id>/`` holds ``validation.json`` and each run of a control. ``DIR/validated.jsonl``: complete rows.
``DIR/dropped.jsonl``: the others with reason, evidence and hint. ``DIR/differences.jsonl``: where lists that a row came
with differ from ours. ``DIR/gold_patch_evaluated_instances.jsonl``: the rows whose gold patch resolves, as
SWE-bench-Live writes them (``evaluation/evaluation.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from swelive_plugin.core.instance import Instance
from swelive_plugin.extensions import sandbox_named
from swelive_plugin.files import json_bytes, write_atomically
from swelive_plugin.grading.pool import in_pool, listening, report_step
from swelive_plugin.grading.run_folder import RunFolder
from swelive_plugin.grading.settings import Settings
from swelive_plugin.validation.validate import Options, Validation, key_of, validate

__all__ = ["json_lines", "row_of", "validate_all", "write_files"]

Finished = Callable[[Validation], None]
Step = Callable[[str, str], None]


def validate_all(
    instances: Sequence[Instance],
    settings: Settings,
    options: Options | None = None,
    *,
    out: Path,
    workers: int = 1,
    executor: str = "threads",
    redo: bool = False,
    finished: Finished = lambda _: None,
    step: Step = lambda _, __: None,
    kept: Callable[[int], None] = lambda _: None,
) -> list[Validation]:
    """Return the validation of each instance, in order; each is written as soon as it is there.

    What ``out`` holds for the same instance and options is kept unless ``redo``; ``kept`` is told how many these are.
    ``finished`` is called in the caller's
    own thread, ``step`` from the workers. On Ctrl-C the files of what is finished are written and the interrupt goes
    on. Raises `UsageError` for options that can't be met or a folder that another run holds.
    """
    options = options or Options()
    found: dict[str, Validation] = {}
    with RunFolder(out):
        waiting = []
        for instance in instances:
            there = None if redo else _there(out, instance, options, settings)
            if there is None:
                waiting.append(instance)
            else:
                found[instance.instance_id] = there
        kept(len(found))
        for there in found.values():
            finished(there)
        if waiting:
            sandbox_named(settings.sandbox, require=settings.require_sandbox)

        try:
            with listening(lambda name, _, text: step(name, text)) as listener:
                jobs = [_Job(instance, settings, options, out, listener) for instance in waiting]
                for job, validation in in_pool(_validate, jobs, workers=workers, executor=executor):
                    found[job.instance.instance_id] = validation
                    finished(validation)
        finally:
            write_files(out, instances, found)
    return [found[instance.instance_id] for instance in instances]


@dataclass(frozen=True)
class _Job:
    """One validation of a batch: all of it can be pickled."""

    instance: Instance
    settings: Settings
    options: Options
    out: Path
    listener: str


def _validate(job: _Job) -> Validation:
    folder = job.out / job.instance.instance_id
    say = partial(report_step, job.listener, job.instance.instance_id, 1)
    validation = validate(job.instance, job.settings, job.options, folder=folder, progress=say)
    write_atomically(folder / "validation.json", json_bytes(msgspec.to_builtins(validation)))
    return validation


def _there(out: Path, instance: Instance, options: Options, settings: Settings) -> Validation | None:
    try:
        there = msgspec.json.decode((out / instance.instance_id / "validation.json").read_bytes(), type=Validation)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return there if there.settled and there.key == key_of(instance, options, settings) else None


def write_files(out: Path, instances: Sequence[Instance], found: Mapping[str, Validation]) -> None:
    """Write the files of a validation, in the order of the instances; what is not finished is in none of them."""
    pairs = [(one, found[one.instance_id]) for one in instances if one.instance_id in found]
    _write(out / "validated.jsonl", (row_of(one, validation) for one, validation in pairs if validation.kept))
    _write(out / "dropped.jsonl", (_dropped(validation) for _, validation in pairs if not validation.kept))
    _write(
        out / "differences.jsonl",
        (_different(validation) for _, validation in pairs if validation.difference is not None),
    )
    resolving = ((one, validation) for one, validation in pairs if validation.kept and validation.gold_resolves)
    _write(
        out / "gold_patch_evaluated_instances.jsonl",
        (dict(one.row) if one.fail_to_pass else row_of(one, validation) for one, validation in resolving),
    )


def row_of(instance: Instance, validation: Validation) -> dict[str, Any]:
    """Return the complete row of a kept instance: what it came with, our lists, and how they were found.

    The lists hold ids as pytest reports them, not cut. ``validation`` has the recipe and the lock that rebuild the
    environment, the interpreter, the scope, the runs with their dates and the version of this tool.
    """
    lists = validation.lists
    told = msgspec.to_builtins(validation)
    kept = ("environment", "python", "pytest", "recipe", "lock", "scope", "test_files", "runs", "validated_at")
    return {
        **{key: value for key, value in instance.row.items() if key not in _OTHER_NAMES},
        "instance_id": instance.instance_id,
        "repo": instance.repo,
        "base_commit": instance.base_commit,
        "FAIL_TO_PASS": list(lists.fail_to_pass),
        "PASS_TO_PASS": list(lists.pass_to_pass),
        "validation": {
            **{key: told[key] for key in kept},
            "flaky": list(lists.flaky),
            "undecided": list(lists.undecided),
            "difference": told["difference"],
            "tool_version": validation.tool_version,
        },
    }


# other tools' names for the lists: left in, they would contradict ours
_OTHER_NAMES = frozenset({"fail_to_pass", "pass_to_pass", "F2P", "P2P"})


def _dropped(validation: Validation) -> dict[str, Any]:
    return {
        "instance_id": validation.instance_id,
        "reason": validation.reason.value if validation.reason else "",
        "message": validation.message,
        "hint": validation.hint,
        "evidence": validation.evidence,
        "flaky": list(validation.lists.flaky),
        "environment": validation.environment,
        "runs": msgspec.to_builtins(validation.runs),
        "validated_at": validation.validated_at,
        "tool_version": validation.tool_version,
    }


def _different(validation: Validation) -> dict[str, Any]:
    assert validation.difference is not None
    told: dict[str, Any] = msgspec.to_builtins(validation.difference)
    return {
        "instance_id": validation.instance_id,
        "same_f2p": validation.difference.same_f2p,
        "gold_resolves": validation.gold_resolves,
        **told,
    }


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    write_atomically(path, json_lines(rows))


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as JSON lines; dates and arrays of other readers (parquet) become text and lists."""
    lines = [json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in rows]
    return "".join(lines).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else str(value)
