"""``swelive doctor``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from swelive_plugin.cli.options import Named

MARKS = {"ok": ("ok", "green"), "warn": ("look", "yellow"), "missing": ("MISSING", "red")}


@click.command("doctor", short_help="Tell what this machine has.")
@click.option(
    "--cache",
    envvar="SWELIVE_CACHE_DIR",
    type=Named(file_okay=False, resolve_path=True),
    help="The cache folder to look at.  [default: the platform's]",
)
@click.option("--offline", is_flag=True, help="Don't ask the package registry.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(cache: Path | None, offline: bool, as_json: bool) -> int:
    """Tell what this machine has, what is missing and how to get it. Exits 1 if something needed is missing."""
    import msgspec

    from swelive_plugin.doctor import examine
    from swelive_plugin.grading.settings import default_cache

    checks = examine(cache or default_cache(), offline=offline)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(checks), indent=1))
    else:
        for check in checks:
            word, colour = MARKS[check.state]
            click.echo(click.style(f"{word:<8}", fg=colour) + f"{check.name:<14} {check.found}")
            if check.hint and check.state != "ok":
                click.echo(f"{'':<23}{check.hint}")
    return 1 if any(check.state == "missing" for check in checks) else 0
