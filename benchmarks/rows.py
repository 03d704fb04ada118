"""Do the rows of a dataset grade right? Gold must be resolved, empty is empty_patch, a comment alone is unresolved.

    python -m benchmarks.rows -d ROWS.jsonl.gz --repo-url TEMPLATE -o FOLDER [-i ID]… [-w N]

Prints a table, one line a row, and the totals; what the folder holds is not graded again. Exits 1 if any is wrong.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from swelive_plugin import Instance, Prediction, Settings, Status, Verdict, grade_all, load_instances
from swelive_plugin.workspace.git import run_git
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url
from swelive_plugin.workspace.patch import touched_paths

RIGHT = {"gold": Status.RESOLVED, "empty": Status.EMPTY_PATCH, "comment": Status.UNRESOLVED}


def comment_patch(instance: Instance, settings: Settings) -> str:
    """Return a patch that adds a comment to a Python file: one that gold changes, else the package's first."""
    url = repo_url(settings.repo_url, instance.repo)
    mirror = ensure_mirror(instance.repo, instance.base_commit, url=url, cache=settings.cache)
    changed = [change.paths[0] for change in touched_paths(instance.patch)]
    listed = run_git("ls-tree", "-r", "--name-only", instance.base_commit, git_dir=mirror).stdout.decode().split("\n")
    others = [name for name in listed if name.endswith("/__init__.py") and "test" not in name]
    for name in [*changed, *others]:
        shown = run_git("show", f"{instance.base_commit}:{name}", git_dir=mirror, check=False)
        before = shown.stdout.decode("utf-8", "replace").splitlines(keepends=True)
        if name.endswith(".py") and before and before[-1].endswith("\n"):
            after = [*before, "# Nothing but this comment is new.\n"]
            body = "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))
            return f"diff --git a/{name} b/{name}\n{body}"
    raise SystemExit(f"{instance.instance_id}: there is no Python file that a comment could be added to")


def predictions_for(instance: Instance, settings: Settings) -> Iterator[Prediction]:
    """Yield the three predictions of one instance, as attempts 1 to 3."""
    patches = {"gold": instance.patch, "empty": "", "comment": comment_patch(instance, settings)}
    for number, (model, text) in enumerate(patches.items(), start=1):
        yield Prediction(instance.instance_id, text, model=model, attempt=number)


def table(verdicts: Sequence[Verdict]) -> tuple[list[str], int]:
    """Return the lines of the table and how many verdicts are wrong."""
    by_instance: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        by_instance.setdefault(verdict.instance_id, {})[verdict.model] = verdict
    lines = ["| instance | gold | empty | comment | seconds (gold) | wrong because |", "|---|---|---|---|---|---|"]
    wrong = 0
    for instance_id, found in sorted(by_instance.items()):
        bad = [model for model, verdict in found.items() if verdict.status is not RIGHT[model]]
        wrong += len(bad)
        why = "; ".join(f"{m}: {found[m].reasons[0].message[:120] if found[m].reasons else ''}" for m in bad)
        cells = [found[model].status.value if model in found else "" for model in RIGHT]
        lines.append(f"| {instance_id} | {' | '.join(cells)} | {found['gold'].duration_s:.1f} | {why} |")
    lines.append(f"\n{len(verdicts) - wrong} of {len(verdicts)} verdicts right")
    return lines, wrong


def main() -> int:
    """Grade and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", "--dataset", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("-i", "--instance", action="append", default=None)
    parser.add_argument("-w", "--workers", type=int, default=1)
    parser.add_argument("--repo-url", default=None)
    parser.add_argument("--timeout", type=float, default=1800.0)
    given = parser.parse_args()
    settings = Settings(timeout_s=given.timeout, **({"repo_url": given.repo_url} if given.repo_url else {}))
    instances = load_instances(given.dataset, ids=given.instance)
    predictions = [item for instance in instances for item in predictions_for(instance, settings)]
    by_id = {instance.instance_id: instance for instance in instances}
    verdicts = grade_all(by_id, predictions, settings, out=given.output, workers=given.workers)
    lines, wrong = table(verdicts)
    print("\n".join(lines))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
