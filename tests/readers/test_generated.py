"""The text reader on what the installed pytest prints of one suite, at every verbosity."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swelive_plugin.readers.text import session_from_lines

SUITE = """
import pytest

def test_a(): print("PASSED test_m.py::gone")

@pytest.mark.parametrize("s", ["a b", "c - d", "e] - f", "x\\\\ny", "[100%]"])
def test_p(s): assert s == "a b", "boom - more\\nPASSED test_m.py::gone"

@pytest.mark.skip(reason="no")
def test_s(): pass

@pytest.mark.xfail(reason="because - of")
def test_x(): assert 0

@pytest.mark.xfail(run=False, reason="never")
def test_nr(): assert 0

@pytest.mark.xfail(reason="hmm PASSED")
def test_xp(): pass

@pytest.mark.xfail(strict=True)
def test_xs(): pass

@pytest.fixture
def late():
    yield
    raise RuntimeError("td")

def test_t(late): pass

@pytest.fixture
def early(): raise RuntimeError("su")

class TestK:
    def test_se(self, early): pass
    def test_k(self): pass
"""
TRUTH = {
    "test_m.py::test_a": "passed",
    "test_m.py::test_p[a b]": "passed",
    "test_m.py::test_p[c - d]": "failed",
    "test_m.py::test_p[e] - f]": "failed",
    "test_m.py::test_p[x\\\\ny]": "failed",
    "test_m.py::test_p[[100%]]": "failed",
    "test_m.py::test_s": "skipped",
    "test_m.py::test_x": "xfailed",
    "test_m.py::test_nr": "xfailed",
    "test_m.py::test_xp": "xpassed",
    "test_m.py::test_xs": "failed",
    "test_m.py::test_t": "error",
    "test_m.py::TestK::test_se": "error",
    "test_m.py::TestK::test_k": "passed",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_m.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.mark.parametrize(
    ("flags", "ci"),
    [
        ("-rA", False),
        ("-rA", True),
        ("-v", False),
        ("-v -rA", True),
        ("-q -rA", False),
        ("-vv --color=yes", False),
        ("-v -s", False),
        ("-n 2 -v", False),
    ],
)
def test_every_outcome_is_read(suite: Path, flags: str, ci: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    if ci:
        environment["CI"] = "true"
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *flags.split()]
    ran = subprocess.run(argv, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    session = session_from_lines(ran.stdout.split("\n"), root=str(suite))
    shown = TRUTH if "-v" in flags else {test_id: word for test_id, word in TRUTH.items() if word != "skipped"}
    assert {test_id: record.outcome.value for test_id, record in session.tests.items()} == shown
    assert session.ended
    if "-n" not in flags:  # under workers the progress does not tell why
        assert not session.tests["test_m.py::test_nr"].body_ran
    if shown is not TRUTH:
        assert any("1 skipped tests are printed without their ids" in note for note in session.notes)
