"""What the guard, the canaries and the signed channel report inside, and what the judge makes of it outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.outcome import reduce_events
from swelive_plugin.core.verdict import Finding
from swelive_plugin.integrity.judge import Facts, facts, judge
from swelive_plugin.probe.channel import signed
from swelive_plugin.readers.events import ChannelRead, read_channel

from .support import Ran, run_probe, write_tree


def _of_kind(ran: Ran, kind: str) -> list[Mapping[str, Any]]:
    return [event for event in ran.read.events if event["e"] == kind]


def _tampered(ran: Ran, touched: set[str], control: Facts | None = None) -> set[str]:
    found = judge(ran.read, ran.session, touched=touched, control=control)
    return {finding.code for finding in found if finding.severity == "tampered"}


# The channel


def _lines(count: int) -> list[bytes]:
    written: list[bytes] = []
    send = signed(written.append)
    for number in range(count):
        send(b'{"e":"start","id":"t%d"}\n' % number)
    return written


def _read(path: Path, lines: list[bytes]) -> ChannelRead:
    path.write_bytes(b"".join(lines))
    return read_channel(path)


def test_signed_records_are_read_back_in_order(tmp_path: Path) -> None:
    read = _read(tmp_path / "e", _lines(3))
    assert [event["id"] for event in read.events] == ["t0", "t1", "t2"]
    assert (read.signed, read.foreign) == (True, ())


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda lines: [*lines[:2], b'{"e":"end","exitstatus":0}\n', *lines[2:]], 3),
        (lambda lines: [*lines[:2], lines[2], lines[2], *lines[3:]], 3),
        (lambda lines: [*lines[:3], lines[3].replace(b"t2", b"t9")], 2),
        (lambda lines: [*lines[:2], *lines[3:]], 1),  # one taken out: what follows can't be believed
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 1),
        (lambda lines: [*lines, b"\xff\x00 noise\n"], 3),
    ],
    ids=["added", "doubled", "altered", "dropped", "reordered", "noise"],
)
def test_what_the_recorder_did_not_write_is_foreign(tmp_path: Path, change: Any, kept: int) -> None:
    read = _read(tmp_path / "e", change(_lines(3)))
    assert len(read.events) == kept
    assert read.foreign
    found = judge(read, reduce_events(read.events), touched=())
    assert ("foreign_records", "tampered") in {(finding.code, finding.severity) for finding in found}


def test_a_line_cut_short_by_a_crash_is_no_foreign_record(tmp_path: Path) -> None:
    lines = _lines(2)
    for length in range(len(lines[2])):
        read = _read(tmp_path / "e", [*lines[:2], lines[2][:length]])
        assert (len(read.events), read.foreign) == (1, ())


def test_records_of_another_writer_are_taken_as_they_are(tmp_path: Path) -> None:
    read = _read(tmp_path / "e", [b'{"e":"start","id":"a"}\n', b"noise\n"])
    assert ([event["id"] for event in read.events], read.signed, read.foreign) == (["a"], False, ())


# Inside


def test_an_ordinary_session_shows_nothing(tmp_path: Path) -> None:
    source = """
import unittest, pytest
@pytest.fixture
def n(): return 1
def test_a(n): assert n == 1
@pytest.mark.parametrize("x", [1, 2])
def test_b(x): assert x
class TestC:
    def test_c(self): pass
    @staticmethod
    def test_d(): pass
class TestU(unittest.TestCase):
    def setUp(self): self.n = 1
    def test_e(self): self.assertEqual(self.n, 1)
def test_f(monkeypatch):
    import builtins, _pytest.runner
    monkeypatch.setattr(builtins, "input", None)
    monkeypatch.setattr(_pytest.runner, "show_test_item", None)
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), test_files=("test_m.py",))
    assert set(ran.outcomes.values()) == {"passed"}
    assert not [event for event in _of_kind(ran, "changed") if not str(event["file"]).startswith("/")]
    assert judge(ran.read, ran.session, touched={"test_m.py"}) == ()
    assert judge(ran.read, ran.session, touched={"test_m.py"}, control=Facts()) == ()


