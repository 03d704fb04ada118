"""Face 1: ``pytest -p swelive`` in a checkout that its owner trusts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

TESTS = """
import pytest

from lib import double


@pytest.mark.parametrize("text", ["one word", "plain"])
def test_double(text):
    assert double(text) == text + text


def test_kept():
    assert double("") == ""
"""
ALL_BUT_OTHER = ["tests", "--deselect=tests/test_other.py"]
RIGHT, WRONG = "def double(text):\n    return text * 2\n", "def double(text):\n    return text\n"


@pytest.fixture
def checkout(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(lib=RIGHT, **{"tests/test_lib": TESTS, "tests/test_other": "def test_other(): assert 0\n"})
    pytester.makefile(".ini", pytest="[pytest]\npythonpath = .\ntestpaths = tests\n")
    row = {
        "instance_id": "o__lib-1",
        "repo": "o/lib",
        "base_commit": "0" * 40,
        "FAIL_TO_PASS": json.dumps(["tests/test_lib.py::test_double[one", "tests/test_lib.py::test_double[plain]"]),
        "PASS_TO_PASS": ["tests/test_lib.py::test_kept", "tests/test_other.py::test_other"],
    }
    pytester.path.joinpath("rows.jsonl").write_text(json.dumps(row) + "\n")
    return pytester


def graded(checkout: pytest.Pytester, *args: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    report = checkout.path / "verdict.json"
    report.unlink(missing_ok=True)
    result = checkout.runpytest_subprocess(
        "-p",
        "swelive",
        "--swelive-instance=o__lib-1",
        "--swelive-dataset=rows.jsonl",
        f"--swelive-report={report}",
        *args,
    )
    return result, json.loads(report.read_text()) if report.exists() else {}


def test_a_right_fix_is_resolved_and_only_the_fail_to_pass_files_run(checkout: pytest.Pytester) -> None:
    result, verdict = graded(checkout)
    assert result.ret == 0
    assert (verdict["status"], verdict["reward"], verdict["integrity"]["mode"]) == ("resolved", 1.0, "in-process")
    result.stdout.fnmatch_lines(["*swelive: o__lib-1*", "RESOLVED  o__lib-1  reward 1", "  FAIL_TO_PASS: 2 of 2 pass"])
    result.stdout.fnmatch_lines(["*3 passed*"])
    assert verdict["pass_to_pass"][1]["rule"] == "p2p-out-of-scope"


def test_a_wrong_fix_is_not_resolved_and_each_test_tells_why(checkout: pytest.Pytester) -> None:
    checkout.makepyfile(lib=WRONG)
    result, verdict = graded(checkout)
    assert result.ret == 1
    assert [reason["code"] for reason in verdict["reasons"]] == ["f2p-failed", "f2p-failed"]
    result.stdout.fnmatch_lines(["*FAIL  tests/test_lib.py::test_double?one*AssertionError*"])


def test_scope_all_and_files_that_a_person_names_are_run(checkout: pytest.Pytester) -> None:
    _, all_files = graded(checkout, "--swelive-scope=all")
    assert [reason["test"] for reason in all_files["reasons"]] == ["tests/test_other.py::test_other"]
    _, named = graded(checkout, "tests/test_other.py")
    assert {reason["code"] for reason in named["reasons"]} == {"f2p-missing", "p2p-failed"}


def test_no_verdict_is_exit_code_3(checkout: pytest.Pytester) -> None:
    rows = checkout.path / "rows.jsonl"
    row = json.loads(rows.read_text()) | {"FAIL_TO_PASS": []}
    rows.write_text(json.dumps(row) + "\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"], verdict["reward"]) == (3, "invalid_instance", None)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--swelive-instance=o__lib-2"], "did you mean o__lib-1"),
        (["--swelive-dataset=nowhere.jsonl"], "nowhere.jsonl"),
        (["--swelive-policy=swelve"], "did you mean 'swelive'"),
        (["--swelive-scope=some"], "use f2p-files or all"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(checkout: pytest.Pytester, args: Sequence[str], told: str) -> None:
    result, verdict = graded(checkout, *args)
    assert (result.ret, verdict) == (2, {})
    text = result.stdout.str() + result.stderr.str()
    assert told in text
    assert "Traceback" not in text


def test_it_does_nothing_unless_asked(checkout: pytest.Pytester) -> None:
    result = checkout.runpytest_subprocess("-p", "swelive", "tests/test_lib.py")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*swelive: *")
    loaded = checkout.runpython_c(
        "import swelive_plugin.plugin, sys; print([m for m in sys.modules if m.startswith('swelive_plugin.')])"
    )
    assert loaded.outlines == ["['swelive_plugin._version', 'swelive_plugin.plugin']"]


def test_options_count_from_variables_and_ini_keys_too(
    checkout: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWELIVE_INSTANCE", "o__lib-1")
    with checkout.path.joinpath("pytest.ini").open("a") as ini:
        ini.write("\nswelive_dataset = rows.jsonl\n")
    result = checkout.runpytest_subprocess()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["RESOLVED  o__lib-1*"])


def test_sessions_inside_the_graded_one_stay_silent(checkout: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that tests pytest runs pytest inside pytest: only the outermost session is graded."""
    monkeypatch.setenv("SWELIVE_INSTANCE", "o__lib-1")
    monkeypatch.setenv("SWELIVE_DATASET", str(checkout.path / "rows.jsonl"))
    inner = (
        "import subprocess, sys, pytest\n"
        "def test_kept(tmp_path):\n"
        "    (tmp_path / 'test_in.py').write_text('def test_in(): assert 0')\n"
        "    ran = subprocess.run([sys.executable, '-m', 'pytest', str(tmp_path)], capture_output=True, text=True)\n"
        "    assert ran.returncode == 1 and 'swelive:' not in ran.stdout, ran.stdout\n"
        "    assert pytest.main([str(tmp_path), '-p', 'no:cacheprovider']) == 1\n"
    )
    checkout.makepyfile(**{"tests/test_lib": TESTS.replace("def test_kept", "def test_old") + inner})
    result, verdict = graded(checkout)
    assert verdict["status"] == "resolved", result.stdout.str()
    assert result.ret == 0


