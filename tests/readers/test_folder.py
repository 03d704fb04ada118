"""Finding the evidence of many runs in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from swelive_plugin.errors import UsageError
from swelive_plugin.readers.folder import session_files

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
