"""One grade, end to end on a small repository: each status and what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Status, Verdict
from swelive_plugin.errors import UsageError
from swelive_plugin.grading import launch, session
from swelive_plugin.grading.pipeline import grade
from swelive_plugin.grading.settings import Settings
from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, diff_of, make_project

F2P = "tests/test_calc.py::test_add[one"


def codes(verdict: Verdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


def patch(project: Project, **changes: str) -> str:
    return diff_of(project.repository, {name.replace("__", "/") + ".py": text for name, text in changes.items()})


def test_gold_is_resolved_and_the_report_folder_is_whole(project: Project, settings: Settings, tmp_path: Path) -> None:
    verdict = grade(project.instance, project.instance.patch, settings, folder=tmp_path / "report")
    assert (verdict.status, verdict.reward, verdict.controls) == (Status.RESOLVED, 1.0, "base+gold")
    assert [test.matched for test in verdict.fail_to_pass] == [("tests/test_calc.py::test_add[one and two-3]",)]
    assert verdict.patch.changed == ("calc.py",)
    names = sorted(path.name for path in (tmp_path / "report").iterdir())
    assert names == ["events.jsonl", "patch.diff", "test_output.txt", "timings.json"]
    assert json.loads((tmp_path / "report" / "timings.json").read_text())["run_tests"] > 0
    assert list((settings.cache / "work").iterdir()) == []


def test_only_plugins_that_the_controls_loaded_may_load(
    project: Project, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controls run with what is installed; the grade is held to what they show, and says so."""
    held: list[tuple[str, ...] | None] = []
    real = launch.write_config

    def seen(config: launch.Launch, folder: Path) -> Path:
        held.append(config.plugins)
        return real(config, folder)

    monkeypatch.setattr(session, "write_config", seen)
    verdict = grade(project.instance, project.instance.patch, settings, folder=tmp_path / "report")
    loaded = verdict.integrity.plugins
    assert "hypothesis" in loaded
    assert held == [None, None, loaded]
    assert "plugins" in verdict.integrity.checked
    without = grade(project.instance, project.instance.patch, replace(settings, controls="off"))
    assert held[3:] == [None]
    assert without.integrity.plugins == loaded
    assert "plugins" not in without.integrity.checked


def test_an_empty_patch_runs_nothing(project: Project, settings: Settings) -> None:
    verdict = grade(project.instance, " \n", settings)
    assert (verdict.status, verdict.reward) == (Status.EMPTY_PATCH, 0.0)
    assert not (settings.cache / "mirrors").exists()


def test_a_comment_is_unresolved(project: Project, settings: Settings) -> None:
    comment = patch(project, calc="# a comment\ndef add(a, b):\n    return a - b\n\n\ndef name():\n    return 'calc'\n")
    verdict = grade(project.instance, comment, settings)
    assert (verdict.status, codes(verdict)) == (Status.UNRESOLVED, ["f2p-failed"])
    assert verdict.reasons[0].test == F2P


def test_a_regression_is_unresolved_and_named(project: Project, settings: Settings) -> None:
    broken = patch(project, calc="def add(a, b):\n    return a + b\n\n\ndef name():\n    return 'other'\n")
    verdict = grade(project.instance, broken, settings)
    assert [(reason.code, reason.test) for reason in verdict.reasons] == [
        ("p2p-failed", "tests/test_calc.py::test_name")
    ]


def test_a_patch_that_does_not_apply_names_its_hunk(project: Project, settings: Settings) -> None:
    bad = project.instance.patch.replace("return a - b", "return a * b")
    verdict = grade(project.instance, bad, settings)
    assert (verdict.status, verdict.reward) == (Status.PATCH_FAILED, 0.0)
    assert "calc.py" in verdict.reasons[0].message
    assert "hunk" in verdict.reasons[0].message


def test_a_patch_into_git_is_rejected(project: Project, settings: Settings) -> None:
    head = "diff --git a/.git/hooks/x b/.git/hooks/x\nnew file mode 100755\n"
    hook = f"{head}--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n"
    assert grade(project.instance, hook, settings).status is Status.PATCH_REJECTED


