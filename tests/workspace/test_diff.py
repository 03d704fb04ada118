"""The diff of an agent's work tree: what it changed, and nothing that its repository or files do to the collector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from swelive_plugin.errors import PatchError
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.checkout import link_tree
from swelive_plugin.workspace.diff import CollectedDiff, collect_diff
from swelive_plugin.workspace.patch import check_patch, touched_paths
from swelive_plugin.workspace.patch_repair import normalise_patch

from .conftest import Content, Repository, read, write

LONG = "".join(f"line {number}\n" for number in range(40))
BASE: dict[str, Content] = {
    "src/a.py": "a = 1\n",
    "src/long.py": LONG,
    "data.bin": b"\0\1\2" * 100,
    "run": "#!/bin/sh\n",
    "win.bat": "a\r\nb\r\n",
    ".gitignore": "*.log\nbuild/\n",
    ".gitattributes": "*.bat text eol=crlf\n*.py -diff filter=evil\n",
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path / "base", BASE)


@pytest.fixture
def work(base: Path, tmp_path: Path) -> Path:
    link_tree(base, tmp_path / "work", private=True)
    return tmp_path / "work"


def regrade(tmp_path: Path, base: Path, collected: CollectedDiff) -> dict[str, bytes]:
    """Return what a grader gets when it applies the diff to base."""
    tree = tmp_path / "regraded"
    link_tree(base, tree)
    check_patch(collected.patch, tree)
    text, repairs = normalise_patch(collected.patch, tree)
    assert repairs == ()
    assert apply_patch(text, tree, what="it") == "strict"
    return read(tree)


def test_nothing_changed(base: Path, work: Path) -> None:
    assert collect_diff(base, work) == CollectedDiff("")


def test_every_kind_of_change_comes_out_as_it_was(base: Path, work: Path, tmp_path: Path) -> None:
    edit: Mapping[str, Content] = {
        "src/a.py": "a = 2\n",
        "data.bin": b"\0\1\3" * 100,
        "win.bat": "a\r\nc\r\n",
        "new/mod é.py": "x",
        "new/empty.py": "",
        "new/latin.py": b"x = '\xe9'\n",
        ".gitignore": None,
    }
    write(work, edit)
    (work / "src" / "long.py").rename(work / "src" / "moved.py")
    (work / "run").chmod(0o755)
    collected = collect_diff(base, work)
    assert collected.left_out == ()
    kinds = {(change.new, change.kind) for change in touched_paths(collected.patch)}
    assert ("src/moved.py", "renamed") in kinds
    assert (".gitignore", "deleted") in kinds
    assert regrade(tmp_path, base, collected) == read(work)
    assert os.access(tmp_path / "regraded" / "run", os.X_OK)


def test_a_change_with_size_and_time_kept_is_seen(base: Path, work: Path) -> None:
    before = (work / "src" / "a.py").stat()
    (work / "src" / "a.py").write_text("a = 3\n")
    os.utime(work / "src" / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "+a = 3" in collect_diff(base, work).patch


def test_rubbish_is_left_out_without_a_word(base: Path, work: Path) -> None:
    rubbish = [
        "src/__pycache__/a.cpython-311.pyc",
        ".pytest_cache/v/x",
        "pkg.egg-info/PKG-INFO",
        ".coverage",
        "x.orig",
        "node_modules/a.js",
        ".mypy_cache/x.json",
        ".venv/bin/x",
        "run.log",
        "build/lib/a.py",
        ".hypothesis/x",
    ]
    write(work, dict.fromkeys(rubbish, "x"))
    assert collect_diff(base, work) == CollectedDiff("")
    assert [change.new for change in touched_paths(collect_diff(base, work, ignore=False).patch)] == [
        "build/lib/a.py",
        "run.log",
    ]


def test_file_of_base_that_is_ignored_still_counts(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {".gitignore": "*.log\n", "kept.log": "1\n"})
    work = write(tmp_path / "work", {".gitignore": "*.log\n", "kept.log": "2\n"})
    assert "+2" in collect_diff(base, work).patch


def test_what_no_grade_accepts_is_left_out_and_named(base: Path, work: Path, tmp_path: Path) -> None:
    write(work, {"src/a.py": "a = 2\n", "fast.so": "x", "secret": "s", "large.bin": b"x" * 3000})
    (work / "lnk").symlink_to("/etc/passwd")
    os.mkfifo(work / "pipe")
    (work / "run").unlink()
    (work / "run").symlink_to("src/a.py")
    (work / "up").symlink_to("src")
    collected = collect_diff(base, work, max_file_mib=2000 / 2**20)
    assert collected.left_out == (
        "fast.so: compiled code",
        "large.bin: 0 MiB, more than 0.00190735 MiB",
        "lnk: a symbolic link to a test, to a folder or out of the tree",
        "pipe: a special file",
        "up: a symbolic link to a test, to a folder or out of the tree",
    )
    assert [change.new for change in touched_paths(collected.patch)] == ["run", "run", "secret", "src/a.py"]


def test_link_inside_the_tree_is_part_of_the_diff(base: Path, work: Path, tmp_path: Path) -> None:
    (work / "run").unlink()
    (work / "run").symlink_to("src/a.py")
    (work / "src/b.py").symlink_to("a.py")
    patch = collect_diff(base, work).patch
    tree = tmp_path / "graded"
    link_tree(base, tree)
    check_patch(patch, tree)
    apply_patch(normalise_patch(patch, tree)[0], tree, what="the prediction")
    assert read(tree) == read(work)


def test_endless_output_is_capped(base: Path, work: Path) -> None:
    write(work, {f"many/{number}.txt": "x" * 1000 for number in range(20)})
    collected = collect_diff(base, work, max_total_mib=5500 / 2**20)
    assert len(touched_paths(collected.patch)) == 5
    assert len(collected.left_out) == 15
    assert collected.left_out[0] == "many/13.txt: the diff is too large already"


def test_the_agents_repository_is_not_asked(base: Path, tmp_path: Path) -> None:
    """It committed its fix, moved HEAD, set a monitor and filters, and hid a repository in a folder."""
    repository = Repository(tmp_path / "work")
    link_tree(base, repository.path, private=True)
    repository.commit({"src/a.py": "a = 2\n", "sub/inner.py": "x = 1\n"})
    Repository(repository.path / "sub").commit({"deep.py": "y = 1\n"})
    for script in ("fsmonitor", "hooksPath", "sshCommand", "pager"):
        repository.git("config", f"core.{script}", f"touch {tmp_path}/ran")
    repository.git("config", "filter.evil.clean", f"touch {tmp_path}/ran")
    collected = collect_diff(base, repository.path)
    assert [change.new for change in touched_paths(collected.patch)] == ["src/a.py", "sub/deep.py", "sub/inner.py"]
    assert not (tmp_path / "ran").exists()
    assert regrade(tmp_path, base, collected)["src/a.py"] == b"a = 2\n"


def test_a_repository_in_base_is_passed_over(base: Path, work: Path) -> None:
    write(base, {".git/HEAD": "ref: refs/heads/main\n"})
    assert collect_diff(base, work) == CollectedDiff("")


def test_folder_swapped_for_a_file_and_back(base: Path, work: Path, tmp_path: Path) -> None:
    (work / "src" / "a.py").unlink()
    (work / "src" / "long.py").unlink()
    (work / "src").rmdir()
    (work / "run").unlink()
    write(work, {"src": "a file\n", "run/a.py": "x = 1\n"})
    assert regrade(tmp_path, base, collect_diff(base, work)) == read(work)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_folder_is_named_and_not_taken_for_deleted(base: Path, work: Path) -> None:
    (work / "src").chmod(0)
    try:
        assert collect_diff(base, work) == CollectedDiff("", ("src: Permission denied",))
    finally:
        (work / "src").chmod(0o700)


def test_work_tree_that_is_gone(base: Path, tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="is gone"):
        collect_diff(base, tmp_path / "none")
