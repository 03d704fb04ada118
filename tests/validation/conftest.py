"""A small project with a bug, graded in this interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swelive_plugin.grading.settings import Settings
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


@pytest.fixture
def settings(project: Project, tmp_path: Path) -> Settings:
    return project.settings(tmp_path / "cache", timeout_s=60.0)
