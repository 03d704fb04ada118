"""``swelive score``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swelive_plugin.cli.options import Named, dataset_options
from swelive_plugin.errors import InfraError, UsageError

if TYPE_CHECKING:
    from swelive_plugin.core.instance import Instance
    from swelive_plugin.core.verdict import Verdict

KINDS = ("events", "log", "junit", "report-log", "json-report", "ctrf")


@click.command("score", short_help="Score finished runs.")
@dataset_options
@click.option("-i", "--instance", "ids", multiple=True, metavar="ID", help="The instance that was run.")
@click.option("--events", metavar="FILE", help="The probe's events.jsonl.")
@click.option("--log", metavar="FILE", help="What pytest printed (-rA, -v or -q).")
@click.option("--junit", metavar="FILE", help="A JUnit XML file.")
@click.option("--report-log", metavar="FILE", help="A pytest-reportlog file.")
@click.option("--json-report", metavar="FILE", help="A pytest-json-report file.")
@click.option("--ctrf", metavar="FILE", help="A CTRF file.")
@click.option(
    "--runs",
    metavar="DIR",
    type=Named(),
    help="A folder of runs (CI artefacts, an old evaluation): score every instance that has evidence there.",
)
@click.option("--policy", default="swelive", show_default=True, help="How outcomes count.")
@click.option("--scope", type=click.Choice(["f2p-files", "all"]), default=None, help="Which listed tests were to run.")
@click.option("--root", default="", metavar="PATH", help="The checkout's path in that run, if it shows in test ids.")
@click.option("-o", "--output", type=Named(), help="Write the verdict to this file; with --runs, a run folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON; with --runs, the results.")
def command(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    ids: tuple[str, ...],
    runs: Path | None,
    policy: str,
    scope: str | None,
    root: str,
    output: Path | None,
    as_json: bool,
    **files: str | None,
) -> int:
    """Score finished runs without running anything.

    One run: exits 0 resolved, 1 not resolved, 2 usage, 3 no verdict. A folder: exits 0 when all was read. What was read
    from text is only as good as the text: the code under test can print what it likes.

    \b
    swelive score -d tasks.jsonl -i owner__name-123 --log pytest.log
    swelive score -d tasks.jsonl --runs artifacts/ -o runs/rescored --policy swebench
    """
    from swelive_plugin.sources.instances import load_instances

    given = {kind.replace("_", "-"): path for kind, path in files.items() if path}
    if len(given) + (runs is not None) != 1:
        raise UsageError(
            "score needs a finished run" if not given else "score takes one finished run at a time",
            hint=f"give one of {', '.join('--' + kind for kind in (*KINDS, 'runs'))}",
        )
    if runs is None and len(ids) != 1:
        raise UsageError("one finished run is of one instance", hint="name it with -i, or give a folder with --runs")
    instances = load_instances(dataset, split=split, ids=ids or None, start_month=start_month, end_month=end_month)
    if not instances:
        raise UsageError("no instance is left to score", hint="drop --start-month and --end-month")
    if runs is not None:
        return _score_folder(runs, instances, policy, scope, root, output, as_json=as_json)
    ((kind, path),) = given.items()
    return _score_one(instances[0], Path(path), kind, policy, scope, root, output, as_json=as_json)


def _score_one(
    instance: Instance,
    path: Path,
    kind: str,
    policy: str,
    scope: str | None,
    root: str,
    output: Path | None,
    *,
    as_json: bool,
) -> int:
    from swelive_plugin.core.verdict import exit_code
    from swelive_plugin.library import score_file
    from swelive_plugin.reports.json_report import verdict_as_dict, write_verdict
    from swelive_plugin.reports.terminal import verdict_lines

    verdict = score_file(instance, path, kind=kind, policy=policy, scope=scope, root=root)
    if output is not None:
        write_verdict(output, verdict)
    if as_json:
        click.echo(json.dumps(verdict_as_dict(verdict), indent=1))
    else:
        for line in verdict_lines(verdict):
            click.echo(line)
    return exit_code(verdict.status)


def _score_folder(
    runs: Path,
    instances: Sequence[Instance],
    policy: str,
    scope: str | None,
    root: str,
    output: Path | None,
    *,
    as_json: bool,
) -> int:
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
    rules, files = policy_named(policy), scope_named(scope)
    found = runs_in(runs, by_id)
    if not any(run.evidence or run.stands for run in found):
        raise UsageError(
            f"{runs} holds no run of these {len(instances)} instances",
            hint="a run is found by its instance's id in the name of its file or folder",
        )
    note = scope_note(by_id, found, policy=rules, scope=files)
    if note:
        click.echo(f"note: {note}", err=True)
    verdicts: list[Verdict] = []
    for number, run in enumerate(found, start=1):
        instance_id, attempt = run.instance_id, run.attempt
        try:
            verdict = score_run(by_id[instance_id], run, policy=rules, scope=files, root=root)
        except (UsageError, InfraError) as error:  # one damaged file leaves the others whole
            verdict = replace(_unreadable(by_id[instance_id], policy, error), attempt=attempt)
        verdicts.append(verdict)
        click.echo(result_line(verdict, number, len(found)), err=True)
        if output is not None:
            folder = output / instance_id if attempt == 1 else output / instance_id / f"attempt-{attempt}"
            write_verdict(folder / "verdict.json", verdict)
    notes = (note,) if note else ()
    if output is not None:
        results = Run(output, instances, predictions=str(runs), notes=notes).write_reports(verdicts)
    else:
        results = results_of(verdicts, instance_ids=list(by_id), notes=notes)
    if as_json:
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
