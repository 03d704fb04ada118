"""``swelive env build | show | list | gc``."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swelive_plugin.cli.options import build_options, cache_option, dataset_options
from swelive_plugin.errors import SweliveError, UsageError
from swelive_plugin.grading.settings import Settings, default_cache

if TYPE_CHECKING:
    from swelive_plugin.core.instance import Instance
    from swelive_plugin.environments import Environment
    from swelive_plugin.environments.store import Store

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_MIB = {"": 1 / 2**20, "K": 1 / 2**10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}


@click.group("env", short_help="Build, show, list and remove environments.")
def command() -> None:
    """Build, show, list and remove environments.

    An environment is the interpreter, the packages and the prepared tree of a base commit's day. It is built once from
    trusted code and kept; every grade of that commit uses it.
    """


def _store(cache: Path | None) -> Store:
    from swelive_plugin.environments.store import Store

    store = Store((cache or default_cache()) / "environments")
    store.check_version()
    return store


def mib_of(text: str) -> float:
    """Return a size such as ``10G`` or ``500M`` in MiB. Raises `UsageError` for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no size", hint="write it as 10G or 500M")
    return float(match.group(1)) * _MIB[match.group(2).upper()]


@command.command("build", short_help="Build the environments of instances.")
@dataset_options
@click.option("-i", "--instance", "ids", multiple=True, metavar="ID", help="Only this instance; may be repeated.")
@click.option("--redo", is_flag=True, help="Find the recipe anew, whatever was found for that commit before.")
@build_options
def build(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    ids: tuple[str, ...],
    redo: bool,
    settings: Settings,
) -> int:
    """Build the environments of a dataset's instances for later grades. Exits 1 if one can't be built.

    The first recipe that builds is taken; the first grade with controls keeps it if they hold, else searches on.
    """
    from swelive_plugin.sources.instances import load_instances

    instances = load_instances(dataset, split=split, ids=ids or None, start_month=start_month, end_month=end_month)
    failed = 0
    for number, instance in enumerate(instances, start=1):
        head = f"[{number}/{len(instances)}] {instance.instance_id}"
        began = time.perf_counter()
        try:
            if redo:
                _store(settings.cache).forget(instance.repo, instance.base_commit)
            environment = _provide(instance, settings, f"{head}: ")
        except UsageError:
            raise
        except SweliveError as error:
            failed += 1
            click.echo(f"{head}  FAILED  {error}", err=True)
            for line in error.evidence.splitlines()[-10:]:
                click.echo(f"  | {line}", err=True)
            continue
        version = ".".join(map(str, environment.python_version))
        seconds = time.perf_counter() - began
        click.echo(f"{head}  {environment.key[:12]}  Python {version}  {environment.recipe.name}  {seconds:.1f} s")
    return 1 if failed else 0


def _provide(instance: Instance, settings: Settings, head: str = "") -> Environment:
    from swelive_plugin.grading.testbed import open_testbed

    def say(text: str) -> None:
        if head:
            click.echo(f"{head}{text}", err=True)

    return open_testbed(instance, settings, progress=say).environment


@command.command("show", short_help="Show one instance's environment.")
@dataset_options
@click.option("-i", "--instance", "instance_id", required=True, metavar="ID", help="The instance.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@build_options
def show(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    instance_id: str,
    as_json: bool,
    settings: Settings,
) -> int:
    """Show an instance's environment (built now if it is not there): recipe with its reasons, lock, folder, log."""
    from swelive_plugin.environments.build import layout_of
    from swelive_plugin.environments.provider import describe
    from swelive_plugin.extensions import sandbox_named
    from swelive_plugin.sources.instances import load_instances

    found = load_instances(dataset, split=split, ids=[instance_id], start_month=start_month, end_month=end_month)
    environment = _provide(found[0], settings)
    layout = layout_of(sandbox_named(settings.sandbox, require=settings.require_sandbox))
    choice = _store(settings.cache).chosen(found[0].repo, found[0].base_commit, layout)
    told = {**describe(environment), "decision": choice.standing if choice is not None else ""}
    if as_json:
        click.echo(json.dumps(told, indent=1))
        return 0
    for name in ("key", "folder", "python", "log", "decision"):
        click.echo(f"{name:<8} {told[name] or '-'}")
    click.echo("\n# recipe.toml\n" + told["recipe"].rstrip())
    click.echo("\n# environment.lock\n" + told["lock"].rstrip())
    return 0


@command.command("list", short_help="List what is kept.")
@cache_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_kept(cache: Path | None, as_json: bool) -> int:
    """List the environments that are kept, the longest unused first; OWN is what removing it would free."""
    import msgspec

    store = _store(cache)
    kept = store.kept()
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(kept), indent=1))
        return 0
    for item in kept:
        used = time.strftime("%Y-%m-%d", time.gmtime(item.used))
        click.echo(
            f"{item.key[:12]}  {item.repo} {item.commit[:10]}  Python {item.python}  "
            f"own {item.own_mib:.0f} MiB of {item.total_mib:.0f}  used {used}"
        )
    click.echo(f"{_counted(len(kept))}, {store.size_mib():.0f} MiB in {store.root}")
    return 0


@command.command("gc", short_help="Remove environments.")
@cache_option
@click.option("--max-size", required=True, metavar="SIZE", help="Keep at most this much, such as 10G; 0 removes all.")
def gc(cache: Path | None, max_size: str) -> int:
    """Remove environments, the longest unused first, until the store is at most SIZE. Recipes and locks stay."""
    store = _store(cache)
    removed = store.gc(max_size_mib=mib_of(max_size), progress=lambda text: click.echo(text, err=True))
    click.echo(f"removed {_counted(len(removed))}; {store.size_mib():.0f} MiB are left")
    return 0


def _counted(number: int) -> str:
    return f"{number} environment" + ("" if number == 1 else "s")
