"""Requirement lines in the shapes that repositories write them."""

# ruff: noqa: E501  the lines of other people's files are as long as they are
from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from swelive_plugin.recipes.listing import MemoryFiles
from swelive_plugin.recipes.requirements import (
    from_line,
    from_poetry,
    loosened,
    merged,
    poetry_specifier,
    read_requirement_file,
)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pytest>=7,<8  # the runner", ["pytest<8,>=7"]),
        ("requests[socks]==2.1; python_version < '3.9'", ['requests[socks]==2.1; python_version < "3.9"']),
        ("foo==1.0 --hash=sha256:abc --hash=sha256:def", ["foo==1.0"]),
        ("git+https://host.example/o/lib.git@main#egg=lib-name", ["lib-name"]),
        ("git+https://host.example/o/lib.git@v1", ["lib"]),
        ("lib @ git+https://host.example/o/other.git", ["lib"]),
        ("https://host.example/wheels/lib-1.0-py3-none-any.whl", ["lib"]),
        ("numpy=1.20", ["numpy==1.20"]),
        ("--pre", []),
        ("-i https://private.example/simple", []),
        ("", []),
        ("# nothing", []),
    ],
)
def test_one_line(line: str, wanted: list[str]) -> None:
    assert from_line(line).requirements == wanted


def test_a_marker_that_ends_in_a_quote_keeps_it() -> None:
    """Stripping quotes at the ends lost `distro` of a real requirements.txt."""
    line = "distro>=1.4.0, <=1.8.0; platform_system == 'Linux' or platform_system == 'FreeBSD'"
    assert [Requirement(text).name for text in from_line(line).requirements] == ["distro"]


@pytest.mark.parametrize(
    ("line", "extras"), [("-e .[test,dev]", ["test", "dev"]), ("'.[all]'", ["all"]), ("-e.", []), ("file:.[x]", ["x"])]
)
def test_the_project_itself_becomes_its_extras(line: str, extras: list[str]) -> None:
    wanted = from_line(line)
    assert (wanted.extras, wanted.requirements) == (extras, [])


def test_nonsense_is_named_not_taken() -> None:
    assert "not a requirement" in from_line("this is prose").dropped[0]


def test_files_that_include_each_other_end_and_constraints_stay_constraints() -> None:
    files = MemoryFiles(
        {
            "requirements/test.txt": "-r base.txt\n-c ../constraints.txt\npytest\nlong==1 \\\n  --hash=sha256:a\n",
            "requirements/base.txt": "-r test.txt\nattrs\n--extra-index-url https://private.example\n",
            "constraints.txt": "attrs<22\n",
        }
    )
    wanted = read_requirement_file(files, "requirements/test.txt")
    assert wanted.requirements == ["attrs", "pytest", "long==1"]
    assert wanted.constraints == ["attrs<22"]
    assert any("index" in line for line in wanted.dropped)


def test_a_file_that_is_not_there_is_named() -> None:
    assert read_requirement_file(MemoryFiles({}), "gone.txt").dropped == ["gone.txt: absent, too large, or no text"]


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("^7.4.0", ">=7.4.0,<8"), ("^0.10.2", ">=0.10.2,<0.11"), ("^0.0.3", ">=0.0.3,<0.0.4"), ("~1.2.3",
        ">=1.2.3,<1.3"),
        ("~1", ">=1,<2"), ("*", ""), ("1.2", "==1.2"), (">=1.6,<7", ">=1.6,<7"), (">=3.8, <4.0", ">=3.8,<4.0"), ("^1.0 || ^2.0", ">=1.0,<2"),
    ],
)  # fmt: skip
def test_poetrys_carets_and_tildes(text: str, specifier: str) -> None:
    assert poetry_specifier(text) == specifier


def test_poetrys_tables() -> None:
    assert from_poetry("pytest", {"version": "^7", "extras": ["x"]}) == ["pytest[x]<8,>=7"]
    assert from_poetry("lib", {"git": "https://host.example/lib.git"}) == ["lib"]
    assert from_poetry("python", "^3.8") == []
    assert from_poetry("old", {"version": "1.0", "python": "<3.9"}) == ['old==1.0; python_version < "3.9"']
    assert len(from_poetry("two", [{"version": "1", "python": "<3.9"}, {"version": "2", "python": ">=3.9"}])) == 2


def test_loosening_takes_pins_off_and_keeps_bounds() -> None:
    assert loosened("a==1.0") == "a"
    assert loosened("a~=1.0,<3") == "a<3"
    assert loosened('a[x]==1; python_version < "3.9"') == 'a[x]; python_version < "3.9"'
    assert loosened("not a requirement !") == "not a requirement !"


def test_merging_keeps_order_and_leaves_the_project_out() -> None:
    assert merged(["b", "a", "b", "My_Lib>=1"], without=["my-lib", ""]) == ("b", "a")
