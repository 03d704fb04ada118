"""Prints what the probe costs on trivial tests, beside other ways to get at results.

    python benchmarks/probe_cost.py [--tests 5000] [--rounds 7] [--python PYTHON]

``probe`` is the recorder alone (with signed records), then each layer beside it, and ``probe, all layers`` what the
driver runs: guard (with the witness) and canaries. Each round runs plain pytest and every recorder once, interleaved,
so that a slow minute hits all alike. The cost is the median over rounds of (recorder / plain of the same round - 1),
and the median of the difference in seconds. The last lines tell what each layer adds to the recorder: medians of the
differences to it in the same round. Recorders that are not installed are left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from swelive_plugin.grading.launch import Channel, Launch, copy_probe, launch_argv, write_config

TESTS_PER_FILE = 500


def write_tests(folder: Path, count: int) -> None:
    """Write ``count`` trivial tests, a few hundred in a file."""
    for start in range(0, count, TESTS_PER_FILE):
        tests = range(start, min(start + TESTS_PER_FILE, count))
        text = "".join(f"def test_{n}():\n    assert {n} >= 0\n\n\n" for n in tests)
        (folder / f"test_{start:05}.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def run(argv: list[str], tree: Path, pass_fds: tuple[int, ...] = ()) -> float:
    """Return the seconds of CPU (user and system) that one run takes: less noisy than the clock on a busy machine."""
    before = os.times()
    started = time.perf_counter()
    with (tree.parent / "output.txt").open("wb") as output:
        subprocess.run(argv, cwd=tree, pass_fds=pass_fds, stdout=output, stderr=output, check=True)
    elapsed = time.perf_counter() - started
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return used if CPU else elapsed


CPU = True


LAYERS = {  # (guard, canaries)
    "probe": (False, False),
    "probe, guard": (True, False),
    "probe, canaries": (False, True),
    "probe, all layers": (True, True),
}


def run_probe(python: str, tree: Path, common: list[str], layers: tuple[bool, bool]) -> float:
    """Return the seconds of one probed run."""
    inside = tree.parent / "inside"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with Channel(tree.parent / "events.jsonl") as channel:
        launch = Launch(channel.write_fd, str(tree), (site,), tuple(common), guard=layers[0], canaries=layers[1])
        argv = launch_argv(python, (3, 11), str(copy_probe(inside)), str(write_config(launch, inside)))
        return run(list(argv), tree, (channel.write_fd,))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="", help="words of the names to measure, beside plain pytest")
    parser.add_argument("--wall", action="store_true", help="measure the clock instead of CPU seconds")
    options = parser.parse_args()
    globals()["CPU"] = not options.wall
    common = ["-q", "-p", "no:cacheprovider"]
    plain = [options.python, "-m", "pytest", *common]
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        tree.mkdir()
        write_tests(tree, options.tests)
        ways: dict[str, list[str] | None] = {"plain pytest": plain, **dict.fromkeys(LAYERS)}
        ways["JUnit XML"] = [*plain, f"--junitxml={temporary}/junit.xml"]
        ways["-rA"] = [*plain, "-rA"]
        if find_spec("pytest_reportlog"):
            ways["pytest-reportlog"] = [*plain, f"--report-log={temporary}/log.jsonl"]
        if find_spec("pytest_jsonreport"):
            ways["pytest-json-report"] = [*plain, "--json-report", f"--json-report-file={temporary}/report.json"]
        wanted = [*options.only.split(","), "plain"]
        ways = {name: argv for name, argv in ways.items() if any(word in name for word in wanted)}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        run(plain, tree)  # warms the caches
        for _ in range(options.rounds):
            for name, argv in ways.items():
                if argv:
                    seconds[name].append(run(argv, tree))
                else:
                    seconds[name].append(run_probe(options.python, tree, common, LAYERS[name]))
        what = "s" if options.wall else "CPU s"
        print(f"{options.tests} trivial tests, {options.rounds} rounds, medians")
        plain_seconds = seconds["plain pytest"]
        print(f"{'':22}{what:>10}{'cost':>10}{what:>10}")
        for name, values in seconds.items():
            ratios = [value / base - 1 for value, base in zip(values, plain_seconds, strict=True)]
            more = _more(values, plain_seconds)
            print(f"{name:22}{statistics.median(values):10.2f}{statistics.median(ratios):10.1%}{more:10.3f}")
        for name in LAYERS:
            if name != "probe" and name in seconds and "probe" in seconds:
                more = _more(seconds[name], seconds["probe"])
                share = more / statistics.median(plain_seconds)
                print(f"{'  ' + name.removeprefix('probe, ') + ' alone':22}{'':10}{share:10.1%}{more:10.3f}")


def _more(values: list[float], than: list[float]) -> float:
    return statistics.median(value - base for value, base in zip(values, than, strict=True))


if __name__ == "__main__":
    main()
