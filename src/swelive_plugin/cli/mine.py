"""``swelive mine``."""

from __future__ import annotations

from pathlib import Path

import click

from swelive_plugin.cli.options import Named


@click.command("mine", short_help="Find candidate instances in a git clone.")
@click.argument("repository", type=Named())
@click.option(
    "-o",
    "--output",
    type=Named(dir_okay=False),
    required=True,
    metavar="FILE",
    help="The candidates, as JSON lines.",
)
@click.option("--since", metavar="DATE", help="Only commits after this date, such as 2025-01-31 or '2 weeks ago'.")
@click.option("--until", metavar="DATE", help="Only commits before this date.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many, the newest first.")
@click.option("--branch", default="HEAD", show_default=True, help="Whose first-parent history is read.")
@click.option("--repo", metavar="OWNER/NAME", help="What to call the repository.  [default: from its origin]")
@click.option(
    "--max-files", type=click.IntRange(min=2), default=30, show_default=True, help="Pass over larger changes."
)
def command(
    repository: Path,
    output: Path,
    since: str | None,
    until: str | None,
    limit: int | None,
    branch: str,
    repo: str | None,
    max_files: int,
) -> int:
    """Turn merged changes of REPOSITORY, any git clone, into candidate instances; no network, no token.

    \b
    swelive mine ~/src/project --since 2025-01-01 -o candidates.jsonl
    swelive validate -d candidates.jsonl -o proven --repo-url file:///home/me/src/project

    A commit of the main line that touches both source and tests becomes a row: patch and test_patch split by path, the
    text of its message as the issue. `swelive validate` then proves which of them are tasks.

    Exit: 0, or 1 if there was none.
    """
    from swelive_plugin.files import write_atomically
    from swelive_plugin.mining import mine
    from swelive_plugin.validation.batch import json_lines

    mined = mine(repository, branch=branch, since=since, until=until, limit=limit, repo=repo, max_files=max_files)
    write_atomically(output, json_lines(mined.rows))
    passed_over = ", ".join(f"{number} {why}" for why, number in mined.passed_over.items() if number)
    click.echo(f"{len(mined.rows)} candidates of {mined.commits} commits in {output}")
    if passed_over:
        click.echo(f"passed over: {passed_over}", err=True)
    if mined.rows:
        url = mined.git_dir.resolve().as_uri()
        click.echo(f"  swelive validate -d {output} -o {output.with_suffix('')}-validated --repo-url {url}")
    return 0 if mined.rows else 1
