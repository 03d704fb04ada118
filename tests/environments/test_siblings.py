"""Names of the checkout are never the registry's: workspaces, sources, path dependencies, requirement files."""

# ruff: noqa: E501  the lines of other people's files are as long as they are
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

import pytest

from swelive_plugin.recipes.discovery import discover
from swelive_plugin.recipes.listing import MemoryFiles
from swelive_plugin.recipes.recipe import Recipe, recipe_from_toml, recipe_to_toml
from swelive_plugin.recipes.requirements import LocalPath, from_line
from swelive_plugin.recipes.siblings import LocalProjects, local_projects, workspace_root

BUILD = "[build-system]\nrequires = ['setuptools']\n"


def project(name: str, *dependencies: str, more: str = "") -> str:
    return f"[project]\nname = '{name}'\nversion = '1'\ndependencies = {list(dependencies)!r}\n{BUILD}{more}"


def found(files: Mapping[str, str], *starts: str) -> LocalProjects:
    return local_projects(MemoryFiles(files), starts)


def first(files: Mapping[str, str], *test_paths: str) -> Recipe:
    date = datetime(2024, 10, 18, tzinfo=timezone.utc)
    return discover(MemoryFiles(files), commit_date=date, minors=[(3, 11)], test_paths=test_paths)[0]


@pytest.mark.parametrize(
    ("line", "local"),
    [
        ("-e ./sub", LocalPath("./sub")),
        ("-e sub[test]", LocalPath("sub", "", ("test",))),
        ("--editable=libs/core", LocalPath("libs/core")),
        ("./sub[x, y]", LocalPath("./sub", "", ("x", "y"))),
        ("libs/core", LocalPath("libs/core")),
        ("../other", LocalPath("../other")),
        ("file:sub", LocalPath("sub")),
        ("file:./sub#egg=My_Sub", LocalPath("./sub", "My_Sub")),
        ("-e file:///${PROJECT_ROOT}/sub#egg=sub", LocalPath("./sub", "sub")),
        ("sub @ file:///${PROJECT_ROOT}/sub", LocalPath("./sub", "sub")),
        ("sub[a] @ {root:uri}/libs/sub", LocalPath("./libs/sub", "sub", ("a",))),
        ("sub @ file:///srv/sub ; python_version > '3'", LocalPath("/srv/sub", "sub")),
        ("-e {toxinidir}/sub", LocalPath("./sub")),
        ("./vendor/x-1-py3-none-any.whl", LocalPath("./vendor/x-1-py3-none-any.whl")),
        ("file:.#egg=repo&subdirectory=sub", LocalPath("./sub", "repo")),
    ],
)
def test_a_local_path_is_read_with_its_name_and_extras(line: str, local: LocalPath) -> None:
    assert from_line(line).local == [local]
    named = [f"{local.name}{'[a]' if local.extras else ''}"] if local.name else []
    assert from_line(line).requirements == named


@pytest.mark.parametrize(
    "line", ["attrs", "a-b.c>=1", "x @ https://h.example/x.whl", "git+https://h.example/a/b", "-e ."]
)
def test_what_is_no_local_path_is_not_taken_for_one(line: str) -> None:
    assert from_line(line).local == []


def test_members_of_a_workspace_by_globs_without_the_excluded_ones() -> None:
    files = {
        "pyproject.toml": "[tool.uv.workspace]\nmembers = ['packages/*', 'deep/**']\nexclude = ['packages/not-*', 'deep/old']\n",
        "packages/alib/pyproject.toml": project("alib"),
        "packages/not-this/pyproject.toml": project("not-this"),
        "packages/group/inner/pyproject.toml": project("inner"),
        "packages/no-project/setup.cfg": "",
        "deep/a/b/pyproject.toml": project("Deep_B"),
        "deep/old/pyproject.toml": project("old"),
        "elsewhere/pyproject.toml": project("elsewhere"),
    }
    assert found(files, "packages/alib").places == {"alib": "packages/alib", "deep-b": "deep/a/b"}
    assert workspace_root(MemoryFiles(files), "packages/not-this") is None
    assert workspace_root(MemoryFiles(files), "deep/a/b") == ""


def test_a_workspace_inside_an_excluded_folder_is_its_own() -> None:
    files = {
        "pyproject.toml": "[tool.uv.workspace]\nmembers = ['packages/*']\nexclude = ['packages/nested']\n",
        "packages/alib/pyproject.toml": project("alib"),
        "packages/nested/pyproject.toml": project("nested", more="[tool.uv.workspace]\nmembers = ['libs/*']\n"),
        "packages/nested/libs/x/pyproject.toml": project("x"),
    }
    assert found(files, "packages/nested/libs/x").places == {
        "x": "packages/nested/libs/x",
        "nested": "packages/nested",
    }
    assert found(files, "packages/alib").places == {"alib": "packages/alib"}


def test_paths_are_followed_through_siblings_also_in_a_circle() -> None:
    files = {
        "a/pyproject.toml": project("a", "my.b", more="[tool.uv.sources]\nMy_B = {path = '../b', editable = true}\n"),
        "b/pyproject.toml": "[tool.poetry]\nname = 'my-b'\n[tool.poetry.group.dev.dependencies]\n"
        "c = {path = '../c', develop = true, extras = ['x']}\n",
        "c/pyproject.toml": project(
            "c", more="[tool.pdm.dev-dependencies]\nx = ['-e file:///${PROJECT_ROOT}/../a#egg=a']\n"
        ),
    }
    assert found(files, "a").places == {"a": "a", "my-b": "b", "c": "c"}


