"""Face 2: the command line, called in process and as a program."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from swelive_plugin.cli import main
from tests.host import Project


def swelive(*args: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def grade(project: Project, predictions: object, out: Path, *more: object) -> int:
    fixed = ["-d", project.dataset, "--repo-url", project.repo_url, "-p", predictions, "-o", out]
    return swelive("grade", *fixed, *more)


def test_grade_gold_writes_every_report(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert grade(project, "gold", out, "--fail-unresolved") == 0
    assert "resolved 1 of 1" in capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    assert (results["resolved_ids"], results["counts"]["resolved"]) == (["o__proj-1"], 1)
    suite = ET.fromstring((out / "results.xml").read_text()).find("testsuite")
    assert suite is not None
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("o__proj-1", "2", "0")
    names = {path.name for path in (out / "o__proj-1").iterdir()}
    assert names == {"verdict.json", "events.jsonl", "test_output.txt", "patch.diff", "timings.json"}


def test_grade_exits_with_0_when_the_run_finished_and_1_only_if_asked(project: Project, tmp_path: Path) -> None:
    assert grade(project, "empty", tmp_path / "a") == 0
    assert grade(project, "empty", tmp_path / "b", "--fail-unresolved") == 1


def test_grade_prints_json(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grade(project, "empty", tmp_path / "a", "--json") == 0
    assert json.loads(capsys.readouterr().out)["empty_patch_ids"] == ["o__proj-1"]


def test_unknown_predictions_are_listed_and_the_others_graded(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "preds.json"
    given.write_text(json.dumps({"o__proj-1": {"model_patch": ""}, "o__proj-2": {"model_patch": "x"}}))
    assert grade(project, given, tmp_path / "run") == 0
    captured = capsys.readouterr()
    assert "o__proj-2" in captured.err
    assert json.loads((tmp_path / "run" / "results.json").read_text())["submitted_ids"] == ["o__proj-1"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["grade", "-d", "ROWS", "-p", "gold", "-i", "o__proj-2"], ["o__proj-2", "did you mean o__proj-1"]),
        (["grade", "-d", "nowhere.jsonl", "-p", "gold"], ["nowhere.jsonl"]),
        (["grade", "-d", "BROKEN", "-p", "gold"], ["broken.jsonl:2"]),
        (["grade", "-d", "ROWS", "-p", "nowhere.json"], ["nowhere.json"]),
        (["grade", "-d", "ROWS", "-p", "gold", "--policy", "swebnech"], ["swebnech", "did you mean 'swebench'"]),
        (["grade", "-d", "ROWS", "-p", "gold", "--repo-url", "x/{nme}"], ["{nme}"]),
        (["grade", "-d", "ROWS", "-p", "gold", "--start-month", "2025-13"], ["2025-13"]),
        (["grade", "-d", "ROWS", "-p", "gold", "--start-month", "2025-07"], ["no prediction is left to grade"]),
        (["grade", "-d", "ROWS"], ["-p"]),
        (["grde"], ["Did you mean 'grade'"]),
        (["score", "-d", "ROWS", "-i", "o__proj-1"], ["PATH"]),
        (["score", "-d", "ROWS", "-i", "o__proj-1", "nowhere"], ["nowhere is not there"]),
        (["score", "-d", "ROWS", "-i", "o__proj-1", "BROKEN", "--format", "xml"], ["xml", "there are: events"]),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], told: list[str]
) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(project.dataset.read_text() + '{"instance_id": \n')
    known = {"ROWS": str(project.dataset), "BROKEN": str(broken)}
    out = ["-o", str(tmp_path / "run")] if args[0] == "grade" else []
    assert swelive(*[known.get(arg, arg) for arg in args], *out) == 2
    text = capsys.readouterr().err
    assert all(part in text for part in told), text
    assert "Traceback" not in text


def test_rows_without_a_date_are_kept_out_by_a_month_filter_and_counted(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = json.loads(project.dataset.read_text())
    undated = {**row, "instance_id": "o__proj-9", "created_at": None}
    project.dataset.write_text(json.dumps(row) + "\n" + json.dumps(undated) + "\n")
    assert grade(project, "empty", tmp_path / "run", "--start-month", "2025-01") == 0
    assert "1 instances have no created_at" in capsys.readouterr().err


def test_score_judges_the_events_of_a_finished_grade(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grade(project, "gold", tmp_path / "run")
    events = tmp_path / "run" / "o__proj-1" / "events.jsonl"
    capsys.readouterr()
    assert swelive("score", "-d", project.dataset, "-i", "o__proj-1", events) == 0
    assert capsys.readouterr().out.startswith("RESOLVED  o__proj-1")
    log = tmp_path / "run" / "o__proj-1" / "test_output.txt"
    log.write_text("=== short test summary info ===\nFAILED tests/test_calc.py::test_add[one and two-3] - assert 0\n")
    assert swelive("score", "-d", project.dataset, "-i", "o__proj-1", log) == 1


def test_a_log_of_another_run_gives_no_verdict(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    log.write_text("=== short test summary info ===\nPASSED other/test_x.py::test_x\n=== 1 passed in 0.01s ===\n")
    assert swelive("score", "-d", project.dataset, "-i", "o__proj-1", log) == 3
    assert "is it the log of another instance?" in capsys.readouterr().out


def test_help_teaches_and_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert swelive("--help") == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in ("demo", "grade", "score", "doctor"))
    assert "0 resolved (or the run finished), 1 not resolved, 2 usage, 3 no verdict" in " ".join(text.split())
    assert swelive("grade", "--help") == 0
    assert "swelive grade -d tasks.jsonl -p gold" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert swelive("--version") == 0
    assert capsys.readouterr().out.startswith("swelive, version ")


def test_the_overview_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom swelive_plugin.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print([m for m in ('datasets', 'rich', 'msgspec', 'filelock', 'pytest') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
