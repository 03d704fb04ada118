"""Which new modules take the place of others, and which only look like it."""

from __future__ import annotations

import pytest

from swelive_plugin.workspace.shadow import find_shadows

FLAT = {"pkg/__init__.py", "pkg/core.py", "tests/test_core.py", "tests/conftest.py", "setup.py"}
SRC = {"src/pkg/__init__.py", "src/pkg/core.py", "tests/__init__.py", "tests/unit/__init__.py", "tests/unit/test_a.py"}


def shadows(base: set[str], *new: str, gone: tuple[str, ...] = ()) -> dict[str, str]:
    found = find_shadows(new, base=base, tree=(base | set(new)) - set(gone), top_level={"yaml", "tests", "requests"})
    return {shadow.entry: shadow.why for shadow in found}


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        (FLAT, "shlex.py", {"shlex.py": "shadow-stdlib"}),
        (FLAT, "json/__init__.py", {"json": "shadow-stdlib"}),
        (FLAT, "tests/types.py", {"tests/types.py": "shadow-stdlib"}),
        (FLAT, "distutils/__init__.py", {"distutils": "shadow-stdlib"}),
        (FLAT, "pytest.py", {"pytest.py": "shadow-package"}),
        (FLAT, "_pytest/__init__.py", {"_pytest": "shadow-package"}),
        (FLAT, "yaml.py", {"yaml.py": "shadow-package"}),
        (FLAT, "tests/requests/__init__.py", {"tests/requests": "shadow-package"}),
        (FLAT, "tests/pkg/__init__.py", {"tests/pkg": "shadow-project"}),
        (FLAT, "tests/pkg.py", {"tests/pkg.py": "shadow-project"}),
        (FLAT, "src/pkg/__init__.py", {"src/pkg": "shadow-project"}),
        (SRC, "pkg/__init__.py", {"pkg": "shadow-project"}),
        (SRC, "pkg.py", {"pkg.py": "shadow-project"}),
        (SRC, "src/shlex.py", {"src/shlex.py": "shadow-stdlib"}),
    ],
)
def test_shadow(base: set[str], new: str, expected: dict[str, str]) -> None:
    assert shadows(base, new) == expected


@pytest.mark.parametrize(
    ("base", "new"),
    [
        (FLAT, "pkg/types.py"),  # inside a package: nobody imports it as `types`
        (FLAT, "pkg/json/__init__.py"),
        (FLAT, "newpkg/__init__.py"),
        (FLAT, "reproduce.py"),
        (FLAT, "tests/helpers.py"),
        (FLAT, "tests/__init__.py"),
        (FLAT, "docs/conf.py"),
        (FLAT, "docs/types.py"),  # no root of sys.path
        (FLAT, "json/data.txt"),
        (FLAT, "json/part.py"),  # a namespace part never comes before a real module
        (FLAT, "test/__init__.py"),
        (FLAT, "setup/__init__.py"),
        (SRC, "tests/unit/types.py"),  # tests.unit.types: its folder is a package up to the top
        (SRC | {"src/__init__.py"}, "src/types.py"),
        (FLAT | {"json.py"}, "json/__init__.py"),  # the name is the project's own since base
    ],
)
def test_no_shadow(base: set[str], new: str) -> None:
    assert shadows(base, new) == {}


def test_moving_the_project_into_src_is_no_shadow() -> None:
    gone = ("pkg/__init__.py", "pkg/core.py")
    assert shadows(FLAT, "src/pkg/__init__.py", "src/pkg/core.py", gone=gone) == {}


def test_moving_the_project_into_the_tests_is_one() -> None:
    assert shadows(FLAT, "tests/pkg/__init__.py", gone=("pkg/__init__.py",)) == {"tests/pkg": "shadow-project"}


def test_folder_of_hidden_tests_that_base_does_not_have_is_a_root_too() -> None:
    found = find_shadows(["checks/pkg.py"], base=FLAT, tree=FLAT, top_level=(), tests=["checks/test_new.py"])
    assert [shadow.entry for shadow in found] == ["checks/pkg.py"]
