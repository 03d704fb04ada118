"""Validation end to end on a small project: what is kept, what is dropped and why, and that it resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from swelive_plugin.core.instance import Instance, instance_from_row
from swelive_plugin.environments import Environment
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.selection import test_files_of as files_of_test_patch
from swelive_plugin.grading.settings import Settings
from swelive_plugin.validation import validate as module
from swelive_plugin.validation.batch import validate_all
from swelive_plugin.validation.derive import Derived, DropReason, derive
from swelive_plugin.validation.validate import Options, Validation
from tests.grading.conftest import BASE, TESTS
from tests.host import HostProvider, Project, diff_of

ONCE = Options(gold_runs=1, base_runs=1)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def variant(project: Project, name: str, **changes: str) -> Instance:
    row = {**project.instance.row, "instance_id": f"o__proj-{name}", **changes}
    for key in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        row.pop(key)
    return instance_from_row(row)


def validated(instances: list[Instance], settings: Settings, out: Path) -> Mapping[str, Validation]:
    found = validate_all(instances, settings, ONCE, out=out)
    return {one.instance_id.rpartition("-")[2]: one for one in found}


def test_lists_are_derived_and_compared_with_those_that_came(
    project: Project, settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    without_lists = variant(project, "2")
    validate_all([project.instance, without_lists], settings, Options(gold_runs=2, base_runs=1), out=out)
    first, second = rows(out / "validated.jsonl")
    assert first["FAIL_TO_PASS"] == second["FAIL_TO_PASS"] == ["tests/test_calc.py::test_add[one and two-3]"]
    assert first["PASS_TO_PASS"] == ["tests/test_calc.py::test_add[zeros-0]", "tests/test_calc.py::test_name"]
    told = first["validation"]
    assert [(run["which"], run["number"], run["ended_by"]) for run in told["runs"]] == [
        ("base", 1, "exit"),
        ("gold", 1, "exit"),
        ("gold", 2, "exit"),
    ]
    assert told["runs"][0]["outcomes"] == {"failed": 1, "passed": 2}
    assert told["test_files"] == ["tests/test_calc.py"]
    assert told["python"] == ".".join(map(str, sys.version_info[:3]))
    assert 'python = "' in told["recipe"]
    (difference,) = rows(out / "differences.jsonl")
    assert difference["same_f2p"] is True
    assert difference["p2p_extra"] == ["tests/test_calc.py::test_add[zeros-0]"]
    assert rows(out / "dropped.jsonl") == []
    upstream = rows(out / "gold_patch_evaluated_instances.jsonl")
    assert upstream == [dict(project.instance.row), second]


def test_each_reason_to_drop(project: Project, settings: Settings, tmp_path: Path) -> None:
    tests = project.instance.test_patch
    data_only = diff_of(project.repository, {"data/x.json": "{}"})
    hangs = diff_of(project.repository, {"calc.py": "import time\ntime.sleep(600)\n"})
    breaks = diff_of(project.repository, {"calc.py": "raise SystemError('no')\n"})
    useless = diff_of(project.repository, {"calc.py": BASE["calc.py"] + "\n\nX = 1\n"})
    found = validated(
        [
            variant(project, "nogold", patch=""),
            variant(project, "notests", test_patch=""),
            variant(project, "badtests", test_patch=tests.replace(" def test_name", " def test_other")),
            variant(project, "badgold", patch=project.instance.patch.replace("a - b", "a * b")),
            variant(project, "nofiles", test_patch=data_only),
            variant(project, "nothing", patch=breaks),
            variant(project, "useless", patch=useless),
            variant(project, "norepo", repo="o/other"),
        ],
        settings,
        tmp_path / "out",
    )
    reasons = {name: one.reason.value if one.reason else "kept" for name, one in found.items()}
    assert reasons == {
        "nogold": "no_gold_patch",
        "notests": "no_test_patch",
        "badtests": "test_patch_fails",
        "badgold": "gold_patch_fails",
        "nofiles": "no_test_files",
        "nothing": "gold_ran_nothing",
        "useless": "no_fail_to_pass",
        "norepo": "no_repository",
    }
    assert {name for name, one in found.items() if not one.settled} == {"norepo"}
    assert "SystemError: no" in found["nothing"].message
    assert "test_add[one and two-3]" in found["useless"].message
    dropped = rows(tmp_path / "out" / "dropped.jsonl")
    assert [row["reason"] for row in dropped] == list(reasons.values())
    hung = validate_all(
        [variant(project, "hangs", patch=hangs)], replace(settings, timeout_s=3.0), ONCE, out=tmp_path / "b"
    )
    assert hung[0].reason is not None
    assert (hung[0].reason.value, "time limit of 3 s" in hung[0].message) == ("gold_broke_off", True)


def test_a_test_that_turns_green_only_sometimes_is_no_proof(
    project: Project, settings: Settings, tmp_path: Path
) -> None:
    """It passes at every other run with the gold patch: without several runs it would look like a good FAIL_TO_PASS."""
    count = tmp_path / "count"
    text = (
        "import pathlib\nfrom calc import add, name\n\n\ndef test_name():\n    assert name() == 'calc'\n\n\n"
        f"def test_add():\n    count = pathlib.Path({str(count)!r})\n"
        "    if add(1, 2) != 3:\n        assert False\n"
        "    seen = count.read_text() if count.exists() else ''\n    count.write_text(seen + 'x')\n"
        "    assert len(seen) % 2 == 0\n"
    )
    flaky = variant(project, "flaky", test_patch=diff_of(project.repository, {"tests/test_calc.py": text}))
    free = replace(settings, sandbox="none")
    (found,) = validate_all([flaky], free, Options(gold_runs=2, base_runs=1), out=tmp_path / "out")
    assert found.reason is not None
    assert (found.reason.value, found.lists.flaky) == ("only_flaky", ("tests/test_calc.py::test_add",))


def test_what_is_there_is_kept_and_what_changed_is_not(project: Project, settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = out / "o__proj-1" / "gold-1" / "done.json"
    (first,) = validate_all([project.instance], settings, ONCE, out=out)
    ran = done.stat().st_mtime_ns
    (again,) = validate_all([project.instance], settings, ONCE, out=out)
    assert (again, done.stat().st_mtime_ns) == (first, ran)
    (more,) = validate_all([project.instance], settings, Options(gold_runs=2, base_runs=1), out=out)
    assert len(more.runs) == 3
    assert done.stat().st_mtime_ns == ran  # the run that was there still counts
    other = replace(project.instance, patch=project.instance.patch + "\n")
    validate_all([other], settings, ONCE, out=out)
    assert done.stat().st_mtime_ns > ran


def test_another_environment_is_sought_only_where_one_could_show_more(
    project: Project, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where gold passes every test, no recipe makes base fail: looking for one would cost builds for nothing."""
    trials: list[bool] = []
    real = HostProvider.provide

    def provide(self: HostProvider, instance: Instance, **more: Any) -> Environment:
        check = more.pop("check")
        environment = real(self, instance, **more)
        trials.append(check(environment).holds)
        return environment

    monkeypatch.setattr(HostProvider, "provide", provide)
    nothing = diff_of(project.repository, {"tests/test_calc.py": BASE["tests/test_calc.py"] + "# no more\n"})
    breaks = diff_of(project.repository, {"calc.py": "raise SystemError('no')\n"})
    rows = [project.instance, variant(project, "2", test_patch=nothing), variant(project, "3", patch=breaks)]
    validate_all(rows, settings, ONCE, out=tmp_path / "out")
    assert trials == [True, True, False]


