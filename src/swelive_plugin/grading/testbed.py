"""A testbed: one instance ready to be run, any number of times, with whatever a variant changes.

Base, gold, the prediction, its mutants, the disguised run and each run of a validation are variants of one testbed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Session
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.extensions import environment_provider, policy_named, sandbox_named
from swelive_plugin.files import json_bytes, write_atomically
from swelive_plugin.grading.launch import probe_fingerprint
from swelive_plugin.grading.rebuild import Rebuilt, put_built, rebuild, rebuild_key, rebuilt_from
from swelive_plugin.grading.selection import FileScope, choose_files
from swelive_plugin.grading.session import read_session_folder, run_session
from swelive_plugin.grading.settings import Progress, Settings, scratch
from swelive_plugin.grading.tree import make_graded_tree, python_sources
from swelive_plugin.integrity.mutation import mutate_files, mutation_fingerprint
from swelive_plugin.readers.events import ChannelRead
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.workspace.checkout import remove_tree
from swelive_plugin.workspace.graded import Application
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url

__all__ = [
    "Prepared",
    "RunResult",
    "Testbed",
    "Variant",
    "mirror_of",
    "open_testbed",
    "prepare",
    "read_run",
    "run",
    "run_kept",
    "run_prepared",
]

_DONE = "done.json"
_BUILD_OUTPUT, _BUILT = "build_output.txt", "built"

Check = Callable[["Testbed"], Trial]


@dataclass(frozen=True)
class Variant:
    """What one run of a testbed differs in. The hidden tests are always on top of ``patch``.

    ``mutant`` numbers a change of what the FAIL_TO_PASS tests expect. ``disguise`` keeps pytest from telling the code
    that it is under test. ``trusted``: the patch is base's or gold's own, so every module that its build makes is taken
    and a build that fails is no reason to stop. ``plugins``, when given, are the only distributions whose pytest
    plugins load by themselves. ``tests``, when given, are the only tests to be run, by the ids that pytest reports.

    ``built`` are extension modules that another run of the same patch made: they are not built again. ``gold_built``
    are gold's: a prediction's build may bring modules of these names.
    """

    patch: str = ""
    mutant: int | None = None
    disguise: bool = False
    trusted: bool = False
    plugins: tuple[str, ...] | None = None
    tests: tuple[str, ...] = ()
    built: Rebuilt | None = None
    gold_built: Rebuilt | None = None


@dataclass(frozen=True)
class Testbed:
    """One instance in its environment, ready to be run. ``scope`` tells which test files run, see `choose_files`."""

    __test__ = False  # pytest must not take it for a test class

    instance: Instance
    settings: Settings
    sandbox: Sandbox
    mirror: Path
    environment: Environment
    scope: FileScope
    progress: Progress = field(default=lambda _: None)

    def key(self, variant: Variant) -> str:
        """Return the name of a variant's run in the cache: a hash of all that the run depends on."""
        instance, settings = self.instance, self.settings
        depends_on = (
            self.environment.key,
            instance.base_commit,
            instance.test_patch,
            instance.fail_to_pass,
            instance.pass_to_pass if self.scope == "all" else (),
            self.scope,
            (variant.patch, variant.mutant, variant.disguise, variant.trusted, variant.plugins, variant.tests),
            self.sandbox.name,
            settings.network,
            settings.timeout_s,
            settings.memory_mib,
            settings.processes,
            probe_fingerprint(),
            mutation_fingerprint() if variant.mutant is not None else "",
            rebuild_key(self.environment),
        )
        return hashlib.sha256(repr(depends_on).encode("utf-8", "surrogateescape")).hexdigest()[:24]

    def folder(self, variant: Variant) -> Path:
        """Return where the cache keeps a variant's run."""
        runs = self.settings.cache / "runs" / self.environment.key
        return runs / f"{self.instance.instance_id}-{self.key(variant)}"


@dataclass(frozen=True)
class Prepared:
    """The tree of one run, ready for its session.

    ``application`` tells how the patch got into ``tree``, ``sources`` holds (path, base's text, text here) of each
    Python file that it changed, ``mutated`` the test functions whose expectation was changed, as ``file::function``.
    """

    tree: Path
    application: Application
    sources: tuple[tuple[str, str, str], ...] = ()
    rebuilt: Rebuilt | None = None
    mutated: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RunResult:
    """What one run left. ``folder`` has ``events.jsonl`` and ``test_output.txt``; ``root`` is the tree's path inside.

    ``ended_by`` is ``exit``, ``signal``, or the limit that ended the session. ``at`` is when it began, in UTC.
    """

    session: Session
    read: ChannelRead
    folder: Path
    root: str
    ended_by: str = "exit"
    duration_s: float = 0.0
    at: str = ""
    files: tuple[str, ...] = ()
    rebuilt: Rebuilt | None = None
    mutated: frozenset[str] = frozenset()

    @property
    def output(self) -> Path:
        """What pytest printed."""
        return self.folder / "test_output.txt"


def open_testbed(
    instance: Instance,
    settings: Settings,
    *,
    scope: FileScope | None = None,
    check: Check | None = None,
    progress: Progress = lambda _: None,
) -> Testbed:
    """Return the instance's testbed: the repository in the cache, the sandbox, the environment of the commit's day.

    ``scope`` is the settings', else the policy's. ``check`` runs the controls in a testbed and tells whether they hold:
    with it, recipes are tried until they do. Raises `UsageError` for names that no plugin has, `EnvironmentBuildError`,
    `InfraError`.
    """
    scope = scope or settings.scope or policy_named(settings.policy).default_scope
    sandbox = sandbox_named(settings.sandbox, require=settings.require_sandbox)
    mirror = mirror_of(instance.repo, instance.base_commit, settings, progress)
    in_environment = partial(Testbed, instance, settings, sandbox, mirror, scope=scope, progress=progress)
    environment = environment_provider(settings).provide(
        instance,
        mirror=mirror,
        sandbox=sandbox,
        offline=settings.offline,
        progress=progress,
        check=None if check is None else lambda built: check(in_environment(environment=built)),
    )
    return in_environment(environment=environment)


