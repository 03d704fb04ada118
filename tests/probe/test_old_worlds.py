"""The probe in every interpreter that is here, each with a pytest of its day and plugins that change reports."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from swelive_plugin.integrity.judge import Facts, judge

from .support import run_probe, write_tree

pytestmark = pytest.mark.network

PythonOf = Callable[[str], str]
WORLDS = {
    "3.6 oldest": ("3.6", ("pytest==3.6.4", "setuptools<50")),
    "3.6": ("3.6", ("pytest==4.6.11",)),
    "3.7": ("3.7", ("pytest==5.4.3", "pytest-rerunfailures==9.1", "pytest-forked==1.3.0", "pytest-xdist==1.34.0")),
    "3.8": ("3.8", ("pytest==6.2.5", "pytest-subtests==0.5.0", "pytest-randomly==3.10.3")),
    "3.9": (
        "3.9",
        ("pytest==7.4.4", "pytest-subtests==0.11.0", "pytest-rerunfailures==13.0", "pytest-asyncio==0.21.1"),
    ),
    "3.10": ("3.10", ("pytest==8.0.2", "pytest-xdist==3.5.0", "pytest-forked==1.6.0")),
    "3.12": ("3.12", ("pytest==8.3.5", "pytest-asyncio==0.24.0", "pytest-random-order==1.1.1")),
    "3.13": ("3.13", ("pytest==9.0.2", "pytest-rerunfailures==16.1")),
    "3.14": ("3.14", ("pytest>=9",)),
}


def _interpreter(version: str) -> str | None:
    """Return an interpreter of this version: pyenv's, else one on PATH that answers."""
    folders = sorted(Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob(f"versions/{version}.*/bin"))
    candidates = [str(folder / "python") for folder in folders] + [shutil.which(f"python{version}") or ""]
    for candidate in filter(None, candidates):
        asked = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if re.match(rf"Python {re.escape(version)}\.", asked.stdout + asked.stderr):
            return candidate
    return None


@pytest.fixture(scope="module")
def python_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return what gives the interpreter of a world's environment, built when first asked for."""
    return functools.cache(lambda world: _build(world, tmp_path_factory.mktemp("world")))


def _build(world: str, home: Path) -> str:
    version, requirements = WORLDS[world]
    interpreter = _interpreter(version)
    if interpreter is None:
        pytest.skip(f"no Python {version} here")
    uv = shutil.which("uv")
    if uv is None:
        from uv import find_uv_bin

        uv = find_uv_bin()
    python = str(home / "bin" / "python")
    subprocess.run([uv, "venv", "-q", "--allow-existing", "--python", interpreter, str(home)], check=True)
    asked = [uv, "pip", "install", "-q", "--python", python, *requirements]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"not to be had from the registry: {done.stderr.strip().splitlines()[-1]}")
    return python


SOURCE = """
import unittest, pytest
@pytest.mark.parametrize("s", ["a b", "c"])
def test_p(s): assert s == "c"
@pytest.mark.xfail
def test_xf(): assert 0
@pytest.mark.xfail
def test_xp(): pass
@pytest.mark.xfail(run=False)
def test_xn(): pass
@pytest.mark.xfail(strict=True)
def test_xs(): pass
@pytest.mark.skip
def test_s(): pass
@pytest.fixture
def bad():
    yield
    raise RuntimeError("down")
def test_t(bad): pass
class TestC:
    def test_m(self): pass
class TestU(unittest.TestCase):
    def test_ok(self): self.assertTrue(1)
    def test_no(self): self.assertEqual(1, 2)
    def test_sk(self): raise unittest.SkipTest("x")
    @unittest.expectedFailure
    def test_ex(self): self.fail()
"""
OUTCOMES = {
    "test_p[a b]": "failed",
    "test_p[c]": "passed",
    "test_xf": "xfailed",
    "test_xp": "xpassed",
    "test_xn": "xfailed",
    "test_xs": "failed",
    "test_s": "skipped",
    "test_t": "error",
    "TestC::test_m": "passed",
    "TestU::test_ok": "passed",
    "TestU::test_no": "failed",
    "TestU::test_sk": "skipped",
    "TestU::test_ex": "xfailed",
}


@pytest.mark.parametrize("world", WORLDS)
def test_outcomes_and_canaries_are_right_and_nothing_is_taken_for_tampering(
    world: str, tmp_path: Path, python_of: Callable[[str], str]
) -> None:
    python = python_of(world)
    tree = write_tree(tmp_path / "t", {"test_m.py": SOURCE, "pytest.ini": "[pytest]\n"})
    ran = run_probe(tree, python=python)
    # pytest 3 shows the instance between a class and its method
    outcomes = {name.replace("::()::", "::"): outcome for name, outcome in ran.outcomes.items()}
    assert outcomes == {f"test_m.py::{name}": outcome for name, outcome in OUTCOMES.items()}, ran.output
    [told] = [event for event in ran.read.events if event["e"] == "canaries"]
    assert {key: record.outcome.value for key, record in ran.session.canaries.items()} == told["expect"]
    assert len(told["expect"]) >= 11 + 3
    for control in (None, Facts()):
        found = judge(ran.read, ran.session, touched={"test_m.py"}, control=control)
        assert [finding for finding in found if finding.severity == "tampered"] == []


