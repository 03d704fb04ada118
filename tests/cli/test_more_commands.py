"""score over folders, compare, env and doctor."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from swelive_plugin.cli.env import mib_of
from swelive_plugin.errors import UsageError
from tests.cli.test_cli import grade, swelive
from tests.grading.conftest import BASE
from tests.host import Project, diff_of


def test_score_reads_a_folder_of_runs(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grade(project, "gold", tmp_path / "run")
    capsys.readouterr()
    out = tmp_path / "rescored"
    given = ["-d", project.dataset, tmp_path / "run"]
    assert swelive("score", *given, "-o", out, "--policy", "swebench", "--json") == 0
    assert json.loads(capsys.readouterr().out)["resolved_ids"] == ["o__proj-1"]
    assert json.loads((out / "o__proj-1" / "verdict.json").read_text())["policy"] == "swebench"
    assert (out / "results.xml").exists()


def test_a_damaged_run_leaves_the_others_whole(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = json.loads(project.dataset.read_text())
    project.dataset.write_text(json.dumps(row) + "\n" + json.dumps({**row, "instance_id": "o__proj-2"}) + "\n")
    grade(project, "gold", tmp_path / "run", "-i", "o__proj-1")
    runs = tmp_path / "runs"
    runs.mkdir()
    shutil.copy(tmp_path / "run" / "o__proj-1" / "events.jsonl", runs / "o__proj-1.jsonl")
    (runs / "o__proj-2.log.gz").write_bytes(b"\x1f\x8b\x08 no gzip")
    capsys.readouterr()
    assert swelive("score", "-d", project.dataset, runs) == 0
    captured = capsys.readouterr()
    assert "resolved 1 of 2" in captured.out
    assert "error" in captured.out
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["score", "-d", "ROWS", "EMPTY"], "holds no run of these 1 instances"),
        (["score", "-d", "ROWS", "ROWS"], "name it with -i"),
        (["compare", "EMPTY"], "compare needs B or --policy"),
        (["compare", "EMPTY", "--policy", "swebench"], "give it with -d"),
        (["compare", "EMPTY", "EMPTY"], "holds no verdicts"),
        (["env", "gc", "--max-size", "much"], "'much' is no size"),
    ],
)
def test_a_mistake_is_one_clear_line(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], told: str
) -> None:
    (tmp_path / "empty").mkdir()
    known = {"ROWS": str(project.dataset), "EMPTY": str(tmp_path / "empty")}
    assert swelive(*[known.get(arg, arg) for arg in args]) == 2
    text = capsys.readouterr().err
    assert told in text
    assert "Traceback" not in text


def test_compare_a_run_with_itself_and_with_another_policy(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grade(project, "gold", tmp_path / "run")
    capsys.readouterr()
    assert swelive("compare", tmp_path / "run", tmp_path / "run") == 0
    assert "agreed on 1 of 1 (100.0%)" in capsys.readouterr().out
    assert swelive("compare", tmp_path / "run", "--policy", "swebench", "-d", project.dataset, "--json") == 0
    assert json.loads(capsys.readouterr().out)["b"]["harness"] == "policy swebench"


def test_env_show_tells_the_recipe_of_an_instance(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["-d", project.dataset, "--repo-url", project.repo_url]
    assert swelive("env", "build", *given) == 0
    assert "o__proj-1  host-" in capsys.readouterr().out
    assert swelive("env", "show", *given, "-i", "o__proj-1") == 0
    assert "# recipe.toml" in capsys.readouterr().out


def test_env_list_and_gc_of_an_empty_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert swelive("env", "list") == 0
    assert "0 environments, 0 MiB" in capsys.readouterr().out
    assert swelive("env", "gc", "--max-size", "1G") == 0
    assert "removed 0 environments" in capsys.readouterr().out


def test_sizes_are_read_in_every_usual_unit() -> None:
    assert [mib_of(text) for text in ("10G", "1.5 GiB", "500M", "512K", "0", "1048576")] == [
        10240.0,
        1536.0,
        500.0,
        0.5,
        0.0,
        1.0,
    ]
    with pytest.raises(UsageError, match="write it as 10G or 500M"):
        mib_of("ten")


def test_doctor_tells_each_thing_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert swelive("doctor", "--offline", "--json") == 0
    names = [check["name"] for check in json.loads(capsys.readouterr().out)]
    assert names[:2] == ["git", "uv"]
    assert swelive("doctor", "--offline") == 0
    assert capsys.readouterr().out.startswith("ok      git")


def test_every_attempt_in_a_folder_of_runs_is_scored(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: attempts after the first were dropped without a word."""
    broken = diff_of(project.repository, {"calc.py": BASE["calc.py"].replace("a - b", "a * b + 7")})
    preds = tmp_path / "preds.jsonl"
    lines = [{"instance_id": "o__proj-1", "model_patch": text} for text in (project.instance.patch, broken)]
    preds.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    grade(project, preds, tmp_path / "run")
    capsys.readouterr()
    assert swelive("score", "-d", project.dataset, tmp_path / "run", "-o", tmp_path / "again") == 0
    rows = json.loads((tmp_path / "again" / "results.json").read_text())["rows"]
    assert [(row["attempt"], row["status"]) for row in rows] == [(1, "resolved"), (2, "unresolved")]