def test_canaries_run_hidden_and_end_as_they_must(tmp_path: Path) -> None:
    files = {
        "lib.py": "def f(): return 1\n",
        "test_a.py": "import lib\ndef test_a(): assert lib.f()\n",
        "test_b.py": "def test_b(): pass\n",
        "conftest.py": "seen = []\ndef pytest_runtest_logreport(report): seen.append(report.nodeid)\n"
        "def pytest_unconfigure(): print('seen', len(set(seen)))\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    [told] = _of_kind(ran, "canaries")
    assert set(told["expect"].values()) == {"failed", "passed", "skipped", "error"}
    assert {key: record.outcome.value for key, record in ran.session.canaries.items()} == told["expect"]
    places = [test_id.split("::")[0] for test_id in told["expect"]]
    assert len(set(places)) == 3  # first, between and last
    assert max(map(places.count, places)) == 12  # all kinds in one place, and one that uses the project
    assert ran.outcomes == {"test_a.py::test_a": "passed", "test_b.py::test_b": "passed"}
    assert ran.events[-1] == {"e": "end", "exitstatus": 0, "collected": 2, "failed": 0}
    assert "seen 2" in ran.output
    assert "2 passed" in ran.output
    assert ran.exit_status == 0
    started = [event["id"] for event in ran.read.events if event["e"] == "start"]
    assert started[0] in told["expect"]
    assert started[-1] in told["expect"]


def test_canaries_have_other_names_each_time(tmp_path: Path) -> None:
    names: set[str] = set()
    for number in range(2):
        ran = run_probe(write_tree(tmp_path / f"t{number}", {"test_a.py": "def test_a(): pass\n"}))
        assert not names & set(ran.session.canaries)
        names |= set(ran.session.canaries)
        assert len(ran.session.canaries) >= 11 + 3
    assert len(names) >= 2 * (11 + 3)


def test_module_fixtures_are_set_up_once_in_spite_of_canaries(tmp_path: Path) -> None:
    source = "count = []\ndef setup_module(): count.append(1)\ndef test_a(): pass\ndef test_b(): assert count == [1]\n"
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source, "test_n.py": source}))
    assert set(ran.outcomes.values()) == {"passed"}


