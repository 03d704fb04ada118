"""What a newcomer ran into: wrong uses that were taken for right ones, and lines that left out what matters."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import pytest

from swelive_plugin.cli.running import exit_code_of_run
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.environments.store import Store
from swelive_plugin.mining import mine
from tests.cli.test_cli import grade, swelive
from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, make_project


def change_row(project: Project, **values: object) -> None:
    row = json.loads(project.dataset.read_text())
    project.dataset.write_text(json.dumps({**row, **values}) + "\n")


def test_resumed_run_says_how_many_it_kept(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade(project, "empty", tmp_path / "run") == 0
    assert "kept" not in capsys.readouterr().err
    assert grade(project, "empty", tmp_path / "run") == 0
    assert "1 of 1 were graded before and are kept" in capsys.readouterr().err


def test_gold_of_a_row_without_one_is_no_empty_prediction(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was judged empty_patch with reward 0, as if somebody had submitted nothing."""
    change_row(project, patch="")
    grade(project, "gold", tmp_path / "run")
    verdict = json.loads((tmp_path / "run" / "o__proj-1" / "verdict.json").read_text())
    assert (verdict["status"], verdict["reward"]) == ("invalid_instance", None)
    assert verdict["reasons"][0]["message"].startswith("o__proj-1 has no gold patch")
    assert "has no gold patch" in capsys.readouterr().err


def test_empty_patch_of_a_model_stays_an_empty_patch(project: Project, tmp_path: Path) -> None:
    change_row(project, patch="")
    grade(project, "empty", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "o__proj-1" / "verdict.json").read_text())["status"] == "empty_patch"


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("date", ["nonsense", "2025-13-45", "20250101", "2025", "", "tuesday nonsense", "2025-02-30"])
def test_mine_refuses_what_is_no_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, date: str
) -> None:
    """Git takes any text for this very moment, and found nothing."""
    assert swelive("mine", tmp_path, option, date, "-o", tmp_path / "rows.jsonl") == 2
    told = capsys.readouterr().err
    assert f"{option} {date!r} is no date" in told
    assert "2025-01-31" in told


@pytest.mark.parametrize(
    "date", ["2020-01-31", "2020-01-31T10:00:00Z", "2020-01-31 10:00 +0200", "20 years ago", "@1000000000", "jan 2020"]
)
def test_mine_takes_dates_as_git_does(tmp_path: Path, date: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "one"], cwd=tmp_path, check=True)
    assert mine(tmp_path, since=date).commits == 1


