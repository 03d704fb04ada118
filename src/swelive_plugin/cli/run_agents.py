"""``swelive run``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from swelive_plugin.cli.options import Named, executor_option, settings_options, tell_kept, warn_without_sandbox
from swelive_plugin.grading.settings import Settings


@click.command("run", short_help="Run agents over a tier.")
@click.argument("tier", type=Named())
@click.option(
    "--agent",
    "agents",
    multiple=True,
    required=True,
    metavar="NAME='COMMAND'",
    help="A shell command with {workdir}, {prompt_file} and {out_dir}; or the word gold or noop. May be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    required=True,
    metavar="RUN",
    help="The run's folder; a run that was stopped goes on there.",
)
@click.option("--attempts", type=click.IntRange(min=1), default=1, show_default=True, help="Attempts at each task.")
@click.option("-t", "--task", "tasks", multiple=True, metavar="ID", help="Only this task; may be repeated.")
@click.option(
    "--agent-timeout",
    type=click.FloatRange(min=1),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Wall-clock limit of one attempt; --timeout is that of its tests.",
)
@click.option("--agent-network", is_flag=True, help="Let the agents reach the network.")
@click.option(
    "--agent-env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Hand this variable to the agents; without a value the one that is set here.",
)
@click.option(
    "--agent-mount",
    multiple=True,
    type=click.Path(exists=True, path_type=Path, resolve_path=True),
    metavar="PATH",
    help="Show this folder or file to the agents, read-only: where their own program lies.",
)
@click.option(
    "--agent-disk",
    type=click.IntRange(min=16),
    default=4096,
    show_default=True,
    metavar="MIB",
    help="How much one attempt may write.",
)
@click.option("-w", "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Attempts at once.")
@executor_option
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@settings_options
def command(
    tier: Path,
    agents: tuple[str, ...],
    output: Path,
    attempts: int,
    tasks: tuple[str, ...],
    agent_timeout: float,
    agent_network: bool,
    agent_env: tuple[str, ...],
    agent_mount: tuple[Path, ...],
    agent_disk: int,
    workers: int,
    executor: str,
    as_json: bool,
    settings: Settings,
) -> int:
    """Run agents over TIER: each gets a fresh work tree and the prompt, in the sandbox; what it leaves is graded.

    \b
    swelive run tier --agent gold --agent noop -o runs/proof
    swelive run tier --agent mine='solve --dir {workdir} --prompt {prompt_file}' --attempts 4 -o runs/mine \\
        --agent-network --agent-env API_KEY --agent-mount /opt/solve

    The work tree is the current folder, with the task's interpreter first on the PATH. An agent may write
    {out_dir}/cost.json, an object of numbers; the report adds them up. Its diff is taken from the files alone, whatever
    it did to the repository.

    Writes RUN/<agent>/<id>/attempt-N/{attempt.json, patch.diff, agent.log, verdict.json, …} and
    RUN/<agent>/predictions.jsonl. Exit: 0 when the run finished, 2 usage, 3 if our side failed for some: run again.
    """
    from swelive_plugin.core.verdict import EXIT_NO_VERDICT, Verdict
    from swelive_plugin.files import visible
    from swelive_plugin.grading.run_folder import UNFINISHED
    from swelive_plugin.tier.agents import Surroundings, agents_of
    from swelive_plugin.tier.layout import read_tier
    from swelive_plugin.tier.report import as_json as json_of
    from swelive_plugin.tier.report import as_text, compare_runs
    from swelive_plugin.tier.run import Attempt, run_agents

    chosen = read_tier(tier)
    total = len(agents) * attempts * len(tasks or chosen.tasks)
    count = 0

    def finished(attempt: Attempt, verdict: Verdict) -> None:
        nonlocal count
        count += 1
        number = f" #{attempt.number}" if attempts > 1 else ""
        ended = "" if attempt.ended_by == "exit" else f", ended by {attempt.ended_by}"
        if not ended and attempt.exit_status:
            ended = f", the agent's command exited with {attempt.exit_status}: see its agent.log"
        click.echo(
            f"[{count}/{total}] {attempt.agent} {attempt.instance_id}{number}: {verdict.status.value}"
            f" ({attempt.duration_s:.0f} s{ended})",
            err=True,
        )

    wanted = agents_of(agents)
    warn_without_sandbox(settings)
    done = run_agents(
        chosen,
        wanted,
        Surroundings(
            env=_variables(agent_env),
            mounts=agent_mount,
            network=agent_network,
            timeout_s=agent_timeout,
            memory_mib=settings.memory_mib,
            processes=settings.processes,
            disk_mib=agent_disk,
        ),
        settings,
        out=output,
        attempts=attempts,
        tasks=tasks,
        workers=workers,
        executor=executor,
        finished=finished,
        kept=lambda number: tell_kept(number, total, "attempted"),
        step=lambda who, text: click.echo(f"  {who}: {visible(text)}", err=True),
    )
    comparison = compare_runs([output])
    click.echo(json_of(comparison) if as_json else as_text(comparison))
    return EXIT_NO_VERDICT if any(verdict.status in UNFINISHED for _, verdict in done) else 0


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not name or (not separator and name not in os.environ):
            raise click.UsageError(f"--agent-env {text}: no variable of this name is set")
        found[name] = value if separator else os.environ[name]
    return found
