"""What a sandbox adds to one command: start and end, and what watching costs while it runs.

    python benchmarks/sandbox_cost.py [--runs 40]

Prints a table: median and 90th percentile of the wall clock of one run, and what it adds to a bare subprocess.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from swelive_plugin.sandbox.find import find_sandbox

LIMITS = Limits(wall_clock_s=60, cpu_s=60, memory_mib=1024, processes=64, file_size_mib=64)
WORK = "sum(i * i for i in range(4_000_000))"


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that one call took."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def runner(sandbox: Sandbox, program: tuple[str, ...], folder: Path, tree: Path) -> Callable[[], object]:
    """Return a call that runs ``program`` of the interpreter in ``sandbox``, the tree on a throw-away layer."""
    python = Mount(Path(sys.base_prefix), sys.base_prefix)
    testbed = Mount(tree, "/testbed", "overlay" if sandbox.overlays else "rw")
    command = Command(
        (f"{sandbox.inside(python)}/bin/python3", *program),
        sandbox.inside(testbed),
        {},
        (python, testbed),
        limits=LIMITS,
    )

    def run() -> None:
        completed = sandbox.run(command, output=folder / "output")
        assert completed.exit_status == 0, (folder / "output").read_text()

    return run


def main() -> None:
    """Measure every sandbox of this machine, turn and turn about, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder, tree = Path(name), Path(name, "tree")
        tree.mkdir()
        for title, program in (("python -I -S -c pass", ("-I", "-S", "-c", "pass")), (WORK, ("-I", "-S", "-c", WORK))):
            bare = [f"{sys.base_prefix}/bin/python3", *program]
            calls: dict[str, Callable[[], object]] = {"subprocess": functools.partial(subprocess.run, bare, check=True)}
            for sandbox in (find_sandbox("none"), find_sandbox("auto")):
                calls[sandbox.name] = runner(sandbox, program, folder, tree)
            times: dict[str, list[float]] = {which: [] for which in calls}
            for _ in range(runs):
                for which, call in calls.items():
                    times[which].append(timed(call) * 1000)
            base = statistics.median(times["subprocess"])
            print(f"\n`{title}`, {runs} runs\n\n| how | median ms | 90 % ms | added ms |\n|---|---|---|---|")
            for which, values in times.items():
                middle = statistics.median(values)
                print(
                    f"| {which} | {middle:.1f} | {statistics.quantiles(values, n=10)[-1]:.1f} | {middle - base:+.1f} |"
                )


if __name__ == "__main__":
    main()
