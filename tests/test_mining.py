"""Candidates from a history that is made here: merges, squashes, plain commits and what is passed over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from swelive_plugin.core.instance import instance_from_row
from swelive_plugin.errors import UsageError
from swelive_plugin.mining import mine
from swelive_plugin.workspace.patch import touched_paths
from tests.host import run_git_for_tests, write_files


class History:
    """A repository whose commits are one day apart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.day = 0
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("begin", {"pkg/a.py": "A = 1\n", "tests/test_a.py": "def test_a(): pass\n", "README.md": "x\n"})

    def git(self, *args: str, date: str = "") -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
        done = subprocess.run(
            ["git", *identity, *args], cwd=self.path, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str, files: Mapping[str, str | None]) -> str:
        self.day += 1
        write_files(self.path, files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message, date=f"2025-03-{self.day:02} 12:00:00 +0000")
        return self.git("rev-parse", "HEAD")

    def merge(self, message: str, commits: Sequence[tuple[str, Mapping[str, str | None]]]) -> str:
        self.git("checkout", "--quiet", "-b", "topic")
        for text, files in commits:
            self.commit(text, files)
        self.git("checkout", "--quiet", "main")
        self.day += 1
        self.git("merge", "--quiet", "--no-ff", "-m", message, "topic", date=f"2025-03-{self.day:02} 12:00:00 +0000")
        self.git("branch", "--quiet", "-D", "topic")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "proj")


CHANGE = {"pkg/a.py": "A = 2\n", "tests/test_a.py": "def test_a(): assert 2\n"}


def test_a_squash_commit_is_a_candidate_with_its_message_as_the_issue(history: History) -> None:
    base = history.git("rev-parse", "HEAD")
    sha = history.commit("Count from two (#41)\n\nOne was wrong.\n\nCo-authored-by: A <a@example.invalid>\n", CHANGE)
    history.git("remote", "add", "origin", "git@example.invalid:Owner/The.Proj.git")
    (row,) = mine(history.path).rows
    assert row["instance_id"] == "Owner__The.Proj-41"
    assert (row["repo"], row["base_commit"], row["gold_commit"]) == ("Owner/The.Proj", base, sha)
    assert row["problem_statement"] == "Count from two\n\nOne was wrong."
    assert row["created_at"] == "2025-03-02T12:00:00+00:00"
    assert [change.new for change in touched_paths(row["patch"])] == ["pkg/a.py"]
    assert [change.new for change in touched_paths(row["test_patch"])] == ["tests/test_a.py"]
    assert instance_from_row(row).instance_id == "Owner__The.Proj-41"


def test_a_merge_stands_for_all_that_it_merged(history: History) -> None:
    base = history.git("rev-parse", "HEAD")
    history.merge(
        "Merge pull request #7 from me/topic\n\nFix counting\n\nIt was off by one.",
        [("first", {"pkg/a.py": "A = 2\n"}), ("second", {"tests/test_a.py": "def test_a(): assert 2\n"})],
    )
    (row,) = mine(history.path).rows
    assert (row["instance_id"], row["base_commit"]) == ("local__proj-7", base)
    assert row["problem_statement"] == "Fix counting\n\nIt was off by one."
    assert ("A = 2" in row["patch"], "assert 2" in row["test_patch"]) == (True, True)


def test_a_merge_without_words_takes_those_of_its_commits(history: History) -> None:
    history.merge("Merge pull request #7 from me/topic", [("Say why", CHANGE)])
    (row,) = mine(history.path).rows
    assert row["problem_statement"] == "Say why"


def test_without_a_number_the_commit_names_the_candidate(history: History) -> None:
    sha = history.commit("Count from two", CHANGE)
    (row,) = mine(history.path, repo="me/it").rows
    assert row["instance_id"] == f"me__it-{sha[:12]}"