@pytest.mark.parametrize("world", WORLDS)
def test_a_patched_runner_and_a_planted_entry_point_are_seen(
    world: str, tmp_path: Path, python_of: Callable[[str], str]
) -> None:
    python = python_of(world)
    files = {
        "lib.py": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
        "test_m.py": "import lib\ndef test_a(): assert 0\n",
        "pytest.ini": "[pytest]\n",
        "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = evilplug\n",
        "evilplug.py": "",
    }
    ran = run_probe(write_tree(tmp_path / "t", files), python=python)
    tampered = {f.code for f in judge(ran.read, ran.session, touched={"lib.py"}) if f.severity == "tampered"}
    assert tampered >= {"runner_changed", "canary"}
    assert not [name for name in ran.events[0]["plugins"] if "evil" in name]


@pytest.mark.parametrize("world", ["3.7", "3.9", "3.13"])
def test_reruns_are_attempts_and_the_last_one_counts(
    world: str, tmp_path: Path, python_of: Callable[[str], str]
) -> None:
    source = (
        "import pytest\nn = []\n@pytest.mark.flaky(reruns=2)\ndef test_a():\n    n.append(1)\n    assert len(n) == 3\n"
    )
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), python=python_of(world))
    record = ran.session.tests["test_m.py::test_a"]
    assert (record.outcome.value, record.attempts, record.flaky) == ("passed", 3, True)
    assert not any(
        finding.severity == "tampered" for finding in judge(ran.read, ran.session, touched=(), control=Facts())
    )


@pytest.mark.parametrize("world", ["3.8", "3.9", "3.13"])
def test_subtests_of_the_plugin_and_of_pytest_itself_fail_their_test(
    world: str, tmp_path: Path, python_of: Callable[[str], str]
) -> None:
    source = """
import unittest
def test_a(subtests):
    for i in range(3):
        with subtests.test(i=i): assert i != 1
def test_b(subtests):
    with subtests.test("fine"): pass
class TestU(unittest.TestCase):
    def test_c(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), python=python_of(world))
    assert ran.outcomes == {
        "test_m.py::test_a": "failed",
        "test_m.py::test_b": "passed",
        "test_m.py::TestU::test_c": "failed",
    }
    assert not any("forged" in event or "unmade" in event for event in ran.events)


@pytest.mark.parametrize("world", ["3.7", "3.10"])
def test_forked_tests_report_through_their_parent(world: str, tmp_path: Path, python_of: PythonOf) -> None:
    source = "import os\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): os.kill(os.getpid(), 9)\n"
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), ["--forked"], python=python_of(world))
    assert ran.outcomes["test_m.py::test_a"] == "passed"
    assert ran.outcomes["test_m.py::test_b"] == "failed"
    assert ran.outcomes["test_m.py::test_c"] in ("failed", "crashed")
    assert ran.phase("test_m.py::test_b")["raised"]["file"] == "test_m.py"
    assert ran.session.ended


@pytest.mark.parametrize("world", ["3.9", "3.12"])
def test_async_tests(world: str, tmp_path: Path, python_of: PythonOf) -> None:
    source = """
import asyncio, pytest
@pytest.mark.asyncio
async def test_a(): await asyncio.sleep(0)
@pytest.mark.asyncio
async def test_b():
    await asyncio.sleep(0)
    assert 0
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}), python=python_of(world))
    assert ran.outcomes == {"test_m.py::test_a": "passed", "test_m.py::test_b": "failed"}
    assert not any(
        finding.severity == "tampered" for finding in judge(ran.read, ran.session, touched=(), control=Facts())
    )


@pytest.mark.parametrize("world", ["3.8", "3.12"])
def test_random_order_is_overridden(world: str, tmp_path: Path, python_of: PythonOf) -> None:
    source = "".join(f"def test_{n:02}(): pass\n" for n in range(40))
    addopts = {"3.8": "", "3.12": "--random-order"}[world]
    files = {"test_m.py": source, "pytest.ini": f"[pytest]\naddopts = {addopts}\n"}
    ran = run_probe(write_tree(tmp_path / "t", files), python=python_of(world))
    assert list(ran.outcomes) == sorted(ran.outcomes)


@pytest.mark.parametrize("world", ["3.7", "3.10"])
def test_xdist_of_the_day(world: str, tmp_path: Path, python_of: PythonOf) -> None:
    source = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_a(n): assert n\n"
    tree = write_tree(tmp_path / "t", {"test_m.py": source})
    ran = run_probe(tree, ["-n", "2"], python=python_of(world), options=())
    assert ran.outcomes == {f"test_m.py::test_a[{n}]": "passed" if n else "failed" for n in range(4)}, ran.output
    assert ran.phase("test_m.py::test_a[0]")["raised"]["type"] == "AssertionError"
