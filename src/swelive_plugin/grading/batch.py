"""Many grades: a pool of workers over a run folder, resumable, stopped without loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.extensions import policy_named, sandbox_named
from swelive_plugin.grading.pipeline import grade
from swelive_plugin.grading.pool import in_pool, listening, report_step
from swelive_plugin.grading.run_folder import RunFolder
from swelive_plugin.grading.settings import Settings, scratch

__all__ = ["Observer", "grade_all"]


class Observer(Protocol):
    """Who watches a batch: a progress table, a log, or nobody. Workers call ``step``, so keep that short."""

    def step(self, instance_id: str, step: str, *, attempt: int = 1) -> None:
        """A grade begins, or says what it is at."""

    def finished(self, verdict: Verdict) -> None:
        """A verdict is there, or was there before."""


class Silent:
    """The observer that says nothing."""

    def step(self, instance_id: str, step: str, *, attempt: int = 1) -> None:
        """Say nothing."""

    def finished(self, verdict: Verdict) -> None:
        """Say nothing."""


def grade_all(
    instances: Mapping[str, Instance] | Sequence[Instance],
    predictions: Sequence[Prediction],
    settings: Settings | None = None,
    *,
    out: str | Path,
    workers: int = 1,
    executor: str = "threads",
    redo: bool = False,
    observer: Observer | None = None,
    kept: Callable[[int], None] = lambda _: None,
) -> list[Verdict]:
    """Return one verdict per prediction, in their order; each is written to ``out`` as soon as it is there.

    ``instances`` come by their ids, or as a sequence. What ``out`` holds for the same patch, instance and options is
    kept unless ``redo``; ``kept`` is told how many these are, before any other is graded. On Ctrl-C running grades are
    stopped and `KeyboardInterrupt` goes on; what is finished stays. Raises `UsageError` for a prediction whose instance
    is not in ``instances``, an unknown policy or executor, or a folder that another run holds.
    """
    settings, out = settings or Settings(), Path(out)
    if not isinstance(instances, Mapping):
        instances = {instance.instance_id: instance for instance in instances}
    observer = observer or Silent()
    policy_named(settings.policy)
    unknown = sorted({item.instance_id for item in predictions} - set(instances))
    if unknown:
        raise UsageError(f"no such instance: {', '.join(unknown[:5])}", hint="load the instances that hold them")
    verdicts: dict[int, Verdict] = {}
    with RunFolder(out) as folder:
        waiting: list[int] = []
        for number, prediction in enumerate(predictions):
            there = None if redo else folder.finished(instances[prediction.instance_id], prediction, settings)
            if there is not None:
                verdicts[number] = there
            else:
                waiting.append(number)
        kept(len(verdicts))
        for there in verdicts.values():
            observer.finished(there)
        if waiting:
            # refuse before any work, not after
            sandbox_named(settings.sandbox, require=settings.require_sandbox)
            with scratch(settings.cache):
                pass
        # it tells which attempts belong to the run: until this one is told of, the last one's is wrong
        (out / "results.json").unlink(missing_ok=True)

        with listening(lambda name, attempt, text: observer.step(name, text, attempt=attempt)) as listener:
            jobs = [
                _Job(number, instances[predictions[number].instance_id], predictions[number], settings, out, listener)
                for number in waiting
            ]
            for job, verdict in in_pool(_grade, jobs, workers=workers, executor=executor):
                verdicts[job.number] = verdict
                observer.finished(verdict)
    return [verdicts[number] for number in range(len(predictions))]


@dataclass(frozen=True)
class _Job:
    """One grade of a batch: all of it can be pickled."""

    number: int
    instance: Instance
    prediction: Prediction
    settings: Settings
    out: Path
    listener: str


def _grade(job: _Job) -> Verdict:
    prediction, folder = job.prediction, RunFolder(job.out)
    place = folder.folder_of(prediction)
    say = partial(report_step, job.listener, prediction.instance_id, prediction.attempt)
    say("starting")
    for name in ("verdict.json", "events.jsonl", "test_output.txt"):  # an earlier prediction's: no evidence on this one
        with suppress(OSError):  # a folder that can't be written is for `grade` to report
            (place / name).unlink(missing_ok=True)
    verdict = grade(job.instance, prediction, job.settings, folder=place, progress=say)
    folder.save(prediction, verdict)
    return verdict
