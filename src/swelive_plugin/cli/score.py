"""``swelive score``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from swelive_plugin.cli.options import Named, dataset_options
from swelive_plugin.errors import InfraError, UsageError

if TYPE_CHECKING:
    from swelive_plugin.core.instance import Instance
    from swelive_plugin.core.verdict import Verdict


@click.command("score", short_help="Score finished runs.")
@click.argument("path", type=Named(), metavar="PATH")
@dataset_options
@click.option("-i", "--instance", "ids", multiple=True, metavar="ID", help="The instance that was run.")
@click.option(
    "--format",
    "kind",
    metavar="NAME",
    help="What was recorded: events, log, junit, report-log, json-report, ctrf, or a plugin's.  [default: by content]",
)
@click.option("--policy", default="swelive", show_default=True, help="How outcomes count.")
@click.option("--scope", type=click.Choice(["f2p-files", "all"]), default=None, help="Which listed tests were to run.")
@click.option("--root", default="", metavar="PATH", help="The checkout's path in that run, if it shows in test ids.")
@click.option("-o", "--output", type=Named(), help="Write the verdict to this file; for a folder, a run folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON; for a folder, the results.")
def command(
    path: Path,
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    ids: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Score finished runs without running anything.

    PATH is the file that one run recorded, or a folder of runs (CI artefacts, an old evaluation): then every instance
    that has evidence there is scored.

    One run: exits 0 resolved, 1 not resolved, 2 usage, 3 no verdict. A folder: exits 0 when all was read. What was read
    from text is only as good as the text: the code under test can print what it likes.

    \b
    swelive score pytest.log -d tasks.jsonl -i owner__name-123
    swelive score artifacts/ -d tasks.jsonl -o runs/rescored --policy swebench
    """
    from swelive_plugin.extensions import log_readers
    from swelive_plugin.readers import reader_named
    from swelive_plugin.sources.instances import load_instances

    if how["kind"] is not None:
        reader_named(how["kind"], log_readers())  # an unknown name is told before anything is loaded
    if not path.exists():
        raise UsageError(f"{path} is not there", hint="name what a run recorded, or a folder of runs")
    if not path.is_dir() and len(ids) != 1:
        raise UsageError("one finished run is of one instance", hint="name it with -i, or give a folder of runs")
    instances = load_instances(dataset, split=split, ids=ids or None, start_month=start_month, end_month=end_month)
    if not instances:
        raise UsageError("no instance is left to score", hint="drop --start-month and --end-month")
    given = _Given(path, output, as_json, **how)
    return _score_folder(given, instances) if path.is_dir() else _score_one(given, instances[0])


@dataclass(frozen=True)
class _Given:
    """What was asked for, in the command's own words."""

    path: Path
    output: Path | None
    as_json: bool
    kind: str | None
    policy: str
    scope: str | None
    root: str


def _score_one(given: _Given, instance: Instance) -> int:
    from swelive_plugin.core.verdict import exit_code
    from swelive_plugin.library import score_file
    from swelive_plugin.reports.json_report import verdict_as_dict, write_verdict
    from swelive_plugin.reports.terminal import verdict_lines

    verdict = score_file(instance, given.path, kind=given.kind, policy=given.policy, scope=given.scope, root=given.root)
    if given.output is not None:
        write_verdict(given.output, verdict)
    if given.as_json:
        click.echo(json.dumps(verdict_as_dict(verdict), indent=1))
    else:
        for line in verdict_lines(verdict):
            click.echo(line)
    return exit_code(verdict.status)


def _score_folder(given: _Given, instances: Sequence[Instance]) -> int:
    import msgspec

    from swelive_plugin.cli.running import Run
    from swelive_plugin.core.policy import scope_named
    from swelive_plugin.extensions import policy_named
    from swelive_plugin.library import scope_note, score_run
    from swelive_plugin.readers.folder import runs_in
    from swelive_plugin.reports.json_report import results_of, write_verdict
    from swelive_plugin.reports.progress import print_summary
    from swelive_plugin.reports.terminal import result_line

    by_id = {instance.instance_id: instance for instance in instances}
    policy, scope = policy_named(given.policy), scope_named(given.scope)
    found = runs_in(given.path, by_id)
    if not any(run.evidence or run.stands for run in found):
        raise UsageError(
            f"{given.path} holds no run of these {len(instances)} instances",
            hint="a run is found by its instance's id in the name of its file or folder",
        )
    note = scope_note(by_id, found, policy=policy, scope=scope)
    if note:
        click.echo(f"note: {note}", err=True)
    verdicts: list[Verdict] = []
    for number, run in enumerate(found, start=1):
        instance_id, attempt = run.instance_id, run.attempt
        try:
            verdict = score_run(by_id[instance_id], run, policy=policy, scope=scope, root=given.root, kind=given.kind)
        except (UsageError, InfraError) as error:  # one damaged file leaves the others whole
            verdict = replace(_unreadable(by_id[instance_id], given.policy, error), attempt=attempt)
        verdicts.append(verdict)
        click.echo(result_line(verdict, number, len(found)), err=True)
        if given.output is not None:
            folder = given.output / instance_id if attempt == 1 else given.output / instance_id / f"attempt-{attempt}"
            write_verdict(folder / "verdict.json", verdict)
    notes = (note,) if note else ()
    if given.output is not None:
        results = Run(given.output, instances, predictions=str(given.path), notes=notes).write_reports(verdicts)
    else:
        results = results_of(verdicts, instance_ids=list(by_id), notes=notes)
    if given.as_json:
        click.echo(json.dumps(msgspec.to_builtins(results), indent=1))
    else:
        print_summary(results)
    return 0


def _unreadable(instance: Instance, policy: str, error: UsageError | InfraError) -> Verdict:
    from swelive_plugin.core.decide import score
    from swelive_plugin.core.outcome import Session
    from swelive_plugin.core.verdict import Reason, Status
    from swelive_plugin.extensions import policy_named

    verdict = score(instance, Session(tests={}), policy=policy_named(policy))
    return replace(verdict, status=Status.ERROR, reasons=(Reason("unreadable_run", str(error)),))
