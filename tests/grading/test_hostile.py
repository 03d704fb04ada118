"""No prediction gets status ``error`` and reward null by what is in it: a way from 0 to no verdict is an exploit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swelive_plugin.core.verdict import Status
from swelive_plugin.grading.pipeline import grade
from swelive_plugin.grading.settings import Settings
from tests.grading.conftest import BASE, GOLD, TESTS
from tests.host import Project, diff_of, make_project


def new_file(path: str, content: str) -> str:
    lines = content.split("\n")
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


HOSTILE: Mapping[str, tuple[str, Status]] = {
    "long name": (new_file("n" * 300, "x"), Status.PATCH_REJECTED),
    "file and folder": (new_file("docs", "x") + new_file("docs/x", "x"), Status.PATCH_FAILED),
    "words of git": (new_file("calc.py/unable to write", "x"), Status.PATCH_FAILED),
    "half an emoji": (new_file("x.txt", "\ud83d"), Status.PATCH_FAILED),
    "no diff": ("I could not do it.\n", Status.PATCH_FAILED),
    "signs": (new_file("deep.py", "-" * 7000 + "1"), Status.UNRESOLVED),
    "sum": (new_file("deep.py", "x = 1" + " + 1" * 5000), Status.UNRESOLVED),
    "elif": (new_file("deep.py", "if a:\n    pass\n" + "elif a:\n    pass\n" * 1100), Status.UNRESOLVED),
    "nested TOML": (new_file("pyproject.toml", "x = " + "[" * 3000 + "]" * 3000), Status.UNRESOLVED),
    "folder called conftest.py": (new_file("conftest.py/x.py", "x = 1"), Status.UNRESOLVED),
    "one long line": (new_file("long.py", "import " * 40_000), Status.UNRESOLVED),
    "parentheses": (new_file("eq.py", "# def __eq__(" + ")" * 40_000), Status.UNRESOLVED),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One project for all, so that its controls run once."""
    ids = ("tests/test_calc.py::test_add[one", "tests/test_calc.py::test_name")
    return make_project(tmp_path_factory.mktemp("hostile"), BASE, gold=GOLD, tests=TESTS, f2p=[ids[0]], p2p=[ids[1]])


@pytest.fixture
def settings(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return project.settings(tmp_path_factory.getbasetemp() / "hostile-cache", timeout_s=60.0, sandbox="none")


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_prediction_gets_null(project: Project, settings: Settings, kind: str) -> None:
    patch, status = HOSTILE[kind]
    verdict = grade(project.instance, patch, settings)
    assert (verdict.status, verdict.reward) == (status, 0.0), verdict.reasons


def test_right_fix_with_a_large_generated_table_is_resolved(project: Project, settings: Settings) -> None:
    table = "TABLE = {\n" + "".join(f"    {n}: ({n}, 'entry {n}'),\n" for n in range(10_000)) + "}\n"
    chain = "def f(a):\n    if a == 0:\n        return 0\n"
    chain += "".join(f"    elif a == {n}:\n        return {n}\n" for n in range(1, 1100))
    patch = project.instance.patch + diff_of(project.repository, {"table.py": table, "chain.py": chain})
    verdict = grade(project.instance, patch, settings)
    assert verdict.status is Status.RESOLVED, verdict.reasons
