"""How our readers and policies agree with others on the same evidence: the numbers of docs/explanation/parity.md.

    python -m benchmarks.parity [--logs ../shared/data/logs.jsonl.gz] [--generated 2000]
    python -m benchmarks.parity --run RUN --dataset FILE

The logs are JSON lines with ``log``, ``report``, ``FAIL_TO_PASS``, ``PASS_TO_PASS`` and ``log_parser``. With the
``swebench`` package installed (``pip install swebench==5.0.2``) it is measured beside ours. With ``--run`` and
``--dataset`` the package judges a run folder of ours instead, and both sets of verdicts are compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swelive_plugin.compare import compare, comparison_lines
from swelive_plugin.core.decide import score
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.policies import SWEBENCH, UPSTREAM
from swelive_plugin.core.policy import SWELIVE, Policy
from swelive_plugin.core.upstream import printed_lines
from swelive_plugin.core.verdict import Verdict
from swelive_plugin.readers import read_session
from swelive_plugin.readers.folder import session_files
from swelive_plugin.readers.text import session_from_lines
from swelive_plugin.sources.instances import load_instances

LOGS = Path(__file__).parents[2] / "shared" / "data" / "logs.jsonl.gz"
LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"

Lists = Mapping[str, tuple[frozenset[str], frozenset[str]]]  # list: (success, failure)


@dataclass(frozen=True)
class Record:
    """One recorded evaluation: its log, and what its harness said of it."""

    name: str
    instance: Instance
    log: str
    resolved: bool
    lists: Lists

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Ids that the record judges although the row does not list them: it was made from another version of it."""
        judged = {test for success, failure in self.lists.values() for test in success | failure}
        return tuple(sorted(judged - {*self.instance.fail_to_pass, *self.instance.pass_to_pass}))

    @property
    def judged_as_listed(self) -> Lists:
        """The record without the ids that its row does not list."""
        listed = dict(zip(LISTS, (self.instance.fail_to_pass, self.instance.pass_to_pass), strict=True))
        return {
            name: (success & set(listed[name]), failure & set(listed[name]))
            for name, (success, failure) in self.lists.items()
        }


def records(path: Path = LOGS) -> Iterator[Record]:
    """Yield the recorded evaluations of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            owner, _, rest = row["instance_id"].partition("__")
            instance = Instance(
                row["instance_id"],
                f"{owner}/{rest.rpartition('-')[0]}",
                "0" * 40,
                fail_to_pass=tuple(dict.fromkeys(row["FAIL_TO_PASS"])),
                pass_to_pass=tuple(dict.fromkeys(row["PASS_TO_PASS"])),
                row={"log_parser": row["log_parser"]},
            )
            report = row["report"]
            yield Record(
                f"{row['instance_id']} {row['run']}", instance, row["log"], report["resolved"], lists_of(report)
            )


def lists_of(report: Mapping[str, Any]) -> Lists:
    """Return success and failure of both lists as a SWE-bench report holds them."""
    status = report.get("tests_status") or {}
    empty: dict[str, list[str]] = {}
    return {
        name: (
            frozenset(status.get(name, empty).get("success", ())),
            frozenset(status.get(name, empty).get("failure", ())),
        )
        for name in LISTS
    }


def verdict_lists(verdict: Verdict) -> Lists:
    """Return success and failure of both lists as a verdict has them."""
    pairs = zip(LISTS, (verdict.fail_to_pass, verdict.pass_to_pass), strict=True)
    return {
        name: tuple(  # type: ignore[misc]  # two of them
            frozenset(test.id for test in tests if test.judgement == judgement) for judgement in ("pass", "fail")
        )
        for name, tests in pairs
    }


def judged(record: Record, policy: Policy) -> Verdict:
    """Return what our text reader and a policy say of a recorded log."""
    return score(record.instance, session_from_lines(record.log.split("\n")), policy=policy)


def peer_spec(instance: Instance) -> Any:
    """Return the part of a row that the peer's grading looks at."""
    return SimpleNamespace(
        instance_id=instance.instance_id,
        log_parser=instance.row.get("log_parser") or "parse_log_pytest",
        eval_type="pass_and_fail",
        FAIL_TO_PASS=list(instance.fail_to_pass),
        PASS_TO_PASS=list(instance.pass_to_pass),
    )


