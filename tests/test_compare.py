"""Comparing verdict sets: ours, SWE-bench's and SWE-bench-Live's, in each form that they are kept in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.compare import Side, compare, comparison_as_dict, comparison_lines, read_side, rescored, side_of
from swelive_plugin.core.decide import score
from swelive_plugin.core.policies import SWEBENCH
from swelive_plugin.core.policy import SWELIVE
from swelive_plugin.core.verdict import Finding, Integrity, Reason, Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.reports.json_report import results_of, write_results, write_verdict

from .core.build import instance, session

ID = "o__n-1"
F, P = "t.py::f", "t.py::p"


def ours(f: str = "passed", p: str = "passed", **more: str) -> Verdict:
    return score(instance([F], [P]), session({F: f, P: p, **more}))


def run_folder(path: Path, *verdicts: Verdict) -> Path:
    for verdict in verdicts:
        first = path / verdict.instance_id
        folder = first if verdict.attempt == 1 else first / f"attempt-{verdict.attempt}"
        write_verdict(folder / "verdict.json", verdict)
    write_results(path / "results.json", results_of(verdicts))
    return path


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def swebench_report(f2p: dict[str, list[str]], p2p: dict[str, list[str]], *, resolved: bool) -> dict[str, Any]:
    lists = {"FAIL_TO_PASS": f2p, "PASS_TO_PASS": p2p}
    told = {"patch_exists": True, "patch_successfully_applied": True, "resolved": resolved, "tests_status": lists}
    return {ID: told}


def split(success: list[str], failure: list[str]) -> dict[str, list[str]]:
    return {"success": success, "failure": failure}


def test_two_runs_of_our_own_that_agree(tmp_path: Path) -> None:
    a, b = run_folder(tmp_path / "a", ours()), run_folder(tmp_path / "b", ours())
    found = compare(a, b)
    assert found.table == {("resolved", "resolved"): 1}
    assert (found.compared, found.agreed) == (1, 1)
    assert found.disagreements == found.quiet == ()
    assert found.a.harness == "swelive"


def test_a_disagreement_names_test_outcomes_and_rule(tmp_path: Path) -> None:
    a = run_folder(tmp_path / "a", ours(p="xpassed"))
    log = "=== short test summary info ===\nPASSED t.py::f\nXPASS t.py::p\n=== 1 passed, 1 xpassed in 0.1s ===\n"
    folder = tmp_path / "logs" / "run" / "model" / ID
    put(folder / "report.json", swebench_report(split([F], []), split([], [P]), resolved=False))
    put(folder / "test_output.txt", log)
    found = compare(a, tmp_path / "logs")
    assert found.table == {("resolved", "unresolved"): 1}
    (only,) = found.disagreements
    assert (only.instance_id, only.listed_in, only.test) == (ID, "PASS_TO_PASS", P)
    assert (only.a, only.b) == ("pass (xpassed; p2p-xpassed)", "fail (missing; missing)")
    assert only.rule == "p2p-xpassed | missing"
    assert found.b.harness == "swebench"


def test_without_its_log_a_report_tells_the_judgement_alone(tmp_path: Path) -> None:
    report = put(tmp_path / "report.json", swebench_report(split([F], []), split([], [P]), resolved=False))
    found = compare(side_of([ours(p="skipped")], "ours"), report)
    (only,) = found.disagreements
    assert (only.a, only.b, only.rule) == ("pass (skipped; p2p-skipped)", "fail", "p2p-skipped")


def test_tests_that_part_without_parting_the_answer_are_quiet(tmp_path: Path) -> None:
    report = put(tmp_path / "report.json", swebench_report(split([], [F]), split([P], []), resolved=False))
    found = compare(side_of([ours(f="failed", p="failed")], "ours"), report)
    assert found.agreed == 1
    assert [one.test for one in found.quiet] == [P]
    assert found.disagreements == ()


def test_a_status_that_no_test_explains_is_told_with_its_reason(tmp_path: Path) -> None:
    tampered = Verdict(ID, Status.TAMPERED, reasons=(Reason("forged_report", "lies"),))
    report = put(tmp_path / "report.json", swebench_report(split([F], []), split([P], []), resolved=True))
    (only,) = compare(side_of([tampered], "ours"), report).disagreements
    assert (only.test, only.a, only.b, only.rule) == ("", "tampered", "resolved", "forged_report")


def test_live_reports_keep_neither_skipped_nor_missing_tests(tmp_path: Path) -> None:
    live = {"instance_id": ID, "resolved": True, "FAIL_TO_PASS": split([F], []), "PASS_TO_PASS": split([], [])}
    put(tmp_path / "live" / ID / "report.json", live)
    put(tmp_path / "live" / "results.json", {"success_ids": [ID], "failure_ids": [], "error_ids": []})
    found = compare(side_of([ours(p="failed")], "ours"), tmp_path / "live")
    assert found.b.harness == "swebench-live"
    (only,) = found.disagreements
    assert (only.test, only.a, only.b) == (P, "fail (failed; p2p-failed)", "in neither list")


@pytest.mark.parametrize(
    ("document", "harness"),
    [
        ({"resolved_ids": ["a"], "unresolved_ids": ["b"], "error_ids": ["c"], "empty_patch_ids": ["d"]}, "swebench"),
        ({"success_ids": ["a"], "failure_ids": ["b"], "error_ids": ["c"], "empty_patch_ids": ["d"]}, "swebench-live"),
    ],
)
def test_run_reports_hold_answers_alone(tmp_path: Path, document: dict[str, Any], harness: str) -> None:
    side = read_side(put(tmp_path / "model.run.json", document))
    assert side.harness == harness
    answers = {instance_id: judged.answer for instance_id, judged in side.judged.items()}
    assert answers == {"a": "resolved", "b": "unresolved", "c": "no verdict", "d": "unresolved"}
    assert read_side(tmp_path).judged == side.judged  # found in its folder too


def test_our_results_file_alone(tmp_path: Path) -> None:
    run_folder(tmp_path, ours(), Verdict("o__n-2", Status.ENV_ERROR))
    side = read_side(tmp_path / "results.json")
    assert {key: judged.answer for key, judged in side.judged.items()} == {ID: "resolved", "o__n-2": "no verdict"}
    assert read_side(tmp_path / ID / "verdict.json").judged[ID].answer == "resolved"


def test_attempts_are_compared_one_by_one(tmp_path: Path) -> None:
    second = Verdict(ID, Status.UNRESOLVED, attempt=2)
    side = side_of([second, ours()], "x")
    assert {key: judged.answer for key, judged in side.judged.items()} == {
        ID: "resolved",
        f"{ID} (attempt 2)": "unresolved",
    }
    write_verdict(tmp_path / ID / "verdict.json", ours())
    write_verdict(tmp_path / ID / "attempt-2" / "verdict.json", second)
    assert compare(tmp_path, side).table == {("resolved", "resolved"): 1, ("unresolved", "unresolved"): 1}
    write_results(tmp_path / "results.json", results_of([ours(), second]))
    assert read_side(tmp_path / "results.json").judged.keys() == side.judged.keys()


def test_instances_of_one_side_alone_are_named() -> None:
    a, b = side_of([Verdict("o__n-2", Status.RESOLVED)], "a"), side_of([ours()], "b")
    found = compare(a, b)
    assert (found.compared, found.only_a, found.only_b) == (0, ("o__n-2",), (ID,))
    assert "agreed on 0 of 0" in comparison_lines(found)


def test_lines_show_the_table_and_the_rule() -> None:
    found = compare(side_of([ours()], "a"), side_of([ours(f="failed")], "b"))
    lines = comparison_lines(found)
    assert "agreed on 0 of 1 (0.0%)" in lines
    assert ["resolved", "0", "1", "0"] in [line.split() for line in lines]
    assert "      rule: f2p-passed | f2p-failed" in lines
    assert len(comparison_lines(compare(found.a, found.b), limit=0)) < len(lines)


def test_our_evidence_under_another_graders_policy(tmp_path: Path) -> None:
    events = [
        {"e": "session", "v": 1, "pytest": "9", "rootdir": "/testbed"},
        *({"e": "phase", "id": F, "when": when, "outcome": "passed"} for when in ("setup", "call", "teardown")),
        {"e": "phase", "id": P, "when": "setup", "outcome": "passed"},
        {"e": "phase", "id": P, "when": "call", "outcome": "passed", "wasxfail": ""},
        {"e": "phase", "id": P, "when": "teardown", "outcome": "passed"},
        {"e": "end", "exitstatus": 0},
    ]
    for folder in (tmp_path / ID, tmp_path / ID / "attempt-2"):
        put(folder / "events.jsonl", "".join(json.dumps(event) + "\n" for event in events))
    write_verdict(tmp_path / ID / "verdict.json", ours(p="xpassed"))
    row = instance([F], [P])
    found = compare(tmp_path, rescored(tmp_path, [row], SWEBENCH))
    assert found.table == {("resolved", "unresolved"): 1}
    assert found.b.harness == "policy swebench"
    assert found.disagreements[0].test == P
    assert found.only_b == (f"{ID} (attempt 2)",)
    with pytest.raises(UsageError, match="no session of these instances"):
        rescored(tmp_path, [], SWEBENCH)


def phases(test_id: str) -> list[dict[str, Any]]:
    return [{"e": "phase", "id": test_id, "when": when, "outcome": "passed"} for when in ("setup", "call", "teardown")]


def recorded(path: Path, *events: dict[str, Any]) -> None:
    first = {"e": "session", "v": 1, "pytest": "9", "rootdir": "/testbed"}
    put(path / "events.jsonl", "".join(json.dumps(event) + "\n" for event in (first, *events)))


def test_attempts_that_ran_no_test_keep_their_verdict(tmp_path: Path) -> None:
    """Defect: they vanished from one side, and one that timed out was crashed: the rate rose."""
    stopped = {F: "timed_out"}
    verdicts = [
        Verdict(ID, Status.PATCH_FAILED, reasons=(Reason("patch_error", "does not apply"),)),
        replace(score(instance([F], [P]), session(stopped, timed_out=True, ended=False)), attempt=2),
        Verdict(ID, Status.EMPTY_PATCH, attempt=3),
        replace(ours(), attempt=4),
    ]
    run = run_folder(tmp_path, *verdicts)
    recorded(run / ID / "attempt-2", {"e": "start", "id": F})
    recorded(run / ID / "attempt-4", *phases(F), *phases(P), {"e": "end", "exitstatus": 0})
    side = rescored(run, [instance([F], [P])], SWELIVE)
    assert [(one.instance_id, one.status, one.reason) for one in side.judged.values()] == [
        (ID, "patch_failed", "patch_error"),
        (f"{ID} (attempt 2)", "timed_out", "timed_out"),
        (f"{ID} (attempt 3)", "empty_patch", ""),
        (f"{ID} (attempt 4)", "resolved", ""),
    ]
    assert side.judged[f"{ID} (attempt 2)"].tests["FAIL_TO_PASS", F].outcome == "timed_out"
    assert compare(run, side).agreed == 4


def test_what_the_integrity_checks_found_is_not_lost(tmp_path: Path) -> None:
    finding = Finding("shadow", "tampered", "takes the place of another module")
    verdict = replace(ours(), status=Status.TAMPERED, integrity=Integrity(findings=(finding,)))
    run = run_folder(tmp_path, verdict)
    recorded(run / ID, *phases(F), *phases(P), {"e": "end", "exitstatus": 0})
    assert rescored(run, [instance([F], [P])], SWELIVE).judged[ID].status == "tampered"
    assert rescored(run, [instance([F], [P])], SWEBENCH).judged[ID].status == "resolved"  # it looks at none


def test_attempts_of_an_earlier_run_are_not_compared(tmp_path: Path) -> None:
    """Defect: attempts that results.json does not have were read from disk."""
    run = run_folder(tmp_path, ours(), replace(ours(), attempt=2))
    write_results(run / "results.json", results_of([ours()]))
    assert read_side(run).judged.keys() == {ID}
    recorded(run / ID, *phases(F), *phases(P), {"e": "end", "exitstatus": 0})
    recorded(run / ID / "attempt-2", *phases(F), {"e": "end", "exitstatus": 0})
    assert rescored(run, [instance([F], [P])], SWELIVE).judged.keys() == {ID}


def test_tests_of_files_that_were_not_run_come_with_a_note(tmp_path: Path) -> None:
    """Defect: they were called missing, without a word that nobody had run them."""
    other = "u.py::q"
    row = instance([F], [other])
    run = run_folder(tmp_path, score(row, session({F: "passed"})))
    recorded(run / ID, *phases(F), {"e": "end", "exitstatus": 0})
    told = "this run ran the FAIL_TO_PASS files only; policy swebench judges all listed: run again with --scope all"
    found = compare(run, rescored(run, [row], SWEBENCH))
    assert f"note: {told}" in comparison_lines(found)
    assert comparison_as_dict(found)["notes"] == [told]
    assert rescored(run, [row], SWELIVE).notes == ()
    assert rescored(run, [instance([F], [P])], SWEBENCH).notes == ()  # all listed tests are in the files that ran


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"a": 1}', '"x"', "[" * 100_000])
def test_a_file_without_verdicts_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match=r"x\.json"):
        read_side(put(tmp_path / "x.json", content))


def test_a_folder_without_verdicts_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "x" / "report.json", {"coverage": 1})
    put(tmp_path / "y.json", [1])
    with pytest.raises(UsageError, match="holds no verdicts"):
        read_side(tmp_path)
    with pytest.raises(UsageError, match="is not there"):
        read_side(tmp_path / "nowhere")


def test_a_side_can_be_made_by_hand() -> None:
    side = Side("mine", "by hand", {})
    assert compare(side, side).compared == 0
