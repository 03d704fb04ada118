"""``swelive compare``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from swelive_plugin.cli.options import Named


@click.command("compare", short_help="Compare two sets of verdicts.")
@click.argument("first", metavar="A", type=Named())
@click.argument("second", metavar="[B]", type=Named(), required=False)
@click.option("--policy", help="Instead of B: what this policy says of A's own sessions; needs -d.")
@click.option("-d", "--dataset", metavar="DATASET", help="The dataset that A graded, for --policy.")
@click.option("--split", default=None, help="The split of a hub dataset.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Disagreements to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    first: Path,
    second: Path | None,
    policy: str | None,
    dataset: str | None,
    split: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Compare A with B: an agreement table, and per disagreement the test, both outcomes and the rule that decided.

    A and B are run folders or results files: ours, SWE-bench's (report folders, report.json, run reports) or
    SWE-bench-Live's. Exits 0 whether they agree or not.

    \b
    swelive compare runs/a runs/b
    swelive compare runs/a logs/run_evaluation/theirs/model
    swelive compare runs/a --policy swebench -d tasks.jsonl      another grader's rules on the same evidence
    """
    from swelive_plugin.compare import compare, comparison_as_dict, comparison_lines, rescored
    from swelive_plugin.errors import UsageError
    from swelive_plugin.extensions import policy_named
    from swelive_plugin.sources.instances import load_instances

    if (second is None) == (policy is None):
        raise UsageError("compare needs B or --policy, and not both", hint="swelive compare --help shows examples")
    if policy is not None:
        if dataset is None:
            raise UsageError("--policy needs the dataset that was graded", hint="give it with -d")
        comparison = compare(first, rescored(first, load_instances(dataset, split=split), policy_named(policy)))
    else:
        assert second is not None
        comparison = compare(first, second)
    if as_json:
        click.echo(json.dumps(comparison_as_dict(comparison), indent=1))
    else:
        for line in comparison_lines(comparison, limit=limit):
            click.echo(line)
    return 0