def test_scoring_our_own_run_gives_its_own_counts(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: attempts without a session vanished, and those of an earlier run into the folder were scored as well."""
    patches = ("--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-not there\n+x\n", project.instance.patch, "")
    preds, run = tmp_path / "preds.jsonl", tmp_path / "run"
    lines = [json.dumps({"instance_id": "o__proj-1", "model_patch": text}) + "\n" for text in patches]
    preds.write_text("".join(lines))
    grade(project, preds, run)
    given = ["score", "-d", project.dataset, run, "--json"]
    capsys.readouterr()
    assert swelive(*given) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    kept = json.loads((run / "results.json").read_text())["rows"]
    assert [(row["attempt"], row["status"]) for row in rows] == [
        (1, "patch_failed"),
        (2, "resolved"),
        (3, "empty_patch"),
    ]
    assert [row["reason"] for row in rows] == [row["reason"] for row in kept]
    preds.write_text("".join(lines[:2]))
    grade(project, preds, run)
    capsys.readouterr()
    assert swelive(*given) == 0
    assert [row["attempt"] for row in json.loads(capsys.readouterr().out)["rows"]] == [1, 2]


def test_score_by_a_policy_that_judges_all_listed_says_what_was_not_run(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: tests that were never run were called missing, without a word."""
    grade(project, "gold", tmp_path / "run")
    row = json.loads(project.dataset.read_text())
    row["PASS_TO_PASS"] = [*project.instance.pass_to_pass, "tests/test_other.py::test_x"]
    project.dataset.write_text(json.dumps(row) + "\n")
    given = ["score", "-d", project.dataset, tmp_path / "run", "--json"]
    for more, by in ((["--policy", "swebench"], "policy swebench"), (["--scope", "all"], "scope all")):
        capsys.readouterr()
        assert swelive(*given, *more) == 0
        told = f"this run ran the FAIL_TO_PASS files only; {by} judges all listed: run again with --scope all"
        captured = capsys.readouterr()
        assert f"note: {told}" in captured.err
        assert json.loads(captured.out)["notes"] == [told]
    assert swelive(*given) == 0
    assert "note:" not in capsys.readouterr().err


def test_a_log_that_only_counts_is_no_evidence(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: a plain `pytest` log of a resolved run, whose passed tests are dots, was judged unresolved."""
    grade(project, "gold", tmp_path / "run")
    capsys.readouterr()
    log = tmp_path / "run" / "o__proj-1" / "test_output.txt"
    start, _, rest = log.read_text().partition("=== short test summary info")
    log.write_text(start + "=====" + rest.partition("\n=====")[2])
    assert swelive("score", "-d", project.dataset, "-i", "o__proj-1", log) == 3
    assert "run pytest with -rA or -v" in capsys.readouterr().out


def test_score_reads_our_own_test_output(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Defect: what the driver kept of pytest's text named no test, so that it could not be scored."""
    grade(project, "gold", tmp_path / "gold")
    given = ["score", "-d", project.dataset, "-i", "o__proj-1"]
    assert swelive(*given, tmp_path / "gold" / "o__proj-1" / "test_output.txt") == 0
    assert "finished run (log)" in capsys.readouterr().out
    broken = diff_of(project.repository, {"calc.py": BASE["calc.py"].replace("a - b", "a * b + 7")})
    preds = tmp_path / "preds.jsonl"
    preds.write_text(json.dumps({"instance_id": "o__proj-1", "model_patch": broken}) + "\n")
    grade(project, preds, tmp_path / "broken")
    assert swelive(*given, tmp_path / "broken" / "o__proj-1" / "test_output.txt") == 1


def test_a_cache_that_cannot_be_written_is_one_clear_line(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    given = ["-d", project.dataset, "-p", "gold", "-o", tmp_path / "run", "--repo-url", project.repo_url]
    assert swelive("grade", *given, "--cache", tmp_path / "file" / "cache") == 3
    text = capsys.readouterr().err
    assert "can't be written" in text
    assert "Traceback" not in text


def test_nothing_graded_is_no_finished_run(project: Project, tmp_path: Path) -> None:
    """Defect: a CI job without git, or with an unreachable host, ended with 0."""
    given = ["-d", project.dataset, "-p", "gold", "-o", tmp_path / "run"]
    assert swelive("grade", *given, "--repo-url", f"file://{tmp_path}/nowhere", "--cache", tmp_path / "own") == 3


def test_an_id_that_no_file_system_takes_is_refused(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = json.loads(project.dataset.read_text())
    project.dataset.write_text(json.dumps({**row, "instance_id": "x" * 5000}) + "\n")
    assert swelive("grade", "-d", project.dataset, "-p", "gold", "-o", tmp_path / "run") == 2
    assert "can't name a folder" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["nan", "-1", "inf"])
def test_a_time_limit_that_cannot_be_kept_is_refused(project: Project, tmp_path: Path, limit: str) -> None:
    assert grade(project, "gold", tmp_path / "run", "--timeout", limit) == 2
