"""``swelive demo``."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import click

from swelive_plugin.cli.options import Named, grade_options
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.settings import Settings


@click.command("demo", short_help="Grade the embedded example.")
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    default=None,
    help="Keep the example's repository, dataset and reports here.  [default: a temporary folder]",
)
@grade_options
def command(output: Path | None, settings: Settings) -> int:
    """Grade four patches of the embedded example: gold, careless, cheating and empty.

    Needs git and the package registry (for the example's environment, built by uv) and nothing else. Exits 0 if each
    patch got the verdict that it deserves.
    """
    if output is None:
        with tempfile.TemporaryDirectory(prefix="swelive-demo-") as folder:
            return _demo(Path(folder), settings, kept=False)
    return _demo(output, settings, kept=True)


def _demo(folder: Path, settings: Settings, *, kept: bool) -> int:
    from swelive_plugin.cli.running import Run
    from swelive_plugin.quickstart import EXPECTED, build_quickstart
    from swelive_plugin.reports.terminal import verdict_lines

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} can't be made: {error.strerror}", hint="give another folder with -o") from error
    example = build_quickstart(folder)
    click.echo(f"The bug: {example.instance.problem_statement.splitlines()[0]}")
    run = Run(folder / "run", [example.instance], dataset=str(example.row), predictions="the example")
    verdicts = run.grade(example.predictions, replace(settings, repo_url=example.repo_url))
    run.write_reports(verdicts)
    wrong = 0
    for verdict in verdicts:
        right = verdict.status in EXPECTED[verdict.model]
        wrong += not right
        click.echo(f"\n== {verdict.model}{'' if right else '   (WRONG: this is not the verdict it deserves)'}")
        for line in verdict_lines(verdict):
            click.echo(line)
    click.echo()
    if kept:
        click.echo(f"kept in {folder}; to grade again:")
        click.echo(f"  swelive grade -d {example.row} -p gold --repo-url '{example.repo_url}' -o {folder / 'again'}")
    click.echo(
        "each patch got the verdict it deserves" if not wrong else f"{wrong} of {len(verdicts)} verdicts are wrong"
    )
    return 1 if wrong else 0
