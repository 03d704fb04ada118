"""Options that several commands share; each can also be set as ``SWELIVE_<COMMAND>_<OPTION>``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from swelive_plugin.grading.settings import DEFAULT_REPO_URL, Settings

__all__ = ["dataset_options", "settings_options"]

F = TypeVar("F", bound=Callable[..., Any])


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

    @wraps(function)
    def with_settings(**given: Any) -> Any:
        chosen = {name: given.pop(name) for name in _NAMES}
        if chosen["cache"] is None:
            del chosen["cache"]
        if chosen["repo_url"] is None:
            del chosen["repo_url"]
        return function(settings=Settings(**chosen), **given)

    decorated: Callable[..., Any] = with_settings
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast(F, decorated)


_NAMES = (
    "policy",
    "scope",
    "timeout_s",
    "memory_mib",
    "processes",
    "controls",
    "sandbox",
    "require_sandbox",
    "network",
    "mutate",
    "repo_url",
    "cache",
    "offline",
)

_OPTIONS = [
    click.option("--policy", default="swelive", show_default=True, help="How outcomes count: swelive, swebench, …"),
    click.option(
        "--scope",
        type=click.Choice(["f2p-files", "all"]),
        default=None,
        help="Run the test files of FAIL_TO_PASS, or all listed files.  [default: the policy's]",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=1),
        default=1800.0,
        show_default=True,
        metavar="SECONDS",
        help="Wall-clock limit of one session.",
    ),
    click.option(
        "--memory",
        "memory_mib",
        type=click.IntRange(min=64),
        default=8192,
        show_default=True,
        metavar="MIB",
        help="Memory limit of one session.",
    ),
    click.option(
        "--processes", type=click.IntRange(min=8), default=512, show_default=True, help="Process limit of one session."
    ),
    click.option(
        "--controls",
        type=click.Choice(["auto", "off"]),
        default="auto",
        show_default=True,
        help="Run the base and gold sessions once per environment and judge with them, or do without.",
    ),
    click.option(
        "--sandbox",
        default="auto",
        show_default=True,
        metavar="auto|bwrap|none",
        help="Where graded code runs; auto takes bubblewrap where it works.",
    ),
    click.option("--require-sandbox", is_flag=True, help="Refuse to grade without a sandbox."),
    click.option("--network", is_flag=True, help="Leave the network open to the tests; recorded in the report."),
    click.option(
        "--mutate",
        type=click.Choice(["auto", "always", "off"]),
        default="auto",
        show_default=True,
        help="Run FAIL_TO_PASS again with changed expected values, which an honest fix must fail.  [auto: if flagged]",
    ),
    click.option(
        "--repo-url",
        envvar="SWELIVE_REPO_URL",
        metavar="TEMPLATE",
        help=f"Where repositories are cloned from, with {{repo}}, {{owner}}, {{name}}.  [default: {DEFAULT_REPO_URL}]",
    ),
    click.option(
        "--cache",
        envvar="SWELIVE_CACHE_DIR",
        type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
        help="Mirrors and environments.  [default: the platform's cache folder]",
    ),
    click.option("--offline", is_flag=True, help="Work from the cache alone."),
]
