"""Scoring a finished run from its file: what tells nothing of the instance gives no verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.library import score_file

INSTANCE = Instance(
    "o__n-1", "o/n", "0" * 40, fail_to_pass=("pkg/t.py::f[/testbed/x", "pkg/t.py::g"), pass_to_pass=("pkg/t.py::p",)
)
HEAD = "=== test session starts ===\nplatform linux -- Python 3.11.7, pytest-9.0.3, pluggy-1.6.0\nrootdir: {root}\n"
SUMMARY = (
    "=== short test summary info ===\nPASSED {0}f[{root}/x y]\nPASSED {0}g\nPASSED {0}p\n=== 3 passed in 0.1s ===\n"
)


def scored(tmp_path: Path, text: str, *, policy: str = "swelive") -> Verdict:
    path = tmp_path / "log"
    path.write_text(text)
    return score_file(INSTANCE, path, policy=policy)


@pytest.mark.parametrize("root", ["/testbed", "/home/user/project"])
@pytest.mark.parametrize("prefix", ["pkg/t.py::", "../t.py::", "t.py::", "above/pkg/t.py::"])
def test_a_run_in_any_directory(tmp_path: Path, root: str, prefix: str) -> None:
    verdict = scored(tmp_path, HEAD.format(root=root) + SUMMARY.format(prefix, root=root))
    assert (verdict.status, verdict.reasons) == (Status.RESOLVED, ())


def test_the_log_of_another_run_gives_no_verdict(tmp_path: Path) -> None:
    verdict = scored(tmp_path, HEAD + SUMMARY.format("other/u.py::", root="/"))
    assert (verdict.status, verdict.reward) == (Status.ERROR, None)
    assert [reason.code for reason in verdict.reasons] == ["another_run"]


def test_a_log_without_any_session_gives_no_verdict(tmp_path: Path) -> None:
    verdict = scored(tmp_path, "Collecting numpy\nbash: pytest: command not found\n")
    assert (verdict.status, verdict.reward) == (Status.ERROR, None)
    assert [reason.code for reason in verdict.reasons] == ["no_session"]


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "t.py .",
        HEAD + "=== no tests ran in 0.1s ===",
        "ImportError while loading conftest '/p/conftest.py'.\nE   X: no\n",
    ],
)
def test_a_session_that_ran_nothing_is_not_resolved(tmp_path: Path, text: str) -> None:
    verdict = scored(tmp_path, text)
    assert verdict.status in (Status.UNRESOLVED, Status.CRASHED)
    assert verdict.reward == 0.0


@pytest.mark.parametrize("policy", ["swelive", "swebench", "swebench-live", "swebench-live-python"])
def test_each_policy_can_be_named(tmp_path: Path, policy: str) -> None:
    text = HEAD.format(root="/testbed") + SUMMARY.format("pkg/t.py::", root="/testbed")
    assert scored(tmp_path, text, policy=policy).policy == policy
    assert scored(tmp_path, text, policy=policy).resolved


@pytest.mark.parametrize(("scope", "told"), [("all", 1), ("f2p-files", 0)])
def test_a_report_of_part_of_the_files_says_so(tmp_path: Path, scope: str, told: int) -> None:
    """Defect: with scope all, a report of the FAIL_TO_PASS files alone was resolved without a word."""
    path = tmp_path / "log"
    path.write_text(HEAD.format(root="/testbed") + SUMMARY.format("pkg/t.py::", root="/testbed"))
    more = tuple(f"pkg/u{n}.py::q" for n in range(6))
    row = replace(INSTANCE, pass_to_pass=(*INSTANCE.pass_to_pass, *more, "[100%]"))
    verdict = score_file(row, path, scope=scope)
    assert verdict.status is Status.RESOLVED
    warned = [warning.message for warning in verdict.warnings if warning.code == "files_not_recorded"]
    names = ", ".join(f"pkg/u{n}.py" for n in range(5))
    assert warned == [f"6 of 7 listed test files have no test in what was recorded: {names} and 1 more"] * told
    whole = score_file(INSTANCE, path, scope=scope)
    assert "files_not_recorded" not in {warning.code for warning in whole.warnings}
