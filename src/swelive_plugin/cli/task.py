"""``swelive task``: what a tier's own scripts call."""

from __future__ import annotations

from pathlib import Path

import click

from swelive_plugin.cli.options import Named, warn_without_sandbox

_TASK = click.argument("task", type=Named())
_FOLDER = click.argument("folder", type=Named())


@click.group("task", short_help="Set up or check one task.")
def command() -> None:
    """Set up or check one task of a tier; its setup.sh and check.sh call this.

    How a task is graded is recorded in its task.toml. SWELIVE_REPO_URL and SWELIVE_CACHE_DIR count more than what is
    recorded there.
    """


@command.command("setup", short_help="Make the work tree of a task.")
@_TASK
@_FOLDER
def setup(task: Path, folder: Path) -> int:
    """Make FOLDER the work tree of TASK: a checkout whose history ends at the base commit."""
    from swelive_plugin.tier.layout import read_task
    from swelive_plugin.tier.worktree import set_up

    chosen = read_task(task)
    set_up(chosen, folder, chosen.settings(), lambda text: click.echo(text, err=True))
    click.echo(f"{chosen.id} is set up in {folder}; what to do: {task / 'prompt.txt'}")
    return 0


@command.command("check", short_help="Grade the work tree of a task.")
@_TASK
@_FOLDER
@click.option("-o", "--output", type=Named(file_okay=False), help="Keep the reports here.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def check(task: Path, folder: Path, output: Path | None, as_json: bool) -> int:
    """Grade the work tree FOLDER of TASK as it is. Exit: 0 pass, 1 fail, 2 usage, 3 no verdict."""
    import json

    from swelive_plugin.core.prediction import Prediction
    from swelive_plugin.core.verdict import NO_VERDICT, exit_code
    from swelive_plugin.grading.pipeline import grade
    from swelive_plugin.reports.json_report import verdict_as_dict, write_verdict
    from swelive_plugin.reports.terminal import verdict_lines
    from swelive_plugin.tier.layout import read_task
    from swelive_plugin.tier.worktree import collect_from

    chosen = read_task(task)
    instance, settings = chosen.instance(), chosen.settings()

    def tell(text: str) -> None:
        click.echo(text, err=True)

    warn_without_sandbox(settings)
    work = collect_from(chosen, folder, settings, tell)
    verdict = grade(instance, Prediction(chosen.id, work.patch), settings, folder=output, progress=tell)
    if output is not None:
        write_verdict(output / "verdict.json", verdict)
    if as_json:
        click.echo(json.dumps(verdict_as_dict(verdict), indent=1))
        return exit_code(verdict.status)
    word = "NO VERDICT" if verdict.status in NO_VERDICT else "PASS" if verdict.resolved else "FAIL"
    click.echo(f"{word}  {chosen.id}")
    for line in verdict_lines(verdict):
        click.echo(f"  {line}")
    for path in work.edited_tests:
        click.echo(f"  edited test, not counted: {path}")
    for told in work.left_out:
        click.echo(f"  left out of the diff: {told}")
    return exit_code(verdict.status)
