"""What every test of the command line works on: a small project, in the host's own environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, host_environments, make_project


@pytest.fixture(autouse=True)
def _host() -> Iterator[None]:
    with host_environments():
        yield


@pytest.fixture
def project(tmp_path: Path) -> Project:
    f2p, p2p = ["tests/test_calc.py::test_add[one"], ["tests/test_calc.py::test_name"]
    return make_project(tmp_path, BASE, gold=GOLD, tests=TESTS, f2p=f2p, p2p=p2p)
