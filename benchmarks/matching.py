"""How long it takes to score recorded ids against reported ones, a fifth of them cut, beside the peer.

    python -m benchmarks.matching [--sizes 12500 25000 50000 100000]

Printed is processor time, which a busy machine does not stretch. With the ``swebench`` package installed its grading is
timed on the same ids. It scans all reported ids for each recorded one that has an unclosed bracket, so it is only given
the sizes up to ``--peer-limit``.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

from swelive_plugin.core.decide import score
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.core.testid import cut_id
from swelive_plugin.core.verdict import Status


def made(count: int) -> tuple[Instance, Session]:
    """Return an instance that lists ``count`` ids, a fifth of them cut, and a session that reports all of them."""
    reported = [
        f"tests/test_{number % 97}.py::TestThing::test_case_{number}"
        + (f"[value {number} - x]" if number % 5 == 0 else "")
        for number in range(count)
    ]
    recorded = [cut_id(test_id) for test_id in reported]
    random.Random(count).shuffle(reported)
    tests = {test_id: TestRecord(test_id, Outcome.PASSED, body_ran=True) for test_id in reported}
    half = count // 2
    row = Instance("o__n-1", "o/n", "0" * 40, fail_to_pass=tuple(recorded[:half]), pass_to_pass=tuple(recorded[half:]))
    return row, Session(tests=tests)


def ours(instance: Instance, session: Session) -> float:
    """Return the seconds of one scoring."""
    began = time.process_time()
    verdict = score(instance, session, scope="all")
    seconds = time.process_time() - began
    assert verdict.status is Status.RESOLVED
    return seconds


def peers(instance: Instance, session: Session) -> float:
    """Return the seconds that the peer's report takes on the same ids, which it is given whole."""
    from swebench.harness.grading import get_eval_tests_report

    statuses = dict.fromkeys(session.tests, "PASSED")
    listed = {"FAIL_TO_PASS": list(instance.fail_to_pass), "PASS_TO_PASS": list(instance.pass_to_pass)}
    began = time.process_time()
    get_eval_tests_report(statuses, listed)
    return time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table: ids, seconds of ours, microseconds an id, seconds of the peer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[12_500, 25_000, 50_000, 100_000])
    parser.add_argument("--peer-limit", type=int, default=12_500)
    parser.add_argument("--runs", type=int, default=3, help="the best of so many is printed")
    options = parser.parse_args(arguments)
    print("| recorded = reported ids | ours, s | µs an id | `swebench` 5.0.2, s |")
    print("|---:|---:|---:|---:|")
    for size in options.sizes:
        instance, session = made(size)
        seconds = min(ours(instance, session) for _ in range(options.runs))
        try:
            beside = f"{peers(instance, session):.2f}" if size <= options.peer_limit else "not run"
        except ImportError:
            beside = "not installed"
        print(f"| {size:,} | {seconds:.2f} | {seconds / size * 1e6:.1f} | {beside} |")


if __name__ == "__main__":
    main()