def test_the_whole_suite_is_run_if_asked_for(project: Project, settings: Settings, tmp_path: Path) -> None:
    more = diff_of(
        project.repository,
        {"other/test_more.py": "from calc import add\n\n\ndef test_more():\n    assert add(1, 1) == 2\n"},
    )
    both = replace(project.instance, test_patch=project.instance.test_patch, patch=project.instance.patch + more)
    (files,) = validate_all([both], settings, ONCE, out=tmp_path / "files")
    (whole,) = validate_all([both], settings, replace(ONCE, scope="all"), out=tmp_path / "all")
    assert (files.test_files, whole.test_files) == (("tests/test_calc.py",), ())
    assert set(whole.lists.fail_to_pass) - set(files.lists.fail_to_pass) == {"other/test_more.py::test_more"}


def test_a_defect_of_ours_is_told_and_ends_no_other_row(
    project: Project, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = derive

    def derive_once(*args: Any) -> Derived:
        monkeypatch.setattr(module, "derive", real)
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(module, "derive", derive_once)
    rows = [project.instance, variant(project, "2")]
    first, second = validate_all(rows, settings, ONCE, out=tmp_path / "out")
    assert (first.settled, first.reason) == (False, DropReason.ERROR)
    assert "ZeroDivisionError: odd" in first.message
    assert second.kept


def test_two_validations_into_one_folder_are_refused(project: Project, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(UsageError, match="another run is writing"):
        validate_all([project.instance], settings, ONCE, out=tmp_path / "out")


def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_files(project: Project, tmp_path: Path) -> None:
    slow = TESTS["tests/test_calc.py"] + "\n\ndef test_slow():\n    import time; time.sleep(1)\n"
    row = {**project.instance.row, "test_patch": diff_of(project.repository, {"tests/test_calc.py": slow})}
    project.dataset.write_text(json.dumps(row) + "\n")
    code = (
        "import sys; from tests.host import host_environments\n"
        "from swelive_plugin.cli import main\n"
        "with host_environments(): main(sys.argv[1:])"
    )
    root = Path(__file__).parents[2]
    fixed = ["-d", project.dataset, "--repo-url", project.repo_url, "--cache", tmp_path / "cache", "--runs", "2"]

    def start(out: Path) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", code, "validate", *map(str, fixed), "-o", str(out)]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(argv, cwd=root, stdout=quiet, stderr=quiet, start_new_session=True)

    out = tmp_path / "killed"
    with start(out) as process:
        until = time.monotonic() + 120
        while not (out / "o__proj-1" / "base-1" / "done.json").exists() and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    assert not (out / "validated.jsonl").exists()
    ran = (out / "o__proj-1" / "base-1" / "done.json").read_bytes()
    for folder in (out, tmp_path / "whole"):
        with start(folder) as process:
            assert process.wait(180) == 0
    assert (out / "o__proj-1" / "base-1" / "done.json").read_bytes() == ran
    names = ["validated.jsonl", "dropped.jsonl", "differences.jsonl", "gold_patch_evaluated_instances.jsonl"]
    assert [timeless(out / name) for name in names] == [timeless(tmp_path / "whole" / name) for name in names]


def timeless(path: Path) -> list[dict[str, Any]]:
    """Return rows without what tells the time."""
    found = rows(path)
    for row in found:
        told = row.get("validation", {})
        told.pop("validated_at", None)
        for run in told.get("runs", []):
            del run["at"], run["duration_s"]
    return found


@pytest.mark.parametrize(
    ("touched", "run"),
    [
        (["tests/test_a.py", "tests/data.json", "tests/conftest.py"], ["tests/test_a.py"]),
        (["tests/data/x.json"], ["tests"]),
        (["tests/functional/ext/x.py"], ["tests"]),
        (["pkg/deep/tests.py"], ["pkg/deep/tests.py"]),
        (["odd/check_it.py"], ["odd/check_it.py"]),
        (["docs/x.json"], []),
        (["only/suffixed_test.py.in"], []),
        (["suffix/data/x.json"], ["suffix"]),
        # data that no touched module lies near: its own tests run too
        (["tests/one/test_b.py", "tests/two/data/x.yaml"], ["tests/one/test_b.py", "tests/two"]),
        (["tests/one/test_b.py", "tests/data/x.yaml"], ["tests/one/test_b.py"]),
    ],
)
def test_which_files_are_run_for_a_test_patch(tmp_path: Path, touched: list[str], run: list[str]) -> None:
    for name in [
        *touched,
        "tests/test_a.py",
        "tests/two/test_c.py",
        "tests/functional/sample_test.py",
        "suffix/a_test.py",
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert files_of_test_patch(touched, tmp_path) == run
