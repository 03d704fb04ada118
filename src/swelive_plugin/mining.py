"""Candidate instances from the history of a local clone: merged changes that touch both source and tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from swelive_plugin.core.paths import is_python, is_test_path
from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.workspace.git import run_git

__all__ = ["Mined", "mine"]

_MAX_PATCH_BYTES = 2**20
_MERGE = re.compile(r"Merge pull request #(\d+) from \S+\s*", re.IGNORECASE)
_SQUASH = re.compile(r"\s*\((?:#|GH-|!)(\d+)\)\s*$", re.IGNORECASE)
_BRANCH_MERGE = re.compile(r"Merge (?:remote-tracking )?branch|Merge [0-9a-f]{7,40} into|Merge tag", re.IGNORECASE)
_TRAILER = re.compile(
    r"^(?:co-authored-by|signed-off-by|reviewed-by|acked-by|tested-by|change-id|cherry picked from|pr-url|"
    r"reviewed-on)\b.*",
    re.IGNORECASE | re.MULTILINE,
)
_ORIGIN = re.compile(r"[:/]([A-Za-z0-9][\w.-]*)/([\w.-]+?)(?:\.git)?/?$")


@dataclass(frozen=True)
class Mined:
    """Candidate rows, the newest first; how many commits were looked at, and why others were passed over."""

    rows: tuple[dict[str, Any], ...]
    commits: int
    passed_over: Mapping[str, int]
    git_dir: Path


@dataclass(frozen=True)
class _Commit:
    sha: str
    parents: tuple[str, ...]
    date: str
    message: str


def mine(
    repository: Path,
    *,
    branch: str = "HEAD",
    since: str | None = None,
    until: str | None = None,
    limit: int | None = None,
    repo: str | None = None,
    max_files: int = 30,
) -> Mined:
    """Return the candidates in the first-parent history of ``branch``.

    A merge commit stands for the whole change that it merged, any other commit for itself; the base is its first
    parent, so that the patch applies there as it is. ``since`` and ``until`` are dates in git's notation. ``max_files``
    passes over changes of more files (reformatting, releases). Raises `UsageError` for a folder that is no repository,
    a branch that is not there, what is no date, or a ``repo`` that is not ``owner/name``.
    """
    for option, date in (("--since", since), ("--until", until)):
        _refuse_no_date(option, date)
    git_dir = _git_dir(repository)
    name = repo or _name_of(git_dir, repository)
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*", name):
        raise UsageError(f"{name!r} is not owner/name", hint="give one with --repo")
    passed_over: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    looked_at = 0
    for commit in _commits(git_dir, branch, since, until):
        looked_at += 1
        row = _row(git_dir, name, commit, max_files)
        if isinstance(row, str):
            passed_over[row] += 1
            continue
        rows.append(row)
        if limit is not None and len(rows) >= limit:
            break
    return Mined(tuple(_distinct(rows)), looked_at, dict(passed_over.most_common()), git_dir)


# What git itself understands, as far as it is plain: it takes any other text for this very moment.
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?\s*(?:Z|[+-]\d\d:?\d\d)?)?")
_WORDS_OF_TIME = re.compile(
    r"@\d+|now|today|yesterday|(?:(?:a|an|last|\d+) (?:second|minute|hour|day|week|month|year)s?(?: ago)?[ ,]*)+|"
    r"(?:\d{1,2} )?(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]* (?:\d{1,2},? )?\d{4}",
    re.IGNORECASE,
)


def _refuse_no_date(option: str, text: str | None) -> None:
    if text is None or _WORDS_OF_TIME.fullmatch(text.strip()):
        return
    if _ISO_DATE.fullmatch(text.strip()):
        try:
            datetime.fromisoformat(text.strip()[:10])
        except ValueError:
            pass
        else:
            return
    raise UsageError(f"{option} {text!r} is no date", hint="write it as 2025-01-31, or as in '2 weeks ago'")


def _git_dir(repository: Path) -> Path:
    if not repository.is_dir():
        raise UsageError(f"{repository}: no such folder", hint="name a git clone")
    done = run_git("rev-parse", "--absolute-git-dir", cwd=repository, check=False)
    if done.returncode:
        raise UsageError(f"{repository} is no git repository", hint="name a clone, bare or with a work tree")
    return Path(done.stdout.decode("utf-8", "surrogateescape").strip())


def _name_of(git_dir: Path, repository: Path) -> str:
    done = run_git("config", "--get", "remote.origin.url", git_dir=git_dir, check=False)
    found = _ORIGIN.search(done.stdout.decode("utf-8", "replace").strip())
    if found:
        return f"{found[1]}/{found[2]}"
    folder = re.sub(r"[^\w.-]", "-", repository.resolve().name.removesuffix(".git")) or "repository"
    return f"local/{folder.lstrip('.-') or 'repository'}"


def _commits(git_dir: Path, branch: str, since: str | None, until: str | None) -> Iterator[_Commit]:
    options = [f"--since={since}"] if since else []
    options += [f"--until={until}"] if until else []
    done = run_git(
        "log", "--first-parent", "-z", "--format=%H%x1f%P%x1f%cI%x1f%B", *options, "--end-of-options", branch, "--",
        git_dir=git_dir, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UsageError(f"{git_dir}: no history of {branch!r}", hint="name a branch, a tag or a commit with --branch")
    for entry in done.stdout.decode("utf-8", "replace").split("\0"):
        if entry.strip():
            sha, parents, date, message = entry.split("\x1f", 3)
            yield _Commit(sha.strip(), tuple(parents.split()), date, message.strip())


def _row(git_dir: Path, repo: str, commit: _Commit, max_files: int) -> dict[str, Any] | str:
    """Return the candidate that a commit makes, or why it makes none."""
    if not commit.parents:
        return "without a parent"
    subject = commit.message.splitlines()[0] if commit.message else ""
    if len(commit.parents) > 1 and _BRANCH_MERGE.match(subject):
        return "merges of another branch"
    base = commit.parents[0]
    try:
        paths = _changed(git_dir, base, commit.sha)
    except InfraError:  # a shallow or partial clone ends here
        return "whose parent is not in the clone"
    tests = [path for path in paths if is_test_path(path)]
    source = [path for path in paths if not is_test_path(path)]
    if not any(map(is_python, source)) or not any(map(is_python, tests)):
        return "that do not touch both source and tests"
    if len(paths) > max_files:
        return f"of more than {max_files} files"
    try:
        patch, test_patch = (_diff(git_dir, base, commit.sha, chosen) for chosen in (source, tests))
    except InfraError:
        return "with files that are not in the clone"
    if len(patch) + len(test_patch) > _MAX_PATCH_BYTES:
        return "larger than 1 MiB"
    try:
        texts = {"patch": patch.decode("utf-8"), "test_patch": test_patch.decode("utf-8")}
    except UnicodeDecodeError:  # a row is JSON
        return "whose text is not UTF-8"
    number, text = _statement(git_dir, commit, subject)
    if not text:
        return "without a message"
    return {
        "instance_id": f"{repo.replace('/', '__')}-{number or commit.sha[:12]}",
        "repo": repo,
        "base_commit": base,
        **texts,
        "problem_statement": text,
        "problem_statement_source": "commit message",
        "created_at": commit.date,
        "gold_commit": commit.sha,
        **({"pull_number": int(number)} if number else {}),
    }


def _changed(git_dir: Path, base: str, commit: str) -> list[str]:
    done = run_git("diff", "--no-renames", "--name-only", "-z", base, commit, git_dir=git_dir)
    return [path for path in done.stdout.decode("utf-8", "surrogateescape").split("\0") if path]


def _diff(git_dir: Path, base: str, commit: str, paths: Sequence[str]) -> bytes:
    """Return the part of a change that lies in ``paths``; moves are a deletion and a new file, so that they split."""
    done = run_git(
        "diff", "--no-renames", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv",
        "--src-prefix=a/", "--dst-prefix=b/", base, commit, "--",
        *(f":(top,literal){path}" for path in paths),
        git_dir=git_dir,
    )  # fmt: skip
    return done.stdout


def _statement(git_dir: Path, commit: _Commit, subject: str) -> tuple[str, str]:
    """Return the number of the pull request, if the message names one, and the text that tells what was wrong."""
    merge = _MERGE.match(commit.message)
    if merge:
        text = _clean(commit.message[merge.end() :])
        if not text:  # all there is stands in the commits that were merged
            done = run_git("log", "--reverse", "--format=%B", f"{commit.sha}^1..{commit.sha}^2", git_dir=git_dir)
            text = _clean(done.stdout.decode("utf-8", "replace"))
        return merge[1], text
    squash = _SQUASH.search(subject)
    if squash:
        rest = commit.message[len(subject) :]
        return squash[1], _clean(subject[: squash.start()] + rest)
    return "", _clean(commit.message)


def _clean(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", _TRAILER.sub("", text)).strip()


def _distinct(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows with ids of their own: two commits may name one pull request."""
    seen: Counter[str] = Counter(row["instance_id"] for row in rows)
    for row in rows:
        if seen[row["instance_id"]] > 1:
            yield {**row, "instance_id": f"{row['instance_id']}-{row['gold_commit'][:12]}"}
        else:
            yield row
