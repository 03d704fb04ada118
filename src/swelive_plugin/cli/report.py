"""``swelive report``."""

from __future__ import annotations

from pathlib import Path

import click

from swelive_plugin.cli.options import Named


@click.command("report", short_help="Compare agents side by side.")
@click.argument("runs", nargs=-1, required=True, type=Named())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How it is written.",
)
@click.option("-o", "--output", type=Named(dir_okay=False), help="Write it to this file.")
def command(runs: tuple[Path, ...], form: str, output: Path | None) -> int:
    """Compare the agents of one or more RUN folders side by side.

    Resolved tasks with a 95 % interval (Wilson), pass@k, whether two agents differ by more than chance (McNemar,
    exact), time, edited tests, integrity flags and cost; per repository, month and difficulty; what each alone solved.
    """
    from swelive_plugin.files import write_atomically
    from swelive_plugin.tier import report

    render = {"text": report.as_text, "json": report.as_json, "markdown": report.as_markdown}[form]
    text = render(report.compare_runs(runs))
    if output is None:
        click.echo(text)
    else:
        write_atomically(output, text.encode("utf-8", "replace") + b"\n")
    return 0
