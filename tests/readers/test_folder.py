"""Finding the evidence of many runs in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from swelive_plugin.core.verdict import Status, TestVerdict, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.readers.folder import runs_in, session_files
from swelive_plugin.reports.json_report import results_of, write_results, write_verdict

A, B, DOTTED = "o__n-1", "o__n-10", "o__n.py-2"


def files(root: Path, *names: str) -> dict[str, str]:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    found = session_files(root, [A, B, DOTTED])
    return {instance_id: str(path.relative_to(root)) for instance_id, path in found.items()}


def test_a_run_folder_gives_its_events(tmp_path: Path) -> None:
    names = [
        f"{A}/{name}" for name in ("events.jsonl", "verdict.json", "test_output.txt", "timings.json", "patch.diff")
    ]
    assert files(tmp_path, *names, "results.json") == {A: f"{A}/events.jsonl"}


def test_report_folders_of_other_harnesses_give_their_logs(tmp_path: Path) -> None:
    names = [f"run/model/{A}/{name}" for name in ("report.json", "run_instance.log", "test_output.txt", "eval.sh")]
    assert files(tmp_path, *names, f"live/{B}/post_patch_log.txt", f"live/{B}/status.json") == {
        A: f"run/model/{A}/test_output.txt",
        B: f"live/{B}/post_patch_log.txt",
    }


def test_files_called_after_their_instance(tmp_path: Path) -> None:
    assert files(tmp_path, f"{A}.log.gz", f"{A}.junit.xml", f"{B}.txt", f"{DOTTED}.log", "other.log") == {
        A: f"{A}.junit.xml",
        B: f"{B}.txt",
        DOTTED: f"{DOTTED}.log",
    }


def test_of_equal_evidence_the_nearest_counts(tmp_path: Path) -> None:
    assert files(tmp_path, f"{A}/attempt-2/events.jsonl", f"{A}/events.jsonl") == {A: f"{A}/events.jsonl"}


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        session_files(tmp_path / "nowhere", [A])


def judged(attempt: int, status: Status) -> Verdict:
    return Verdict(A, status, attempt=attempt, fail_to_pass=(TestVerdict("t.py::f", "pass", "f2p-passed"),))


def run_folder(path: Path, *verdicts: Verdict) -> Path:
    for verdict in verdicts:
        place = path / A if verdict.attempt == 1 else path / A / f"attempt-{verdict.attempt}"
        write_verdict(place / "verdict.json", verdict)
        if verdict.fail_to_pass:
            (place / "events.jsonl").write_text("x")
    return path


def test_an_attempt_without_a_session_keeps_its_place(tmp_path: Path) -> None:
    """Defect: an attempt whose patch did not apply vanished, and the next one took its number."""
    first, second = Verdict(A, Status.PATCH_FAILED), judged(2, Status.RESOLVED)
    runs = runs_in(run_folder(tmp_path, first, second), [A, B])
    assert [(run.attempt, run.stands, run.evidence and run.evidence.parent.name) for run in runs] == [
        (1, True, None),
        (2, False, "attempt-2"),
    ]
    assert [run.kept for run in runs] == [first, second]


def test_attempts_that_are_not_in_the_results_are_of_an_earlier_run(tmp_path: Path) -> None:
    """Defect: a folder that a run with fewer attempts was graded into was scored with the old attempts as well."""
    verdicts = [judged(1, Status.RESOLVED), judged(2, Status.UNRESOLVED)]
    run_folder(tmp_path, *verdicts)
    assert [run.attempt for run in runs_in(tmp_path, [A])] == [1, 2]  # no results: the run was killed
    write_results(tmp_path / "results.json", results_of(verdicts[:1]))
    assert [run.attempt for run in runs_in(tmp_path, [A])] == [1]
    write_results(tmp_path / "results.json", results_of([Verdict(B, Status.RESOLVED)]))
    assert runs_in(tmp_path, [A]) == []
    (tmp_path / "results.json").write_text('{"success_ids": []}')  # another harness's
    assert [run.attempt for run in runs_in(tmp_path, [A])] == [1, 2]


def test_a_numbered_first_attempt_is_found(tmp_path: Path) -> None:
    write_verdict(tmp_path / A / "attempt-1" / "verdict.json", Verdict(A, Status.EMPTY_PATCH))
    assert [(run.attempt, run.stands) for run in runs_in(tmp_path, [A])] == [(1, True)]
