"""The graded tree: what of a prediction is in effect, what was put back, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from swelive_plugin.errors import InstanceError, PatchError, PatchRejected
from swelive_plugin.workspace.checkout import link_tree, remove_tree
from swelive_plugin.workspace.graded import Application, Restored, prepare_graded_tree

from .conftest import Content, diff_of, read, write

PYPROJECT = '[project]\nname = "pkg"\ndependencies = []\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'
BASE: dict[str, Content] = {
    "pkg/__init__.py": "",
    "pkg/core.py": "def f(x):\n    return x\n",
    "tests/conftest.py": "import pytest\n",
    "tests/helpers.py": "LIMIT = 1\n",
    "tests/test_core.py": "from pkg.core import f\n\n\ndef test_f():\n    assert f(1) == 1\n",
    "pyproject.toml": PYPROJECT,
    "README.md": "pkg\n",
}
FIX = {"pkg/core.py": "def f(x):\n    return x + 1\n"}
HIDDEN = {"tests/test_core.py": str(BASE["tests/test_core.py"]).replace("== 1", "== 2")}


class Bench:
    """Grades an edit of ``files`` against a test edit; keeps the trees to look at."""

    def __init__(self, tmp_path: Path, files: Mapping[str, Content] = BASE) -> None:
        self.tmp_path = tmp_path
        self.files = files
        self.base = write(tmp_path / "base", files)
        self.tree = tmp_path / "tree"
        self.serial = 0

    def diff(self, edit: Mapping[str, Content]) -> str:
        self.serial += 1
        new = {name: content for name, content in {**self.files, **edit}.items() if content is not None}
        return diff_of(self.tmp_path / f"diff{self.serial}", self.files, new)

    def grade(
        self,
        edit: Mapping[str, Content] | str,
        *,
        hidden: Mapping[str, Content] = HIDDEN,
        gold: Mapping[str, Content] | None = None,
        private: bool = False,
    ) -> Application:
        remove_tree(self.tree)
        link_tree(self.base, self.tree, private=private)
        application = prepare_graded_tree(
            self.tree,
            base=self.base,
            prediction=edit if isinstance(edit, str) else self.diff(edit),
            test_patch=self.diff(hidden),
            gold_patch=self.diff(gold) if gold else "",
            top_level={"yaml", "pkg"},
        )
        assert read(self.base) == {name: str(content).encode() for name, content in self.files.items()}
        return application

    def text(self, path: str) -> str | None:
        file = self.tree / path
        return file.read_text() if file.is_file() else None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_honest_fix(bench: Bench) -> None:
    application = bench.grade({**FIX, "pkg/types.py": "x = 1\n", "README.md": "pkg!\n"})
    assert application == Application(
        strictness="strict",
        changed=("README.md", "pkg/core.py", "pkg/types.py"),
        test_files=("tests/test_core.py",),
    )
    assert bench.text("pkg/core.py") == FIX["pkg/core.py"]
    assert bench.text("tests/test_core.py") == HIDDEN["tests/test_core.py"]


def test_empty_prediction_is_the_base_control(bench: Bench) -> None:
    assert bench.grade("").strictness == "empty"
    assert bench.text("pkg/core.py") == BASE["pkg/core.py"]
    assert bench.text("tests/test_core.py") == HIDDEN["tests/test_core.py"]


class TestHiddenTests:
    @pytest.mark.parametrize(
        "edit",
        [{"tests/test_core.py": "def test_f():\n    pass\n"}, {"tests/test_core.py": None}],
        ids=["edit", "delete"],
    )
    def test_existing_file_comes_back(self, bench: Bench, edit: dict[str, Content]) -> None:
        application = bench.grade({**FIX, **edit})
        assert application.restored == (Restored("tests/test_core.py", "restored", "test-file"),)
        assert application.changed == ("pkg/core.py",)
        assert application.flags == (
            "files of the hidden tests were written by the prediction and put back: tests/test_core.py",
        )
        assert bench.text("tests/test_core.py") == HIDDEN["tests/test_core.py"]

    def test_new_file_that_the_agent_created_first(self, bench: Bench) -> None:
        hidden: dict[str, Content] = {"tests/test_new.py": "def test_n():\n    assert 0\n"}
        application = bench.grade({**FIX, "tests/test_new.py": "def test_n():\n    pass\n"}, hidden=hidden)
        assert application.restored == (Restored("tests/test_new.py", "removed", "test-file"),)
        assert bench.text("tests/test_new.py") == hidden["tests/test_new.py"]

    def test_both_sides_of_a_rename(self, bench: Bench) -> None:
        old = str(BASE["tests/test_core.py"])
        hidden: dict[str, Content] = {
            "tests/test_core.py": None,
            "tests/unit/test_core.py": old.replace("== 1", "== 2"),
        }
        edit = {"tests/test_core.py": old + "# agent\n", "tests/unit/test_core.py": "def test_f():\n    pass\n"}
        application = bench.grade({**FIX, **edit}, hidden=hidden)
        assert [(item.path, item.action) for item in application.restored] == [
            ("tests/test_core.py", "restored"),
            ("tests/unit/test_core.py", "removed"),
        ]
        assert bench.text("tests/test_core.py") is None
        assert bench.text("tests/unit/test_core.py") == hidden["tests/unit/test_core.py"]
        assert application.test_files == ("tests/unit/test_core.py",)

    def test_folder_where_the_file_will_be(self, bench: Bench) -> None:
        application = bench.grade({**FIX, "tests/test_new.py/x.py": ""}, hidden={"tests/test_new.py": "x = 1\n"})
        assert application.restored == (Restored("tests/test_new.py/x.py", "removed", "test-file"),)
        assert bench.text("tests/test_new.py") == "x = 1\n"

    def test_file_where_the_folder_will_be(self, bench: Bench) -> None:
        application = bench.grade({**FIX, "tests/unit": "file"}, hidden={"tests/unit/test_new.py": "x = 1\n"})
        assert application.restored == (Restored("tests/unit", "removed", "test-file"),)
        assert bench.text("tests/unit/test_new.py") == "x = 1\n"

    def test_file_in_place_of_the_whole_folder(self, bench: Bench) -> None:
        gone: dict[str, Content] = {name: None for name in BASE if name.startswith("tests/")}
        bench.grade({**FIX, **gone, "tests": "a file\n"})
        assert bench.text("tests/test_core.py") == HIDDEN["tests/test_core.py"]
        assert bench.text("tests/helpers.py") == BASE["tests/helpers.py"]

    def test_helpers_of_the_hidden_tests_are_bases(self, bench: Bench) -> None:
        """A helper that hidden tests import decides their outcome like the tests themselves."""
        edit = {"tests/helpers.py": "LIMIT = 2\n", "tests/__init__.py": "", "tests/test_mine.py": "def test(): pass\n"}
        application = bench.grade({**FIX, **edit})
        assert [(item.path, item.action, item.why) for item in application.restored] == [
            ("tests/__init__.py", "removed", "test-support"),
            ("tests/helpers.py", "restored", "test-support"),
            ("tests/test_mine.py", "removed", "test-support"),
        ]
        assert application.flags == (), "agents edit and add tests all the time"
        assert application.changed == ("pkg/core.py",)

    def test_helper_that_gold_changes_too_is_the_predictions(self, bench: Bench) -> None:
        edit: dict[str, Content] = {"tests/helpers.py": "LIMIT = 2\n"}
        application = bench.grade({**FIX, **edit}, gold={**FIX, "tests/helpers.py": "LIMIT = 3\n"})
        assert application.restored == ()
        assert bench.text("tests/helpers.py") == "LIMIT = 2\n"

    def test_source_folder_with_test_in_its_name_is_the_predictions(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, {**BASE, "pkg/test/client.py": "x = 1\n"})
        assert bench.grade({"pkg/test/client.py": "x = 2\n"}).changed == ("pkg/test/client.py",)

    def test_test_patch_that_does_not_apply_is_the_rows_fault(self, bench: Bench) -> None:
        link_tree(bench.base, bench.tree)
        other = bench.diff(HIDDEN).replace("assert f(1) == 1", "assert g(1) == 1")
        with pytest.raises(InstanceError, match=r"the test patch: hunk #1 of tests/test_core\.py, line \d+, does not"):
            prepare_graded_tree(bench.tree, base=bench.base, prediction=bench.diff(FIX), test_patch=other)


class TestConfiguration:
    @pytest.mark.parametrize("path", ["conftest.py", "pkg/conftest.py", "tests/deep/conftest.py"])
    def test_new_conftest_goes(self, bench: Bench, path: str) -> None:
        application = bench.grade({**FIX, path: "raise SystemExit\n"})
        assert application.restored == (Restored(path, "removed", "conftest"),)
        assert application.flags == (f"conftest files were changed by the prediction and put back: {path}",)
        assert bench.text(path) is None

    @pytest.mark.parametrize("content", ["import pytest\nx = 1\n", None])
    def test_conftest_of_base_comes_back(self, bench: Bench, content: str | None) -> None:
        application = bench.grade({**FIX, "tests/conftest.py": content})
        assert application.restored == (Restored("tests/conftest.py", "restored", "conftest"),)
        assert bench.text("tests/conftest.py") == "import pytest\n"

    def test_conftest_that_gold_changes_is_golds(self, bench: Bench) -> None:
        gold = {**FIX, "tests/conftest.py": "import pytest\nGOLD = 1\n", "conftest.py": "NEW = 1\n"}
        application = bench.grade({**FIX, "tests/conftest.py": "import pytest\nMINE = 1\n"}, gold=gold)
        assert application.restored == (Restored("tests/conftest.py", "gold", "conftest"),)
        assert bench.text("tests/conftest.py") == "import pytest\nGOLD = 1\n"
        assert bench.text("conftest.py") is None, "what the prediction leaves alone stays base's"

    def test_gold_itself_is_left_as_it_is(self, bench: Bench) -> None:
        gold: dict[str, Content] = {
            **FIX,
            "tests/conftest.py": "import pytest\nGOLD = 1\n",
            "pytest.ini": "[pytest]\n",
            "pyproject.toml": PYPROJECT.replace('["tests"]', '["tests", "more"]'),
            "setup.cfg": "[tool:pytest]\naddopts = -ra\n",
            "yaml.py": "x = 1\n",
        }
        application = bench.grade(gold, gold=gold)
        assert (application.restored, application.flags) == ((), ())
        assert application.changed == tuple(sorted(gold))

    @pytest.mark.parametrize(
        "path", ["pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tests/pytest.ini", ".coveragerc"]
    )
    def test_new_configuration_file_goes(self, bench: Bench, path: str) -> None:
        application = bench.grade({**FIX, path: "[pytest]\naddopts = -p evil\n"})
        assert application.restored == (Restored(path, "removed", "pytest-config"),)
        assert bench.text(path) is None

    def test_shared_file_keeps_its_packaging_part(self, bench: Bench) -> None:
        edited = PYPROJECT.replace("[]", '["attrs"]').replace('["tests"]', '["evil"]')
        application = bench.grade({**FIX, "pyproject.toml": edited})
        assert application.restored == (Restored("pyproject.toml", "section", "pytest-config"),)
        assert application.changed == ("pkg/core.py", "pyproject.toml")
        assert bench.text("pyproject.toml") == PYPROJECT.replace("[]", '["attrs"]')

    def test_shared_file_with_honest_edits_is_left_alone(self, bench: Bench) -> None:
        edited = PYPROJECT.replace("[]", '["attrs"]')
        application = bench.grade({**FIX, "pyproject.toml": edited, "setup.cfg": "[metadata]\nname = pkg\n"})
        assert application.restored == ()
        assert bench.text("pyproject.toml") == edited

    def test_section_alone_is_as_if_nothing_had_been_changed(self, bench: Bench) -> None:
        application = bench.grade({**FIX, "pyproject.toml": PYPROJECT.replace('["tests"]', '["evil"]')})
        assert application.changed == ("pkg/core.py",)

    def test_section_that_cannot_be_cut_out_costs_the_whole_file(self, bench: Bench) -> None:
        edited = PYPROJECT.replace("[tool.pytest.ini_options]\ntestpaths", "[tool]\npytest.ini_options.testpaths")
        application = bench.grade({**FIX, "pyproject.toml": edited.replace('["tests"]', '["evil"]')})
        assert application.restored == (Restored("pyproject.toml", "restored", "pytest-config"),)
        assert bench.text("pyproject.toml") == PYPROJECT

    @pytest.mark.parametrize(("path", "section"), [("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")])
    def test_new_shared_file_loses_its_section(self, bench: Bench, path: str, section: str) -> None:
        application = bench.grade({path: f"[metadata]\nname = x\n[{section}]\naddopts = -p evil\n"})
        assert application.restored == (Restored(path, "section", "pytest-config"),)
        assert bench.text(path) == "[metadata]\nname = x\n"
        application = bench.grade({path: f"[{section}]\naddopts = -p evil\n"})
        assert application.restored == (Restored(path, "removed", "pytest-config"),)
        assert bench.text(path) is None

    def test_deleted_configuration_comes_back(self, bench: Bench) -> None:
        application = bench.grade({**FIX, "pyproject.toml": None})
        assert application.restored == (Restored("pyproject.toml", "restored", "pytest-config"),)
        assert bench.text("pyproject.toml") == PYPROJECT

    def test_deleted_shared_file_without_a_section_stays_deleted(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, {**BASE, "setup.cfg": "[metadata]\nname = pkg\n"})
        assert bench.grade({**FIX, "setup.cfg": None}).restored == ()
        assert bench.text("setup.cfg") is None

    def test_golds_section_in_the_predictions_file(self, bench: Bench) -> None:
        gold = {**FIX, "pyproject.toml": PYPROJECT.replace('["tests"]', '["tests", "gold"]')}
        mine = PYPROJECT.replace("[]", '["attrs"]').replace('["tests"]', '["evil"]')
        application = bench.grade({**FIX, "pyproject.toml": mine}, gold=gold)
        assert application.restored == (Restored("pyproject.toml", "gold", "pytest-config"),)
        assert bench.text("pyproject.toml") == PYPROJECT.replace("[]", '["attrs"]').replace(
            '["tests"]', '["tests", "gold"]'
        )


class TestStart:
    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("sitecustomize.py", "startup"),
            ("usercustomize.py", "startup"),
            ("src/sitecustomize/__init__.py", "startup"),
            ("zz.pth", "startup"),
            ("evil-1.0.dist-info/entry_points.txt", "metadata"),
            ("src/evil.egg-info/entry_points.txt", "metadata"),
            (".gitattributes", "gitattributes"),
            ("pytest.py", "shadow-package"),
            ("yaml.py", "shadow-package"),
            ("shlex.py", "shadow-stdlib"),
            ("tests/pkg.py", "shadow-project"),
        ],
    )
    def test_new_file_goes(self, bench: Bench, path: str, why: str) -> None:
        application = bench.grade({**FIX, path: "x\n"})
        assert application.restored == (Restored(path, "removed", why),)
        assert len(application.flags) == 1
        assert path in application.flags[0]
        assert application.changed == ("pkg/core.py",)
        assert bool(application.shadows) == why.startswith("shadow")
        assert not (bench.tree / path).exists()

    def test_shadowing_package_goes_whole_and_leaves_no_folder(self, bench: Bench) -> None:
        """An empty folder of that name would still be a namespace package."""
        application = bench.grade({**FIX, "tests/pkg/__init__.py": "", "tests/pkg/sub/core.py": "x = 1\n"})
        assert application.restored == (Restored("tests/pkg", "removed", "shadow-project"),)
        assert application.shadows == application.restored
        assert not (bench.tree / "tests" / "pkg").exists()

    def test_metadata_that_the_build_left_is_no_obstacle(self, tmp_path: Path) -> None:
        """A prepared tree has the egg-info of its install; an agent that committed its own must not fail on it."""
        bench = Bench(tmp_path, {**BASE, "pkg.egg-info/PKG-INFO": "built\n"})
        info = "diff --git a/pkg.egg-info/PKG-INFO b/pkg.egg-info/PKG-INFO\nnew file mode 100644\n--- /dev/null\n"
        application = bench.grade(bench.diff(FIX) + info + "+++ b/pkg.egg-info/PKG-INFO\n@@ -0,0 +1 @@\n+mine\n")
        assert application.restored == (Restored("pkg.egg-info/PKG-INFO", "restored", "metadata"),)
        assert bench.text("pkg.egg-info/PKG-INFO") == "built\n"
        assert bench.text("pkg/core.py") == FIX["pkg/core.py"]


def test_private_tree_stays_private(bench: Bench) -> None:
    """Without an overlay the graded code writes into the tree itself: nothing of base may be linked into it."""
    application = bench.grade({**FIX, "tests/conftest.py": "x = 1\n", "tests/test_core.py": None}, private=True)
    assert application.changed == ("pkg/core.py",)
    assert {path.stat().st_nlink for path in bench.tree.rglob("*") if path.is_file()} == {1}


def test_refused_and_failing_predictions(bench: Bench) -> None:
    with pytest.raises(PatchRejected, match=r"it is inside \.git"):
        bench.grade("diff --git a/.git/x b/.git/x\nnew file mode 100644\n")
    with pytest.raises(PatchError, match=r"the prediction: hunk #1 of pkg/core\.py, line 1, does not apply"):
        bench.grade(bench.diff(FIX).replace("def f(x)", "def g(x)"))
    with pytest.raises(PatchError, match="there is no diff"):
        bench.grade("I could not fix it.\n")


def test_flags_name_five_paths_at_most(bench: Bench) -> None:
    application = bench.grade({f"d{number}/conftest.py": "" for number in range(8)})
    assert application.flags[0].endswith("d0/conftest.py, d1/conftest.py, d2/conftest.py, d3/conftest.py, "
                                         "d4/conftest.py and 3 more")  # fmt: skip