@pytest.mark.parametrize(
    "args",
    [
        ["grade", "-d", "rows", "-p", "gold", "-o", ""],
        ["validate", "-d", "rows", "-o", ""],
        ["gen", "-d", "rows", "-o", ""],
        ["run", "tier", "--agent", "gold", "-o", ""],
        ["mine", ".", "-o", ""],
        ["demo", "-o", ""],
        ["env", "list", "--cache", ""],
    ],
)
def test_empty_path_is_refused(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    """It meant the current folder, which then was full of reports."""
    assert swelive(*args) == 2
    assert "the name is empty" in capsys.readouterr().err


def test_reason_is_told_whole(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was cut at 120 characters, in a log file, too."""
    change_row(project, test_patch="")
    grade(project, "gold", tmp_path / "run")
    verdict = json.loads((tmp_path / "run" / "o__proj-1" / "verdict.json").read_text())
    assert verdict["reasons"][0]["message"] in capsys.readouterr().err


def test_tier_without_a_task_exits_with_1(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_row(project, FAIL_TO_PASS=[])
    assert swelive("gen", "-d", project.dataset, "-o", tmp_path / "tier", "--no-validate") == 1
    assert "0 tasks" in capsys.readouterr().out


@pytest.mark.parametrize("key", ["instance_id", "repo", "base_commit"])
def test_number_for_a_needed_key_is_not_called_missing(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    change_row(project, **{key: 7})
    assert grade(project, "gold", tmp_path / "run") == 2
    assert f"{key} is 7, and must be a string" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("env", "show"), ("env", "build")])
def test_help_lists_no_option_without_effect(capsys: pytest.CaptureFixture[str], command: tuple[str, str]) -> None:
    assert swelive(*command, "--help") == 0
    told = capsys.readouterr().out
    for option in (
        "--policy",
        "--scope",
        "--timeout",
        "--memory",
        "--processes",
        "--controls",
        "--network",
        "--mutate",
    ):
        assert option not in told
    for option in ("--sandbox", "--repo-url", "--cache", "--offline"):
        assert option in told


def test_help_of_validate_lists_no_way_of_scoring(capsys: pytest.CaptureFixture[str]) -> None:
    assert swelive("validate", "--help") == 0
    told = capsys.readouterr().out
    assert "--timeout" in told
    assert "--policy" not in told
    assert "--mutate" not in told


@pytest.mark.parametrize("sandbox", ["none", "auto"])
def test_command_that_runs_graded_code_says_that_nothing_holds_it(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    """Only the report said it."""
    monkeypatch.setattr("swelive_plugin.sandbox.find.bubblewrap_programs", list)
    told = ["-d", project.dataset, "--repo-url", project.repo_url, "--sandbox", sandbox]
    for args in (["grade", "-p", "empty", "-o", tmp_path / "run"], ["validate", "-o", tmp_path / "proven"]):
        swelive(*args, *told)
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: no sandbox")]
        assert len(lines) == 1
        assert ("swelive doctor" in lines[0]) == (sandbox == "auto")


def test_attempts_are_not_counted_as_instances(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preds = tmp_path / "preds.jsonl"
    rows = [{"instance_id": "o__proj-1", "model_patch": patch, "model_name_or_path": "m"} for patch in ("", "x", "y")]
    preds.write_text("".join(json.dumps(row) + "\n" for row in rows))
    grade(project, preds, tmp_path / "run", "--sandbox", "none")
    capsys.readouterr()
    assert swelive("compare", tmp_path / "run", tmp_path / "run") == 0
    assert "3 attempts at 1 instance)" in capsys.readouterr().out
    assert swelive("compare", tmp_path / "run", tmp_path / "run", "--json") == 0
    side = json.loads(capsys.readouterr().out)["a"]
    assert (side["instances"], side["attempts"]) == (1, 3)


def test_full_disk_says_what_to_do(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("swelive_plugin.cli.running.grade_all", full)
    assert grade(project, "empty", tmp_path / "run") == 3
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert "make room" in told


def test_gold_control_that_runs_nothing_shows_pytests_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken pyproject.toml was told as exit status 4 alone."""
    broken = {**BASE, "pyproject.toml": "[project\n"}
    project = make_project(tmp_path, broken, gold=GOLD, tests=TESTS, f2p=["tests/test_calc.py::test_add[one"], p2p=[])
    grade(project, "gold", tmp_path / "run")
    verdict = json.loads((tmp_path / "run" / "o__proj-1" / "verdict.json").read_text())
    assert verdict["status"] == "env_error"
    assert "pyproject.toml: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "told", "hint"),
    [
        (["grade", "-d", "", "-p", "gold"], "the dataset's name is empty", "owner/name"),
        (["grade", "-d", "ROWS", "-p", ""], "the name of the predictions is empty", "gold and empty"),
        (["grade", "-d", "nothing-of-this.parquet", "-p", "gold"], "no such file", "owner/name"),
        (["grade", "-d", "ROWS", "-p", "nothing-of-this.pred"], "no such file", "gold and empty"),
        (["list", "nowhere"], "no tier here", "`swelive gen` makes one"),
        (["task", "setup", "nowhere", "there"], "no task here", "name TIER/tasks/<id>"),
        (["compare", "LINES", "LINES"], "is no JSON", "name a run folder"),
        (["demo", "-o", "ROWS/below"], "can't be made: Not a directory", "another folder"),
    ],
)
def test_wrong_use_says_what_would_be_right(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], told: str, hint: str
) -> None:
    lines = tmp_path / "two-lines"
    lines.write_text("{}\n{}\n")
    given = [arg.replace("ROWS", str(project.dataset)).replace("LINES", str(lines)) for arg in args]
    assert swelive(*given) == 2
    said = capsys.readouterr().err
    assert told in said
    assert hint in said


def test_run_without_a_verdict_on_any_patch_exits_with_3(project: Project, tmp_path: Path) -> None:
    """Defect: a row without FAIL_TO_PASS ended with 0, and with 1 as if the patch were to blame."""
    change_row(project, FAIL_TO_PASS=[])
    assert grade(project, "gold", tmp_path / "a") == 3
    assert grade(project, "gold", tmp_path / "b", "--fail-unresolved") == 3
    verdict = json.loads((tmp_path / "a" / "o__proj-1" / "verdict.json").read_text())
    assert verdict["status"] == "invalid_instance"


@pytest.mark.parametrize(
    ("statuses", "code", "strict"),
    [
        ([], 3, 3),
        (["resolved"], 0, 0),
        (["unresolved", "resolved"], 0, 1),
        (["env_error", "invalid_instance", "error", "incomplete"], 3, 3),
        (["env_error", "resolved"], 0, 3),
        (["env_error", "empty_patch"], 0, 1),
    ],
)
def test_exit_code_of_a_run(statuses: list[str], code: int, strict: int) -> None:
    verdicts = [Verdict("a__b-1", Status(status)) for status in statuses]
    assert exit_code_of_run(verdicts, fail_unresolved=False) == code
    assert exit_code_of_run(verdicts, fail_unresolved=True) == strict


def test_one_environment_is_no_environments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "gc", lambda *_, **__: ["one"])
    assert swelive("env", "gc", "--max-size", "0", "--cache", tmp_path / "cache") == 0
    assert "removed 1 environment;" in capsys.readouterr().out
