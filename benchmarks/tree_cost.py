"""What a graded tree costs: a farm of hard links to a prepared tree, and a prediction in it.

    python benchmarks/tree_cost.py [--files 8000] [--runs 10]

Prints the median and the worst of each step, in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from swelive_plugin.workspace.checkout import link_tree, remove_tree
from swelive_plugin.workspace.graded import prepare_graded_tree

PREDICTION = """\
--- a/pkg0/mod0.py
+++ b/pkg0/mod0.py
@@ -1 +1 @@
-x = 1
+x = 2
--- a/tests/conftest.py
+++ b/tests/conftest.py
@@ -1 +1 @@
-y = 1
+y = 2
"""
TEST_PATCH = "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-z = 1\n+z = 2\n"


def main() -> None:
    """Make the tree, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=8000)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    times: dict[str, list[float]] = {"link": [], "prepare": [], "remove": []}
    with tempfile.TemporaryDirectory() as name:
        base, tree = Path(name) / "base", Path(name) / "tree"
        for number in range(options.files):
            path = base / f"pkg{number % 200}" / f"mod{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x = 1\n")
        (base / "tests").mkdir()
        (base / "tests" / "conftest.py").write_text("y = 1\n")
        (base / "tests" / "test_a.py").write_text("z = 1\n")
        for _ in range(options.runs):
            marks = [time.perf_counter()]
            how = link_tree(base, tree)
            marks.append(time.perf_counter())
            prepare_graded_tree(tree, base=base, prediction=PREDICTION, test_patch=TEST_PATCH)
            marks.append(time.perf_counter())
            remove_tree(tree)
            marks.append(time.perf_counter())
            for step, began, ended in zip(times, marks[:-1], marks[1:], strict=True):
                times[step].append((ended - began) * 1000)
    print(f"{options.files} files, {options.runs} runs, {how}")
    for step, values in times.items():
        print(f"{step:8} median {statistics.median(values):6.0f} ms   worst {max(values):6.0f} ms")


if __name__ == "__main__":
    main()
