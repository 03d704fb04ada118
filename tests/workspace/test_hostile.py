"""What goes wrong while a prediction's content is handled is the prediction's: `PatchError` or a tree, nothing else.

An `InfraError` or any other exception would end as status ``error`` with reward null, and so would be a way out of a
reward of 0.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import gzip
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swelive_plugin.errors import InfraError, InstanceError, PatchError, PatchRejected
from swelive_plugin.workspace import graded as module
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.checkout import link_tree, remove_tree
from swelive_plugin.workspace.graded import Application, prepare_graded_tree
from swelive_plugin.workspace.patch import check_patch

from .conftest import diff_of, read, write
from .test_graded import BASE, FIX, HIDDEN, PYPROJECT, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def new_file(path: str, content: str = "x") -> str:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{content}\n"
    )


class TestPaths:
    def test_over_long_name_is_refused(self, bench: Bench) -> None:
        """git says "unable to write" of it, which was read as a full disk."""
        with pytest.raises(PatchRejected, match="no file system takes a name of more than 255 bytes"):
            bench.grade(bench.diff(FIX) + new_file("n" * 300))

    def test_over_long_and_deep_paths_are_refused(self, bench: Bench) -> None:
        for path in ("/".join(["d" * 200] * 6), "/".join("d" * 100)):
            with pytest.raises(PatchRejected, match="longer than 1024 bytes or 64 folders"):
                bench.grade(new_file(path))

    def test_file_and_folder_of_one_name_fail(self, bench: Bench) -> None:
        with pytest.raises(PatchError, match="docs"):
            bench.grade(bench.diff(FIX) + new_file("docs") + new_file("docs/x"))

    def test_file_where_base_has_a_folder_fails(self, bench: Bench) -> None:
        with pytest.raises(PatchError, match="pkg"):
            bench.grade(new_file("pkg"))

    def test_folder_where_base_has_a_file_fails(self, bench: Bench) -> None:
        with pytest.raises(PatchError, match=r"README\.md"):
            bench.grade(new_file("README.md/x"))

    def test_words_of_git_in_a_name_are_no_full_disk(self, bench: Bench) -> None:
        patch = bench.diff(FIX).replace("pkg/core.py", "unable to write: No space left on device.py")
        with pytest.raises(PatchError, match="does not exist in the tree"):
            bench.grade(patch)

    @pytest.mark.parametrize("path", ["tests/conftest.py", "pyproject.toml", "tests/test_core.py", "tests"])
    def test_folder_in_place_of_what_is_put_back(self, bench: Bench, path: str) -> None:
        """conftest.py/x was an internal error: what is put back stood in the way of what was removed after it."""
        gone = {name: None for name in BASE if name == path or name.startswith(f"{path}/")}
        bench.grade({**FIX, **gone, (f"{path}/x.py" if "." in path else path): "x = 1\n"})
        assert bench.text("tests/conftest.py") == BASE["tests/conftest.py"]
        assert bench.text("tests/test_core.py") == HIDDEN["tests/test_core.py"]
        assert bench.text("pyproject.toml") == PYPROJECT
        assert bench.text("pkg/core.py") == FIX["pkg/core.py"]

    def test_many_files_are_refused(self, bench: Bench) -> None:
        with pytest.raises(PatchRejected, match="changes 20001 files; 20000 is the limit"):
            bench.grade("".join(f"diff --git a/{n} b/{n}\nnew file mode 100644\n" for n in range(20_001)))


class TestConfiguration:
    @pytest.mark.parametrize(
        "content",
        [
            "x = " + "[" * 3000 + "]" * 3000 + "\n",
            "x = " + "{a=" * 3000 + "1" + "}" * 3000 + "\n",
            "[" * 50_000 + "\n",
            "x = " + "9" * 10_000 + "\n",
            "[" + ".".join(["a"] * 4000) + "]\n" + "b=1\n" * 4000,
            ".".join(["a"] * 20_000) + " = 1\n",
            "\0",
        ],
        ids=["arrays", "tables", "headers", "digits", "long-table-name", "long-key", "nul"],
    )
    def test_pyproject_that_no_parser_gets_through_is_put_back(self, bench: Bench, content: str) -> None:
        patch = bench.diff({**FIX, "pyproject.toml": PYPROJECT + "[tool.x]\n" + content})
        began = time.process_time()
        application = bench.grade(patch)
        assert time.process_time() - began < 5
        assert [(item.path, item.action) for item in application.restored] == [("pyproject.toml", "restored")]
        assert bench.text("pyproject.toml") == PYPROJECT


class TestTestPatch:
    def test_test_patch_that_copies_a_source_applies_whatever_the_prediction_did_to_it(self, tmp_path: Path) -> None:
        """``git diff -C`` names the source only: the prediction's version of it was in the way (invalid_instance)."""
        source = "".join(f"line {number}\n" for number in range(40))
        bench = Bench(tmp_path, {**BASE, "pkg/cases.txt": source})
        copy = (
            "diff --git a/pkg/cases.txt b/tests/cases.txt\nsimilarity index 90%\ncopy from pkg/cases.txt\n"
            "copy to tests/cases.txt\n--- a/pkg/cases.txt\n+++ b/tests/cases.txt\n"
            "@@ -1,3 +1,3 @@\n line 0\n-line 1\n+2\n line 2\n"
        )
        link_tree(bench.base, bench.tree)
        application = prepare_graded_tree(
            bench.tree,
            base=bench.base,
            prediction=bench.diff({**FIX, "pkg/cases.txt": source.replace("line 1\n", "mine\n")}),
            test_patch=bench.diff(HIDDEN) + copy,
        )
        assert application.test_files == ("tests/cases.txt", "tests/test_core.py")
        assert bench.text("tests/cases.txt") == source.replace("line 1\n", "2\n", 1)
        assert str(bench.text("pkg/cases.txt")).startswith("line 0\nmine\n")

    def test_data_beside_the_hidden_tests_is_bases_whatever_the_folder_is_called(self, tmp_path: Path) -> None:
        test = "def test_x():\n    assert 0\n"
        for number, folder in enumerate(("pkg/testsuite", "pkg/checks")):
            bench = Bench(tmp_path / str(number), {**BASE, f"{folder}/cases.json": "{}", f"{folder}/test_x.py": test})
            hidden = {f"{folder}/test_x.py": test.replace("0", "1")}
            application = bench.grade({**FIX, f"{folder}/cases.json": "[1]"}, hidden=hidden)
            assert bench.text(f"{folder}/cases.json") == "{}"
            assert application.changed == ("pkg/core.py",)

    def test_package_with_tests_beside_its_code_is_no_folder_of_tests(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, {**BASE, "pkg/test_x.py": "x = 1\n"})
        application = bench.grade({**FIX, "pkg/data.json": "1\n"}, hidden={"pkg/test_x.py": "x = 2\n"})
        assert application.changed == ("pkg/core.py", "pkg/data.json")


