"""Properties of the diff reader and writer, on edits that hypothesis makes and git turns into diffs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from swelive_plugin.errors import PatchError
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.patch_repair import normalise_patch
from swelive_plugin.workspace.unified import parse_diff, render

from .conftest import diff_of, read, write

Files = dict[str, str]
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

LINES = st.sampled_from(
    ["", "a", "b", "    c", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "diff --git a/x b/x", "\\ No", "-- ", "```"]
)
PLAIN_LINES = st.sampled_from(["", "a", "b", "    c", "def f():", "-x", "+y"])
NAMES = st.sampled_from(["x.py", "p/y.py", "p/q/z w.py", 'q"uote.py', "t\tab.py", "ü.py", "b/x.py", "-.py"])


def texts(lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda parts, end: "\n".join(parts) + (end if parts else ""),
        st.lists(lines, max_size=25),
        st.sampled_from(["\n", ""]),
    )


def trees(lines: st.SearchStrategy[str] = LINES) -> st.SearchStrategy[Files]:
    return st.dictionaries(NAMES, texts(lines), max_size=4)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def contents(files: Files) -> dict[str, bytes]:
    return {name: content.encode() for name, content in files.items()}


@quick
@given(trees(), trees())
def test_what_is_read_and_written_again_applies_alike(old: Files, new: Files) -> None:
    assume(old != new)
    with folder() as path:
        patch = diff_of(path / "d", old, new)
        tree = write(path / "tree", old)
        tree.mkdir(exist_ok=True)
        text, repairs = normalise_patch(patch, tree)
        assert repairs == ()
        assert apply_patch(text, tree, what="it") == "strict"
        assert read(tree) == contents(new)
        assert normalise_patch(text, path / "d" / "side0") == (text, ()), "a fixed point"


def stripped(patch: str) -> str:
    return patch.strip()


def crlf(patch: str) -> str:
    return patch.replace("\n", "\r\n")


def fenced(patch: str) -> str:
    return f"The fix:\n\n```diff\n{patch}```\nThat is all.\n"


def quoted_mail(patch: str) -> str:
    return f"From 1234 Mon Sep 17\nSubject: [PATCH] fix\n\n---\n x.py | 2 +-\n\n{patch}-- \n2.40.1\n\n"


@pytest.mark.parametrize("mangle", [stripped, crlf, fenced, quoted_mail])
@quick
@given(data=st.data())
def test_what_tools_do_to_a_patch_is_undone(mangle: object, data: st.DataObject) -> None:
    assert callable(mangle)
    old, new = data.draw(trees(PLAIN_LINES)), data.draw(trees(PLAIN_LINES))
    assume(old != new)
    with folder() as path:
        patch = diff_of(path / "d", old, new)
        tree = write(path / "tree", old)
        tree.mkdir(exist_ok=True)
        text, _ = normalise_patch(str(mangle(patch)), tree)
        assert apply_patch(text, tree, what="it") == "strict"
        assert read(tree) == contents(new)


@quick
@given(old=texts(PLAIN_LINES), new=texts(PLAIN_LINES), shift=st.integers(-2, 2))
def test_wrong_counts_never_give_another_result(old: str, new: str, shift: int) -> None:
    """A hunk whose counts are wrong applies as it was meant or not at all."""
    assume(old != new)
    with folder() as path:
        diff = parse_diff(diff_of(path / "d", {"x.py": old}, {"x.py": new}).encode())
        diff.resolve()
        hunk = diff.sections[0].hunks[0]
        before, after = hunk.counts
        exact = b"@@ -%d,%d +%d,%d @@" % (hunk.old_start, before, hunk.new_start, after)
        wrong = b"@@ -%d,%d +%d,%d @@" % (hunk.old_start, max(before + shift, 0), hunk.new_start, after)
        patch = render(diff.sections).replace(exact, wrong, 1)
        tree = write(path / "tree", {"x.py": old})
        try:
            text, _ = normalise_patch(patch.decode(), tree)
            apply_patch(text, tree, what="it")
        except PatchError:
            assert read(tree) == {"x.py": old.encode()}
        else:
            assert read(tree) == {"x.py": new.encode()}


HEADERS = rb"""
diff --git a/x b/x
diff --git "a/\056git" "b/\
--- a/x
+++ b/x
--- /dev/null
@@ -1,2 +1,2 @@
@@ -0,0 +1 @@
 a
-a
+b
\ No newline at end of file
GIT binary patch
literal 3
Kc
Binary files a/x and b/x differ
index 1234567..89abcde 100644
rename from a
rename to b
new file mode 100644
```
--
""".split(b"\n")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(HEADERS), max_size=30).map(b"\n".join))
def test_any_text_is_read_without_an_error(data: bytes) -> None:
    diff = parse_diff(data)
    diff.resolve()
    again = parse_diff(render(diff.sections))
    again.resolve()
    assert len(again.sections) == len(diff.sections)
    assert [s.new for s in again.sections if s.changes_something] == [
        s.new for s in diff.sections if s.changes_something
    ]
