"""``swelive grade``."""

from __future__ import annotations

from pathlib import Path

import click

from swelive_plugin.cli.options import Named, dataset_options, executor_option, settings_options
from swelive_plugin.grading.settings import Settings


@click.command("grade", short_help="Grade predictions.")
@dataset_options
@click.option(
    "-p",
    "--predictions",
    required=True,
    metavar="PREDICTIONS",
    help="A .json, .jsonl or .pred file, a folder <id>/*.patch|.diff|.pred, or one of the words gold and empty.",
)
@click.option("-i", "--instance", "ids", multiple=True, metavar="ID", help="Grade only this instance; may be repeated.")
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    default=Path("swelive-run"),
    show_default=True,
    help="The run folder; a run that was stopped goes on there.",
)
@click.option("-w", "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Grades at once.")
@executor_option
@click.option("--redo", is_flag=True, help="Grade again what the run folder already holds.")
@click.option("--keep-going", is_flag=True, help="Leave broken entries of PREDICTIONS out and grade the others.")
@click.option(
    "--fail-unresolved",
    is_flag=True,
    help="Exit with 1 if any patch is judged not resolved, else with 3 if any has no verdict.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
@settings_options
def command(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    predictions: str,
    keep_going: bool,
    ids: tuple[str, ...],
    output: Path,
    workers: int,
    executor: str,
    redo: bool,
    fail_unresolved: bool,
    as_json: bool,
    settings: Settings,
) -> int:
    """Grade PREDICTIONS: run the hidden tests on each patch and give a verdict.

    \b
    swelive grade -d tasks.jsonl -p gold                       does every gold patch resolve here?
    swelive grade -d tasks.jsonl -p preds.jsonl -o runs/a -w 2
    swelive grade -i owner__name-123 -p my.diff.json           one instance of the default dataset

    Writes DIR/<id>/{verdict.json, events.jsonl, test_output.txt, patch.diff, timings.json}, DIR/results.json and
    DIR/results.xml (JUnit). Exit: 0 when the run finished, 1 with --fail-unresolved, 2 usage, 3 if no patch got a
    verdict.
    """
    from swelive_plugin.cli.running import run_grades

    return run_grades(
        dataset=dataset,
        split=split,
        start_month=start_month,
        end_month=end_month,
        predictions=predictions,
        keep_going=keep_going,
        ids=ids,
        output=output,
        workers=workers,
        executor=executor,
        redo=redo,
        fail_unresolved=fail_unresolved,
        as_json=as_json,
        settings=settings,
    )