def test_a_conftests_autouse_fixtures_run_for_the_tests_alone(tmp_path: Path) -> None:
    """A fixture that gives something once only must give it to the tests, not to a canary before them."""
    files = {
        "tests/conftest.py": "import pytest\nonce = ['shell']\n"
        "@pytest.fixture(scope='module', autouse=True)\ndef shell(): return once.pop() if once else None\n"
        "@pytest.fixture(autouse=True)\ndef counted(counts=[]):\n    counts.append(1)\n    return len(counts)\n",
        "tests/test_m.py": "def test_a(shell, counted): assert (shell, counted) == ('shell', 1)\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files), test_files=("tests/test_m.py",))
    assert ran.outcomes == {"tests/test_m.py::test_a": "passed"}
    assert len(ran.session.canaries) >= 11 + 3
    [told] = _of_kind(ran, "canaries")
    assert {key: record.outcome.value for key, record in ran.session.canaries.items()} == told["expect"]


def test_a_fixture_that_skips_everything_makes_no_canary_lie(tmp_path: Path) -> None:
    files = {
        "conftest.py": "import pytest\n@pytest.fixture(autouse=True)\ndef db(): pytest.skip('no database')\n",
        "test_m.py": "def test_a(): pass\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    assert ran.outcomes == {"test_m.py::test_a": "skipped"}
    assert judge(ran.read, ran.session, touched=(), control=Facts()) == ()


def test_a_patched_runner_is_named_with_its_place(tmp_path: Path) -> None:
    files = {
        "lib.py": "import _pytest.python\n\ndef quiet(self): pass\n_pytest.python.Function.runtest = quiet\n",
        "test_m.py": "import lib\ndef test_a(): assert 0\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files))
    [changed] = [event for event in _of_kind(ran, "changed") if event["file"] == "lib.py"]
    assert (changed["what"], changed["line"]) == ("_pytest.python.Function.runtest", 3)
    assert {"runner_changed", "canary"} <= _tampered(ran, {"lib.py"})
    # where trusted code of the same environment does the same, it is normal
    assert _tampered(ran, {"lib.py"}, facts(ran.read, ran.session)) == set()


def test_a_patch_that_is_taken_back_before_the_end_is_seen(tmp_path: Path) -> None:
    lib = """
import _pytest.python
real = _pytest.python.Function.runtest
def on(): _pytest.python.Function.runtest = lambda self: None
def off(): _pytest.python.Function.runtest = real
"""
    test = "import lib\ndef test_a(): lib.on()\ndef test_b(): assert 0\ndef teardown_module(): lib.off()\n"
    ran = run_probe(write_tree(tmp_path / "t", {"lib.py": lib, "test_m.py": test}))
    assert ran.outcomes["test_m.py::test_b"] == "passed"
    assert "runner_changed" in _tampered(ran, {"lib.py"})


def test_code_that_claims_to_be_the_tests_own_is_told_apart(tmp_path: Path) -> None:
    """A code object can carry any file name; only what was compiled from the file is the file's."""
    lib = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        module = sys.modules.get("test_m")
        if module is not None and hasattr(module, "test_a"):
            exec(compile("def test_a(): pass", module.__file__, "exec"), vars(module))
sys.meta_path.insert(0, Finder())
"""
    test = "import lib\ndef test_a(): assert 0\nimport ast, colorsys\n"
    ran = run_probe(write_tree(tmp_path / "t", {"lib.py": lib, "test_m.py": test}))
    assert ran.outcomes == {"test_m.py::test_a": "passed"}
    assert "runner_changed" in _tampered(ran, {"lib.py"}, Facts())


def test_who_opens_test_files_is_told_but_for_tracebacks_and_warnings(tmp_path: Path) -> None:
    files = {
        "lib.py": "import pathlib, traceback, warnings\n"
        "def peek(): return pathlib.Path('test_m.py').resolve().read_text()\n"
        "def warn():\n    warnings.warn('x', stacklevel=2)\n"
        "def show():\n    return traceback.format_stack()\n",
        "test_m.py": "import lib\ndef test_a(): lib.peek()\ndef test_b(): lib.warn(); lib.show()\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files), test_files=("test_m.py",))
    assert [(e["what"], e["name"], e["file"], e["line"]) for e in _of_kind(ran, "saw")] == [
        ("open", "test_m.py", "lib.py", 2)
    ]
    found = judge(ran.read, ran.session, touched={"lib.py"})
    assert [(finding.code, finding.severity) for finding in found] == [("reads_tests", "flag")]


@pytest.mark.parametrize(
    "path", ['"test_m.py"', 'b"./test_m.py"', 'os.path.join("..", "t", "test_m.py")', 'pathlib.Path("test_m.py")']
)
def test_a_hidden_test_is_told_however_its_path_is_said(path: str, tmp_path: Path) -> None:
    files = {
        "lib.py": f"import os, pathlib\ndef f(): return open({path}).read()\n"
        "def g(): return open('other/test_m.py').read()\n",
        "other/test_m.py": "x = 1\n",
        "test_m.py": "import lib\ndef test_a(): assert lib.f() and lib.g()\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files), ("test_m.py",), test_files=("test_m.py",))
    assert ran.outcomes == {"test_m.py::test_a": "passed"}
    assert [(e["what"], e["name"], e["line"]) for e in _of_kind(ran, "saw")] == [("open", "test_m.py", 2)]


def test_a_report_that_no_hook_made_comes_from_nowhere(tmp_path: Path) -> None:
    lib = """
from _pytest.reports import TestReport
def forge(request):
    report = TestReport(request.node.nodeid, request.node.location, {}, "passed", None, "call")
    request.config.hook.pytest_runtest_logreport(report=report)
"""
    test = "import lib\ndef test_a(request):\n    lib.forge(request)\n    assert 0\n"
    ran = run_probe(write_tree(tmp_path / "t", {"lib.py": lib, "test_m.py": test}))
    assert "report_from_nowhere" in _tampered(ran, {"lib.py"}, Facts())
    assert ran.outcomes == {"test_m.py::test_a": "failed"}


def _of(event: dict[str, object], normal: Facts, touched: str) -> list[tuple[str, str]]:
    read = ChannelRead((event,), signed=True)
    found = judge(read, reduce_events(read.events), touched={touched}, control=normal)
    return [(finding.code, finding.severity) for finding in found]


@pytest.mark.parametrize(
    ("usual", "file", "severity"),
    [
        ("lib/plugin.py", "lib/_hooks.py", "flag"),
        ("lib/a/plugin.py", "lib/b/_hooks.py", "flag"),
        ("conftest.py", "_hooks.py", "flag"),
        ("lib/plugin.py", "other/_hooks.py", "tampered"),
        ("lib/plugin.py", "_hooks.py", "tampered"),
        ("/usr/lib/plugin.py", "_hooks.py", "tampered"),
        ("<made up>", "_hooks.py", "tampered"),
    ],
)
def test_a_hook_or_helper_moved_inside_its_package_asks_for_review_and_fails_nobody(
    usual: str, file: str, severity: str
) -> None:
    """A project that is a plugin, or whose conftest calls into its package, was called tampered for an honest fix."""
    hook = "pytest_runtest_makereport"
    event: dict[str, object] = {"e": "hook", "hook": hook, "plugin": "lib.plugin", "late": True, "file": file}
    assert _of(event, Facts(hooks=frozenset({(hook, usual)})), file) == [("hook_from_patch", severity)]
    other = Facts(hooks=frozenset({("pytest_runtest_call", usual)}))  # a hook that it never had
    assert _of(event, other, file) == [("hook_from_patch", "tampered")]
    way: dict[str, object] = {"e": "changed", "what": f"way of a report through {file}", "test": "t", "file": file}
    known = Facts(changed=frozenset({f"way of a report through {usual}"}))
    assert _of({**way, "when": "test"}, known, file) == [("runner_changed", severity)]
    assert _of({**way, "when": "test"}, Facts(), file) == [("runner_changed", "tampered")]


def test_an_assertion_that_is_swapped_only_while_a_test_runs_is_told(tmp_path: Path) -> None:
    """A fixture of the project's calls into it around each test: at the end, and between tests, all is as it was."""
    files = {
        "lib.py": "import unittest, pytest\nCASE = unittest.TestCase\nREAL = CASE.assertEqual\n"
        "RAISES = type(pytest.raises(ValueError))\nEXIT = RAISES.__exit__\n"
        "def none(self, *given): return True\n"
        "def clear():\n    CASE.assertEqual = none if CASE.assertEqual is REAL else REAL\n"
        "    RAISES.__exit__ = none if RAISES.__exit__ is EXIT else EXIT\n",
        "conftest.py": "import lib, pytest\n@pytest.fixture(autouse=True)\ndef clean():\n"
        "    lib.clear()\n    yield\n    lib.clear()\n",
        "test_m.py": "import unittest, pytest\nclass TestA(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(1, 2)\n"
        "def test_b():\n    with pytest.raises(ValueError): pass\n",
    }
    ran = run_probe(write_tree(tmp_path / "t", files), test_files=("test_m.py",))
    assert set(ran.outcomes.values()) == {"passed"}
    critical = {event["what"] for event in _of_kind(ran, "changed") if event.get("critical")}
    assert "unittest.case.TestCase.assertEqual" in critical
    assert {what.rpartition(".")[2] for what in critical} == {"assertEqual", "__exit__"}
    assert "runner_changed" in _tampered(ran, {"lib.py"}, Facts())


def test_a_project_imported_from_another_folder_is_flagged(tmp_path: Path) -> None:
    test = "import lib\ndef test_a(): assert lib.x\n"
    usual = run_probe(write_tree(tmp_path / "one", {"lib.py": "x = 1\n", "test_m.py": test}))
    other = run_probe(write_tree(tmp_path / "two", {"a/lib.py": "x = 1\n", "a/test_m.py": test}))
    found = judge(other.read, other.session, touched={"a/lib.py"}, control=facts(usual.read, usual.session))
    assert [(finding.code, finding.severity) for finding in found] == [("imported_elsewhere", "flag")]


# Outside


def _judged(*events: Mapping[str, Any], **more: Any) -> list[Finding]:
    read = ChannelRead(events, signed=True)
    return list(judge(read, reduce_events(events), touched={"lib.py"}, **more))


_WRAPPED = {"e": "changed", "what": "test function", "test": "a", "file": "conftest.py"}
_WRAPS = facts(ChannelRead((_WRAPPED,), signed=True), reduce_events([_WRAPPED]))


@pytest.mark.parametrize(
    ("event", "control", "severity"),
    [
        ({"what": "_pytest.runner.call_and_report", "file": "lib.py", "critical": True}, None, "tampered"),
        ({"what": "_pytest.terminal.getreportopt", "file": "lib.py"}, None, "flag"),
        ({"what": "_pytest.terminal.getreportopt", "file": "lib.py"}, Facts(), "tampered"),
        ({"what": "_pytest.terminal.getreportopt", "file": "lib.py"}, Facts(is_plugin=True), "flag"),
        ({"what": "_pytest.terminal.getreportopt", "file": "other.py"}, Facts(), "warning"),
        ({"what": "_pytest.terminal.getreportopt", "file": "/site-packages/x.py"}, Facts(), None),
        ({"what": "_pytest.runner.call_and_report", "file": "/x.py", "critical": True}, Facts(), "tampered"),
        ({"what": "_pytest.runner.call_and_report", "file": "/x.py", "critical": True}, None, "flag"),
        ({"what": "builtins.print", "file": "lib.py"}, Facts(), "flag"),
        ({"what": "builtins.AssertionError", "file": "/x.py"}, Facts(), "tampered"),
        ({"what": "unittest.mock.Mock", "file": "lib.py"}, Facts(), "flag"),
        ({"what": "_pytest.x.y", "file": "<string>"}, Facts(), "tampered"),
        ({"what": "_pytest.x.y", "file": "<string>"}, None, "flag"),
        ({"what": "_pytest.x.y", "file": "lib.py"}, Facts(changed=frozenset({"_pytest.x.y"})), None),
        # a conftest that wraps tests wraps those that only the prediction's session has, too
        ({"what": "test function", "test": "b", "file": "conftest.py"}, Facts(), "tampered"),
        ({"what": "test function", "test": "b", "file": "conftest.py"}, _WRAPS, None),
        ({"what": "test function", "test": "b", "file": "lib.py"}, _WRAPS, "tampered"),
        # a new module of the tree that an installed plugin imports where it can (trio, sniffio, ...)
        ({"what": "_pytest.x.y", "file": "lib.py", "critical": True, "when": "plugins"}, Facts(), "tampered"),
        ({"what": "_pytest.x.y", "file": "lib.py", "when": "plugins"}, Facts(), "tampered"),
        ({"what": "_pytest.x.y", "file": "lib.py", "when": "plugins"}, Facts(is_plugin=True), "flag"),
        ({"what": "_pytest.x.y", "file": "/x.py", "critical": True, "when": "plugins"}, Facts(), None),
        ({"what": "bait", "file": ""}, None, "tampered"),
        ({"what": "sys.settrace", "file": "lib.py"}, Facts(), "flag"),
    ],
)
def test_how_serious_a_change_is(event: dict[str, Any], control: Facts | None, severity: str | None) -> None:
    found = _judged({"e": "changed", "when": "end", **event}, control=control)
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_counts_that_disagree_are_tampering() -> None:
    phases = [{"e": "phase", "id": "a", "when": when, "outcome": "passed"} for when in ("setup", "call", "teardown")]
    end = {"e": "end", "exitstatus": 0, "collected": 1, "failed": 1}
    assert [finding.code for finding in _judged(*phases, end)] == ["counts_disagree"]
    assert _judged(*phases, {**end, "failed": 0}) == []


def test_missing_canaries_are_tampering_only_in_a_session_that_ended() -> None:
    told = {"e": "canaries", "ids": ["c"], "expect": {"c": "failed"}}
    end = {"e": "end", "exitstatus": 0, "collected": 0, "failed": 0}
    assert [finding.code for finding in _judged(told, end)] == ["canary"]
    assert _judged(told) == []
    assert _judged(told, {"e": "interrupted", "msg": "stop"}, end) == []


def test_facts_add_up() -> None:
    one = Facts(changed=frozenset({"a"}), roots={"lib": frozenset({"."})}, unmade=True)
    two = Facts(changed=frozenset({"b"}), roots={"lib": frozenset({"src"})}, is_plugin=True)
    both = one | two
    assert both.changed == {"a", "b"}
    assert both.roots["lib"] == {".", "src"}
    assert (both.unmade, both.is_plugin, both.foreign) == (True, True, False)


def test_the_findings_do_not_depend_on_the_order_of_the_test_files(tmp_path: Path) -> None:
    files = {"lib.py": "import gc\ngc.get_objects()\n", "test_a.py": "import lib\ndef test_a(): pass\n"}
    ran = run_probe(write_tree(tmp_path / "t", files))
    events = [json.loads(json.dumps(event)) for event in ran.read.events]
    one = judge(ChannelRead(tuple(events), signed=True), ran.session, touched={"lib.py"})
    assert [finding.code for finding in one] == ["looks_at_runner"]