def peer_report(instance: Instance, log: Path) -> Mapping[str, Any]:
    """Return the ``swebench`` package's own report on a log."""
    from swebench.harness.grading import get_eval_report

    prediction = {"instance_id": instance.instance_id, "model_patch": "x"}
    report: Mapping[str, Any] = get_eval_report(peer_spec(instance), prediction, str(log), True)[instance.instance_id]
    return report


def peer_says(instance: Instance, text: str) -> tuple[bool, Lists]:
    """Return ``resolved`` and the lists of the ``swebench`` package for a log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "test_output.txt")
        log.write_text(text, encoding="utf-8")
        report = peer_report(instance, log)
    if "tests_status" not in report:  # the log was refused: everything counts as not passed
        nothing: frozenset[str] = frozenset()
        listed = (instance.fail_to_pass, instance.pass_to_pass)
        return report["resolved"], {name: (nothing, frozenset(ids)) for name, ids in zip(LISTS, listed, strict=True)}
    return report["resolved"], lists_of(report)


def we_say(instance: Instance, text: str, policy: Policy = SWEBENCH) -> tuple[bool, Lists]:
    """Return the same of ours, through a file and the reader that recognises it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "test_output.txt")
        log.write_text(text, encoding="utf-8")
        verdict = score(instance, read_session(log, kind="log"), policy=policy)
    return verdict.resolved, verdict_lists(verdict)


# generated logs

_PARAMETERS = ("", "[x]", "[a b]", "[a c]", "[/p/q]", "[a,")
_IDS = [f"t.py::test_{name}{parameters}" for name in "ab" for parameters in _PARAMETERS]
_WORDS = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")
_NOISE = (
    "PASSED",
    "PASSED [100%]",
    "SKIPPED [2] t.py:3: why",
    "ERROR: not found: t.py::test_a",
    "PASSEDt.py::test_a x",
    "\x1b[32mPASSED\x1b[0m t.py::\x1b[1mtest_b\x1b[0m",
    "t.py::test_a PASSED",
    "t.py::test_b FAILED",
    "noise",
    "  PASSED t.py::test_a",
    "=== short test summary info ===",
    "=== 1 failed in 0.1s ===",
)
PARSERS = (
    "parse_log_pytest",
    "parse_log_pytest_v2",
    "parse_log_pytest_options",
    "parse_log_matplotlib",
    "parse_log_seaborn",
)


