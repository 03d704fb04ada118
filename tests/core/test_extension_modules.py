"""The decision whether a patch asks for a new build, and what may come back from one."""

from __future__ import annotations

import pytest

from swelive_plugin.core.extension_modules import Compiled, may_come_back, module_of, only_sources, why_rebuild

SO = ".cpython-311-x86_64-linux-gnu.so"
PROJECT = Compiled("setuptools", (f"pkg/_fast{SO}", f"pkg/pure{SO}", f"pkg/tests/_help{SO}", "root.abi3.so"))


@pytest.mark.parametrize(
    "path",
    [
        "src/fast.c", "cextern/lib/x.h", "pkg/_fast.pyx", "pkg/_fast.pxd", "pkg/shared.pxi", "pkg/x.cpp", "src/lib.rs",
        "Cargo.toml", "Cargo.lock", "pkg/meson.build", "meson.options", "CMakeLists.txt", "cmake/find.cmake",
        "setup.py", "pyproject.toml", "setup.cfg", "pkg/setup_package.py", "pkg/loops.c.src", "pkg/algos.pyx.in",
        "pkg/pure.py", "lib/solve.f90",
    ],
)  # fmt: skip
def test_what_compiled_modules_are_made_of_asks_for_a_rebuild(path: str) -> None:
    assert why_rebuild(["README.md", path], PROJECT) == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "pkg/__init__.py", "pkg/other.py", "pkg/pure.pyi", "other/pure.py", "docs/index.rst", "tox.ini", "data.csv",
        "examples/plugin/setup.py", "tests/data/pyproject.toml", "pkg/_fast.py.txt", "src", "",
    ],
)  # fmt: skip
def test_everything_else_leaves_the_old_modules(path: str) -> None:
    assert why_rebuild([path], PROJECT) == ()


def test_a_project_without_compiled_modules_is_never_rebuilt() -> None:
    """A setup.py with optional extensions that did not build, C files that are test data: nothing is made of them."""
    assert why_rebuild(["setup.py", "src/fast.c"], None) == ()
    assert why_rebuild(["setup.py", "src/fast.c"], Compiled("setuptools", ())) == ()


def test_packaging_files_count_where_the_project_is() -> None:
    inner = Compiled("setuptools", (f"py/pkg/_x{SO}",), folder="py", subdir="py")
    assert why_rebuild(["setup.py", "py/setup.py", "pyproject.toml"], inner) == ("py/setup.py",)


@pytest.mark.parametrize(
    ("because", "units"),
    [
        (["a.c", "pkg/b.pyx", "pkg/pure.py", "lib.rs"], True),
        (["a.c", "a.h"], False),
        (["pkg/b.pxd"], False),
        (["setup.py"], False),
        (["pkg/setup_package.py"], False),
        (["Cargo.toml"], False),
    ],
)
def test_only_plain_units_leave_it_to_the_build_tool_what_is_out_of_date(because: list[str], units: bool) -> None:
    assert only_sources(because) is units


def test_the_module_of_an_artefact() -> None:
    assert module_of(f"pkg/_fast{SO}") == "pkg/_fast"
    assert module_of("root.abi3.so") == "root"


@pytest.mark.parametrize(
    ("artefact", "why"),
    [
        (f"pkg/_fast{SO}", ""),
        (f"pkg/_faster{SO}", ""),
        (f"pkg/tests/_help{SO}", "it is in a test folder"),
        (f"pkg/tests/_new{SO}", "it is in a test folder"),
        (f"other/_fast{SO}", "neither base nor gold has a compiled module in that folder"),
        (f"pkg/other{SO}", "it takes the place of a module that is there"),
        (f"pkg/sub{SO}", "it takes the place of a module that is there"),
        (f"pkg/__init__{SO}", "it takes the place of a module that is there"),
        (f"pkg/conftest{SO}", "its name belongs to another module"),
        (f"pkg/test_fast{SO}", "its name belongs to another module"),
        (f"pkg/json{SO}", ""),  # inside a package it shadows nothing
    ],
)
def test_what_may_come_back_from_a_predictions_build(artefact: str, why: str) -> None:
    told = may_come_back(
        artefact, known=PROJECT.artefacts, tree={"__init__.py", "other.py", "sub"}, test_folders={"pkg/tests"},
        names_taken={"json"},
    )  # fmt: skip
    assert told == why


@pytest.mark.parametrize("name", ["json", "sitecustomize", "usercustomize", "conftest", "test_x"])
def test_a_new_module_in_the_root_takes_no_name_that_means_something(name: str) -> None:
    told = may_come_back(
        f"{name}.abi3.so", known=PROJECT.artefacts, tree={"setup.py"}, test_folders=set(), names_taken={"json"}
    )
    assert told == "its name belongs to another module"
