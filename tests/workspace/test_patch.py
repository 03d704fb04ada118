"""Patches: what is repaired, what is refused, and how strictly one is applied."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from swelive_plugin.errors import PatchError, PatchRejected
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.checkout import link_tree
from swelive_plugin.workspace.patch import PathChange, check_patch, touched_paths
from swelive_plugin.workspace.patch_repair import normalise_patch

from .conftest import diff_of, read, write

SRC = "def f(x):\n    return x\n\n\ndef g(x):\n    return x\n"
FIX = """\
diff --git a/src.py b/src.py
index 70fe202..a7c020b 100644
--- a/src.py
+++ b/src.py
@@ -1,5 +1,5 @@
 def f(x):
-    return x
+    return x + 1
~
~
 def g(x):
""".replace("~", " ")
FIXED = SRC.replace("return x\n", "return x + 1\n", 1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "tree", {"src.py": SRC})


def put(tree: Path, patch: str) -> tuple[str, tuple[str, ...]]:
    check_patch(patch, tree)
    text, repairs = normalise_patch(patch, tree)
    return apply_patch(text, tree, what="the prediction"), repairs


class TestRepairs:
    """Each is named, and what comes out is what the agent meant."""

    def test_a_right_patch_needs_none(self, tree: Path) -> None:
        assert normalise_patch(FIX, tree)[1] == ()
        assert put(tree, FIX) == ("strict", ())
        assert read(tree) == {"src.py": FIXED.encode()}

    @pytest.mark.parametrize(
        ("patch", "repairs"),
        [
            (FIX.removesuffix("\n"), ("missing final newline added",)),
            ("\ufeff" + FIX, ("byte order mark removed",)),
            (FIX.replace("\n", "\r\n"), ("line ends of src.py: CRLF to LF",)),
            (f"```diff\n{FIX}```\n", ("markdown fence removed",)),
            (f"Here is the fix:\n\n{FIX}", ("text around the diff removed",)),
            (f"I think\n```diff\n{FIX}```\n", ("markdown fence removed", "text around the diff removed")),
            (FIX.replace("a/src", "src").replace("b/src", "src"), ("a/ and b/ added to the paths",)),
            (FIX.replace("-1,5 +1,5", "-1,9 +1,9"), ("line counts corrected: hunk #1 of src.py",)),
            (FIX.replace("-1,5 +1,5", "-1,2 +1,2"), ("line counts corrected: hunk #1 of src.py",)),
            (FIX + "-- \n2.40.1\n\n", ("text around the diff removed",)),
        ],
        ids=["newline", "bom", "crlf", "fence", "prose", "prose-fence", "prefix", "counts-high", "counts-low", "mail"],
    )
    def test_repair_is_named(self, tree: Path, patch: str, repairs: tuple[str, ...]) -> None:
        assert put(tree, patch) == ("strict", repairs)
        assert read(tree) == {"src.py": FIXED.encode()}

    def test_blank_context_that_strip_took_is_restored(self, tree: Path) -> None:
        patch = FIX.replace("-1,5 +1,5", "-1,4 +1,4").removesuffix(" def g(x):\n").strip()
        strictness, repairs = put(tree, patch)
        assert repairs == (
            "missing final newline added",
            "stripped last context lines restored: hunk #1 of src.py",
        )
        assert strictness == "strict"
        assert read(tree) == {"src.py": FIXED.encode()}

    def test_missing_context_is_not_invented(self, tree: Path) -> None:
        """Only blank lines can have been stripped; a last line with text in it was cut off by something else."""
        patch = FIX.removesuffix(" \n \n def g(x):\n")
        text, repairs = normalise_patch(patch, tree)
        assert repairs == ("line counts corrected: hunk #1 of src.py",)
        assert "def g" not in text

    def test_lf_patch_for_a_crlf_file(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"src.py": SRC.replace("\n", "\r\n")})
        assert put(tree, FIX) == ("strict", ("line ends of src.py: LF to CRLF",))
        assert read(tree) == {"src.py": FIXED.replace("\n", "\r\n").encode()}

    def test_crlf_patch_for_a_crlf_file_is_left_alone(self, tmp_path: Path) -> None:
        crlf = {"src.py": SRC.replace("\n", "\r\n")}
        patch = diff_of(tmp_path / "d", crlf, {"src.py": FIXED.replace("\n", "\r\n")})
        tree = write(tmp_path / "tree", crlf)
        assert put(tree, patch) == ("strict", ())
        assert read(tree) == {"src.py": FIXED.replace("\n", "\r\n").encode()}

    def test_wholly_converted_patch_for_a_crlf_file(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"src.py": SRC.replace("\n", "\r\n")})
        assert put(tree, FIX.replace("\n", "\r\n")) == ("strict", ())
        assert read(tree) == {"src.py": FIXED.replace("\n", "\r\n").encode()}

    def test_lf_patch_for_a_file_with_both_line_ends(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"src.py": "def f(x):\r\n    return x\r\n\n\ndef g(x):\n    return x\n"})
        assert put(tree, FIX) == ("strict", ("line ends of src.py: as in the file, which mixes them",))
        assert read(tree) == {"src.py": b"def f(x):\r\n    return x + 1\r\n\n\ndef g(x):\n    return x\n"}

    def test_adding_crlf_lines_on_purpose_is_left_alone(self, tree: Path, tmp_path: Path) -> None:
        patch = diff_of(tmp_path / "d", {"src.py": SRC}, {"src.py": SRC + "x = 1\r\n", "new.bat": "a\r\n"})
        assert put(tree, patch) == ("strict", ())
        assert read(tree) == {"src.py": (SRC + "x = 1\r\n").encode(), "new.bat": b"a\r\n"}

    def test_new_file_of_a_wholly_converted_patch_gets_lf(self, tree: Path, tmp_path: Path) -> None:
        patch = diff_of(tmp_path / "d", {}, {"new.py": "a\nb\n"}).replace("\n", "\r\n")
        assert put(tree, patch) == ("strict", ("line ends of new.py: CRLF to LF",))
        assert read(tree)["new.py"] == b"a\nb\n"

    def test_binary_change_without_data_is_dropped_and_the_fix_stays(self, tree: Path) -> None:
        stub = "diff --git a/dump.rdb b/dump.rdb\nnew file mode 100644\nindex 0000000..1234567\n"
        patch = stub + "Binary files /dev/null and b/dump.rdb differ\n" + FIX
        assert put(tree, patch) == ("strict", ("binary hunk dropped: dump.rdb",))
        assert read(tree) == {"src.py": FIXED.encode()}

    def test_bytecode_without_data_is_no_reason_to_refuse(self, tree: Path) -> None:
        """An agent that ran the tests and printed `git diff` without --binary: the stub can't take effect."""
        stub = "diff --git a/__pycache__/s.pyc b/__pycache__/s.pyc\nnew file mode 100644\nindex 0000000..1234567\n"
        patch = FIX + stub + "Binary files /dev/null and b/__pycache__/s.pyc differ\n"
        assert put(tree, patch) == ("strict", ("binary hunk dropped: __pycache__/s.pyc",))

    def test_moved_submodule_is_dropped(self, tree: Path) -> None:
        (tree / "vendor").mkdir()
        old, new = "1" * 40, "2" * 40
        bump = f"diff --git a/vendor b/vendor\nindex {old}..{new} 160000\n--- a/vendor\n+++ b/vendor\n@@ -1 +1 @@\n"
        patch = bump + f"-Subproject commit {old}\n+Subproject commit {new}\n" + FIX
        assert put(tree, patch) == ("strict", ("submodule change dropped: vendor",))

    @pytest.mark.parametrize("header", ["--- a/new.py\n+++ b/new.py\n", "--- /dev/null\n+++ b/new.py\n"])
    def test_new_file_whose_header_does_not_say_so(self, tree: Path, header: str) -> None:
        put(tree, f"diff --git a/new.py b/new.py\n{header}@@ -0,0 +1 @@\n+x = 1\n")
        assert read(tree)["new.py"] == b"x = 1\n"

    def test_backup_name_on_one_side_of_a_plain_diff(self, tree: Path) -> None:
        plain = FIX[FIX.index("---") :].replace("--- a/src.py", "--- a/src.py.orig\t2024-01-01 10:00:00")
        assert put(tree, plain)[0] == "strict"
        assert read(tree) == {"src.py": FIXED.encode()}

    def test_lines_that_look_like_headers_are_content(self, tmp_path: Path) -> None:
        old = {"a.sql": "-- a/x\n++ b/x\nkeep\n"}
        new = {"a.sql": "keep\n@@ -1 +1 @@\ndiff --git a/x b/x\n-- last\n"}
        tree = write(tmp_path / "tree", old)
        assert put(tree, diff_of(tmp_path / "d", old, new)) == ("strict", ())
        assert read(tree) == {"a.sql": new["a.sql"].encode()}

    def test_markdown_list_after_the_diff_is_not_taken_for_it(self, tree: Path) -> None:
        _, repairs = put(tree, FIX + "- fixed f\n- left g alone\n")
        assert repairs == ("lines after the end of the hunk left out: hunk #1 of src.py",)
        assert read(tree) == {"src.py": FIXED.encode()}

    @pytest.mark.parametrize("text", ["I could not do it.", "```\nnothing\n```\n", "--- a/x\n"])
    def test_text_without_a_diff_is_said_to_have_none(self, tree: Path, text: str) -> None:
        with pytest.raises(PatchError, match="there is no diff in the patch"):
            normalise_patch(text, tree)

    def test_hunk_without_any_change_is_cut_off(self, tree: Path) -> None:
        with pytest.raises(PatchError, match=r"hunk #1 of src\.py breaks off at line 5 of the patch"):
            normalise_patch(FIX[: FIX.index("-    return")], tree)

    def test_patch_that_is_nothing_but_broken_hunks_is_given_up(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each repair may search the file: without a bound, a hostile patch keeps the grader busy for days."""
        monkeypatch.setattr("swelive_plugin.workspace.patch_repair._MAX_SEARCHED_BYTES", 100 * len(SRC))
        with pytest.raises(PatchError, match="needs too many repairs"):
            normalise_patch("--- a/src.py\n+++ b/src.py\n" + "@@ -1,9 +1,9 @@\n-not there\n+x\n" * 51, tree)

    def test_report_lists_some_repairs_and_counts_the_rest(self, tree: Path) -> None:
        stubs = [f"diff --git a/{n}.png b/{n}.png\nBinary files /dev/null and b/{n}.png differ\n" for n in range(1200)]
        _, repairs = normalise_patch("".join(stubs) + FIX, tree)
        assert repairs[0] == "binary hunk dropped: 0.png"
        assert repairs[-1] == "and 1000 more"

    def test_lone_surrogates_are_an_error_of_the_patch(self, tree: Path) -> None:
        with pytest.raises(PatchError, match="half of a surrogate pair at its line 12"):
            normalise_patch(FIX + "\ud800", tree)


def new_file(path: str, mode: str = "100644", content: str = "x") -> str:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{content}\n"
    )


class TestRefusals:
    """Each is refused before any try, with the path in the message, also beside an honest fix."""

    @pytest.mark.parametrize(
        "path",
        [
            ".git/hooks/post-checkout",
            ".GIT/config",
            "sub/.git/config",
            ".git",
            "git~1/config",
            ".git. /config",
            ".g\u200cit/config",
            ".git::$INDEX_ALLOCATION/config",
            "a\\.git\\config",
        ],
    )
    def test_git_folder_in_any_spelling(self, tree: Path, path: str) -> None:
        with pytest.raises(PatchRejected, match=r"writes to .*: it is inside \.git"):
            check_patch(FIX + new_file(path), tree)

    @pytest.mark.parametrize("path", ["../escaped", "a/../../b", "..", "a\\..\\..\\b"])
    def test_way_out_of_the_tree(self, tree: Path, path: str) -> None:
        with pytest.raises(PatchRejected, match="it leaves the tree"):
            check_patch(FIX + new_file(path), tree)

    @pytest.mark.parametrize(
        "header",
        [
            "--- /dev/null\n+++ /etc/cron.d/x\n",
            "--- /etc/passwd\n+++ /etc/passwd\n",
            "--- /dev/null\n+++ b//etc/cron.d/x\n",
            'diff --git "a//etc/x" "b//etc/x"\nnew file mode 100644\n--- /dev/null\n+++ "b//etc/x"\n',
        ],
    )
    def test_absolute_path(self, tree: Path, header: str) -> None:
        with pytest.raises(PatchRejected, match="an absolute path"):
            check_patch(header + "@@ -0,0 +1 @@\n+x\n", tree)

    def test_quoted_path_is_read_as_git_reads_it(self, tree: Path) -> None:
        quoted = r'diff --git "a/\056git/x" "b/\056git/x"' + "\nnew file mode 100644\n"
        with pytest.raises(PatchRejected, match=r"'\.git/x': it is inside \.git"):
            check_patch(quoted, tree)

    def test_rename_into_git(self, tree: Path) -> None:
        with pytest.raises(PatchRejected, match=r"it is inside \.git"):
            check_patch("diff --git a/src.py b/x\nrename from src.py\nrename to .git/hooks/pre-commit\n", tree)

    @pytest.mark.parametrize("target", ["../out", "/etc/passwd", "a/../../b", ".git/config", "x/.GIT"])
    def test_symbolic_link_out_of_the_tree(self, tree: Path, target: str) -> None:
        with pytest.raises(PatchRejected, match=f"makes 'lnk' a symbolic link to '{target}', outside the tree"):
            check_patch(new_file("lnk", "120000", target), tree)

    def test_symbolic_link_sent_out_of_the_tree(self, tree: Path) -> None:
        (tree / "lnk").symlink_to("src.py")
        edit = "diff --git a/lnk b/lnk\nindex 1111111..2222222 120000\n--- a/lnk\n+++ b/lnk\n@@ -1 +1 @@\n"
        with pytest.raises(PatchRejected, match="makes 'lnk' a symbolic link to '/etc/passwd'"):
            check_patch(edit + "-src.py\n+/etc/passwd\n", tree)

    def test_symbolic_link_of_base_may_go(self, tree: Path, tmp_path: Path) -> None:
        (tree / "lnk").symlink_to("src.py")
        gone = "diff --git a/lnk b/lnk\ndeleted file mode 120000\n--- a/lnk\n+++ /dev/null\n@@ -1 +0,0 @@\n-src.py\n"
        assert put(tree, gone + "\\ No newline at end of file\n")[0] == "strict"
        assert read(tree) == {"src.py": SRC.encode()}

    def test_file_below_a_symbolic_link(self, tree: Path, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tree / "lnk").symlink_to(tmp_path / "outside")
        with pytest.raises(PatchRejected, match="writes to 'lnk/x' through the symbolic link 'lnk'"):
            check_patch(new_file("lnk/x"), tree)

    def test_new_submodule(self, tree: Path) -> None:
        with pytest.raises(PatchRejected, match="adds the submodule 'x'"):
            check_patch(new_file("x", "160000", "Subproject commit " + "1" * 40), tree)

    @pytest.mark.parametrize(
        "path",
        ["a.pyc", "a.PYC", "pkg/__pycache__/x.py", "pkg/core.cpython-311-x86_64-linux-gnu.so", "lib.so.1.2", "a.pyd",
         "x.dylib", "a.egg", "wheels/a-1.0-py3-none-any.whl"],
    )  # fmt: skip
    def test_bytecode_and_compiled_objects(self, tree: Path, path: str) -> None:
        with pytest.raises(PatchRejected, match="bytecode and compiled code are not accepted"):
            check_patch(FIX + new_file(path), tree)

    def test_bytecode_by_rename(self, tree: Path) -> None:
        with pytest.raises(PatchRejected, match="bytecode"):
            check_patch("diff --git a/src.py b/src.pyc\nrename from src.py\nrename to src.pyc\n", tree)

    def test_honest_neighbours_of_refused_paths_are_fine(self, tree: Path) -> None:
        for path in (".gitignore", ".github/workflows/ci.yml", "git.py", "a..b/c", "so.py", "pyc/x.py", ".gitmodules"):
            check_patch(new_file(path), tree)

    def test_deleting_bytecode_that_base_has_is_fine(self, tree: Path) -> None:
        write(tree, {"old.pyc": "x\n"})
        gone = "diff --git a/old.pyc b/old.pyc\ndeleted file mode 100644\n--- a/old.pyc\n+++ /dev/null\n"
        check_patch(gone + "@@ -1 +0,0 @@\n-x\n", tree)

    def test_endless_patch(self, tree: Path) -> None:
        with pytest.raises(PatchRejected, match="65 MiB long; 64 MiB is the limit"):
            check_patch("x" * (65 * 2**20), tree)


class TestApply:
    def test_files_are_replaced_never_written_through_a_link(self, tree: Path, tmp_path: Path) -> None:
        (tree / "src.py").chmod(0o755)
        farm = tmp_path / "farm"
        link_tree(tree, farm)
        put(farm, FIX)
        put(farm, "diff --git a/src.py b/src.py\nold mode 100755\nnew mode 100644\n")
        assert read(tree) == {"src.py": SRC.encode()}
        assert (tree / "src.py").stat().st_mode & 0o777 == 0o755
        assert read(farm) == {"src.py": FIXED.encode()}

    def test_a_repository_above_the_tree_does_not_matter(self, tree: Path, tmp_path: Path) -> None:
        """Inside a work tree git applies only what is below the current folder and skips the rest without a word."""
        (tmp_path / ".git").mkdir()
        write(
            tmp_path / ".git", {"HEAD": "ref: refs/heads/main\n", "config": "[core]\n", "objects/x": "", "refs/x": ""}
        )
        assert put(tree, FIX)[0] == "strict"
        assert read(tree) == {"src.py": FIXED.encode()}

    def test_other_lines_than_said_are_found(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"src.py": "import os\n\n" + SRC})
        assert put(tree, FIX.replace("-1,5 +1,5", "-2,5 +2,5"))[0] == "strict"
        assert read(tree) == {"src.py": b"import os\n\n" + FIXED.encode()}

    def test_white_space_in_context(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"src.py": SRC.replace("def f(x):", "def  f(x):")})
        assert put(tree, FIX)[0] == "whitespace"

    def test_no_context_goes_where_the_line_numbers_say(self, tree: Path) -> None:
        patch = "--- a/src.py\n+++ b/src.py\n@@ -1,0 +2 @@\n+    x += 1\n"
        assert put(tree, patch)[0] == "zero-context"
        assert read(tree)["src.py"].splitlines()[:3] == [b"def f(x):", b"    x += 1", b"    return x"]

    def test_no_fuzz(self, tmp_path: Path) -> None:
        """GNU patch with fuzz puts this hunk into the wrong function; here it does not apply."""
        tree = write(tmp_path / "tree", {"src.py": "def a():\n    x = 1\n    return x\n\n\ndef c():\n    x = 1\n"})
        patch = "--- a/src.py\n+++ b/src.py\n@@ -1,4 +1,4 @@\n def zzz():\n-    x = 1\n+    x = 2\n     return x\n \n"
        with pytest.raises(PatchError, match=r"the prediction: hunk #1 of src\.py, line 1, does not apply"):
            put(tree, patch)

    def test_the_hunk_that_fails_is_named_and_nothing_is_applied(self, tmp_path: Path) -> None:
        body = "".join(f"line {number}\n" for number in range(60))
        old, new = {"a/x.py": body, "b.py": "1\n"}, {"a/x.py": body.replace("line 3\n", "3\n"), "b.py": "2\n"}
        new["a/x.py"] = new["a/x.py"].replace("line 43\n", "43\n")
        patch = diff_of(tmp_path / "d", old, new)
        tree = write(tmp_path / "tree", {**old, "a/x.py": body.replace("line 44", "other")})
        with pytest.raises(PatchError, match=r"the prediction: hunk #2 of a/x\.py, line 41, does not apply") as caught:
            put(tree, patch)
        assert "patch does not apply" in caught.value.evidence
        assert read(tree)["b.py"] == b"1\n"

    @pytest.mark.parametrize(
        ("patch", "message"),
        [
            (FIX.replace("src.py", "none.py"), r"none\.py does not exist in the tree"),
            (new_file("src.py"), r"src\.py exists already, but the patch creates it"),
        ],
    )
    def test_file_that_is_not_as_the_patch_thinks(self, tree: Path, patch: str, message: str) -> None:
        with pytest.raises(PatchError, match=message):
            put(tree, patch)


class TestTouchedPaths:
    def test_every_kind(self, tmp_path: Path) -> None:
        long = "".join(f"{number}\n" for number in range(30))
        old: dict[str, str | bytes | None] = {"mod.py": "1\n", "gone.py": "2\n", "ol d/é\t.py": long, "bin": b"\0\1"}
        new: dict[str, str | bytes | None] = {"mod.py": "3\n", "ne w.py": "", 'new/"q".py': long, "bin": b"\0\2"}
        assert set(touched_paths(diff_of(tmp_path / "d", old, new))) == {
            PathChange("mod.py", "mod.py", "modified"),
            PathChange("gone.py", "gone.py", "deleted"),
            PathChange("ne w.py", "ne w.py", "added"),
            PathChange("ol d/é\t.py", 'new/"q".py', "renamed"),
            PathChange("bin", "bin", "modified"),
        }

    def test_both_sides_of_a_rename_and_the_target_of_a_copy_are_paths(self) -> None:
        assert PathChange("a", "b", "renamed").paths == ("a", "b")
        assert PathChange("a", "b", "copied").paths == ("b",)

    def test_text_without_a_diff_touches_nothing(self) -> None:
        assert touched_paths("") == touched_paths("hello\n") == ()


class TestPasted:
    """Patches as people paste them: made on another machine, by another tool, or on their way through a terminal."""

    @pytest.fixture
    def repo(self, tmp_path: Path) -> Path:
        return write(tmp_path / "tree", {"pkg/src.py": SRC, "README.md": "x\n"})

    def diff(self, old: str, new: str, git: str = "") -> str:
        return f"{git}--- {old}\n+++ {new}\n" + FIX[FIX.index("@@") :]

    def test_colour_codes_are_removed(self, tree: Path) -> None:
        """``git -c color.ui=always diff``: every line has them, and no header was found."""
        coloured = []
        for line in FIX.splitlines():
            colour = {"+": "32", "-": "31", "@": "36"}.get(line[:1], "1")
            plain = line.startswith(" ")
            coloured.append(line if plain else f"\x1b[{colour}m{line[:1]}\x1b[m\x1b[{colour}m{line[1:]}\x1b[m")
        assert put(tree, "\n".join(coloured) + "\n") == ("strict", ("colour codes removed",))
        assert read(tree) == {"src.py": FIXED.encode()}

    def test_escape_codes_that_are_content_stay(self, tree: Path, tmp_path: Path) -> None:
        patch = diff_of(tmp_path / "d", {"src.py": SRC}, {"src.py": SRC + "# \x1b[1m bold\n"})
        assert put(tree, patch) == ("strict", ())
        assert b"\x1b[1m bold" in read(tree)["src.py"]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("pkg/src.py.orig", "pkg/src.py"),
            ("pkg/src.py.orig\t2024-01-01 10:00:00.000000000 +0000", "pkg/src.py\t2024-01-02 10:00:00.000000000 +0000"),
            ("pkg/src.py", "pkg/src.py.new"),
            ("repo.orig/pkg/src.py", "repo/pkg/src.py"),
            ("/testbed/pkg/src.py", "/testbed/pkg/src.py"),
            ("/testbed/pkg/src.py.orig", "/testbed/pkg/src.py"),
            ("/home/me/src/repo/pkg/src.py", "/home/me/src/repo/pkg/src.py"),
            ("/tmp/old/pkg/src.py", "/tmp/new/pkg/src.py"),
            ("./pkg/src.py", "./pkg/src.py"),
            ("a/testbed/pkg/src.py", "b/testbed/pkg/src.py"),
            ("pkg/src.py", "pkg/src.py"),
        ],
    )
    def test_names_of_another_machine(self, repo: Path, old: str, new: str) -> None:
        assert put(repo, self.diff(old, new))[0] == "strict"
        assert read(repo) == {"pkg/src.py": FIXED.encode(), "README.md": b"x\n"}

    def test_root_that_was_removed_is_named(self, repo: Path) -> None:
        assert put(repo, self.diff("/testbed/pkg/src.py", "/testbed/pkg/src.py"))[1] == (
            "/testbed/ removed from the paths",
        )

    def test_git_headers_with_a_root(self, repo: Path) -> None:
        git = "diff --git a/testbed/pkg/src.py b/testbed/pkg/src.py\nindex 1111111..2222222 100644\n"
        assert put(repo, self.diff("a/testbed/pkg/src.py", "b/testbed/pkg/src.py", git))[0] == "strict"
        assert read(repo)["pkg/src.py"] == FIXED.encode()

    def test_new_file_of_the_official_root(self, repo: Path) -> None:
        put(repo, "--- /dev/null\n+++ /testbed/pkg/new.py\n@@ -0,0 +1 @@\n+x = 1\n")
        assert read(repo)["pkg/new.py"] == b"x = 1\n"

    def test_new_file_of_another_root_beside_a_known_one_is_refused(self, repo: Path) -> None:
        patch = self.diff("/testbed/pkg/src.py", "/testbed/pkg/src.py")
        with pytest.raises(PatchRejected, match="'/etc/passwd': an absolute path"):
            check_patch(f"{patch}--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n", repo)

    def test_missing_file_is_not_looked_for_elsewhere(self, repo: Path) -> None:
        with pytest.raises(PatchError, match=r"pkg/README\.md does not exist in the tree"):
            put(repo, "--- a/pkg/README.md\n+++ b/pkg/README.md\n@@ -1 +1 @@\n-x\n+y\n")

    @pytest.mark.parametrize("prose", ["", "Here it is:\n"])
    @pytest.mark.parametrize("quote", ["", '"'])
    def test_line_ends_that_were_escaped_twice_fail(self, tree: Path, prose: str, quote: str) -> None:
        """It was refused like a hostile patch: "the patch writes to ''"."""
        patch = prose + quote + FIX.replace("\n", "\\n") + quote
        for step in (check_patch, normalise_patch):
            with pytest.raises(PatchError, match=r"line ends of the diff are written as \\n") as caught:
                step(patch, tree)
            assert type(caught.value) is PatchError

    @pytest.mark.parametrize("names", ["--- a/\n+++ b/\n", "diff --git a/ b/\n--- a/\n+++ b/\n"])
    def test_empty_path_fails(self, tree: Path, names: str) -> None:
        with pytest.raises(PatchError, match="names no file at its line 1") as caught:
            check_patch(f"{names}@@ -1 +1 @@\n-x\n+y\n", tree)
        assert type(caught.value) is PatchError


PIECES = {
    "hunk that promises too much": "--- a/src.py\n+++ b/src.py\n@@ -1,9 +1,9 @@\n x\n",
    "hunk with lines left over": "--- a/src.py\n+++ b/src.py\n@@ -1,1 +1,1 @@\n x\n+y\n",
    "names": "--- a/src.py\n+++ b/src.py\n",
    "git header": "diff --git a/src.py b/src.py\n",
    "header without an end": "diff --git a/src.py b/src.py ",
    "blank line": "\n",
    "blank context": " \n",
    "sign": "-",
    "escape": "\x1b[1m",
    "escaped line": "diff --git a/x b/x\\n--- a/x\\n",
    "quote": '"\\"',
    "binary": "GIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\n",
    "fence": "```\n",
    "hunk head": "@@ -1 +1 @@ ",
    "digits": "@@ -1111111111",
    "note": "\\ No newline at end of file\n",
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("after_hunk", [False, True])
def test_twice_the_patch_takes_twice_the_time(piece: str, after_hunk: bool, tmp_path: Path) -> None:
    tree = write(tmp_path / "tree", {"src.py": SRC + " \n" * 2000})

    def seconds(count: int) -> float:
        patch = (FIX.replace("-1,5 +1,5", "-1,99999 +1,99999") if after_hunk else "") + piece * count
        times = []
        for _ in range(2):
            began = time.process_time()
            with contextlib.suppress(PatchError):
                check_patch(patch, tree)
                normalise_patch(patch, tree)
            times.append(time.process_time() - began)
        return min(times)

    count = 60_000 // len(piece)
    small, large = seconds(count), seconds(2 * count)
    assert large < 3 * small + 0.1, f"{small:.3f} s, then {large:.3f} s"
    assert large < 3
