"""An environment provider for tests: this very interpreter and its packages, so that nothing has to be built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

import swelive_plugin
from swelive_plugin.core.instance import Instance, instance_from_row
from swelive_plugin.environments import Environment, EnvironmentProvider, Trial
from swelive_plugin.extensions import plugin_manager
from swelive_plugin.grading.settings import Settings
from swelive_plugin.hookspecs import hookimpl
from swelive_plugin.sandbox import Mount, Sandbox
from swelive_plugin.workspace.checkout import export_tree


class HostProvider:
    """Hands out the interpreter that runs the tests, with the instance's base commit as the prepared tree."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache

    def provide(
        self,
        instance: Instance,
        *,
        mirror: Path,
        sandbox: Sandbox,
        offline: bool = False,
        progress: Callable[[str], None] | None = None,
        check: Callable[[Environment], Trial] | None = None,
    ) -> Environment:
        key = f"host-{instance.base_commit}"
        folder = self.cache / "host" / key
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            if not (folder / "tree").exists():
                export_tree(mirror, instance.base_commit, folder / "new")
                (folder / "new").rename(folder / "tree")
        # ours is installed here, too: its entry point must be importable even though it stays inert
        ours = Path(swelive_plugin.__file__).parents[1]
        roots = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), ours}
        return Environment(
            key=key,
            folder=folder,
            python=sys.executable,
            python_version=sys.version_info[:3],
            site_folders=(sysconfig.get_path("purelib"),),
            tree=folder / "tree",
            mounts=tuple(Mount(root, str(root)) for root in sorted(roots)),
        )


class HostPlugin:
    @hookimpl
    def swelive_environments(self, settings: Settings) -> Mapping[str, Callable[[], EnvironmentProvider]]:
        return {"uv": lambda: HostProvider(settings.cache)}


@contextmanager
def host_environments() -> Iterator[None]:
    """While it holds, grades run in this interpreter instead of a built environment."""
    plugin = HostPlugin()
    plugin_manager().register(plugin)
    try:
        yield
    finally:
        plugin_manager().unregister(plugin)


@dataclass(frozen=True)
class Project:
    """A small git repository with one task, and the dataset file that tells of it."""

    instance: Instance
    repo_url: str
    dataset: Path
    repository: Path

    def settings(self, cache: Path, **more: object) -> Settings:
        return Settings(repo_url=self.repo_url, cache=cache, **more)  # type: ignore[arg-type]


def run_git_for_tests(*args: str, cwd: Path, date: str = "2025-06-01T00:00:00+0000") -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **dates}
    done = subprocess.run(["git", *identity, *args], cwd=cwd, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def write_files(folder: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def diff_of(repository: Path, changes: Mapping[str, str | None]) -> str:
    """Return the diff that makes ``changes`` (``None`` deletes), leaving the work tree as it was."""
    write_files(repository, changes)
    run_git_for_tests("add", "--all", cwd=repository)
    diff = run_git_for_tests("diff", "--cached", "--binary", "HEAD", cwd=repository)
    run_git_for_tests("reset", "--hard", "--quiet", cwd=repository)
    return diff


def make_project(
    folder: Path,
    base: Mapping[str, str],
    *,
    gold: Mapping[str, str | None],
    tests: Mapping[str, str | None],
    f2p: list[str],
    p2p: list[str],
    date: str = "2025-06-01T00:00:00+0000",
) -> Project:
    """Return a repository with ``base`` committed, and the instance that ``gold`` and ``tests`` make of it."""
    repository = folder / "o+proj" / "repo"
    repository.mkdir(parents=True)
    run_git_for_tests("init", "--quiet", "--initial-branch=main", cwd=repository)
    write_files(repository, base)
    run_git_for_tests("add", "--all", cwd=repository)
    run_git_for_tests("commit", "--quiet", "-m", "base", cwd=repository, date=date)
    row = {
        "instance_id": "o__proj-1",
        "repo": "o/proj",
        "base_commit": run_git_for_tests("rev-parse", "HEAD", cwd=repository).strip(),
        "patch": diff_of(repository, gold),
        "test_patch": diff_of(repository, tests),
        "FAIL_TO_PASS": f2p,
        "PASS_TO_PASS": p2p,
        "created_at": "2025-06-01T00:00:00Z",
    }
    dataset = folder / "rows.jsonl"
    dataset.write_text(json.dumps(row) + "\n")
    url = f"{folder.as_uri()}/{{owner}}+{{name}}/repo"
    return Project(instance_from_row(row), url, dataset, repository)
