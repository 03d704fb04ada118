"""git is called so that nothing on the machine or in a repository changes what it does."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path

import pytest

from swelive_plugin.errors import InfraError, MissingProgram
from swelive_plugin.workspace.git import run_git

from .conftest import Repository


def test_the_persons_configuration_does_not_count(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\teditor = mine\n[user]\n\tname = Mine\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.email")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "mine@example.org")
    assert run_git("config", "--get", "user.name", cwd=repository.path, check=False).stdout == b""
    assert run_git("config", "--get", "user.email", cwd=repository.path, check=False).stdout == b""


def test_git_dir_of_the_person_does_not_count(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit({"a.py": "x"})
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    assert run_git("ls-files", cwd=repository.path).stdout == b"a.py\n"


@pytest.mark.parametrize("hook", ["post-checkout", "reference-transaction"])
def test_hooks_of_a_repository_do_not_run(repository: Repository, tmp_path: Path, hook: str) -> None:
    repository.commit({"a.py": "x"})
    script = repository.path / ".git" / "hooks" / hook
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    run_git("checkout", "--quiet", "-b", "other", cwd=repository.path)
    assert not (tmp_path / "ran").exists()
    subprocess.run(["git", "checkout", "-q", "-b", "third"], cwd=repository.path, check=True, env={**os.environ})
    assert (tmp_path / "ran").exists(), "the hook is one that git runs when not told otherwise"


def test_fsmonitor_of_a_repository_does_not_run(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a.py": "x"})
    script = tmp_path / "monitor"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    with (repository.path / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {script}\n")
    run_git("status", cwd=repository.path)
    assert not (tmp_path / "ran").exists()


def test_without_git_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingProgram, match="git is not installed"):
        run_git("--version")


def test_a_failure_says_what_git_said(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="git rev-parse failed: fatal: not a git repository"):
        run_git("rev-parse", "HEAD", git_dir=tmp_path)


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    alias = f"alias.hang=!sh -c 'echo $$ > {tmp_path}/pid; sleep 600'"
    with pytest.raises(InfraError, match="did not end within 1 s"):
        run_git("-c", alias, "hang", timeout_s=1)
    pid = int((tmp_path / "pid").read_text())
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # gone, and its parent knows
    assert select.select([handle], [], [], 10)[0] == [handle], "readable means ended"
    os.close(handle)
