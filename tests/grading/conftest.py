"""A small project with a bug, graded in this interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swelive_plugin.grading.settings import Settings
from tests.host import Project, host_environments, make_project

BASE = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef name():\n    return 'calc'\n",
    "tests/test_calc.py": "from calc import name\n\n\ndef test_name():\n    assert name() == 'calc'\n",
}
GOLD = {"calc.py": "def add(a, b):\n    return a + b\n\n\ndef name():\n    return 'calc'\n"}
TESTS = {
    "tests/test_calc.py": (
        "import pytest\n\nfrom calc import add, name\n\n\ndef test_name():\n    assert name() == 'calc'\n\n\n"
        "@pytest.mark.parametrize('text, total', [('one and two', 3), ('zeros', 0)])\n"
        "def test_add(text, total):\n    assert add(*{'one and two': (1, 2), 'zeros': (0, 0)}[text]) == total\n"
    )
}


@pytest.fixture(autouse=True)
def _host() -> Iterator[None]:
    with host_environments():
        yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(
        tmp_path,
        BASE,
        gold=GOLD,
        tests=TESTS,
        f2p=["tests/test_calc.py::test_add[one"],
        p2p=["tests/test_calc.py::test_add[zeros-0]", "tests/test_calc.py::test_name"],
    )


@pytest.fixture
def settings(project: Project, tmp_path: Path) -> Settings:
    return project.settings(tmp_path / "cache", timeout_s=60.0)