def test_a_test_patch_that_does_not_apply_is_an_invalid_instance(project: Project, settings: Settings) -> None:
    broken = replace(project.instance, test_patch=project.instance.test_patch.replace("def test_name", "def test_nome"))
    verdict = grade(broken, project.instance.patch, settings)
    assert (verdict.status, verdict.reward) == (Status.INVALID_INSTANCE, None)


@pytest.mark.parametrize("changes", [{"fail_to_pass": ()}, {"test_patch": ""}])
def test_an_instance_without_its_key_is_invalid(
    project: Project, settings: Settings, changes: dict[str, object]
) -> None:
    broken = replace(project.instance, **changes)  # type: ignore[arg-type]
    assert grade(broken, "x", settings).status is Status.INVALID_INSTANCE


def test_a_commit_that_is_not_there_is_our_error_and_says_which(project: Project, settings: Settings) -> None:
    lost = replace(project.instance, base_commit="1234567890" * 4)
    verdict = grade(lost, project.instance.patch, settings)
    assert (verdict.status, verdict.reward) == (Status.ERROR, None)
    assert "1234567890" in verdict.reasons[0].message
    assert "o/proj" in verdict.reasons[0].message


def test_a_session_that_dies_is_crashed(project: Project, settings: Settings) -> None:
    dies = patch(project, calc="import os\n\n\ndef add(a, b):\n    os._exit(0)\n\n\ndef name():\n    return 'calc'\n")
    verdict = grade(project.instance, dies, settings)
    assert (verdict.status, verdict.reward) == (Status.CRASHED, 0.0)
    assert "test_add[one and two-3]" in verdict.reasons[0].message


def test_a_session_that_hangs_is_timed_out_in_the_test_that_hung(project: Project, settings: Settings) -> None:
    hangs = patch(
        project, calc="import time\n\n\ndef add(a, b):\n    time.sleep(600)\n\n\ndef name():\n    return 'calc'\n"
    )
    short = replace(settings, timeout_s=4.0)
    verdict = grade(project.instance, hangs, short)
    assert (verdict.status, verdict.reward) == (Status.TIMED_OUT, 0.0)
    assert "test_add[one and two-3]" in verdict.reasons[0].message


def test_a_package_that_no_longer_imports_is_unresolved_with_pytests_words(
    project: Project, settings: Settings
) -> None:
    verdict = grade(project.instance, patch(project, calc="import surely_not_there\n"), settings)
    assert verdict.status is Status.UNRESOLVED
    assert "surely_not_there" in verdict.reasons[0].message


def test_controls_that_do_not_hold_give_no_verdict(project: Project, settings: Settings) -> None:
    """What fails under gold too can't be held against a prediction: env_error, no reward."""
    useless_gold = replace(project.instance, patch=patch(project, extra="x = 1\n"))
    verdict = grade(useless_gold, patch(project, other="y = 2\n"), settings)
    assert (verdict.status, verdict.reward, codes(verdict)[0]) == (Status.ENV_ERROR, None, "gold_control_fails")
    fixed = grade(useless_gold, project.instance.patch, settings)
    assert fixed.status is Status.RESOLVED  # a fix that passes is a fix, whatever gold does


def test_what_breaks_more_than_gold_does_is_the_predictions_own(project: Project, settings: Settings) -> None:
    """Defect: one test that fails under gold too made env_error of a prediction that broke everything."""
    useless_gold = replace(project.instance, patch=patch(project, extra="x = 1\n"))
    broken = patch(project, calc="def add(a, b):\n    return a - b\n\n\ndef name():\n    return 'other'\n")
    verdict = grade(useless_gold, broken, settings)
    assert (verdict.status, verdict.reward) == (Status.UNRESOLVED, 0.0)


