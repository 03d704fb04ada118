"""What ``grade`` and ``demo`` share: load, grade with progress, write the run's reports, print."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec

from swelive_plugin.cli.options import tell_kept, warn_without_sandbox
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import EXIT_NO_VERDICT, EXIT_NOT_RESOLVED, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.batch import grade_all
from swelive_plugin.grading.settings import Settings
from swelive_plugin.reports.json_report import Results, results_of, write_results
from swelive_plugin.reports.junit import write_junit
from swelive_plugin.reports.markdown import markdown_summary
from swelive_plugin.reports.progress import RunProgress, print_summary
from swelive_plugin.sources.instances import Instances, load_instances
from swelive_plugin.sources.predictions import Predictions, load_predictions

__all__ = ["Run", "exit_code_of_run", "run_grades"]


def run_grades(
    *,
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    predictions: str,
    keep_going: bool,
    ids: Sequence[str],
    output: Path,
    workers: int,
    executor: str,
    redo: bool,
    fail_unresolved: bool,
    as_json: bool,
    settings: Settings,
) -> int:
    """Grade what was asked for and return the exit code."""
    instances = load_instances(dataset, split=split, ids=ids or None, start_month=start_month, end_month=end_month)
    loaded = load_predictions(predictions, instances=instances, keep_going=keep_going)
    wanted = _wanted(instances, loaded, narrowed=bool(ids or start_month or end_month))
    notes = _notes(instances, loaded, narrowed=bool(ids or start_month or end_month))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    run = Run(output, instances, dataset=dataset, predictions=predictions, notes=notes)
    verdicts = run.grade(wanted, settings, workers=workers, executor=executor, redo=redo)
    results = run.write_reports(verdicts)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(results), indent=1))
    else:
        print_summary(results)
        click.echo(f"reports: {output}")
    return exit_code_of_run(verdicts, fail_unresolved=fail_unresolved)


def exit_code_of_run(verdicts: Sequence[Verdict], *, fail_unresolved: bool) -> int:
    """Return the exit code of a run: 3 where no patch got a verdict, 1 only where one was judged not resolved.

    With ``fail_unresolved`` a patch without a verdict is not passed over either: 3, so that no CI job is green.
    """
    judged = [verdict for verdict in verdicts if verdict.reward is not None]
    if not judged:
        return EXIT_NO_VERDICT
    if not fail_unresolved:
        return 0
    if not all(verdict.resolved for verdict in judged):
        return EXIT_NOT_RESOLVED
    return EXIT_NO_VERDICT if len(judged) < len(verdicts) else 0


def _wanted(instances: Instances, loaded: Predictions, *, narrowed: bool) -> list[Prediction]:
    known = {instance.instance_id for instance in instances}
    wanted = [prediction for prediction in loaded if prediction.instance_id in known]
    if not wanted:
        if narrowed:
            raise UsageError("no prediction is left to grade", hint="the -i and month options leave none of them")
        raise UsageError(
            "none of the predictions is for an instance of this dataset", hint="check -d and the ids in the predictions"
        )
    return wanted


def _notes(instances: Instances, loaded: Predictions, *, narrowed: bool) -> list[str]:
    notes = list(loaded.notes)
    if narrowed:  # predictions for instances that were filtered out are no surprise
        notes = [note for note in notes if note not in loaded.notes_of_unknown]
    if instances.left_out:
        notes.append(
            f"{len(instances.left_out)} instances have no created_at and are kept out by the month filter: "
            + ", ".join(instances.left_out[:5])
        )
    return notes


@dataclass
class Run:
    """One run into one folder: what its reports say of where it came from, and when it began."""

    output: Path
    instances: Sequence[Instance]
    dataset: str = ""
    predictions: str = ""
    notes: Sequence[str] = ()
    began: float = field(default_factory=time.perf_counter)

    def grade(
        self,
        predictions: Sequence[Prediction],
        settings: Settings,
        *,
        workers: int = 1,
        executor: str = "threads",
        redo: bool = False,
    ) -> list[Verdict]:
        """Grade under a progress display; on Ctrl-C the run's reports are written with what is finished."""
        by_id = {instance.instance_id: instance for instance in self.instances}
        warn_without_sandbox(settings)
        with RunProgress(len(predictions)) as progress:
            watch = _Watch(progress)
            try:
                return grade_all(
                    by_id,
                    predictions,
                    settings,
                    out=self.output,
                    workers=workers,
                    executor=executor,
                    redo=redo,
                    observer=watch,
                    kept=lambda number: tell_kept(number, len(predictions), "graded"),
                )
            except KeyboardInterrupt:
                self.write_reports(watch.done)
                raise

    def write_reports(self, verdicts: Sequence[Verdict]) -> Results:
        """Write ``results.json`` and ``results.xml``, and the job summary where a CI system offers one."""
        results = results_of(
            verdicts,
            instance_ids=[instance.instance_id for instance in self.instances],
            dataset=self.dataset,
            predictions=self.predictions,
            notes=self.notes,
            duration_s=round(time.perf_counter() - self.began, 3),
        )
        write_results(self.output / "results.json", results)
        write_junit(self.output / "results.xml", verdicts)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            with Path(summary).open("a", encoding="utf-8") as stream:
                stream.write(markdown_summary(results))
        return results


class _Watch:
    """Passes a batch on to the display and keeps what is finished, for the reports of an interrupted run."""

    def __init__(self, progress: RunProgress) -> None:
        self.progress = progress
        self.done: list[Verdict] = []

    def step(self, instance_id: str, step: str, *, attempt: int = 1) -> None:
        self.progress.step(instance_id, step, attempt=attempt)

    def finished(self, verdict: Verdict) -> None:
        self.done.append(verdict)
        self.progress.finished(verdict)
