"""Options that several commands share; each can also be set as ``SWELIVE_<COMMAND>_<OPTION>``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from swelive_plugin.errors import SweliveError
from swelive_plugin.grading.settings import DEFAULT_REPO_URL, Settings

__all__ = [
    "Named",
    "build_options",
    "cache_option",
    "dataset_options",
    "executor_option",
    "grade_options",
    "session_options",
    "settings_options",
    "tell_kept",
    "warn_without_sandbox",
]

F = TypeVar("F", bound=Callable[..., Any])


class Named(click.Path):
    """A path that has a name: an empty one would mean the current folder, which nobody wants filled."""

    def __init__(self, **how: Any) -> None:
        super().__init__(path_type=Path, **how)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Refuses an empty one."""
        if value == "":
            self.fail("the name is empty.", param, ctx)
        return super().convert(value, param, ctx)


cache_option = click.option(
    "--cache",
    envvar="SWELIVE_CACHE_DIR",
    type=Named(file_okay=False, resolve_path=True),
    help="Mirrors and environments.  [default: the platform's cache folder]",
)


executor_option = click.option(
    "--executor",
    default="threads",
    show_default=True,
    metavar="threads|NAME",
    help="Who runs the workers: threads, or an executor of a plugin.",
)


def dataset_options(function: F) -> F:
    """Add ``-d``, ``--split``, ``--start-month`` and ``--end-month``."""
    for option in reversed(
        [
            click.option(
                "-d",
                "--dataset",
                default="SWE-bench-Live/SWE-bench-Live",
                show_default=True,
                metavar="DATASET",
                help="A hub name, or a .jsonl, .jsonl.gz, .json or .parquet file.",
            ),
            click.option("--split", default=None, help="The split of a hub dataset.  [default: lite]"),
            click.option("--start-month", metavar="YYYY-MM", help="Only instances created in this month or later."),
            click.option("--end-month", metavar="YYYY-MM", help="Only instances created in this month or earlier."),
        ]
    ):
        function = option(function)
    return function


def settings_options(function: F) -> F:
    """Add every option of `Settings` and hand the function one ``settings`` argument."""
    return _with_settings(function, tuple(_OPTIONS))


def grade_options(function: F) -> F:
    """Add what counts where the repository is known already, as ``settings``."""
    return _with_settings(function, tuple(name for name in _OPTIONS if name != "repo_url"))


def session_options(function: F) -> F:
    """Add what counts where sessions are run and nothing is scored by a person's choice, as ``settings``."""
    return _with_settings(function, tuple(name for name in _OPTIONS if name not in _OF_SCORING))


def build_options(function: F) -> F:
    """Add what counts where environments are built and nothing is graded, as ``settings``."""
    return _with_settings(function, _OF_BUILDS)


def _with_settings(function: F, names: tuple[str, ...]) -> F:
    @wraps(function)
    def with_settings(**given: Any) -> Any:
        chosen = {name: given.pop(name) for name in names}
        for name in ("cache", "repo_url"):  # the default depends on the surroundings
            if chosen.get(name, "") is None:
                del chosen[name]
        return function(settings=Settings(**chosen), **given)

    decorated: Callable[..., Any] = with_settings
    for name in reversed(names):
        decorated = _OPTIONS[name](decorated)
    return cast(F, decorated)


def tell_kept(number: int, total: int, done: str) -> None:
    """Say how much of a run was there already, if anything was."""
    if number:
        click.echo(f"{number} of {total} were {done} before and are kept", err=True)


def warn_without_sandbox(settings: Settings) -> None:
    """Say on the screen, once, that nothing holds the graded code back, where that is so."""
    from swelive_plugin.extensions import sandbox_named

    try:
        sandbox = sandbox_named(settings.sandbox, require=settings.require_sandbox)
    except SweliveError:
        return  # the command itself tells it, if it needs one
    if sandbox.name == "plain":
        how = "" if settings.sandbox == "none" else "; `swelive doctor` says how to get one"
        click.echo(f"warning: no sandbox: the graded code can do on this machine whatever you can{how}", err=True)


_OF_SCORING = ("policy", "scope", "controls", "mutate")
_OF_BUILDS = ("environment", "sandbox", "require_sandbox", "repo_url", "cache", "offline", "recipes")

_OPTIONS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "policy": click.option(
        "--policy",
        default="swelive",
        show_default=True,
        metavar="NAME",
        help="How outcomes count: swelive, swebench, swebench-live, swebench-live-python, or a plugin's.",
    ),
    "scope": click.option(
        "--scope",
        type=click.Choice(["f2p-files", "all"]),
        default=None,
        help="Run the test files of FAIL_TO_PASS, or all listed files.  [default: the policy's]",
    ),
    "timeout_s": click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=1),
        default=1800.0,
        show_default=True,
        metavar="SECONDS",
        help="Wall-clock limit of one session.",
    ),
    "memory_mib": click.option(
        "--memory",
        "memory_mib",
        type=click.IntRange(min=64),
        default=8192,
        show_default=True,
        metavar="MIB",
        help="Memory limit of one session.",
    ),
    "processes": click.option(
        "--processes", type=click.IntRange(min=8), default=512, show_default=True, help="Process limit of one session."
    ),
    "controls": click.option(
        "--controls",
        type=click.Choice(["auto", "off"]),
        default="auto",
        show_default=True,
        help="Run the base and gold sessions once per environment and judge with them, or do without.",
    ),
    "environment": click.option(
        "--environment",
        default="uv",
        show_default=True,
        metavar="uv|NAME",
        help="Who builds environments: uv, or the provider of a plugin.",
    ),
    "sandbox": click.option(
        "--sandbox",
        default="auto",
        show_default=True,
        metavar="auto|bwrap|none",
        help="Where foreign code runs; auto takes bubblewrap where it works.",
    ),
    "require_sandbox": click.option("--require-sandbox", is_flag=True, help="Refuse to go without a sandbox."),
    "network": click.option(
        "--network", is_flag=True, help="Leave the network open to the tests; recorded in the report."
    ),
    "mutate": click.option(
        "--mutate",
        type=click.Choice(["auto", "always", "off"]),
        default="auto",
        show_default=True,
        help="Run FAIL_TO_PASS again with changed expected values, which an honest fix must fail.  [auto: if flagged]",
    ),
    "repo_url": click.option(
        "--repo-url",
        envvar="SWELIVE_REPO_URL",
        metavar="TEMPLATE",
        help=f"Where repositories are cloned from, with {{repo}}, {{owner}}, {{name}}.  [default: {DEFAULT_REPO_URL}]",
    ),
    "cache": cache_option,
    "offline": click.option("--offline", is_flag=True, help="Work from the cache alone."),
    "recipes": click.option(
        "--recipes",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=None,
        help="Recipes that you decided, DIRECTORY/<id>/recipe.toml, as `swelive env show` prints them; a lock may lie "
        "beside each.",
    ),
}
