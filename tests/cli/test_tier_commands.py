"""The commands from a clone to a comparison: mine, validate, gen, list, run, report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import swelive
from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, make_project, run_git_for_tests, write_files


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository whose second commit fixes the bug and tests it."""
    made = make_project(tmp_path, BASE, gold=GOLD, tests=TESTS, f2p=[], p2p=[])
    write_files(made.repository, {**GOLD, **TESTS})
    run_git_for_tests(
        "commit", "--quiet", "--all", "-m", "Add what is to be added (#12)\n\nIt subtracted.", cwd=made.repository
    )
    return made


def test_from_a_clone_to_a_comparison(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of somebody with a private repository: every command's output names the next one's input."""
    monkeypatch.chdir(tmp_path)
    assert swelive("mine", project.repository, "--repo", "o/proj", "-o", "mined.jsonl") == 0
    mined = capsys.readouterr().out
    assert "1 candidates of 2 commits in mined.jsonl" in mined
    url = mined.split("--repo-url ")[1].split()[0]

    runs = ["--runs", "2", "--base-runs", "1"]
    assert swelive("validate", "-d", "mined.jsonl", "-o", "proven", "--repo-url", url, *runs) == 0
    said = capsys.readouterr()
    assert "kept 1 of 1" in said.out
    assert "o__proj-12: kept, FAIL_TO_PASS 1, PASS_TO_PASS 2" in said.err

    assert swelive("gen", "-d", "proven/validated.jsonl", "-o", "tier", "--repo-url", url) == 0
    assert "1 tasks of 1 repositories in tier" in capsys.readouterr().out

    assert swelive("list", "tier") == 0
    assert "Add what is to be added" in capsys.readouterr().out
    assert swelive("list", "tier", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == "o__proj-12"

    agents = ["--agent", "gold", "--agent", "noop", "--agent", "sed=sed -i 's/a - b/a + b/' calc.py"]
    assert swelive("run", "tier", *agents, "-o", "run", "-w", "2") == 0
    said = capsys.readouterr()
    assert "[3/3]" in said.err
    assert "gold o__proj-12: resolved" in said.err
    assert [line.split()[:4] for line in said.out.splitlines()[3:6]] == [
        ["gold", "1", "of", "1"],
        ["sed", "1", "of", "1"],
        ["noop", "0", "of", "1"],
    ]

    assert swelive("report", "run", "--format", "markdown", "-o", "report.md") == 0
    assert "| noop | 0 of 1 | 0.0 % |" in (tmp_path / "report.md").read_text()
    assert swelive("report", "run", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["pairs"][0]["shared"] == 1


def test_gen_tells_when_there_were_not_as_many_as_asked_for(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = json.loads(project.dataset.read_text())
    rows = [
        {**row, "problem_statement": "x", "FAIL_TO_PASS": ["tests/test_calc.py::test_add"]},
        {**row, "instance_id": "o__proj-2"},
    ]
    project.dataset.write_text("".join(json.dumps(one) + "\n" for one in rows))
    fixed = ["gen", "-d", project.dataset, "-o", tmp_path / "tier", "--no-validate"]
    assert swelive(*fixed, "--limit", "2") == 1
    said = capsys.readouterr()
    assert "1 tasks of 1 repositories" in said.out
    assert "left out: o__proj-2: no_statement" in said.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["mine", "nowhere", "-o", "x.jsonl"], "no such folder"),
        (["mine", ".", "-o", "x.jsonl"], "is no git repository"),
        (["validate", "-d", "nowhere.jsonl", "-o", "x"], "nowhere.jsonl"),
        (["gen", "-d", "ROWS", "-o", "x", "--repos", "q"], "no instance is of q"),
        (["list", "nowhere"], "no tier here"),
        (["run", "nowhere", "--agent", "gold", "-o", "x"], "no tier here"),
        (["report", "nowhere"], "no run here"),
        (["task", "setup", "nowhere", "w"], "no task here"),
        (["run", "nowhere", "-o", "x"], "--agent"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    args: list[str], told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert swelive(*[str(project.dataset) if arg == "ROWS" else arg for arg in args]) == 2
    text = capsys.readouterr().err
    assert told in text
    assert "Traceback" not in text


def test_our_failure_is_exit_code_3_and_tried_again(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = ["validate", "-d", project.dataset, "-o", tmp_path / "out", "--runs", "1", "--base-runs", "1"]
    fixed += ["--cache", tmp_path / "cache"]
    assert swelive(*fixed, "--repo-url", "file:///nowhere/{name}") == 3
    assert "1 dropped: no_repository" in capsys.readouterr().out
    assert swelive(*fixed, "--repo-url", project.repo_url) == 0
    assert "kept 1 of 1" in capsys.readouterr().out