class TestSize:
    def test_slow_patch_is_the_predictions(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """git needs time with the square of hunks and lines; it passed our limit, and that was an error of ours."""
        monkeypatch.setattr("swelive_plugin.workspace.apply._CPU_S", 1)
        lines = 200_000
        hunks = "".join(f"@@ -{at},1 +{at},1 @@\n-a\n+b\n" for at in range(1, lines, 8))
        patch = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n{hunks}"
        tree = write(tmp_path / "tree", {"x": "a\n" * lines})
        with pytest.raises(PatchError, match="does not get through it within 1 s of processor time"):
            apply_patch(patch, tree, what="the prediction")

    def test_data_that_grows_is_refused(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"x": "1"})
        head = "diff --git a/b b/b\nnew file mode 100644\nindex 0000000000..1111111111\nGIT binary patch\n"
        with pytest.raises(PatchRejected, match="makes 'b' 9537 MiB large; 128 MiB is the limit"):
            check_patch(f"{head}literal 10000000000\nzcmV\n\n", tree)
        delta = zlib.compress(b"\x01" + b"\x80\x80\x80\x80\x10" + b"\x00")
        packed = chr(ord("A") + len(delta) - 1) + base64.b85encode(delta, pad=True).decode()
        with pytest.raises(PatchRejected, match="makes 'b' 4096 MiB large; 128 MiB is the limit"):
            check_patch(f"{head}delta 7\n{packed}\n\n", tree)

    def test_copies_that_fill_the_disk_are_refused(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"x": b"1" * 2**20})
        copies = [f"diff --git a/x b/{n}\nsimilarity index 100%\ncopy from x\ncopy to {n}\n" for n in range(1025)]
        with pytest.raises(PatchRejected, match="writes more than 1024 MiB"):
            check_patch("".join(copies), tree)

    def test_endless_numbers_are_no_hunk(self, bench: Bench) -> None:
        with pytest.raises(PatchError):
            bench.grade(f"--- a/pkg/core.py\n+++ b/pkg/core.py\n@@ -{'1' * 5000} +1 @@\n-x\n")

    def test_right_fix_with_a_table_of_ten_thousand_entries(self, bench: Bench) -> None:
        table = "TABLE = {\n" + "".join(f"    {n}: ({n}, 'entry {n}'),\n" for n in range(10_000)) + "}\n"
        assert bench.grade({**FIX, "pkg/table.py": table}).changed == ("pkg/core.py", "pkg/table.py")


