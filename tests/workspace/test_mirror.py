"""Mirrors: cloned once, fetched only when a commit is missing, whole or not there at all."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from swelive_plugin.errors import InfraError, MirrorError, UsageError
from swelive_plugin.workspace import mirror as mirror_module
from swelive_plugin.workspace.git import run_git
from swelive_plugin.workspace.mirror import ensure_mirror, has_commit, repo_url

from .conftest import Repository


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("https://github.com/{repo}.git", "https://github.com/pallets/click.git"),
        ("file:///srv/mirror/{owner}+{name}/repo", "file:///srv/mirror/pallets+click/repo"),
        ("file:///srv/the-only-one", "file:///srv/the-only-one"),
    ],
)
def test_the_template_is_filled_in(template: str, url: str) -> None:
    assert repo_url(template, "pallets/click") == url


@pytest.mark.parametrize(
    "template", ["https://x/{project}.git", "https://x/{repo", "https://x/{}", "https://x/{repo!z}"]
)
def test_a_template_that_cannot_be_filled_in_is_a_usage_error(template: str) -> None:
    with pytest.raises(UsageError, match="repository URL template"):
        repo_url(template, "pallets/click")


def url_of(repository: Repository) -> str:
    return f"file://{repository.path}"


def test_a_mirror_is_cloned_once_and_serves_without_its_source(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a.py": "x"})
    said: list[str] = []
    first = ensure_mirror("o/n", commit, url=url_of(repository), cache=tmp_path / "c", progress=said.append)
    assert first == tmp_path / "c" / "mirrors" / "o__n.git"
    assert said == [f"cloning o/n from {url_of(repository)}"]
    repository.path.rename(tmp_path / "gone")
    assert ensure_mirror("o/n", commit, url="file:///gone", cache=tmp_path / "c", offline=True) == first
    assert run_git("show", f"{commit}:a.py", git_dir=first).stdout == b"x"


def test_a_newer_commit_is_fetched_and_its_tags_come_along(repository: Repository, tmp_path: Path) -> None:
    old = repository.commit({"a.py": "1"})
    mirror = ensure_mirror("o/n", old, url=url_of(repository), cache=tmp_path)
    new = repository.commit({"a.py": "2"})
    repository.git("tag", "v2")
    assert not has_commit(mirror, new)
    ensure_mirror("o/n", new, url=url_of(repository), cache=tmp_path)
    assert has_commit(mirror, new)
    assert run_git("rev-parse", "v2", git_dir=mirror).stdout.decode().strip() == new


def test_a_commit_of_a_pull_request_is_found(repository: Repository, tmp_path: Path) -> None:
    """Base commits of forks are on no branch; servers show them under refs/pull only."""
    old = repository.commit({"a.py": "1"})
    ensure_mirror("o/n", old, url=url_of(repository), cache=tmp_path)
    repository.git("checkout", "--quiet", "-b", "theirs")
    new = repository.commit({"a.py": "2"})
    repository.git("update-ref", "refs/pull/7/head", new)
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "--quiet", "-D", "theirs")
    assert has_commit(ensure_mirror("o/n", new, url=url_of(repository), cache=tmp_path), new)


def test_a_short_hash_is_enough(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a.py": "1"})
    assert has_commit(ensure_mirror("o/n", commit[:8], url=url_of(repository), cache=tmp_path), commit)


def test_a_commit_that_is_not_there_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a.py": "1"})
    with pytest.raises(MirrorError, match=f"commit {'e' * 40} is not in o/n at file:") as caught:
        ensure_mirror("o/n", "e" * 40, url=url_of(repository), cache=tmp_path)
    assert "--repo-url" in caught.value.hint


def test_a_repository_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="there is no repository o/n to be had at"):
        ensure_mirror("o/n", "e" * 40, url=f"file://{tmp_path}/none", cache=tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache" / "mirrors").iterdir()] == ["o__n.git.lock"]


def test_offline_says_what_is_missing(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a.py": "1"})
    with pytest.raises(MirrorError, match="o/n is not in the cache"):
        ensure_mirror("o/n", commit, url=url_of(repository), cache=tmp_path, offline=True)
    ensure_mirror("o/n", commit, url=url_of(repository), cache=tmp_path)
    with pytest.raises(MirrorError, match=f"commit {'e' * 40} of o/n is not in the cache"):
        ensure_mirror("o/n", "e" * 40, url=url_of(repository), cache=tmp_path, offline=True)


def test_a_clone_that_was_killed_leaves_nothing_in_the_way(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a.py": "1"})
    half = tmp_path / "mirrors" / ".o__n.git.999"
    (half / "objects").mkdir(parents=True)
    (half / "HEAD").write_text("ref: refs/heads/main\n")
    assert has_commit(ensure_mirror("o/n", commit, url=url_of(repository), cache=tmp_path), commit)
    assert not half.exists()


def test_a_fetch_that_was_killed_leaves_nothing_in_the_way(repository: Repository, tmp_path: Path) -> None:
    mirror = ensure_mirror("o/n", repository.commit({"a.py": "1"}), url=url_of(repository), cache=tmp_path)
    new = repository.commit({"a.py": "2"})
    (mirror / "packed-refs.lock").touch()
    (mirror / "refs" / "swelive").mkdir(exist_ok=True)
    (mirror / "refs" / "swelive" / f"{new}.lock").touch()
    assert has_commit(ensure_mirror("o/n", new, url=url_of(repository), cache=tmp_path), new)
    assert run_git("rev-parse", f"refs/swelive/{new}", git_dir=mirror).stdout.decode().strip() == new


def test_many_threads_clone_once(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a.py": "1"})
    said: list[str] = []
    threads = [
        threading.Thread(
            target=ensure_mirror,
            args=("o/n", commit),
            kwargs={"url": url_of(repository), "cache": tmp_path, "progress": said.append},
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [f"cloning o/n from {url_of(repository)}"]


def test_a_source_that_lacks_old_blobs_still_serves(repository: Repository, tmp_path: Path) -> None:
    """A mirror made with a size filter has no large blobs of the past; a transfer by git's own protocol refuses it."""
    repository.commit({"large.bin": "x" * 1000})
    blob = repository.git("rev-parse", "HEAD:large.bin")
    commit = repository.commit({"large.bin": None, "a.py": "1"})
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert has_commit(ensure_mirror("o/n", commit, url=url_of(repository), cache=tmp_path), commit)


@pytest.mark.parametrize(
    ("said", "kind", "message", "hint"),
    [
        ("fatal: write error: No space left on device", InfraError, "can't get o/n from https://h/o/n", "--cache"),
        (
            "fatal: Could not resolve host: h",
            MirrorError,
            "can't get o/n from https://h/o/n: fatal: Could not",
            "network",
        ),
        ("fatal: could not read Username for 'https://h'", MirrorError, "there is no repository o/n", "--repo-url"),
        ("remote: Repository not found.", MirrorError, "there is no repository o/n", "--repo-url"),
    ],
)
def test_what_git_says_becomes_what_to_do(said: str, kind: type[InfraError], message: str, hint: str) -> None:
    done = subprocess.CompletedProcess([], 128, b"", said.encode())
    error = mirror_module._explain("o/n", "https://me:token@h/o/n", done)
    assert type(error) is kind
    assert error.message.startswith(message)
    assert hint in error.hint
    assert "token" not in str(error) + error.evidence


def test_a_password_in_the_url_is_not_shown() -> None:
    shown = mirror_module._shown("https://user:secret@example.org/o/n.git")
    assert shown == "https://example.org/o/n.git"