def generated(seed: int) -> tuple[Instance, str]:
    """Return an instance and a log that holds anything that such logs hold, in any order."""
    chance = random.Random(seed)
    lines = []
    for _ in range(chance.randrange(12)):
        word, test_id = chance.choice(_WORDS), chance.choice(_IDS)
        tail = chance.choice(("", "", " - assert 0", " - x - y"))
        lines.append(chance.choice((f"{word} {test_id}{tail}", f"{word} {test_id}{tail}", chance.choice(_NOISE))))
    if chance.random() < 0.9:
        lines = [*chance.sample(lines, len(lines) // 4), START, *lines, END]
    if chance.random() < 0.3:
        lines.append(f">>>>> Test Exit Code: {chance.choice((0, 1, -9))}")
    if chance.random() < 0.05:
        lines.insert(chance.randrange(len(lines) + 1), ">>>>> Tests Timed Out")
    cut = [test_id.split()[0] for test_id in _IDS]
    listed = [*_IDS, *cut, *(test_id[:-1] for test_id in cut), "[100%]"]
    instance = Instance(
        "o__n-1",
        "o/n",
        "0" * 40,
        fail_to_pass=tuple(dict.fromkeys(chance.choices(listed, k=chance.randrange(1, 4)))),
        pass_to_pass=tuple(dict.fromkeys(chance.choices(listed, k=chance.randrange(6)))),
        row={"log_parser": chance.choice(PARSERS)},
    )
    return instance, "\n".join(lines) + "\n"


def has_markers(text: str) -> bool:
    """Return whether the harness's markers stand in a log: without them the peer refuses it, and we read it whole."""
    return START in text or END in text


# printing


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of the parity page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, default=LOGS)
    parser.add_argument("--generated", type=int, default=2000, help="how many generated logs the peer is given")
    parser.add_argument("--run", type=Path, help="a run folder of ours for the peer to judge")
    parser.add_argument("--dataset", help="the dataset that was graded there")
    options = parser.parse_args(arguments)
    if options.run:
        _judge_run(options.run, load_instances(options.dataset))
        return
    if options.logs.is_file():
        _recorded(options.logs)
    else:  # a clone has none
        print(f"no recorded logs: {options.logs} is not there, give a file with --logs")
    if _peer_is_here():
        _generated(options.generated)
    else:
        print("no generated logs: the swebench package is not installed")


def _recorded(logs: Path) -> None:
    """Print how our readers and policies, and the peer, agree with a file of recorded evaluations."""
    found = list(records(logs))
    print(f"recorded logs: {len(found)}, instances: {len({record.instance.instance_id for record in found})}\n")
    print("| read and judged by | same `resolved` | same lists |")
    print("|---|---:|---:|")
    for policy in (SWELIVE, *UPSTREAM):
        verdicts = [judged(record, policy) for record in found]
        _row(f"our text reader, policy `{policy.name}`", found, [(v.resolved, verdict_lists(v)) for v in verdicts])
    if _peer_is_here():
        _row("`swebench` 5.0.2, its own report", found, [peer_says(record.instance, record.log) for record in found])
        whole = [peer_says(record.instance, f"{START}\n{_unmarked(record.log)}\n{END}\n") for record in found]
        _row("`swebench` 5.0.2, the whole log between its markers", found, whole)
    _explain(found)


def _judge_run(run: Path, instances: Iterable[Instance]) -> None:
    """Print how the peer's verdicts on our own sessions compare with ours: it reads what pytest -rA would print."""
    with tempfile.TemporaryDirectory() as folder:
        rows = {instance.instance_id: instance for instance in instances}
        for instance_id, path in session_files(run, rows).items():
            session = read_session(path)
            log = Path(folder, instance_id, "test_output.txt")
            log.parent.mkdir()
            status = f">>>>> Test Exit Code: {session.exit_status}"
            log.write_text("\n".join([START, *printed_lines(session), END, status, ""]), encoding="utf-8")
            report = {instance_id: peer_report(rows[instance_id], log)}
            log.with_name("report.json").write_text(json.dumps(report), encoding="utf-8")
        print("\n".join(comparison_lines(compare(run, Path(folder)))))


def _row(name: str, found: Sequence[Record], said: Iterable[tuple[bool, Lists]]) -> None:
    pairs = list(zip(found, said, strict=True))
    answers = sum(record.resolved == resolved for record, (resolved, _) in pairs)
    lists = sum(record.judged_as_listed == ours for record, (_, ours) in pairs)
    print(f"| {name} | {answers} | {lists} |")


def _unmarked(log: str) -> str:
    return log.replace(START, "").replace(END, "")


def _explain(found: Sequence[Record]) -> None:
    print("\nids that a record judges and its row does not list:")
    for record in found:
        if record.unlisted:
            print(f"- {record.name}: {', '.join(record.unlisted)}")
    print("\nwhere policy `swelive` judges a test otherwise, by its rule:")
    rules: Counter[str] = Counter()
    logs: dict[str, set[str]] = {}
    for record in found:
        verdict = judged(record, SWELIVE)
        for name, tests in zip(LISTS, (verdict.fail_to_pass, verdict.pass_to_pass), strict=True):
            success, failure = record.judged_as_listed[name]
            for test in tests:
                theirs = "pass" if test.id in success else "fail" if test.id in failure else "left_out"
                if theirs != test.judgement:
                    key = f"{theirs} there, {test.judgement} here: `{test.rule}`"
                    rules[key] += 1
                    logs.setdefault(key, set()).add(record.name)
    for key, count in rules.most_common():
        print(f"- {key}: {count} tests in {len(logs[key])} logs")


def _generated(count: int) -> None:
    cases = [generated(seed) for seed in range(count)]
    marked = [(instance, text) for instance, text in cases if has_markers(text)]
    same = sum(peer_says(instance, text) == we_say(instance, text) for instance, text in marked)
    print(f"\ngenerated logs on which policy `swebench` and `swebench` 5.0.2 say the same: {same} of {len(marked)}")


def _peer_is_here() -> bool:
    try:
        import swebench.harness.grading  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