def test_the_exit_code_stands_under_xdist(checkout: pytest.Pytester) -> None:
    result, verdict = graded(checkout, "-n", "2")
    assert (result.ret, verdict["status"]) == (0, "resolved")


def test_the_checkouts_first_failure_does_not_end_the_session(checkout: pytest.Pytester) -> None:
    checkout.makepyfile(lib=WRONG)
    _, verdict = graded(checkout, "-x")
    assert [test["outcomes"] for test in verdict["fail_to_pass"]] == [["failed"], ["failed"]]


def test_a_skip_raised_by_code_that_changed_since_base_is_a_failure(checkout: pytest.Pytester) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run([*git, *command], cwd=checkout.path, check=True)
    base = subprocess.run([*git, "rev-parse", "HEAD"], cwd=checkout.path, check=True, capture_output=True, text=True)
    rows = checkout.path / "rows.jsonl"
    rows.write_text(json.dumps(json.loads(rows.read_text()) | {"base_commit": base.stdout.strip()}) + "\n")
    skips = (
        "import unittest\ndef double(text):\n    if not text: raise unittest.SkipTest('later')\n    return text * 2\n"
    )
    checkout.makepyfile(lib=skips)
    result, verdict = graded(checkout)
    assert result.ret == 1
    assert [reason["code"] for reason in verdict["reasons"]] == ["p2p-skipped-by-prediction"]


def test_code_that_leaves_the_process_with_status_0_is_no_resolved_one(checkout: pytest.Pytester) -> None:
    """Defect: os._exit(0) in graded code made pytest, and so the CI job, end with 0 and without any report."""
    checkout.makepyfile(lib="import os\n\n\ndef double(text):\n    os._exit(0)\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"]) == (1, "crashed")
    assert [test["outcomes"] for test in verdict["fail_to_pass"]] == [["crashed"], ["not_run"]]
    result.stdout.fnmatch_lines(["*swelive: o__lib-1*", "CRASHED  o__lib-1  reward 0"])


def test_a_segmentation_fault_is_crashed(checkout: pytest.Pytester) -> None:
    checkout.makepyfile(lib="import os, signal\n\n\ndef double(text):\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"]) == (1, "crashed")


