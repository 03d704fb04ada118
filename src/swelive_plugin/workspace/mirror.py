"""Mirrors: one bare clone per repository in the cache, fetched only when a commit is missing."""

from __future__ import annotations

import os
import shutil
import string
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from swelive_plugin.errors import InfraError, MirrorError, UsageError
from swelive_plugin.workspace.checkout import remove_tree
from swelive_plugin.workspace.git import failure, run_git

__all__ = ["ensure_mirror", "has_commit", "repo_url"]

_FIELDS = ("repo", "owner", "name")
_CLONE_TIMEOUT_S = 3600.0


def repo_url(template: str, repo: str) -> str:
    """Return where ``repo`` (owner/name) is cloned from: ``template`` with {repo}, {owner} and {name} filled in.

    Raises `UsageError` for a template with other fields or a lone brace.
    """
    owner, _, name = repo.partition("/")
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        if unknown := [field for field in fields if field not in _FIELDS]:
            raise ValueError(f"unknown field {{{unknown[0]}}}")
        return template.format(repo=repo, owner=owner, name=name)
    except ValueError as error:
        raise UsageError(
            f"repository URL template {template!r}: {error}",
            hint="use {repo}, {owner} and {name}, as in https://github.com/{repo}.git",
        ) from error


def ensure_mirror(
    repo: str,
    commit: str,
    *,
    url: str,
    cache: Path,
    offline: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Return the bare mirror of ``repo`` in ``cache/mirrors`` with ``commit`` in it, cloned or fetched where needed.

    A clone grows under a temporary name and is renamed when whole, so a kill at any moment leaves nothing half.
    A commit that the mirror lacks is fetched by its hash; where the server does not allow that, all refs are (pull
    requests too). Raises `MirrorError` when the repository or the commit can't be had, `InfraError` for a full disk.
    """
    mirrors = cache / "mirrors"
    mirror = mirrors / f"{repo.replace('/', '__')}.git"
    if has_commit(mirror, commit):
        return mirror
    say = progress or (lambda _: None)
    try:
        mirrors.mkdir(parents=True, exist_ok=True)
        with FileLock(str(mirrors / f"{mirror.name}.lock")):
            return _under_lock(repo, commit, url=url, mirror=mirror, offline=offline, say=say)
    except OSError as error:
        raise InfraError(f"can't keep the mirror of {repo} in {mirrors}: {error}", hint="see --cache") from error


def has_commit(mirror: Path, commit: str) -> bool:
    """Return whether ``mirror`` exists and holds ``commit``."""
    if not (mirror / "HEAD").is_file():
        return False
    done = run_git("cat-file", "-e", f"{commit}^{{commit}}", git_dir=mirror, check=False)
    return done.returncode == 0


def _under_lock(repo: str, commit: str, *, url: str, mirror: Path, offline: bool, say: Callable[[str], None]) -> Path:
    if has_commit(mirror, commit):  # somebody else got it while we waited
        return mirror
    has_mirror = (mirror / "HEAD").is_file()
    if offline:
        raise MirrorError(
            f"commit {commit} of {repo} is not in the cache" if has_mirror else f"{repo} is not in the cache",
            hint="run once without --offline",
        )
    for leftover in mirror.parent.glob(f".{mirror.name}.*"):  # of a clone that was killed; the lock is ours
        remove_tree(leftover)
    if not has_mirror:
        say(f"cloning {repo} from {_shown(url)}")
        _clone(repo, url, mirror)
        if has_commit(mirror, commit):
            return mirror
    say(f"fetching {commit[:12]} of {repo} from {_shown(url)}")
    _fetch(commit, url, mirror)
    if not has_commit(mirror, commit):
        raise MirrorError(
            f"commit {commit} is not in {repo} at {_shown(url)}",
            hint="check base_commit, or name another source with --repo-url",
        )
    return mirror


def _clone(repo: str, url: str, mirror: Path) -> None:
    new = mirror.with_name(f".{mirror.name}.{os.getpid()}")
    local = _local_path(url)
    # A local source is copied object by object (hard links): quick, and a source that lacks old blobs still serves.
    sources = ([str(local)] if local is not None else []) + [url]
    done: subprocess.CompletedProcess[bytes] | None = None
    for source in sources:
        remove_tree(new)
        done = run_git(
            "clone", "--bare", "--quiet", "--template=", "--", source, str(new), timeout_s=_CLONE_TIMEOUT_S, check=False
        )
        if done.returncode == 0:
            shutil.rmtree(mirror, ignore_errors=True)
            new.rename(mirror)
            return
    remove_tree(new)
    assert done is not None
    raise _explain(repo, url, done)


def _fetch(commit: str, url: str, mirror: Path) -> None:
    for stale in [*mirror.glob("*.lock"), *mirror.glob("refs/**/*.lock")]:  # of a fetch that was killed
        with suppress(OSError):
            stale.unlink()
    fetch = ("fetch", "--quiet", "--force", "--no-write-fetch-head", "--no-auto-gc", "--no-tags", "--", url)
    # The ref of our own keeps the commit alive; tags come along because versions are made of them.
    by_hash = (f"{commit}:refs/swelive/{commit}", "+refs/tags/*:refs/tags/*")
    everything = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+refs/pull/*/head:refs/pull/*/head")
    wanted = [by_hash, everything] if len(commit) >= 40 else [everything]
    done: subprocess.CompletedProcess[bytes] | None = None
    for refs in wanted:
        done = run_git(*fetch, *refs, git_dir=mirror, timeout_s=_CLONE_TIMEOUT_S, check=False)
        if has_commit(mirror, commit):  # a ref that could not be moved does not matter
            return
    assert done is not None
    if done.returncode:
        raise _explain(mirror.stem.replace("__", "/", 1), url, done)


def _local_path(url: str) -> Path | None:
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
        return path if path.is_dir() else None
    return None


def _shown(url: str) -> str:
    """Return ``url`` without a password or token in it."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator and "@" in rest.partition("/")[0] else url


_NOT_THERE = (
    "not found",
    "does not exist",
    "does not appear to be a git repository",
    "could not read Username",
    "Authentication failed",
    "Permission denied",
)


def _explain(repo: str, url: str, done: subprocess.CompletedProcess[bytes]) -> InfraError:
    secret = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if secret:  # git repeats the URL as it was given
        cleaned = done.stderr.replace(f"{secret}@".encode(), b"")
        done = subprocess.CompletedProcess(done.args, done.returncode, done.stdout, cleaned)
    plain = failure(f"can't get {repo} from {_shown(url)}", done)
    text = done.stderr.decode("utf-8", "replace")
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return InfraError(plain.message, hint="free some disk space or set another --cache", evidence=plain.evidence)
    if any(sign in text for sign in _NOT_THERE):
        return MirrorError(
            f"there is no repository {repo} to be had at {_shown(url)}",
            hint="check the repo, or name another source with --repo-url",
            evidence=plain.evidence,
        )
    return MirrorError(
        plain.message, hint="check the network, or name another source with --repo-url", evidence=plain.evidence
    )