class TestWhoseFault:
    def fail(self, error: BaseException) -> Callable[..., NoReturn]:
        def raising(*_: object, **__: object) -> NoReturn:
            raise error

        return raising

    @pytest.mark.parametrize("error", [RecursionError("deep"), MemoryError(), OSError(errno.ENAMETOOLONG, "long", "x")])
    def test_the_predictions(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        monkeypatch.setattr(module, "normalise_patch", self.fail(error))
        with pytest.raises(PatchError, match="the prediction can't be"):
            bench.grade(FIX)

    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken"), InfraError("ours")])
    def test_ours(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        monkeypatch.setattr(module, "normalise_patch", self.fail(error))
        with pytest.raises(type(error)):
            bench.grade(FIX)

    def test_full_disk_is_ours(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("swelive_plugin.workspace.apply._has_room", lambda *_: False)
        with pytest.raises(InfraError, match="the disk is full"):
            bench.grade(bench.diff(FIX).replace("def f(x)", "def g(x)"))

    def test_broken_test_patch_is_the_rows(self, bench: Bench) -> None:
        link_tree(bench.base, bench.tree)
        test_patch = bench.diff(HIDDEN).replace("assert f(1) == 1", "assert g(1) == 1")
        with pytest.raises(InstanceError):
            prepare_graded_tree(bench.tree, base=bench.base, prediction=bench.diff(FIX), test_patch=test_patch)

    @pytest.mark.parametrize(("gold", "tests"), [("\ud83d", ""), ("", "\ud83d")])
    def test_half_an_emoji_in_the_row_is_the_rows(self, bench: Bench, gold: str, tests: str) -> None:
        link_tree(bench.base, bench.tree)
        arguments = {"gold_patch": bench.diff(FIX) + gold, "test_patch": bench.diff(HIDDEN) + tests}
        with pytest.raises(InstanceError, match="half of a surrogate pair"):
            prepare_graded_tree(bench.tree, base=bench.base, prediction=bench.diff(FIX), **arguments)


# --- any patch --------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["pkg", "tests", "docs", "core.py", "conftest.py", "test_core.py", "__init__.py", "pyproject.toml", "setup.cfg",
     "yaml.py", "x" * 300, "a b", "é", "\udce9", "\t", '"', "\\", "-", "--- a", "pytest.ini", "x.pth", "json", "lib.so",
     ".git", "..", ".", "unable to write", "\x01", "", "sitecustomize.py", "x.dist-info", "__pycache__"]
)  # fmt: skip
PATHS = st.one_of(
    st.sampled_from(sorted(BASE)), st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.just("a/" * 700)
)
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [" def f(x):", "-    return x", "+    return x + 1", " ", "", "\\ No newline at end of file", "+[" * 900,
             "+[tool.pytest.ini_options]", "+[pytest", "+\r", "-\r", "@@", "--- a/x", "+++ b/x", "literal 9", "zcmV",
             "\x1b[1m"]
        ),
        st.text(max_size=20),
    ),
    max_size=8,
)  # fmt: skip
HUNK = st.tuples(
    st.sampled_from([0, 1, 2, 7, 10**6, 10**12]), st.sampled_from(["", ",0", ",1", ",2", ",3", ",99", ",x"]), LINES
).map(lambda parts: f"@@ -{parts[0]}{parts[1]} +{parts[0]}{parts[1]} @@\n" + "".join(f"{line}\n" for line in parts[2]))
MODES = st.sampled_from(["100644", "100755", "120000", "160000", "040000", "000000", "777777"])
HEADERS = st.one_of(
    st.just(""),
    MODES.map("new file mode {}\n".format),
    MODES.map("deleted file mode {}\n".format),
    st.tuples(MODES, MODES).map(lambda modes: "old mode {}\nnew mode {}\n".format(*modes)),
    MODES.map("index 1111111..2222222 {}\n".format),
    st.tuples(st.sampled_from(["rename", "copy"]), PATHS, PATHS).map(
        lambda m: f"{m[0]} from {m[1]}\n{m[0]} to {m[2]}\n"
    ),
    st.just("GIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n"),
    st.just("Binary files a/x and b/x differ\n"),
)


