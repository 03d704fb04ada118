"""The command group. Commands are imported when they are called, so that ``--help`` stays quick."""

from __future__ import annotations

import errno
import importlib
import signal
import sys
import threading

import click

from swelive_plugin._links import DOCS_URL, docs_page
from swelive_plugin._version import __version__
from swelive_plugin.core.verdict import EXIT_NO_VERDICT, EXIT_USAGE
from swelive_plugin.errors import SweliveError, UsageError

__all__ = ["main"]

# name: (module, one line for the overview); the order is the one in which a newcomer meets them
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Grade four patches of the embedded example: the quickest way to see it work."),
    "grade": ("grade", "Grade predictions: run the hidden tests on each patch and give a verdict."),
    "score": ("score", "Score a finished run (events, log, JUnit …) without running anything."),
    "compare": ("compare", "Compare two sets of verdicts, ours or another harness's, rule by rule."),
    "env": ("env", "Build, show, list and remove environments."),
    "validate": ("validate", "Prove instances with their gold patch: derive FAIL_TO_PASS and PASS_TO_PASS."),
    "mine": ("mine", "Find candidate instances in a local git clone."),
    "gen": ("gen", "Render validated instances as a tier: a folder of tasks for agents."),
    "list": ("list_tier", "List the tasks of a tier."),
    "run": ("run_agents", "Run coding agents over a tier and grade what they leave."),
    "report": ("report", "Compare agents side by side."),
    "task": ("task", "Set up or check one task of a tier; what its scripts call."),
    "doctor": ("doctor", "Tell what this machine has, what is missing and how to get it."),
}

# command: the page that tells more than its help; the others have the reference
PAGES = {
    "demo": "tutorial/first-grade",
    "grade": "reference/inputs",
    "score": "how-to/score",
    "compare": "explanation/parity",
    "env": "explanation/environments",
    "validate": "how-to/own-instances",
    "mine": "how-to/own-instances",
    "gen": "how-to/tiers",
    "list": "how-to/tiers",
    "run": "how-to/tiers",
    "report": "how-to/tiers",
    "task": "how-to/tiers",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"swelive_plugin.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        command.epilog = f"Docs: {docs_page(PAGES.get(cmd_name, 'reference/cli'))}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command for a mistyped one."""
        import difflib

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "SWELIVE"},
    epilog=f"Docs: {DOCS_URL}",
)
@click.version_option(__version__, "--version", prog_name="swelive")
def cli() -> None:
    """Did the coding agent's patch really fix the bug?

    Grades SWE-bench-Live style instances from what pytest's own hooks report: the repository at its base commit, the
    hidden tests on top of the agent's patch, an environment of that commit's day, no container.

    Exit codes: 0 resolved (or the run finished), 1 not resolved, 2 usage, 3 no verdict.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit. A person's mistake is one clear line, never a traceback."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)  # what CI sends when a job is cancelled: nothing finished is lost
    try:
        status = cli.main(args=args, prog_name="swelive", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.exceptions.Abort:
        status = _interrupted()
    except KeyboardInterrupt:
        status = _interrupted()
    except UsageError as error:
        status = _tell(error, EXIT_USAGE)
    except SweliveError as error:
        status = _tell(error, EXIT_NO_VERDICT)
    except BrokenPipeError:  # `swelive … | head`
        sys.stderr.close()
        status = 0
    except OSError as error:  # a full or read-only disk, a folder that is a file
        where = f": {error.filename}" if error.filename else ""
        click.echo(f"swelive: {error.strerror or error}{where}", err=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            click.echo(
                "  make room for the reports (-o) and the cache, then run again: what is finished is kept", err=True
            )
        status = EXIT_NO_VERDICT
    sys.exit(status if isinstance(status, int) else 0)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _interrupted() -> int:
    click.echo("swelive: interrupted; what is finished is kept, run the same command to go on", err=True)
    return 130


def _tell(error: SweliveError, status: int) -> int:
    click.echo(f"swelive: {error.message}", err=True)
    if error.evidence:
        click.echo("\n".join(f"  | {line}" for line in error.evidence.splitlines()[-20:]), err=True)
    if error.hint:
        click.echo(f"  {error.hint}", err=True)
    return status