def test_every_alternative_of_a_source_counts_and_one_with_an_address_does_not() -> None:
    sources = "[tool.uv.sources]\nb = [{path = 'b', marker = 'x'}, {index = 'y'}]\nd = {git = 'https://h.example/d'}\n"
    files = {"pyproject.toml": project("a", more=sources), "b/setup.py": "setup(name='b')"}
    assert found(files, "") == LocalProjects({"a": "", "b": "b"}, {})


@pytest.mark.parametrize("path", ["../outside", "/srv/outside", "sub/../../outside"])
def test_a_path_outside_the_checkout_is_refused_with_words(path: str) -> None:
    files = {"pyproject.toml": project("a", "Out_Side>1", more=f"[tool.uv.sources]\nout-side = {{path = '{path}'}}\n")}
    assert found(files, "").refused == {"out-side": f"{path} lies outside the checkout"}
    recipe = first({**files, "requirements-test.txt": "Out_Side==2\nattrs\n"})
    assert recipe.excluded == ("out-side",)
    assert not [line for line in recipe.requirements if line.lower().startswith("out")]
    assert (
        f"out-side: {path} lies outside the checkout; not installed, and no registry is asked for it" in recipe.reasons
    )
    assert not [line for line in recipe.with_requirements(["Out.Side"], "").requirements if line.startswith("Out")]


def test_a_source_that_is_not_there_is_not_asked_of_a_registry_either() -> None:
    files = {"pyproject.toml": project("a", "b", more="[tool.uv.sources]\nb = {path = 'libs/b'}\n")}
    assert first(files).excluded == ("b",)


def test_a_sibling_is_asked_for_without_a_version() -> None:
    files = {
        "pyproject.toml": project(
            "a", more="[tool.uv.sources]\nb = {path = 'b'}\n[dependency-groups]\ntest = ['B[x]==7']\n"
        ),
        "b/pyproject.toml": project("b"),
        "requirements-dev.txt": "-c constraints.txt\nattrs\n",
        "constraints.txt": "b==7\nattrs==23.1\n",
    }
    recipe = first(files)
    assert "B[x]" in recipe.requirements
    assert recipe.constraints == ("attrs==23.1",)
    assert recipe.siblings == {"b": "b"}
    assert recipe_from_toml(recipe_to_toml(recipe)) == recipe


def test_requirement_files_install_from_the_checkout() -> None:
    files = {
        "pyproject.toml": project("a", more="[project.optional-dependencies]\nown = []\n"),
        "requirements/dev.txt": "-e ./libs/b[test]\n-e .[own]\n./gone\nfile:../libs/c\nd @ file:libs/d\n",
        "libs/b/setup.py": "setup(name=name_of_b())",
        "libs/c/pyproject.toml": project("C.c"),
        "libs/d/pyproject.toml": project("d"),
    }
    recipe = first(files)
    assert recipe.beside == ("libs/b[test]", "libs/c", "libs/d")
    assert recipe.siblings == {"c-c": "libs/c", "d": "libs/d"}
    assert recipe.extras == ("own",)
    assert "./gone: there is no project in ./gone; not installed" in recipe.reasons


def test_what_a_test_job_installs_from_the_checkout_is_installed_too() -> None:
    files = {
        "pyproject.toml": project("a"),
        ".github/workflows/ci.yml": "run: pip install -e libs/b -e '.[t]' ./gone && pytest\n",
        "tox.ini": "[testenv]\ndeps =\n  -e {toxinidir}/libs/c\ncommands = pytest\n",
        "libs/b/pyproject.toml": project("b"),
        "libs/c/pyproject.toml": project("c"),
    }
    recipe = first(files)
    assert (recipe.beside, recipe.siblings) == (("libs/b", "libs/c"), {"b": "libs/b", "c": "libs/c"})


def test_a_member_gets_the_groups_of_its_workspaces_root() -> None:
    files = {
        "pyproject.toml": "[tool.uv.workspace]\nmembers = ['packages/*']\n[dependency-groups]\ndev = ['pytest-mock', 'blib']\n",
        "packages/alib/pyproject.toml": project("alib", "blib", more="[tool.uv.sources]\nblib = {workspace = true}\n"),
        "packages/blib/pyproject.toml": project("blib"),
    }
    recipe = first(files, "packages/alib/tests/test_a.py")
    assert (recipe.project, recipe.subdir, recipe.siblings) == ("alib", "packages/alib", {"blib": "packages/blib"})
    assert {"pytest-mock", "blib"} <= set(recipe.requirements)


def test_a_workspaces_root_that_uv_does_not_install_brings_its_dependencies() -> None:
    files = {
        "pyproject.toml": "[project]\nname = 'all'\nversion = '0'\ndependencies = ['alib', 'attrs']\n"
        "[tool.uv.workspace]\nmembers = ['packages/*']\n",
        "packages/alib/pyproject.toml": project("alib"),
        "tests/test_all.py": "import alib\n",
    }
    recipe = first(files, "tests/test_all.py")
    assert (recipe.install, recipe.subdir, recipe.siblings) == ("path", "", {"alib": "packages/alib"})
    assert {"alib", "attrs"} <= set(recipe.requirements)
