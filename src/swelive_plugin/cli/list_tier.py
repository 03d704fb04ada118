"""``swelive list``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from swelive_plugin.cli.options import Named


@click.command("list", short_help="List the tasks of a tier.")
@click.argument("tier", type=Named())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(tier: Path, as_json: bool) -> int:
    """List the tasks of TIER: id, repository, month, difficulty, and the first line of the issue."""
    from swelive_plugin.files import visible
    from swelive_plugin.tier.layout import read_tier

    tasks = read_tier(tier).tasks
    if as_json:
        names = ("id", "repo", "base_commit", "created_at", "month", "difficulty", "python")
        click.echo(json.dumps([{name: getattr(task, name) for name in names} for task in tasks], indent=1))
        return 0
    width = max((len(task.id) for task in tasks), default=0)
    for task in tasks:
        title = next(iter(task.issue.splitlines()), "")
        known = "  ".join(part for part in (task.month, task.difficulty) if part)
        click.echo(f"{task.id:<{width}}  {known:<8}  {visible(title, limit=80)}")
    click.echo(f"{len(tasks)} tasks of {len({task.repo for task in tasks})} repositories")
    return 0
