"""The commands of the guides are run as a reader would run them, page by page and in their order.

Environments are this interpreter, so that nothing is built and no network is needed; only the tutorial builds its own.
What only a reader has (their own repository, their agent) is replaced; the replacements stand beside each page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.test_cli import swelive
from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, host_environments, make_project, run_git_for_tests, write_files
from tests.test_docs import ROOT, blocks

ID = "owner__name-123"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The names that the pages use: tasks.jsonl with one instance, predictions.jsonl, and where its repository is."""
    f2p, p2p = ["tests/test_calc.py::test_add[one"], ["tests/test_calc.py::test_name"]
    made = make_project(tmp_path, BASE, gold=GOLD, tests=TESTS, f2p=f2p, p2p=p2p)
    row = {**made.instance.row, "instance_id": ID, "problem_statement": "add() subtracts."}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    prediction = {"instance_id": ID, "model_patch": row["patch"]}
    (tmp_path / "predictions.jsonl").write_text(json.dumps(prediction) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWELIVE_REPO_URL", made.repo_url)
    with host_environments():
        yield made


def run_page(
    page: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    replace: Mapping[str, str] | None = None,
    skip: str = r"(?!)",
) -> dict[str, int]:
    """Run the console blocks of a page and return the exit code of each command, by its text."""
    codes: dict[str, int] = {}
    for block in blocks(ROOT / page):
        if block.language != "console":
            continue
        for line in block.commands():
            if re.search(skip, line):
                continue
            command = line
            for old, new in (replace or {}).items():
                command = command.replace(old, new)
            codes[line] = run_line(command, monkeypatch)
    return codes


def run_line(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    program, *words = shlex.split(line)
    if program == "swelive":
        return swelive(*words)
    if program == "export":
        name, _, value = words[0].partition("=")
        monkeypatch.setenv(name, value.replace("$PWD", str(Path.cwd())))
        return 0
    assert program in ("cp", "ls", "mkdir"), line
    return subprocess.run([program, *words], stdout=subprocess.DEVNULL).returncode


def status_in(run: str) -> str:
    counts = json.loads(Path(run, "results.json").read_text())["counts"]
    return ", ".join(name for name, count in counts.items() if count)


@pytest.mark.network
def test_tutorial(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWELIVE_CACHE_DIR", str(shared_cache))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    codes = run_page("docs/tutorial/first-grade.md", monkeypatch, skip=r"^python3 -m venv|^\. |^cd the-checkout")
    assert {line: code for line, code in codes.items() if code} == {}
    assert len(codes) == 8
    assert status_in("runs/gold") == "resolved"
    assert status_in("runs/first") == "unresolved"
    assert "each patch got the verdict it deserves" in capsys.readouterr().out


def test_score_finished_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = Path("checkout")
    write_files(checkout, {**GOLD, **TESTS})
    argv = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--rootdir=.", "--junitxml=../results.xml"]
    env = {**os.environ, "PYTHONPATH": ".", "PYTEST_ADDOPTS": ""}
    done = subprocess.run([*argv, "-o", "junit_family=xunit1"], cwd=checkout, env=env, capture_output=True, check=True)
    Path("pytest.log").write_bytes(done.stdout)
    Path("artifacts", ID).mkdir(parents=True)
    shutil.copy("pytest.log", Path("artifacts", ID, "test_output.txt"))
    codes = run_page("docs/how-to/score.md", monkeypatch)
    assert {line: code for line, code in codes.items() if code} == {}
    assert len(codes) == 5
    assert (status_in("runs/rescored"), status_in("runs/swebench")) == ("resolved", "resolved")


def test_compare_your_own_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("runs/a", "runs/b"):
        assert swelive("grade", "-d", "tasks.jsonl", "-p", "predictions.jsonl", "-o", run) == 0
    codes = run_page("docs/explanation/parity.md", monkeypatch, skip="^pip |^python |logs/run_evaluation")
    assert list(codes.values()) == [0, 0]


def test_make_instances_and_compare_agents_on_them(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two guides in a row: the second takes what the first made."""
    write_files(project.repository, {**GOLD, **TESTS})
    run_git_for_tests("commit", "--quiet", "--all", "-m", "Add (#12)\n\nIt subtracted.", cwd=project.repository)
    (tmp_path / "src").mkdir()
    project.repository.rename(tmp_path / "src" / "project")
    home = {"~/": f"{tmp_path}/", "/home/me/": f"{tmp_path}/"}
    codes = run_page("docs/how-to/own-instances.md", monkeypatch, replace=home)
    assert {line: code for line, code in codes.items() if code} == {}
    assert status_in("runs/gold") == "resolved"

    monkeypatch.setenv("SWELIVE_REPO_URL", (tmp_path / "src" / "project").as_uri())
    agent = {"solve --dir {workdir} --prompt {prompt_file}": "true", "--limit 10": "--limit 1"}
    codes = run_page("docs/how-to/tiers.md", monkeypatch, replace=agent)
    assert {line: code for line, code in codes.items() if code} == {}
    assert len(codes) == 5
    assert "gold" in capsys.readouterr().out


def test_environments(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("recipes").mkdir()
    codes = run_page("docs/explanation/environments.md", monkeypatch, skip=r"^python ")
    assert {line: code for line, code in codes.items() if code} == {}


def test_library_examples(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = "<testcase classname='tests.test_calc' name='test_add[one and two-3]' file='tests/test_calc.py'/>"
    Path("results.xml").write_text(f"<testsuite tests='1'>{verdict}</testsuite>")
    for page in ("README.md", "docs/how-to/library.md"):
        for block in blocks(ROOT / page):
            if block.language == "python":
                exec(compile(block.text, page, "exec"), {})
    lines = capsys.readouterr().out.split("\n")
    assert lines == ["1.0", f"{ID} resolved 1.0", "resolved", ""]
    assert json.loads(Path("runs/a", ID, "verdict.json").read_text())["status"] == "resolved"
