"""verdict.json of one prediction, results.json of a run. Their form: docs/reference/report-format.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from swelive_plugin.core.verdict import NO_VERDICT, Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.files import json_bytes, write_atomically

__all__ = [
    "RESULTS_VERSION",
    "VERDICT_VERSION",
    "Results",
    "ResultsRow",
    "main_reason",
    "read_results",
    "read_verdict",
    "results_of",
    "verdict_as_dict",
    "write_results",
    "write_verdict",
]

_Kind = TypeVar("_Kind")

VERDICT_VERSION = 1
RESULTS_VERSION = 1
_SWEBENCH_SCHEMA_VERSION = 2  # the form of the upstream keys: SWE-bench's harness/reporting.py writes this number


@dataclass(frozen=True)
class ResultsRow:
    """One prediction of a run at a glance; the whole verdict is in its own folder."""

    instance_id: str
    attempt: int
    status: Status
    reward: float | None
    review: bool = False
    model: str = ""
    reason: str = ""
    duration_s: float = 0.0
    review_reason: str = ""


@dataclass(frozen=True)
class Results:
    """A run: our own keys first, then those that SWE-bench's and SWE-bench-Live's report readers expect.

    ``counts`` has every status and sums to the number of predictions; ``ids`` lists the instances under each, an
    instance with several attempts as often as it got that status. The upstream keys know one prediction per instance:
    they hold its first attempt. There, what the prediction caused is ``unresolved`` (``failure``), what has no
    verdict is ``error``, and instances of the dataset without a prediction are ``incomplete``.
    """

    results_version: int
    tool_version: str
    dataset: str
    predictions: str
    policies: tuple[str, ...]
    scopes: tuple[str, ...]
    duration_s: float
    counts: Mapping[str, int]
    ids: Mapping[str, tuple[str, ...]]
    review_ids: tuple[str, ...]
    notes: tuple[str, ...]
    rows: tuple[ResultsRow, ...]
    # SWE-bench (harness/reporting.py)
    total_instances: int
    submitted_instances: int
    completed_instances: int
    resolved_instances: int
    unresolved_instances: int
    infra_failure_instances: int
    ambiguous_failure_instances: int
    empty_patch_instances: int
    error_instances: int
    completed_ids: tuple[str, ...]
    incomplete_ids: tuple[str, ...]
    empty_patch_ids: tuple[str, ...]
    submitted_ids: tuple[str, ...]
    resolved_ids: tuple[str, ...]
    unresolved_ids: tuple[str, ...]
    infra_failure_ids: tuple[str, ...]
    ambiguous_failure_ids: tuple[str, ...]
    failure_reasons: Mapping[str, str]
    error_ids: tuple[str, ...]
    # SWE-bench-Live (evaluation/evaluation.py); error_ids, incomplete_ids, empty_patch_ids and submitted_ids are shared
    submitted: int
    success: int
    failure: int
    empty_patch: int
    error: int
    incomplete: int
    success_ids: tuple[str, ...]
    failure_ids: tuple[str, ...]
    schema_version: int = field(default=_SWEBENCH_SCHEMA_VERSION)


def verdict_as_dict(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values, as ``verdict.json`` holds it: what matters most stands first."""
    plain: dict[str, Any] = msgspec.to_builtins(verdict)
    head = {
        "schema_version": VERDICT_VERSION,
        "instance_id": verdict.instance_id,
        "status": verdict.status.value,
        "resolved": verdict.resolved,
        "reward": verdict.reward,
        "review": verdict.review,
    }
    return {**head, **{key: value for key, value in plain.items() if key not in head}}


def write_verdict(path: Path, verdict: Verdict) -> None:
    """Write ``verdict.json``, whole or not at all. Raises `InfraError` where it can't be written."""
    write_atomically(path, json_bytes(verdict_as_dict(verdict)))


def read_verdict(path: Path) -> Verdict:
    """Return the verdict that a ``verdict.json`` holds; keys of newer versions are passed over.

    Raises `UsageError` where there is none, or where the file is something else.
    """
    return _read(path, Verdict, "a verdict")


def write_results(path: Path, results: Results) -> None:
    """Write ``results.json``, whole or not at all. Raises `InfraError` where it can't be written."""
    write_atomically(path, json_bytes(msgspec.to_builtins(results)))


def read_results(path: Path) -> Results:
    """Return the results that a ``results.json`` holds. Raises `UsageError` where the file is something else."""
    return _read(path, Results, "the results of a run")


