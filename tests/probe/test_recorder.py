"""What the probe reports of one session: outcomes, exceptions, and what is left after a crash."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from swelive_plugin.probe.recorder import Recorder

from .support import run_probe, write_tree


def test_each_phase_of_each_test_is_one_line(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "t", {"test_m.py": "def test_a(): pass\n"})
    ran = run_probe(tree)
    assert [(e["e"], e.get("when")) for e in ran.events] == [
        ("session", None),
        ("collected", None),
        ("start", None),
        ("phase", "setup"),
        ("phase", "call"),
        ("phase", "teardown"),
        ("end", None),
    ]
    assert ran.events[0]["rootdir"] == str(tree)
    assert ran.events[0]["python"] == "{}.{}.{}".format(*sys.version_info[:3])
    assert ran.events[-1] == {"e": "end", "exitstatus": 0, "collected": 1, "failed": 0}
    assert ran.exit_status == 0


def test_the_place_of_a_failure_is_where_project_code_raised_it(tmp_path: Path) -> None:
    files = {
        "lib.py": "def f():\n    raise KeyError('deep')\n",
        "test_m.py": "import json, lib\ndef test_a():\n    lib.f()\ndef test_b():\n    json.loads('{')\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    assert ran.phase("test_m.py::test_a")["raised"] == {
        "type": "KeyError",
        "msg": "'deep'",
        "file": "lib.py",
        "line": 2,
    }
    assert ran.phase("test_m.py::test_b")["raised"]["file"] == "test_m.py"


def test_a_skip_names_every_project_file_on_its_way(tmp_path: Path) -> None:
    """A library may raise the skip for the project: the deepest frame alone would hide who asked for it."""
    files = {
        "lib.py": "import pytest\ndef f():\n    pytest.skip('later')\n",
        "test_m.py": "import lib, pytest\ndef test_a(): lib.f()\n@pytest.mark.skip(reason='no')\ndef test_b(): pass\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    raised = ran.phase("test_m.py::test_a")["raised"]
    assert (raised["type"], raised["file"], raised["via"]) == ("Skipped", "lib.py", ["test_m.py", "lib.py"])
    assert ran.phase("test_m.py::test_b", "setup")["raised"]["file"] == "test_m.py"


def test_unittest_failures_skips_and_expected_failures(tmp_path: Path) -> None:
    """unittest's exception reaches pytest only inside the makereport hook: looking before it alone misses failures."""
    source = """
import unittest
class T(unittest.TestCase):
    def test_fails(self): self.assertEqual(1, 2)
    def test_skips(self): raise unittest.SkipTest("no")
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    @unittest.skip("never")
    def test_marked(self): pass
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert ran.outcomes == {
        "test_m.py::T::test_fails": "failed",
        "test_m.py::T::test_skips": "skipped",
        "test_m.py::T::test_expected": "xfailed",
        "test_m.py::T::test_unexpected": "failed",
        "test_m.py::T::test_marked": "skipped",
    }
    assert not any("forged" in event for event in ran.events)
    assert ran.phase("test_m.py::T::test_skips")["raised"]["type"] == "SkipTest"


def test_xfail_carries_run_and_strict(tmp_path: Path) -> None:
    source = """
import pytest
@pytest.mark.xfail(run=False, reason="slow")
def test_a(): pass
@pytest.mark.xfail(strict=True)
def test_b(): assert 0
"""
    files = {"test_m.py": source, "pytest.ini": "[pytest]\nxfail_strict = false\n"}
    ran = run_probe(write_tree(tmp_path / "t", files))
    assert ran.phase("test_m.py::test_a", "setup")["xfail"] == {"run": False, "strict": False}
    assert ran.phase("test_m.py::test_b")["xfail"] == {"run": True, "strict": True}
    assert not ran.session.tests["test_m.py::test_a"].body_ran


FORGERIES = {
    "changes the report": "    report = (yield).get_result(); report.outcome = 'passed'; report.longrepr = None\n",
    "drops the note": "    report = (yield).get_result(); vars(report).pop('_swelive', 0); report.outcome = 'passed'\n",
    "empties the call": "    call.excinfo = None; yield\n",
    "claims a skip": "    report = (yield).get_result(); report.outcome = 'skipped'; report.longrepr = ('f', 1, 'r')\n",
    "claims an xfail": "    report = (yield).get_result(); report.outcome = 'skipped'; report.wasxfail = 'known'\n",
}


@pytest.mark.parametrize("body", FORGERIES.values(), ids=FORGERIES)
def test_a_report_that_claims_more_than_was_raised_is_forged(tmp_path: Path, body: str) -> None:
    conftest = (
        "import pytest\n@pytest.hookimpl(hookwrapper=True, trylast=%s)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    if call.when != 'call':\n        yield\n        return\n" + body
    )
    for trylast in (False, True):
        files = {"conftest.py": conftest % trylast, "test_m.py": "def test_a(): assert 0\n"}
        ran = run_probe(write_tree(tmp_path / f"t{trylast}", files))
        assert ran.phase("test_m.py::test_a").get("forged") is True
        assert ran.outcomes == {"test_m.py::test_a": "failed"}


@pytest.mark.parametrize("death", ["os._exit(0)", "os.kill(os.getpid(), 11)", "os.abort()"])
def test_a_crash_loses_nothing_that_was_finished(tmp_path: Path, death: str) -> None:
    source = f"import os\ndef test_a(): pass\ndef test_b(): {death}\ndef test_c(): pass\n"
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert ran.outcomes == {
        "test_m.py::test_a": "passed",
        "test_m.py::test_b": "crashed",
        "test_m.py::test_c": "not_run",
    }
    assert not ran.session.ended


def test_a_hang_is_named(tmp_path: Path) -> None:
    source = "import time\ndef test_a(): pass\ndef test_b(): time.sleep(600)\n"
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), timeout_s=3)
    assert ran.outcomes == {"test_m.py::test_a": "passed", "test_m.py::test_b": "timed_out"}


def test_a_forked_child_that_goes_on_writes_nothing(tmp_path: Path) -> None:
    """A child that returns from its test runs the rest of the session a second time."""
    source = """
