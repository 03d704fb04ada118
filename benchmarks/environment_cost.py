"""What a faithful environment costs: a cold build against the simple way, a warm grade against bare pytest, room on
disk.

    python -m benchmarks.environment_cost -d ROWS.jsonl.gz --repo-url TEMPLATE [-i ID]… [--runs 3] [--skip-cold]

The simple way: ``uv venv``, then the first of ``-e .``, ``.``, ``-e .[test]`` that installs, then pytest. Both use
the same
warm uv cache; ours resolves with a cut-off and hashes, builds in the sandbox, compiles and shares. The warm grade is
the whole of
``grade`` for the gold patch, controls known; bare pytest is the same files in the same venv and sandbox, without probe.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from swelive_plugin import Instance, Settings, grade, load_instances
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.environments import Environment
from swelive_plugin.environments.provider import UvProvider
from swelive_plugin.environments.uv import find_uv
from swelive_plugin.errors import SweliveError
from swelive_plugin.grading.settings import scratch
from swelive_plugin.grading.testbed import Testbed
from swelive_plugin.grading.tree import make_graded_tree
from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from swelive_plugin.sandbox.find import find_sandbox
from swelive_plugin.workspace.checkout import export_tree
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url


def simple_way(mirror: Path, commit: str, folder: Path) -> tuple[float, str]:
    """Return the seconds of the simple way's build, and which of its three installs went through."""
    export_tree(mirror, commit, folder / "tree", with_git=True)
    uv, began = str(find_uv().program), time.perf_counter()
    subprocess.run([uv, "venv", "-q", str(folder / "venv")], check=True)
    python = str(folder / "venv" / "bin" / "python")
    chosen = "none"
    for words in (["-e", "."], ["."], ["-e", ".[test]"]):
        done = subprocess.run(
            [uv, "pip", "install", "-q", "--python", python, *words],
            cwd=folder / "tree",
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            chosen = " ".join(words)
            break
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "pytest"], check=True)
    return time.perf_counter() - began, chosen


def bare_pytest(
    instance: Instance, environment: Environment, mirror: Path, sandbox: Sandbox, settings: Settings
) -> float:
    """Return the seconds of pytest alone over the gold tree."""
    with scratch(settings.cache) as work:
        testbed = Testbed(instance, settings, sandbox, mirror, environment, "f2p-files")
        tree, application = make_graded_tree(testbed, instance.patch, work)
        mount = Mount(tree, "/testbed", "overlay" if sandbox.overlays else "rw")
        files = files_to_run(instance, "f2p-files") or application.test_files
        command = Command(
            (environment.python, "-m", "pytest", "-q", *files),
            sandbox.inside(mount),
            environment.env,
            (*environment.mounts, mount),
            limits=Limits(wall_clock_s=settings.timeout_s),
        )
        began = time.perf_counter()
        sandbox.run(command, output=work / "output")
        return time.perf_counter() - began


def main() -> None:
    """Measure row by row and print the table and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", "--dataset", required=True)
    parser.add_argument("-i", "--instance", action="append", default=None)
    parser.add_argument("--repo-url", default=None)
    parser.add_argument("--cache-dir", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-cold", action="store_true")
    given = parser.parse_args()
    settings = Settings()
    if given.repo_url:
        settings = replace(settings, repo_url=given.repo_url)
    if given.cache_dir:
        settings = replace(settings, cache=given.cache_dir)
    sandbox, cold, warm, added = find_sandbox(), [], [], []
    print("| row | simple (s) | ours, cold (s) | ratio | bare pytest (s) | grade, warm (s) | ratio | own / all (MiB) |")
    print("|---|---|---|---|---|---|---|---|")
    for instance in load_instances(given.dataset, ids=given.instance):
        url = repo_url(settings.repo_url, instance.repo)
        mirror = ensure_mirror(instance.repo, instance.base_commit, url=url, cache=settings.cache)
        try:
            provider = UvProvider(settings.cache)
            environment = provider.provide(instance, mirror=mirror, sandbox=sandbox)
            simple = ours = 0.0
            if not given.skip_cold:
                with tempfile.TemporaryDirectory() as name:
                    simple, _ = simple_way(mirror, instance.base_commit, Path(name))
                    began = time.perf_counter()
                    UvProvider(Path(name, "cache")).build(instance, environment.recipe, mirror=mirror, sandbox=sandbox)
                    ours = time.perf_counter() - began
                cold.append(ours / simple)
            grade(instance, instance.patch, settings)  # the controls are run once, before
            bare, graded = [], []
            for _ in range(given.runs):
                bare.append(bare_pytest(instance, environment, mirror, sandbox, settings))
                began = time.perf_counter()
                grade(instance, instance.patch, settings)
                graded.append(time.perf_counter() - began)
        except SweliveError as error:
            print(f"| {instance.instance_id} | {error} |")
            continue
        b, g = statistics.median(bare), statistics.median(graded)
        warm.append(g / b)
        added.append(g - b)
        kept = next((item for item in provider.store.kept() if item.key == environment.key), None)
        room = f"{kept.own_mib:.0f} / {kept.total_mib:.0f}" if kept else ""
        ratio = f"{ours / simple:.2f}" if simple else ""
        cells = [
            instance.instance_id,
            f"{simple:.1f}",
            f"{ours:.1f}",
            ratio,
            f"{b:.2f}",
            f"{g:.2f}",
            f"{g / b:.2f}",
            room,
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    if cold:
        print(f"\ncold build, ours to simple: median ratio {statistics.median(cold):.2f} over {len(cold)} rows")
    if warm:
        times, more = statistics.median(warm), statistics.median(added)
        print(f"warm grade to bare pytest: median ratio {times:.2f}, median difference {more:.2f} s")


if __name__ == "__main__":
    main()