def section(parts: tuple[str, str, str, str, list[str]]) -> str:
    one, other, headers, shape, hunks = parts
    git = "" if shape == "plain" else f"diff --git a/{one} b/{one}\n"
    old = "/dev/null" if shape == "added" else f"a/{one}"
    new = f"b/{other if shape == 'differing' else one}"
    return f"{git}{headers}--- {old}\n+++ {new}\n" + "".join(hunks)


SHAPES = st.sampled_from(["git", "plain", "added", "differing"])
SECTION = st.tuples(PATHS, PATHS, HEADERS, SHAPES, st.lists(HUNK, max_size=3)).map(section)
PATCHES = st.lists(st.one_of(SECTION, st.text(max_size=30)), max_size=5).map("".join)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    folder = tmp_path_factory.mktemp("hostile")
    return write(folder / "base", BASE), folder, diff_of(folder / "diff", BASE, {**BASE, **HIDDEN})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patch=PATCHES)
def test_no_patch_ends_but_as_its_own_failure_or_a_tree(shared: tuple[Path, Path, str], patch: str) -> None:
    base, folder, test_patch = shared
    tree = folder / "tree"
    remove_tree(tree)
    link_tree(base, tree)
    application: Application | None = None
    with contextlib.suppress(PatchError):
        application = prepare_graded_tree(tree, base=base, prediction=patch, test_patch=test_patch, top_level={"yaml"})
    assert read(base) == {name: str(content).encode() for name, content in BASE.items()}
    if application is not None:
        files = read(tree)
        assert files["tests/test_core.py"] == str(HIDDEN["tests/test_core.py"]).encode()
        assert files["tests/conftest.py"] == str(BASE["tests/conftest.py"]).encode()
        assert [name for name in files if name.endswith("conftest.py")] == ["tests/conftest.py"]
        assert not any(
            b"\n[tool.pytest.ini_options]" in files[n] for n in files if n == "pyproject.toml" and "evil" in n
        )


CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "exploits-2"


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not beside the repository")
@pytest.mark.parametrize("case", [p.name for p in sorted((CASES / "cases").glob("*"))] if CASES.is_dir() else [])
def test_shared_exploit_gives_a_tree_or_its_own_failure(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CASES / "cases" / case
    facts = json.loads((folder / "case.json").read_bytes())
    row = json.loads((CASES / "bases" / f"{facts['base']}.json").read_bytes())
    if (folder / "instance.json").is_file():
        row.update(json.loads((folder / "instance.json").read_bytes()))
    packed = folder / "patch.diff.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / "patch.diff").read_bytes()
    tree, base = tmp_path / "tree", CASES / "bases" / facts["base"]
    link_tree(base, tree, private=True)
    patch = data.decode("utf-8", "surrogatepass" if "surrogate" in case else "surrogateescape")
    monkeypatch.setattr("swelive_plugin.workspace.apply._CPU_S", 2)
    with contextlib.suppress(*([PatchError] if facts["bad"] else [])):
        prepare_graded_tree(tree, base=base, prediction=patch, test_patch=row["test_patch"], gold_patch=row["patch"])
