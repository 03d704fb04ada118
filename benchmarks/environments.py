"""How many rows of a dataset get an environment whose controls hold, and why the others do not.

    python -m benchmarks.environments -d ROWS.jsonl.gz --repo-url TEMPLATE -o FOLDER [-i ID]… [--tries N] [--no-search]

A row with FAIL_TO_PASS holds when it fails at base and all that is listed passes with the gold patch. A row without
lists
holds when at least one test fails at base and passes in each of three gold runs. Each row leaves FOLDER/<id>.json and
is
not measured again; ``--table`` only prints what is there. One row at a time, and no network in the sessions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from swelive_plugin import Instance, Settings, load_instances
from swelive_plugin.core.outcome import Outcome
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.environments.provider import UvProvider
from swelive_plugin.environments.search import cause_of
from swelive_plugin.errors import SweliveError
from swelive_plugin.grading.controls import Which, control_variant, run_controls, trial_of
from swelive_plugin.grading.selection import FileScope
from swelive_plugin.grading.settings import scratch
from swelive_plugin.grading.testbed import Testbed, run
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.sandbox.find import find_sandbox
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url

GOLD_RUNS = 3


class Row:
    """One row: its mirror, its sandbox, and the controls as the search wants them."""

    def __init__(self, instance: Instance, settings: Settings, sandbox: Sandbox) -> None:
        self.instance, self.settings, self.sandbox = instance, settings, sandbox
        url = repo_url(settings.repo_url, instance.repo)
        self.mirror = ensure_mirror(instance.repo, instance.base_commit, url=url, cache=settings.cache)
        self.session_s = 0.0

    def check(self, environment: Environment) -> Trial:
        """Return what the controls say of ``environment``."""
        began = time.monotonic()
        try:
            return self._listed(environment) if self.instance.fail_to_pass else self._derived(environment)
        finally:
            self.session_s = time.monotonic() - began

    def _listed(self, environment: Environment) -> Trial:
        trial = trial_of(run_controls(self._testbed(environment, "f2p-files")))
        return replace(trial, note=f"{trial.note}; {cause_of(trial.output)}" if trial.note else "")

    def _testbed(self, environment: Environment, scope: FileScope) -> Testbed:
        return Testbed(self.instance, self.settings, self.sandbox, self.mirror, environment, scope)

    def _derived(self, environment: Environment) -> Trial:
        base, _, output = self._run(environment, "base")
        gold, passed, gold_output = self._run(environment, "gold")
        turned = gold - base
        for _ in range(GOLD_RUNS - 1) if turned else ():
            again, _, _ = self._run(environment, "gold")
            turned &= again
        note = f"{len(turned)} turn green, {passed} pass"
        return Trial(bool(turned), len(turned) * 1000 + passed, gold_output + output, note)

    def _run(self, environment: Environment, which: Which) -> tuple[set[str], int, str]:
        with scratch(self.settings.cache) as work:
            testbed = self._testbed(environment, "touched")
            result = run(testbed, control_variant(which, self.instance.patch), folder=work / "report")
            good = {key for key, test in result.session.tests.items() if test.outcome is Outcome.PASSED}
            return good, len(good), result.output.read_text("utf-8", "replace")


def measure(instance: Instance, settings: Settings, sandbox: Sandbox, tries: int, search: bool) -> dict[str, Any]:
    """Return what became of one row, as it is kept."""
    began = time.monotonic()
    said: dict[str, Any] = {
        "id": instance.instance_id,
        "holds": False,
        "cause": "",
        "recipe": "",
        "python": "",
        "tries": 0,
    }
    provider = UvProvider(settings.cache)
    try:
        row = Row(instance, settings, sandbox)
        found = provider.search(
            instance, mirror=row.mirror, sandbox=sandbox, check=row.check, tries=tries if search else 1, progress=print
        )
    except SweliveError as error:
        return said | {"cause": f"{type(error).__name__}: {error}", "seconds": round(time.monotonic() - began, 1)}
    last = found.attempts[-1] if found.attempts else None
    if found.environment is not None:
        said |= {
            "recipe": found.environment.recipe.name,
            "python": found.environment.recipe.python,
            "key": found.environment.key,
        }
    return said | {
        "holds": found.holds,
        "cause": "" if found.holds else found.cause,
        "note": last.reason if last else "",
        "tries": len(found.attempts),
        "attempts": [[a.recipe.name, a.recipe.python, a.outcome, a.reason[:300]] for a in found.attempts],
        "seconds": round(time.monotonic() - began, 1),
        "session_s": round(row.session_s, 1),
    }


def spread(instances: Iterable[Instance]) -> list[Instance]:
    """Return the instances with the repositories taking turns, so that a run that stops early is still a sample."""
    turns: Counter[str] = Counter()
    placed = []
    for instance in instances:
        turns[instance.repo] += 1
        placed.append((turns[instance.repo], instance))
    return [instance for _, instance in sorted(placed, key=lambda pair: pair[0])]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table: one line a row, then the share that holds."""
    lines = ["| row | holds | recipe | Python | tries | seconds | why not |", "|---|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda item: str(item["id"])):
        cause = "" if row["holds"] else " ".join(str(row.get("note") or row["cause"]).split())[:160].replace("|", "/")
        cells = [
            row["id"],
            "yes" if row["holds"] else "**no**",
            row["recipe"],
            row["python"],
            row["tries"],
            row["seconds"],
            cause,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    holds = sum(bool(row["holds"]) for row in rows)
    first = sum(bool(row["holds"]) and row["tries"] == 1 for row in rows)
    lines.append(f"\n{holds} of {len(rows)} hold ({100 * holds / max(1, len(rows)):.0f} %), {first} at the first try")
    return lines


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", "--dataset", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("-i", "--instance", action="append", default=None)
    parser.add_argument("--repo-url", default=None)
    parser.add_argument("--cache-dir", type=Path, default=None)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no further row after so long")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    settings = Settings(timeout_s=given.timeout)
    if given.repo_url:
        settings = replace(settings, repo_url=given.repo_url)
    if given.cache_dir:
        settings = replace(settings, cache=given.cache_dir)
    given.output.mkdir(parents=True, exist_ok=True)
    sandbox, began = find_sandbox(), time.monotonic()
    for instance in spread(load_instances(given.dataset, ids=given.instance)):
        kept = given.output / f"{instance.instance_id}.json"
        if given.table or kept.exists() or time.monotonic() - began > given.minutes * 60:
            continue
        said = measure(instance, settings, sandbox, given.tries, not given.no_search)
        kept.write_text(json.dumps(said, indent=1), "utf-8")
        print(f"{said['id']}: {'holds' if said['holds'] else 'does not hold: ' + str(said['cause'])[:300]}", flush=True)
    print("\n".join(table([json.loads(path.read_text("utf-8")) for path in sorted(given.output.glob("*.json"))])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
