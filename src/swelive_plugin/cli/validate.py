"""``swelive validate``."""

from __future__ import annotations

from pathlib import Path

import click

from swelive_plugin.cli.options import (
    Named,
    dataset_options,
    executor_option,
    session_options,
    tell_kept,
    warn_without_sandbox,
)
from swelive_plugin.grading.settings import Settings


@click.command("validate", short_help="Prove instances with their gold patch.")
@dataset_options
@click.option("-i", "--instance", "ids", multiple=True, metavar="ID", help="Only this instance; may be repeated.")
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    default=Path("swelive-validation"),
    show_default=True,
    help="The folder for all that comes of it; a run that was stopped goes on there.",
)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Gold runs per instance.")
@click.option("--base-runs", type=click.IntRange(min=1), default=2, show_default=True, help="Base runs per instance.")
@click.option(
    "--suite",
    type=click.Choice(["files", "all"]),
    default="files",
    show_default=True,
    help="Run the test files that the test patch touches, or the whole suite.",
)
@click.option("--no-search", is_flag=True, help="Take the first recipe that builds, try no other.")
@click.option("-w", "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Instances at once.")
@executor_option
@click.option("--redo", is_flag=True, help="Validate again what the folder already holds.")
@session_options
def command(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    ids: tuple[str, ...],
    output: Path,
    runs: int,
    base_runs: int,
    suite: str,
    no_search: bool,
    workers: int,
    executor: str,
    redo: bool,
    settings: Settings,
) -> int:
    """Prove each instance of DATASET: its tests fail without the gold patch and pass with it, every time.

    \b
    swelive validate -d candidates.jsonl -o proven
    swelive validate -d mine.jsonl -o proven --repo-url file:///home/me/project

    Derives FAIL_TO_PASS and PASS_TO_PASS. Writes DIR/validated.jsonl (complete rows), DIR/dropped.jsonl (the others,
    each with its reason), DIR/differences.jsonl (for rows that came with lists) and
    DIR/gold_patch_evaluated_instances.jsonl. Exit: 0 when every instance was decided, 2 usage, 3 if our side failed for
    some: run again.
    """
    from collections import Counter

    from swelive_plugin.core.verdict import EXIT_NO_VERDICT
    from swelive_plugin.files import visible
    from swelive_plugin.sources.instances import load_instances
    from swelive_plugin.validation.batch import validate_all
    from swelive_plugin.validation.validate import Options, Validation

    instances = load_instances(dataset, split=split, ids=ids or None, start_month=start_month, end_month=end_month)
    count = Counter[str]()

    def finished(validation: Validation) -> None:
        count[validation.reason.value if validation.reason else "kept"] += 1
        click.echo(f"[{count.total()}/{len(instances)}] {line_of(validation)}", err=True)

    warn_without_sandbox(settings)
    found = validate_all(
        list(instances),
        settings,
        Options(gold_runs=runs, base_runs=base_runs, scope="all" if suite == "all" else "files", search=not no_search),
        out=output,
        workers=workers,
        executor=executor,
        redo=redo,
        finished=finished,
        kept=lambda number: tell_kept(number, len(instances), "validated"),
        step=lambda name, text: click.echo(f"  {name}: {visible(text)}", err=True),
    )
    click.echo(f"kept {count.pop('kept', 0)} of {len(instances)}")
    for reason, number in count.most_common():
        click.echo(f"  {number} dropped: {reason}")
    compared = [validation.difference for validation in found if validation.difference is not None and validation.kept]
    if compared:
        same = sum(difference.same_f2p for difference in compared)
        click.echo(f"FAIL_TO_PASS as the rows came with it: {same} of {len(compared)}")
    click.echo(f"files: {output}")
    return 0 if all(validation.settled for validation in found) else EXIT_NO_VERDICT


def line_of(validation: object) -> str:
    """Return one line on a validation."""
    from swelive_plugin.files import visible
    from swelive_plugin.validation.validate import Validation

    assert isinstance(validation, Validation)
    lists = validation.lists
    if validation.kept:
        flaky = f", {len(lists.flaky)} flaky" if lists.flaky else ""
        return (
            f"{validation.instance_id}: kept, FAIL_TO_PASS {len(lists.fail_to_pass)}, "
            f"PASS_TO_PASS {len(lists.pass_to_pass)}{flaky}"
        )
    assert validation.reason is not None
    return f"{validation.instance_id}: {validation.reason.value}: {visible(validation.message)}"
