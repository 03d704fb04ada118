"""A small project with a bug, proven once, and the tier that it makes; graded in this interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from swelive_plugin.core.instance import instance_from_row
from swelive_plugin.errors import SweliveError
from swelive_plugin.grading.settings import Settings
from swelive_plugin.sandbox.find import find_sandbox
from swelive_plugin.tier.generate import Selection, generate
from swelive_plugin.tier.layout import Tier
from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, host_environments, make_project, run_git_for_tests, write_files

STATEMENT = "add() subtracts.\n\nIt should add {its} arguments."


@pytest.fixture(autouse=True)
def _host() -> Iterator[None]:
    with host_environments():
        yield


@pytest.fixture(scope="session")
def sandboxed() -> None:
    """What an agent does is only held back where there is a sandbox."""
    try:
        find_sandbox("bwrap")
    except SweliveError as error:
        pytest.skip(f"bubblewrap can't run here: {error.evidence or error}")


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project, with the fix as a later commit and a later tag that no work tree may hold."""
    made = make_project(
        tmp_path_factory.mktemp("tier-project"),
        BASE,
        gold=GOLD,
        tests=TESTS,
        f2p=["tests/test_calc.py::test_add[one and two-3]"],
        p2p=["tests/test_calc.py::test_add[zeros-0]", "tests/test_calc.py::test_name"],
    )
    write_files(made.repository, GOLD)
    run_git_for_tests("commit", "--quiet", "--all", "-m", "fix", cwd=made.repository)
    run_git_for_tests("tag", "v2", cwd=made.repository)
    row = {**made.instance.row, "problem_statement": STATEMENT}
    made.dataset.write_text(json.dumps(row) + "\n")
    return Project(instance_from_row(row), made.repo_url, made.dataset, made.repository)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier-cache")


@pytest.fixture
def settings(project: Project, cache: Path) -> Settings:
    return project.settings(cache, timeout_s=60.0)


@pytest.fixture
def tier(project: Project, settings: Settings, tmp_path: Path) -> Tier:
    return generate([project.instance], settings, Selection(), out=tmp_path / "tier", prove=False).tier


def gold_commit(project: Project) -> str:
    return run_git_for_tests("rev-parse", "v2", cwd=project.repository).strip()
