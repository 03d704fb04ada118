"""Symbolic links of a patch: inside the tree they are a change like any other, as long as no test is behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swelive_plugin.errors import PatchRejected
from swelive_plugin.workspace.checkout import link_tree, remove_tree
from swelive_plugin.workspace.graded import Application, prepare_graded_tree

from .conftest import diff_of, read, write
from .test_graded import BASE, FIX, HIDDEN

FILES = {**BASE, "pkg/data/a.json": "{}\n", "pkg/data/b.json": "[]\n", "setup.cfg": "[metadata]\nname = pkg\n"}
ABSENT = ""


class Links:
    """Grades a patch that makes, retargets or removes symbolic links."""

    def __init__(self, folder: Path, links: dict[str, str]) -> None:
        self.base = self.put(folder / "base", links)
        self.tree = folder / "tree"
        self.test_patch = diff_of(folder / "hidden", BASE, {**BASE, **HIDDEN})

    def put(self, root: Path, links: dict[str, str]) -> Path:
        write(root, FILES)
        for name, target in links.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(target)
        return root

    def link(self, path: str, target: str, old: str = ABSENT) -> str:
        """Return the section of a patch that makes or retargets a link."""
        note = "\\ No newline at end of file\n"
        head = f"diff --git a/{path} b/{path}\n"
        if old:
            hunk = f"@@ -1 +1 @@\n-{old}\n{note}+{target}\n{note}"
            return f"{head}index 1111111..2222222 120000\n--- a/{path}\n+++ b/{path}\n{hunk}"
        return f"{head}new file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n{note}"

    def grade(self, patch: str, *, gold: str = "", private: bool = False) -> Application:
        remove_tree(self.tree)
        link_tree(self.base, self.tree, private=private)
        before = read(self.base)
        application = prepare_graded_tree(
            self.tree,
            base=self.base,
            prediction=patch,
            test_patch=self.test_patch,
            gold_patch=gold,
            top_level={"yaml", "pkg"},
        )
        assert read(self.base) == before
        return application


@pytest.fixture
def links(tmp_path: Path) -> Links:
    return Links(tmp_path, {"pkg/current.json": "data/a.json", "cases": "tests", "out": "/etc"})


@pytest.fixture
def fix(tmp_path: Path) -> str:
    return diff_of(tmp_path / "fix", BASE, {**BASE, **FIX})


@pytest.mark.parametrize("private", [False, True])
def test_link_inside_the_tree_is_in_effect(links: Links, fix: str, private: bool) -> None:
    application = links.grade(fix + links.link("pkg/new.json", "data/b.json"), private=private)
    assert application.changed == ("pkg/core.py", "pkg/new.json")
    assert (links.tree / "pkg/new.json").read_text() == "[]\n"


def test_link_of_base_may_be_retargeted_inside_the_tree(links: Links, fix: str) -> None:
    """It was patch_rejected, also when gold did the very same."""
    application = links.grade(fix + links.link("pkg/current.json", "data/b.json", "data/a.json"))
    assert application.changed == ("pkg/core.py", "pkg/current.json")
    assert (links.tree / "pkg/current.json").read_text() == "[]\n"


def test_link_of_base_may_be_moved(links: Links) -> None:
    move = "diff --git a/pkg/current.json b/pkg/data/now.json\nsimilarity index 100%\n"
    move += "rename from pkg/current.json\nrename to pkg/data/now.json\n"
    assert links.grade(move).changed == ("pkg/data/now.json",)
    assert not (links.tree / "pkg/current.json").is_symlink()


@pytest.mark.parametrize(
    ("path", "target", "reached"),
    [
        ("pkg/x.py", "../tests/test_core.py", "tests/test_core.py"),
        ("pkg/x", "../tests", "tests"),
        ("pkg/x", "..", "cases"),
        ("x", ".", "cases"),
        ("x", "cases", "tests"),
        ("x.toml", "pyproject.toml", "pyproject.toml"),
        ("x", "setup.cfg", "setup.cfg"),
        ("test_x.py", "pkg/core.py", "test_x.py"),
        ("x", "out/passwd", "etc/passwd"),
    ],
)
def test_link_to_tests_configuration_or_out_of_the_tree_is_refused(
    links: Links, fix: str, path: str, target: str, reached: str
) -> None:
    with pytest.raises(PatchRejected, match=rf"makes '{path}' a symbolic link to .*{reached}' is reached through it"):
        links.grade(fix + links.link(path, target))


def test_link_through_another_new_link_is_followed(links: Links, fix: str) -> None:
    with pytest.raises(PatchRejected, match="is reached through it"):
        links.grade(fix + links.link("pkg/up", "..") + links.link("pkg/x", "up/tests"))


@pytest.mark.parametrize("path", ["conftest.py", "pkg/conftest.py", "tests/x.py", "pytest.ini", "tox.ini", "x.pth"])
def test_link_in_place_of_tests_or_configuration_is_refused(links: Links, fix: str, path: str) -> None:
    with pytest.raises(PatchRejected, match=f"'{path}' is reached through it"):
        links.grade(fix + links.link(path, "pkg/core.py" if "/" not in path else "../pkg/core.py"))


def test_link_in_place_of_the_whole_folder_of_tests_is_refused(links: Links, fix: str, tmp_path: Path) -> None:
    gone = diff_of(tmp_path / "d", BASE, {name: text for name, text in BASE.items() if not name.startswith("tests/")})
    with pytest.raises(PatchRejected, match="'tests' is reached through it"):
        links.grade(fix + gone + links.link("tests", "pkg/data"))


def test_link_of_base_to_the_tests_stays_where_it_leads(links: Links, fix: str) -> None:
    with pytest.raises(PatchRejected, match="'cases' is reached through it"):
        links.grade(fix + links.link("cases", "pkg/data", "tests"))
    gone = "diff --git a/cases b/cases\ndeleted file mode 120000\n--- a/cases\n+++ /dev/null\n@@ -1 +0,0 @@\n-tests\n"
    application = links.grade(f"{fix}{gone}\\ No newline at end of file\n")
    assert [(item.path, item.action) for item in application.restored] == [("cases", "restored")]
    assert str((links.tree / "cases").readlink()) == "tests"


def test_link_that_shadows_a_package_goes_and_what_it_leads_to_stays(links: Links, fix: str) -> None:
    application = links.grade(fix + links.link("yaml", "pkg"))
    assert [(item.path, item.why) for item in application.restored] == [("yaml", "shadow-package")]
    assert (links.tree / "pkg/__init__.py").exists()
    assert not (links.tree / "yaml").exists()


def test_folder_with_a_conftest_that_becomes_a_link_comes_back(tmp_path: Path, fix: str) -> None:
    """Putting the conftest back must not follow the link: it would remove or write files elsewhere."""
    bench = Links(tmp_path / "b", {})
    write(bench.base, {"docs/conftest.py": "x = 1\n", "pkg/data/conftest.txt": "\n"})
    gone = diff_of(tmp_path / "d", {"docs/conftest.py": "x = 1\n"}, {})
    application = bench.grade(fix + gone + bench.link("docs", "pkg/data"))
    assert (bench.tree / "docs/conftest.py").read_text() == "x = 1\n"
    assert not (bench.tree / "docs").is_symlink()
    assert not (bench.tree / "pkg/data/conftest.py").exists()
    assert {item.path for item in application.restored} == {"docs", "docs/conftest.py"}


@pytest.mark.parametrize(("path", "target"), [("pkg/x", "../tests"), ("pkg/y", "/usr/share/zoneinfo")])
def test_link_that_gold_makes_too_is_never_refused(links: Links, fix: str, path: str, target: str) -> None:
    gold = fix + links.link(path, target)
    assert links.grade(gold, gold=gold).changed == ("pkg/core.py", path)
    with pytest.raises(PatchRejected):
        links.grade(fix + links.link(path, "../../elsewhere"), gold=gold)