def test_two_commits_of_one_pull_request_keep_ids_of_their_own(history: History) -> None:
    history.commit("One (#5)", CHANGE)
    history.commit("Two (#5)", {"pkg/a.py": "A = 3\n", "tests/test_a.py": "def test_a(): assert 3\n"})
    ids = [row["instance_id"] for row in mine(history.path).rows]
    assert len(set(ids)) == 2
    assert all(name.startswith("local__proj-5-") for name in ids)


def test_what_is_passed_over_is_counted(history: History) -> None:
    history.commit("docs", {"README.md": "y\n"})
    history.commit("only source", {"pkg/a.py": "A = 5\n"})
    history.commit("only tests", {"tests/test_b.py": "def test_b(): pass\n"})
    history.commit("no code", {"pkg/data.json": "{}", "tests/test_a.py": "def test_a(): assert 5\n"})
    history.commit("latin", {"pkg/b.py": "# x\n", "tests/test_a.py": "def test_a(): assert 6\n"})
    (history.path / "pkg" / "b.py").write_bytes(b"# \xe9\n")
    history.commit("not UTF-8", {"tests/test_a.py": "def test_a(): assert 7\n"})
    history.commit("many", {f"pkg/m{n}.py": "" for n in range(9)} | {"tests/test_a.py": "def test_a(): assert 8\n"})
    mined = mine(history.path, max_files=5)
    assert [row["problem_statement"] for row in mined.rows] == ["latin"]
    assert mined.commits == 8
    assert mined.passed_over == {
        "that do not touch both source and tests": 4,
        "of more than 5 files": 1,
        "whose text is not UTF-8": 1,
        "without a parent": 1,
    }


def test_dates_and_limit_narrow_the_newest_first(history: History) -> None:
    for number in range(2, 6):
        history.commit(f"change (#{number})", {k: f"{v}# {number}\n" for k, v in CHANGE.items()})
    assert [row["pull_number"] for row in mine(history.path, limit=2).rows] == [5, 4]
    assert [row["pull_number"] for row in mine(history.path, since="2025-03-03T13:00:00Z").rows] == [5, 4]
    assert [row["pull_number"] for row in mine(history.path, until="2025-03-03T13:00:00Z").rows] == [3, 2]


def test_a_move_between_source_and_tests_is_split(history: History) -> None:
    history.commit("helper", {"pkg/helper.py": "".join(f"line{n} = {n}\n" for n in range(30))})
    history.git("mv", "pkg/helper.py", "tests/helper.py")
    history.commit("move (#9)", {"tests/test_a.py": "def test_a(): assert 9\n"})
    (row,) = mine(history.path, limit=1).rows
    assert [(c.new, c.kind) for c in touched_paths(row["patch"])] == [("pkg/helper.py", "deleted")]
    assert ("tests/helper.py", "added") in [(c.new, c.kind) for c in touched_paths(row["test_patch"])]


def test_a_bare_clone_and_a_shallow_one_are_read_as_far_as_they_go(history: History, tmp_path: Path) -> None:
    history.commit("change (#2)", CHANGE)
    run_git_for_tests("clone", "--quiet", "--bare", str(history.path), str(tmp_path / "bare.git"), cwd=tmp_path)
    assert len(mine(tmp_path / "bare.git", repo="o/p").rows) == 1
    shallow = tmp_path / "shallow"
    run_git_for_tests("clone", "--quiet", "--depth=1", history.path.as_uri(), str(shallow), cwd=tmp_path)
    assert mine(shallow, repo="o/p").rows == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"repository": "nowhere"}, "no such folder"),
        ({"repository": "."}, "is no git repository"),
        ({"branch": "gone"}, "no history of 'gone'"),
        ({"branch": "--output=x"}, "no history of '--output=x'"),
        ({"repo": "proj"}, "'proj' is not owner/name"),
    ],
)
def test_a_mistake_is_told(history: History, tmp_path: Path, given: dict[str, str], told: str) -> None:
    name = given.pop("repository", "")
    repository = history.path if not name else tmp_path if name == "." else tmp_path / name
    with pytest.raises(UsageError, match=told):
        mine(repository, **given)  # type: ignore[arg-type]