def results_of(
    verdicts: Iterable[Verdict],
    *,
    instance_ids: Sequence[str] = (),
    dataset: str = "",
    predictions: str = "",
    notes: Sequence[str] = (),
    duration_s: float = 0.0,
    tool_version: str = "",
) -> Results:
    """Return the results of a run, in the order of instances and attempts.

    ``instance_ids`` are those of the dataset that could have been graded; ``notes`` say what was read otherwise than
    written; ``duration_s`` is the run's wall-clock time in seconds.
    """
    ordered = sorted(verdicts, key=lambda verdict: (verdict.instance_id, verdict.attempt))
    first: dict[str, Verdict] = {}
    for verdict in ordered:
        first.setdefault(verdict.instance_id, verdict)
    by_status = {
        status.value: tuple(verdict.instance_id for verdict in ordered if verdict.status is status) for status in Status
    }

    def of_first(*statuses: Status) -> tuple[str, ...]:
        return tuple(instance_id for instance_id, verdict in first.items() if verdict.status in statuses)

    resolved, empty = of_first(Status.RESOLVED), of_first(Status.EMPTY_PATCH)
    error = of_first(*(NO_VERDICT - {Status.INCOMPLETE}))
    without_prediction = [instance_id for instance_id in instance_ids if instance_id not in first]
    incomplete = tuple(sorted((*of_first(Status.INCOMPLETE), *without_prediction)))
    unresolved = tuple(sorted(first.keys() - {*resolved, *empty, *error, *incomplete}))
    infra = of_first(Status.ENV_ERROR, Status.ERROR)
    return Results(
        results_version=RESULTS_VERSION,
        tool_version=tool_version or next((verdict.tool_version for verdict in ordered), ""),
        dataset=dataset,
        predictions=predictions,
        policies=tuple(sorted({verdict.policy for verdict in ordered})),
        scopes=tuple(sorted({verdict.scope for verdict in ordered})),
        duration_s=duration_s,
        counts={status: len(ids) for status, ids in by_status.items()},
        ids=by_status,
        review_ids=tuple(dict.fromkeys(verdict.instance_id for verdict in ordered if verdict.review)),
        notes=tuple(notes),
        rows=tuple(map(_row, ordered)),
        total_instances=len(first.keys() | set(instance_ids)),
        submitted_instances=len(first),
        completed_instances=len(resolved) + len(unresolved),
        resolved_instances=len(resolved),
        unresolved_instances=len(unresolved),
        infra_failure_instances=len(infra),
        ambiguous_failure_instances=0,  # upstream guesses from the log; here the status says it
        empty_patch_instances=len(empty),
        error_instances=len(error),
        completed_ids=tuple(sorted((*resolved, *unresolved))),
        incomplete_ids=incomplete,
        empty_patch_ids=empty,
        submitted_ids=tuple(first),
        resolved_ids=resolved,
        unresolved_ids=unresolved,
        infra_failure_ids=infra,
        ambiguous_failure_ids=(),
        failure_reasons={
            instance_id: verdict.status.value
            for instance_id, verdict in first.items()
            if instance_id in {*unresolved, *error} and verdict.status is not Status.UNRESOLVED
        },
        error_ids=error,
        submitted=len(first),
        success=len(resolved),
        failure=len(unresolved),
        empty_patch=len(empty),
        error=len(error),
        incomplete=len(incomplete),
        success_ids=resolved,
        failure_ids=unresolved,
    )


def main_reason(verdict: Verdict) -> str:
    """Return why a verdict is not ``resolved`` in a few words: the first reason and how many more there are."""
    if not verdict.reasons:
        return ""
    first, *more = verdict.reasons
    told = f"{first.test}: {first.message}" if first.test else first.message
    return told + (f" (and {len(more)} more)" if more else "")


def _row(verdict: Verdict) -> ResultsRow:
    return ResultsRow(
        instance_id=verdict.instance_id,
        attempt=verdict.attempt,
        status=verdict.status,
        reward=verdict.reward,
        review=verdict.review,
        model=verdict.model,
        reason=main_reason(verdict),
        duration_s=verdict.duration_s,
        review_reason=_review_reason(verdict),
    )


def _review_reason(verdict: Verdict) -> str:
    """Return what the first flag saw and where, and how many more there are."""
    flags = [finding for finding in verdict.integrity.findings if finding.severity == "flag"]
    if not flags:
        return ""
    first, *more = flags
    place = f" ({first.file}:{first.line})" if first.file else ""
    return first.message + place + (f" (and {len(more)} more)" if more else "")


def _read(path: Path, kind: type[_Kind], what: str) -> _Kind:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as problem:
        raise UsageError(f"{path}: can't be read: {problem.strerror}") from problem
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path}: not {what}: {problem}", hint="was it written by another tool?") from problem