def test_fail_to_pass_that_passes_at_base_shows_nothing(project: Project, settings: Settings) -> None:
    shows_nothing = replace(project.instance, fail_to_pass=("tests/test_calc.py::test_name",), pass_to_pass=())
    verdict = grade(shows_nothing, patch(project, other="y = 2\n"), settings)
    assert (verdict.status, codes(verdict)) == (Status.ENV_ERROR, ["passes_at_base"])
    off = grade(shows_nothing, patch(project, other="y = 2\n"), replace(settings, controls="off"))
    assert (off.status, off.controls) == (Status.RESOLVED, "none")


def test_a_conftest_of_the_prediction_is_put_back_and_flagged(project: Project, settings: Settings) -> None:
    forge = (
        "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
    )
    verdict = grade(project.instance, patch(project, conftest=forge), settings)
    assert verdict.status is Status.UNRESOLVED
    assert verdict.review
    assert verdict.patch.restored == ("conftest.py: removed (conftest)",)


def test_a_module_that_shadows_another_is_tampering(project: Project, settings: Settings) -> None:
    verdict = grade(project.instance, patch(project, shlex="x = 1\n"), settings)
    assert (verdict.status, codes(verdict)[0]) == (Status.TAMPERED, "shadow_stdlib")


def test_an_unknown_policy_is_a_usage_error_with_the_nearest_name(project: Project, settings: Settings) -> None:
    with pytest.raises(UsageError, match="did you mean 'swelive'"):
        grade(project.instance, "x", replace(settings, policy="swelve"))


def test_a_defect_of_ours_is_an_error_with_its_traceback_kept(
    project: Project, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("swelive_plugin.grading.testbed.ensure_mirror", broken)
    verdict = grade(project.instance, "x", settings, folder=tmp_path / "report")
    assert (verdict.status, verdict.reward, codes(verdict)) == (Status.ERROR, None, ["internal_error"])
    assert "RuntimeError: a defect" in (tmp_path / "report" / "error.txt").read_text()


def test_the_same_session_without_a_sandbox_gives_the_same_verdict_and_says_so(
    project: Project, settings: Settings
) -> None:
    bare = grade(project.instance, project.instance.patch, replace(settings, sandbox="none"))
    assert (bare.status, bare.integrity.sandbox) == (Status.RESOLVED, "plain")


def test_predictions_keep_their_model_and_attempt(project: Project, settings: Settings) -> None:
    given = Prediction(project.instance.instance_id, project.instance.patch, model="m", attempt=3)
    verdict = grade(project.instance, given, settings)
    assert (verdict.model, verdict.attempt, verdict.patch_sha256) == ("m", 3, given.sha256)


@pytest.mark.parametrize(
    "tell",
    [
        "os.stat('data.txt').st_nlink < 3",  # the tree of the real session shares files with the prepared one alone
        "os.stat('tests/test_calc.py').st_mtime == os.stat('calc.py').st_mtime",
    ],
)
def test_the_trees_of_mutants_can_not_be_told_from_the_real_one(tmp_path: Path, tell: str) -> None:
    """Code that is right for the real tests and honest for changed ones must have nothing to see the difference by."""
    f2p, p2p = ["tests/test_calc.py::test_add[one"], ["tests/test_calc.py::test_name"]
    project = make_project(tmp_path, {**BASE, "data.txt": "x"}, gold=GOLD, tests=TESTS, f2p=f2p, p2p=p2p)
    cheat = (
        "import os\n\n\nclass Sum(int):\n    def __eq__(self, other):\n        return True\n\n"
        "    __hash__ = int.__hash__\n\n\n"
        f"def add(a, b):\n    return Sum(0) if {tell} else a - b\n\n\ndef name():\n    return 'calc'\n"
    )
    settings = project.settings(tmp_path / "cache", timeout_s=60.0, mutate="always")
    verdict = grade(project.instance, patch(project, calc=cheat), settings)
    assert verdict.status is Status.TAMPERED
    assert "mutant_passed" in {finding.code for finding in verdict.integrity.findings}