def test_a_session_that_somebody_stops_is_timed_out_with_what_was_finished(checkout: pytest.Pytester) -> None:
    hangs = "import pathlib, time\n\n\ndef double(text):\n    pathlib.Path('hangs').touch()\n    time.sleep(600)\n"
    checkout.makepyfile(lib=hangs)
    report = checkout.path / "verdict.json"
    given = ["--swelive-instance=o__lib-1", "--swelive-dataset=rows.jsonl", f"--swelive-report={report}"]
    command = [sys.executable, "-m", "pytest", "-p", "swelive", *given]
    running = subprocess.Popen(command, cwd=checkout.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if (checkout.path / "hangs").exists() or running.poll() is not None:
            break
        time.sleep(0.05)
    running.terminate()
    assert running.wait(30) == 1
    verdict = json.loads(report.read_text())
    assert verdict["status"] == "timed_out"
    assert [test["outcomes"] for test in verdict["fail_to_pass"]] == [["timed_out"], ["not_run"]]


def test_a_conftest_that_does_not_import_is_told_and_not_resolved(checkout: pytest.Pytester) -> None:
    checkout.makeconftest("import surely_not_there\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"]) == (1, "unresolved")
    assert "surely_not_there" in verdict["reasons"][0]["message"]


def test_pytest_main_comes_back_once_to_a_program_that_called_it(checkout: pytest.Pytester) -> None:
    program = checkout.makepyfile(
        caller="import pytest\n"
        "code = pytest.main(['-p', 'swelive', '--swelive-instance=o__lib-1', '--swelive-dataset=rows.jsonl'])\n"
        "print('came back with', int(code))\n"
    )
    result = checkout.run(sys.executable, program)
    assert [line for line in result.outlines if line.startswith("came back")] == ["came back with 0"]


def test_without_the_hidden_tests_there_is_no_verdict(checkout: pytest.Pytester) -> None:
    """Defect: a right fix in a checkout without the hidden tests was called unresolved."""
    rows = checkout.path / "rows.jsonl"
    added = "diff --git a/tests/test_new.py b/tests/test_new.py\nnew file mode 100644\n--- /dev/null\n"
    hidden = f"{added}+++ b/tests/test_new.py\n@@ -0,0 +1 @@\n+def test_new(): pass\n"
    row = {**json.loads(rows.read_text()), "FAIL_TO_PASS": ["tests/test_new.py::test_new"], "test_patch": hidden}
    rows.write_text(json.dumps(row) + "\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"], verdict["reasons"][0]["code"]) == (3, "error", "hidden_tests_missing")
    checkout.makepyfile(**{"tests/test_new": "def test_new(): pass\n"})
    assert graded(checkout)[0].ret == 0


