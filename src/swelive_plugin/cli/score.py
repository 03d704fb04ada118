"""``swelive score``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from swelive_plugin.cli.options import dataset_options

KINDS = ("events", "log", "junit", "report-log", "json-report", "ctrf")


@click.command("score", short_help="Score a finished run.")
@dataset_options
@click.option("-i", "--instance", "instance_id", required=True, metavar="ID", help="The instance that was run.")
@click.option("--events", metavar="FILE", help="The probe's events.jsonl.")
@click.option("--log", metavar="FILE", help="What pytest printed (-rA, -v or -q).")
@click.option("--junit", metavar="FILE", help="A JUnit XML file.")
@click.option("--report-log", metavar="FILE", help="A pytest-reportlog file.")
@click.option("--json-report", metavar="FILE", help="A pytest-json-report file.")
@click.option("--ctrf", metavar="FILE", help="A CTRF file.")
@click.option("--policy", default="swelive", show_default=True, help="How outcomes count.")
@click.option("--scope", type=click.Choice(["f2p-files", "all"]), default=None, help="Which listed tests were to run.")
@click.option("--root", default="", metavar="PATH", help="The checkout's path in that run, if it shows in test ids.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the verdict to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(
    dataset: str,
    split: str | None,
    start_month: str | None,
    end_month: str | None,
    instance_id: str,
    policy: str,
    scope: str | None,
    root: str,
    output: Path | None,
    as_json: bool,
    **files: str | None,
) -> int:
    """Score a finished run of one instance without running anything.

    Exit: 0 resolved, 1 not resolved, 2 usage, 3 no verdict. What was read from text is only as good as the text: the
    code under test can print what it likes.
    """
    from swelive_plugin.core.verdict import exit_code
    from swelive_plugin.errors import UsageError
    from swelive_plugin.library import score_file
    from swelive_plugin.reports.json_report import verdict_as_dict, write_verdict
    from swelive_plugin.reports.terminal import verdict_lines
    from swelive_plugin.sources.instances import load_instances

    given = {kind.replace("_", "-"): path for kind, path in files.items() if path}
    if len(given) != 1:
        raise UsageError(
            "score needs one finished run" if not given else "score takes one finished run at a time",
            hint=f"give one of {', '.join('--' + kind for kind in KINDS)}",
        )
    ((kind, path),) = given.items()
    instances = load_instances(dataset, split=split, ids=[instance_id], start_month=start_month, end_month=end_month)
    if not instances:
        raise UsageError(f"{instance_id} is kept out by the month filter", hint="drop --start-month and --end-month")
    verdict = score_file(instances[0], Path(path), kind=kind, policy=policy, scope=scope, root=root)
    if output is not None:
        write_verdict(output, verdict)
    if as_json:
        click.echo(json.dumps(verdict_as_dict(verdict), indent=1))
    else:
        for line in verdict_lines(verdict):
            click.echo(line)
    return exit_code(verdict.status)