import os
def test_a():
    if os.fork() == 0:
        return
    os.wait()
def test_b(): pass
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert [e["id"] for e in ran.events if e["e"] == "start"] == ["test_m.py::test_a", "test_m.py::test_b"]
    assert sum(e["e"] == "end" for e in ran.events) == 1


def test_sessions_inside_the_session_are_silent(tmp_path: Path) -> None:
    """A project that tests pytest runs pytest in process and as a child; neither is the graded session."""
    source = """
import subprocess, sys
pytest_plugins = "pytester"
def test_in_process(pytester):
    pytester.makepyfile("def test_inner(): assert 0")
    pytester.inline_run().assertoutcome(failed=1)
def test_child(pytester):
    pytester.makepyfile("def test_inner(): assert 0")
    assert subprocess.run([sys.executable, "-m", "pytest", "-q"]).returncode == 1
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert ran.outcomes == {"test_m.py::test_in_process": "passed", "test_m.py::test_child": "passed"}, ran.output
    assert sum(e["e"] == "session" for e in ran.events) == 1


def test_a_conftest_that_fails_ends_the_session_with_its_reason(tmp_path: Path) -> None:
    files = {"conftest.py": "import not_there_at_all\n", "test_m.py": "def test_a(): pass\n"}
    ran = run_probe(write_tree(tmp_path / "t", files))
    assert ran.exit_status == 4
    assert "No module named 'not_there_at_all'" in ran.session.internal_error
    assert ran.session.exit_status == 4


def test_import_errors_and_module_skips_name_their_place(tmp_path: Path) -> None:
    files = {
        "lib.py": "import pytest\npytest.skip('not today', allow_module_level=True)\n",
        "test_bad.py": "\nimport not_there_at_all\n",
        "test_skip.py": "import lib\n",
        "test_ok.py": "def test_a(): pass\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    [bad] = [e for e in ran.events if e["e"] == "collect_error"]
    assert (bad["id"], bad["type"], bad["file"], bad["line"]) == (
        "test_bad.py",
        "ModuleNotFoundError",
        "test_bad.py",
        2,
    )
    [skipped] = [e for e in ran.events if e["e"] == "collect_skip"]
    assert (skipped["id"], skipped["file"], skipped["msg"]) == ("test_skip.py", "lib.py", "not today")
    assert ran.outcomes == {"test_ok.py::test_a": "passed"}


def test_pytest_exit_leaves_the_running_test_unfinished(tmp_path: Path) -> None:
    source = "import pytest\ndef test_a(): pytest.exit('done', returncode=0)\n"
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert ran.outcomes == {"test_m.py::test_a": "crashed"}
    assert [e["msg"] for e in ran.events if e["e"] == "interrupted"] == ["done"]


def test_addopts_that_stop_deselect_or_repeat_are_overridden(tmp_path: Path) -> None:
    files = {
        "pytest.ini": "[pytest]\naddopts = -x --ff -k first\n",
        "test_m.py": "def test_first(): assert 0\ndef test_other(): pass\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    assert ran.outcomes == {"test_m.py::test_first": "failed", "test_m.py::test_other": "passed"}


def test_ids_with_every_kind_of_text_arrive_whole(tmp_path: Path) -> None:
    files = {
        "pytest.ini": "[pytest]\ndisable_test_id_escaping_and_forfeit_all_rights_to_community_support = true\n",
        "test_m.py": "import pytest\n@pytest.mark.parametrize('s', ['a\\nb', '\\u65e5', '\"', '\\\\', ' ', '\\x00'])\n"
        "def test_a(s): pass\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    assert list(ran.outcomes) == [f"test_m.py::test_a[{s}]" for s in ("a\nb", "\u65e5", '"', "\\", " ", "\x00")]


def test_xdist_sessions_are_recorded_by_the_controller_alone(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    source = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_a(n): assert n\n"
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), ["-n", "2"], options=())
    assert ran.outcomes == {f"test_m.py::test_a[{n}]": "passed" if n else "failed" for n in range(4)}
    failed = ran.phase("test_m.py::test_a[0]")
    assert failed["raised"]["type"] == "AssertionError"
    assert failed["raised"]["file"] == "test_m.py"
    assert failed["worker"] in ("gw0", "gw1")
    assert ran.events[0]["xdist"] is True
    assert sum(e["e"] == "session" for e in ran.events) == 1


def test_the_recorder_works_alone_in_a_persons_own_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('x')")
    lines: list[bytes] = []
    pytester.inline_run("-p", "no:swelive", plugins=[Recorder(lines.append)])
    events = [json.loads(line) for line in lines]
    assert [e["outcome"] for e in events if e.get("when") == "call"] == ["passed", "skipped"]
    assert events[-1]["e"] == "end"
