"""``swelive gen``."""

from __future__ import annotations

from pathlib import Path

import click

from swelive_plugin.cli.options import Named, dataset_options, settings_options, warn_without_sandbox
from swelive_plugin.grading.settings import Settings


@click.command("gen", short_help="Render a tier of tasks.")
@dataset_options
@click.option(
    "-o",
    "--output",
    "tier",
    type=Named(file_okay=False),
    required=True,
    metavar="TIER",
    help="The tier's folder; a generation that was stopped goes on there.",
)
@click.option("--limit", type=click.IntRange(min=1), help="So many tasks.  [default: 10]")
@click.option("--repos", default="", metavar="A,B", help="Only these repositories: owner/name, or the name alone.")
@click.option("--per-repo", type=click.IntRange(min=1), default=3, show_default=True, help="At most so many of one.")
@click.option("--all", "everything", is_flag=True, help="Every instance: no limit, whatever the repository.")
@click.option("--no-validate", is_flag=True, help="Take the rows as they are; they need a FAIL_TO_PASS.")
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Gold runs per candidate.")
@click.option("--base-runs", type=click.IntRange(min=1), default=2, show_default=True, help="Base runs per candidate.")
@click.option("--no-search", is_flag=True, help="Take the first recipe that builds, try no other.")
@click.option("-w", "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Candidates at once.")
@settings_options
def command(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    tier: Path,
    limit: int | None,
    repos: str,
    per_repo: int,
    everything: bool,
    no_validate: bool,
    runs: int,
    base_runs: int,
    no_search: bool,
    workers: int,
    settings: Settings,
) -> int:
    """Render instances of DATASET as TIER: tasks for agents, with the answer key in a sibling folder.

    \b
    swelive gen -d proven/validated.jsonl -o tier --all
    swelive gen -o tier --limit 10 --start-month 2025-01

    Each candidate is validated first, unless its row comes from `swelive validate`; for those that drop further ones
    are drawn. TIER/tasks/<id>/ is what an agent may see (prompt.txt, setup.sh, check.sh, task.toml), TIER/oracle/<id>/
    the answer key. The options of a grade are recorded in each task.

    Exit: 0, or 1 when there is no task, or fewer than --limit asks for, 2 usage.
    """
    from swelive_plugin.cli.validate import line_of
    from swelive_plugin.sources.instances import load_instances
    from swelive_plugin.tier.generate import Selection, generate
    from swelive_plugin.validation.validate import Options

    instances = load_instances(dataset, split=split, start_month=start_month, end_month=end_month)
    wanted = tuple(name.strip() for name in repos.split(",") if name.strip())
    selection = Selection(None, None, wanted) if everything else Selection(limit or 10, per_repo, wanted)
    if not no_validate:
        warn_without_sandbox(settings)
    made = generate(
        list(instances),
        settings,
        selection,
        out=tier,
        prove=not no_validate,
        options=Options(gold_runs=runs, base_runs=base_runs, search=not no_search),
        workers=workers,
        finished=lambda validation: click.echo(line_of(validation), err=True),
    )
    for name, why in made.left_out.items():
        click.echo(f"left out: {name}: {why}", err=True)
    tasks = made.tier.tasks
    click.echo(f"{len(tasks)} tasks of {len({task.repo for task in tasks})} repositories in {tier}")
    if tasks:
        click.echo(f"  swelive run {tier} --agent gold --agent noop -o {tier}-run")
    asked = 1 if everything or limit is None else limit
    return 1 if len(tasks) < asked else 0
