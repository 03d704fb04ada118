"""What a base build left compiled, and where setuptools looks for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from swelive_plugin.core.extension_modules import Compiled
from swelive_plugin.environments.extension_builds import (
    compiled_as_dict,
    compiled_from,
    find_artefacts,
    recipe_paths,
    seeds,
)
from swelive_plugin.environments.provider import UvProvider
from swelive_plugin.recipes.recipe import Recipe, recipe_to_toml
from swelive_plugin.sandbox.find import find_sandbox


def tree_of(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def test_artefacts_are_what_the_build_left_and_git_does_not_track(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path, "pkg/_x.so", "pkg/_y.abi3.so", "tests/data/lib.so", "build/lib.linux-x86_64/pkg/_x.so", "pkg/z.py",
        "build/cp311/pkg/_m.so", ".swelive-build/pkg/_x.so",
    )  # fmt: skip
    (tree / "pkg/_link.so").symlink_to("_x.so")
    assert find_artefacts(tree, tracked={"tests/data/lib.so"}) == (
        "build/cp311/pkg/_m.so",
        "pkg/_x.so",
        "pkg/_y.abi3.so",
    )


@pytest.mark.parametrize(
    ("artefacts", "folder", "expected"),
    [
        (["pkg/_x.so"], "", {"pkg/_x.so": "pkg/_x.so"}),
        (["src/pkg/_x.so"], "", {"src/pkg/_x.so": "src/pkg/_x.so", "pkg/_x.so": "src/pkg/_x.so"}),
        (["_root.so"], "", {"_root.so": "_root.so"}),
        (["py/pkg/_x.so", "elsewhere/_x.so"], "py", {"pkg/_x.so": "py/pkg/_x.so"}),
        # two folders without an __init__.py: whose _x it is can't be told
        (["one/_x.so", "two/_x.so"], "", {"one/_x.so": "one/_x.so", "two/_x.so": "two/_x.so"}),
    ],
)
def test_setuptools_finds_what_is_up_to_date_by_the_packages_name(
    tmp_path: Path, artefacts: list[str], folder: str, expected: dict[str, str]
) -> None:
    tree = tree_of(tmp_path, "pkg/__init__.py", "src/pkg/__init__.py", "py/pkg/__init__.py", *artefacts)
    assert seeds(artefacts, folder, tree) == expected


def test_a_backend_in_the_tree_is_found_where_the_project_says(tmp_path: Path) -> None:
    assert recipe_paths(tmp_path, Recipe()) == ()
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = []\nbackend-path = ['_build']\n")
    assert recipe_paths(tmp_path, Recipe()) == ("_build",)
    (tmp_path / "pyproject.toml").write_text("broken")
    assert recipe_paths(tmp_path, Recipe()) == ()


def test_what_is_kept_comes_back() -> None:
    compiled = Compiled("hook", ("pkg/_x.so",), "sub", "sub", "why", ("pkg/_y.so",))
    assert compiled_from(json.loads(json.dumps(compiled_as_dict(compiled)))) == compiled
    assert compiled_from(compiled_as_dict(None)) is None


@pytest.mark.parametrize(
    ("left", "said", "there"), [("x.so", False, False), ("x.py", False, True), ("x.so", True, True)]
)
def test_an_environment_from_before_rebuilds_is_built_again_only_where_it_has_compiled_modules(
    tmp_path: Path, left: str, said: bool, there: bool
) -> None:
    """Its build requirements were not kept: a patch of C code would meet the old binary for ever."""
    provider, sandbox = UvProvider(tmp_path), find_sandbox()
    provider.store.open()
    folder = tree_of(provider.store.built / "key", f"tree/pkg/{left}", "environment.lock").absolute()
    (folder / "recipe.toml").write_text(recipe_to_toml(Recipe()))
    data = {
        "python_version": "3.11.7", "interpreter": sys.executable, "prefix": sys.prefix, "site_folders": [], "env": {},
        "needs_git": False,
    }  # fmt: skip
    compiled = {"compiled": compiled_as_dict(Compiled("setuptools", ("pkg/x.so",)))} if said else {}
    provider.store.finish("key", {**data, **compiled})
    assert (provider._load("key", sandbox) is not None) is there