def mirror_of(repo: str, commit: str, settings: Settings, progress: Progress | None = None) -> Path:
    """Return the repository in the cache, with the commit in it. Raises `MirrorError`, `InfraError`."""
    return ensure_mirror(
        repo,
        commit,
        url=repo_url(settings.repo_url, repo),
        cache=settings.cache,
        offline=settings.offline,
        progress=progress,
    )


def prepare(testbed: Testbed, variant: Variant, *, folder: Path, work: Path) -> Prepared:
    """Return the tree of a run in ``work/tree``: patch, tests and configuration put back, hidden tests, built modules.

    ``folder`` gets what a build prints, and keeps modules that a trusted build made. Raises `PatchRejected`,
    `PatchError`, `InstanceError`, `SandboxError` and `InfraError`; a build that fails is in the result.
    """
    tree, application = make_graded_tree(testbed, variant.patch, work)
    sources = () if variant.trusted else tuple(python_sources(testbed.environment.tree, tree, application.changed))
    rebuilt = variant.built
    if rebuilt is None:
        rebuilt = rebuild(
            testbed,
            variant,
            touched=application.changed,
            output=folder / _BUILD_OUTPUT,
            built=(folder if variant.trusted else work) / _BUILT,
            work=work,
        )
    put_built(rebuilt, tree, testbed.environment, application)
    mutated = frozenset[str]()
    if variant.mutant is not None:
        mutated = mutate_files(tree, testbed.instance, variant.mutant)
    return Prepared(tree, application, sources, rebuilt, mutated)


def run_prepared(testbed: Testbed, variant: Variant, prepared: Prepared, *, folder: Path, work: Path) -> RunResult:
    """Return what the session over a prepared tree left in ``folder``. Raises `SandboxError` if it did not start."""
    files = choose_files(testbed.scope, testbed.instance, prepared.tree, prepared.application)
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = run_session(testbed, variant, prepared, files, folder=folder, work=work)
    completed = result.completed
    return RunResult(
        result.session,
        result.read,
        folder,
        result.root,
        completed.ended_by,
        round(completed.duration_s, 3),
        at,
        tuple(files),
        prepared.rebuilt,
        prepared.mutated,
    )


def run(testbed: Testbed, variant: Variant, *, folder: Path) -> RunResult:
    """Return what one run of a variant left in ``folder``; its tree is thrown away. Raises as `prepare` does."""
    with scratch(testbed.settings.cache) as work:
        prepared = prepare(testbed, variant, folder=folder, work=work)
        return run_prepared(testbed, variant, prepared, folder=folder, work=work)


def run_kept(testbed: Testbed, variant: Variant, *, folder: Path | None = None, what: str = "") -> RunResult:
    """Return a variant's run: the one that was kept for the same key, else a fresh one, kept whole or not at all.

    ``folder`` is where it is kept, the cache by default. ``what`` is said when it begins. Raises as `prepare` does.
    """
    place = folder or testbed.folder(variant)
    key = testbed.key(variant)
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{testbed.folder(variant)}.lock" if folder is None else place.parent / ".run.lock"):
        kept = read_run(place, key=key)
        if kept is not None:
            return kept
        if what:
            testbed.progress(what)
        with scratch(testbed.settings.cache) as work:
            fresh = work / "run"
            result = run(testbed, variant, folder=fresh)
            write_atomically(fresh / _DONE, json_bytes(_summary(result, key)))
            remove_tree(place)
            _move(fresh, place)
    rebuilt = replace(result.rebuilt, built=place / _BUILT) if result.rebuilt else None
    return replace(result, folder=place, rebuilt=rebuilt)


def _move(source: Path, target: Path) -> None:
    with suppress(OSError):
        source.replace(target)
        return
    import shutil  # the report folder may lie on another file system than the cache

    part = target.with_name(f"{target.name}.part-{time.monotonic_ns()}")
    shutil.copytree(source, part, symlinks=True)
    part.replace(target)


def _summary(result: RunResult, key: str) -> dict[str, Any]:
    return {
        "key": key,
        "at": result.at,
        "ended_by": result.ended_by,
        "root": result.root,
        "duration_s": result.duration_s,
        "files": list(result.files),
        "mutated": sorted(result.mutated),
        "rebuild": result.rebuilt.as_dict() if result.rebuilt else None,
    }


def read_run(folder: Path, *, key: str = "") -> RunResult | None:
    """Return the run that was kept in ``folder``, or ``None`` where there is none, or one of another ``key``."""
    try:
        done: dict[str, Any] = json.loads((folder / _DONE).read_bytes())
    except (OSError, ValueError):
        return None
    if key and done.get("key") != key:
        return None
    session, read = read_session_folder(folder, root=done["root"], timed_out=done["ended_by"] == "wall_clock")
    rebuilt = rebuilt_from(done.get("rebuild"), folder / _BUILT)
    return RunResult(
        session,
        read,
        folder,
        done["root"],
        done["ended_by"],
        done["duration_s"],
        done["at"],
        tuple(done["files"]),
        rebuilt,
        frozenset(done["mutated"]),
    )
