"""Checkouts, farms of hard links, and folders that go away whatever is in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swelive_plugin.workspace.checkout import export_tree, link_tree, remove_tree
from swelive_plugin.workspace.git import run_git
from swelive_plugin.workspace.mirror import ensure_mirror

from .conftest import Repository, plain_git, read, write


def mirror_of(repository: Repository, commit: str, tmp_path: Path) -> Path:
    return ensure_mirror("o/n", commit, url=f"file://{repository.path}", cache=tmp_path / "cache")


@pytest.mark.parametrize("with_git", [False, True])
def test_files_are_those_of_a_git_checkout(repository: Repository, tmp_path: Path, with_git: bool) -> None:
    write(repository.path, {"run.sh": "#!/bin/sh\n", "pkg/a.py": "x = 1\n", "docs/only.txt": "in no archive\n"})
    (repository.path / "run.sh").chmod(0o755)
    (repository.path / "link").symlink_to("pkg/a.py")
    (repository.path / "pkg" / "nowhere").symlink_to("../../outside")
    attributes = "*.bat text eol=crlf\ndocs export-ignore\n*.py ident filter=evil\n"
    commit = repository.commit({"x.bat": "a\nb\n", ".gitattributes": attributes, "späce é.txt": "ü"})
    dest = tmp_path / "dest"
    export_tree(mirror_of(repository, commit, tmp_path), commit, dest, with_git=with_git)
    assert {name: content for name, content in read(dest).items() if not name.startswith(".git/")} == {
        "run.sh": b"#!/bin/sh\n",
        "pkg/a.py": b"x = 1\n",
        "docs/only.txt": b"in no archive\n",
        "link": b"-> pkg/a.py",
        "pkg/nowhere": b"-> ../../outside",
        "x.bat": b"a\r\nb\r\n",
        ".gitattributes": attributes.encode(),
        "späce é.txt": "ü".encode(),
    }
    assert os.access(dest / "run.sh", os.X_OK)
    assert not os.access(dest / "pkg" / "a.py", os.X_OK)
    assert (dest / ".git").exists() == with_git


def test_an_old_commit_can_be_exported_beside_a_new_one(repository: Repository, tmp_path: Path) -> None:
    old = repository.commit({"a.py": "1", "gone.py": "1"})
    new = repository.commit({"a.py": "2", "gone.py": None})
    mirror = mirror_of(repository, new, tmp_path)
    export_tree(mirror, new, tmp_path / "new")
    export_tree(mirror, old[:10], tmp_path / "old")
    assert read(tmp_path / "old") == {"a.py": b"1", "gone.py": b"1"}
    assert read(tmp_path / "new") == {"a.py": b"2"}


def test_submodules_stay_empty_and_are_named(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a.py": "1"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/lib")
    repository.git("commit", "--quiet", "-m", "submodule")
    head = repository.git("rev-parse", "HEAD")
    assert export_tree(mirror_of(repository, head, tmp_path), head, tmp_path / "dest").submodules == ("vendor/lib",)
    assert list((tmp_path / "dest" / "vendor" / "lib").iterdir()) == []


@pytest.mark.parametrize("with_git", [False, True])
def test_file_that_the_mirror_lacks_is_left_out_and_named(
    repository: Repository, tmp_path: Path, with_git: bool
) -> None:
    """A mirror made with a size filter has no large files, not even those of the commit itself."""
    commit = repository.commit({"docs/large é.gif": "x" * 1000, "a.py": "1"})
    blob = repository.git("rev-parse", "HEAD:docs/large é.gif")
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    dest = tmp_path / "dest"
    exported = export_tree(mirror_of(repository, commit, tmp_path), commit, dest, with_git=with_git)
    assert exported.missing == ("docs/large é.gif",)
    assert (dest / "a.py").read_text() == "1"
    if with_git:
        assert plain_git("status", "--porcelain", cwd=dest) == ""


class TestWithGit:
    """A work tree whose history ends at the commit: an agent that looks for the fix in it finds nothing."""

    @pytest.fixture
    def dest(self, repository: Repository, tmp_path: Path) -> Path:
        self.first = repository.commit({"a.py": "1"})
        repository.git("tag", "v1")
        repository.git("tag", "-a", "v1-signed", "-m", "one")
        self.base = repository.commit({"a.py": "2"})
        self.base_tree = repository.git("rev-parse", "HEAD^{tree}")
        self.fix = repository.commit({"a.py": "the fix", "new.py": "x"}, "the fix")
        self.fix_blob = repository.git("rev-parse", "HEAD:a.py")
        repository.git("tag", "v2")
        repository.git("tag", "-a", "late", "-m", "written after base, on an old commit", self.first)
        self.late = repository.git("rev-parse", "late")
        repository.git("branch", "other")
        dest = tmp_path / "dest"
        export_tree(mirror_of(repository, self.fix, tmp_path), self.base, dest, with_git=True)
        return dest

    def test_nothing_that_came_later_is_there(self, dest: Path) -> None:
        for name in (self.fix, self.fix_blob, self.late):
            assert run_git("cat-file", "-e", name, cwd=dest, check=False).returncode != 0
        objects = plain_git("cat-file", "--batch-all-objects", "--batch-check", cwd=dest).splitlines()
        assert sorted(line.split()[1] for line in objects) == [
            "blob",
            "blob",
            "commit",
            "commit",
            "tag",
            "tree",
            "tree",
        ]
        assert not (dest / ".git" / "objects" / "info" / "alternates").exists()
        assert not (dest / ".git" / "logs").exists()

    def test_refs_are_one_branch_and_the_tags_before(self, dest: Path) -> None:
        refs = plain_git("for-each-ref", "--format=%(refname)", cwd=dest).splitlines()
        assert refs == ["refs/heads/main", "refs/tags/v1", "refs/tags/v1-signed"]
        assert plain_git("rev-parse", "HEAD", cwd=dest) == self.base
        assert plain_git("symbolic-ref", "HEAD", cwd=dest) == "refs/heads/main"
        assert plain_git("remote", cwd=dest) == ""

    def test_it_is_clean_whole_and_describes_itself(self, dest: Path) -> None:
        assert plain_git("status", "--porcelain", cwd=dest) == ""
        assert plain_git("fsck", "--full", "--strict", cwd=dest) == ""
        assert plain_git("describe", "--tags", cwd=dest).startswith("v1")


class TestLinkTree:
    def test_files_are_shared_and_links_are_kept(self, tmp_path: Path) -> None:
        source = write(tmp_path / "source", {"a.py": "x", "pkg/b.py": "y"})
        (source / "out").symlink_to("/etc")
        (source / "pkg" / "sock").parent.chmod(0o500)
        os.mkfifo(source / "pipe")
        assert link_tree(source, tmp_path / "dest") == "hardlink"
        assert read(tmp_path / "dest") == {"a.py": b"x", "pkg/b.py": b"y", "out": b"-> /etc"}
        assert (tmp_path / "dest" / "a.py").stat().st_ino == (source / "a.py").stat().st_ino
        assert (tmp_path / "dest" / "pkg").stat().st_mode & 0o777 == 0o700, "one can put new files in it"

    def test_a_private_tree_shares_nothing(self, tmp_path: Path) -> None:
        source = write(tmp_path / "source", {"run": "x"})
        (source / "run").chmod(0o755)
        os.utime(source / "run", ns=(10**18, 10**18))
        assert link_tree(source, tmp_path / "dest", private=True) == "copy"
        (tmp_path / "dest" / "run").open("a").close()
        copied = (tmp_path / "dest" / "run").stat()
        assert (copied.st_nlink, copied.st_mode & 0o777, copied.st_mtime_ns) == (1, 0o755, 10**18)

    def test_another_device_gets_copies(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = write(tmp_path / "source", {"a": "x", "b": "y"})

        def refuse(*_: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", refuse)
        assert link_tree(source, tmp_path / "dest") == "copy"
        assert read(tmp_path / "dest") == {"a": b"x", "b": b"y"}


class TestRemoveTree:
    def test_what_is_not_there_is_no_error(self, tmp_path: Path) -> None:
        remove_tree(tmp_path / "none")

    def test_a_link_goes_and_its_target_stays(self, tmp_path: Path) -> None:
        kept = write(tmp_path / "kept", {"a": "x"})
        tree = write(tmp_path / "tree", {"b": "y"})
        (tree / "link").symlink_to(kept)
        remove_tree(tree)
        (tmp_path / "link").symlink_to(kept)
        remove_tree(tmp_path / "link")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]
        assert read(kept) == {"a": b"x"}

    def test_folders_that_nobody_may_read_go(self, tmp_path: Path) -> None:
        tree = write(tmp_path / "tree", {"a/b/c": "x", "d/e": "y"})
        (tree / "a" / "b").chmod(0)
        (tree / "d").chmod(0o500)
        tree.chmod(0o500)
        remove_tree(tree)
        assert not tree.exists()

    def test_a_tree_deeper_than_a_path_can_be_long_goes(self, tmp_path: Path) -> None:
        """An agent can nest folders until no absolute path reaches the last; a recursive removal then gives up."""
        tree = tmp_path / "tree"
        tree.mkdir()
        here = os.getcwd()  # noqa: PTH109
        try:
            os.chdir(tree)
            for _ in range(1500):
                os.mkdir("nested")  # noqa: PTH102
                os.chdir("nested")
            Path("leaf").touch()
        finally:
            os.chdir(here)
        remove_tree(tree)
        assert not tree.exists()