def test_a_report_that_cannot_be_written_is_one_clear_line(checkout: pytest.Pytester) -> None:
    result, _ = graded(checkout, "--swelive-report=rows.jsonl/verdict.json")
    assert result.ret == 2
    assert "rows.jsonl/verdict.json" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_the_help_teaches(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--help")
    text = " ".join(result.stdout.str().split())
    assert "--swelive-instance=INSTANCE" in text
    assert "grade this instance: run its FAIL_TO_PASS test files and give a verdict" in text


@pytest.mark.parametrize(
    ("args", "told", "why"),
    [
        (
            ["-k", "plain"],
            "your own arguments left tests out (-k plain): 2 listed tests were not run",
            "you deselected it",
        ),
        (["-m", "slow"], "left tests out (-m slow): 3 listed", "you deselected it"),
        (["--deselect", "tests/test_lib.py::test_double"], "--deselect tests/test_lib.py::test_double): 2", "you des"),
        (
            [*ALL_BUT_OTHER, "--ignore=tests/test_lib.py"],
            "--ignore tests/test_lib.py): 3 listed",
            "its file was not run",
        ),
        ([*ALL_BUT_OTHER, "--ignore-glob=*_lib.py"], "--ignore-glob *_lib.py): 3 listed", "its file was not run"),
        (["tests/test_more.py"], "only tests/test_more.py): 2 listed", "its file was not run"),
        (["tests/test_lib.py::test_kept"], "only tests/test_lib.py::test_kept): 2", "it is none of the tests"),
    ],
)
def test_what_a_person_leaves_out_is_no_verdict(
    checkout: pytest.Pytester, args: Sequence[str], told: str, why: str
) -> None:
    """Defect: tests that the person's own arguments left out were charged to the patch, with reward 0."""
    checkout.makepyfile(**{"tests/test_more": "def test_more(): pass\n"})
    result, verdict = graded(checkout, *args)
    assert (result.ret, verdict["status"], verdict["reward"]) == (3, "error", None), result.stdout.str()
    assert (verdict["reasons"][0]["code"], told in verdict["reasons"][0]["message"]) == ("deselected", True)
    assert why in verdict["reasons"][1]["message"]


@pytest.mark.parametrize(
    "args", [["-k", "double"], ["tests"], ["tests/test_lib.py"], ["tests/test_lib.py::test_double"]]
)
def test_narrowing_excuses_no_failed_test(checkout: pytest.Pytester, args: Sequence[str]) -> None:
    checkout.makepyfile(lib=WRONG)
    result, verdict = graded(checkout, *args)
    assert (result.ret, verdict["status"]) == (1, "unresolved")
    assert "f2p-failed" in {reason["code"] for reason in verdict["reasons"]}


def test_narrowing_keeps_a_test_that_is_gone_from_a_named_file(checkout: pytest.Pytester) -> None:
    checkout.makepyfile(**{"tests/test_lib": "def test_kept(): pass\n"})
    result, verdict = graded(checkout, "tests/test_lib.py", "-k", "kept or double")
    assert (result.ret, verdict["status"]) == (1, "unresolved")


@pytest.mark.parametrize("where", ["ini", "conftest"])
def test_what_the_checkout_itself_leaves_out_is_charged_to_it(checkout: pytest.Pytester, where: str) -> None:
    """A patch may write both: it must not get away without a verdict."""
    if where == "ini":
        checkout.path.joinpath("pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = -k plain\n")
    else:
        checkout.makeconftest("def pytest_configure(config): config.option.keyword = 'plain'\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"]) == (1, "unresolved")
    assert "narrowed" not in {reason["code"] for reason in verdict["reasons"]}


def test_a_person_who_names_a_file_is_told_that_the_others_were_not_run(checkout: pytest.Pytester) -> None:
    """Defect: it said that no such test was collected."""
    _, verdict = graded(checkout, "tests/test_other.py")
    assert verdict["status"] == "unresolved"
    assert {reason["message"] for reason in verdict["reasons"] if reason["code"] == "f2p-missing"} == {
        "2 tests: its file was not run"
    }


@pytest.mark.parametrize(("args", "code", "status"), [((), 3, "error"), (("--swelive-any-commit",), 0, "resolved")])
def test_a_checkout_at_another_commit_is_no_verdict(
    checkout: pytest.Pytester, args: Sequence[str], code: int, status: str
) -> None:
    """Defect: a checkout of another commit got reward 1 with listed tests missing."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "lib.py"), ("commit", "-q", "-m", "another")):
        subprocess.run(["git", *identity, *command], cwd=checkout.path, check=True)
    result, verdict = graded(checkout, *args)
    assert (result.ret, verdict["status"]) == (code, status)
    assert [reason["code"] for reason in verdict["reasons"]] == ([] if args else ["another_commit"])


def test_kept_tests_missing_from_a_file_that_ran_are_a_warning_with_their_number(checkout: pytest.Pytester) -> None:
    """Defect: they were silently left alone."""
    rows = checkout.path / "rows.jsonl"
    row = json.loads(rows.read_text())
    row["PASS_TO_PASS"] = [*row["PASS_TO_PASS"], "tests/test_lib.py::test_gone", "tests/test_lib.py::test_gone_too"]
    rows.write_text(json.dumps(row) + "\n")
    result, verdict = graded(checkout)
    assert (result.ret, verdict["status"]) == (0, "resolved")
    message = (
        "2 PASS_TO_PASS tests are missing from files that ran, and no gold control tells whether they should be there"
    )
    assert message in [warning["message"] for warning in verdict["warnings"]]
