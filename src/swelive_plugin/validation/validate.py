"""One instance, validated: both controls, repeated in one environment, and what they show."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from swelive_plugin._version import __version__
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.scoring import files_to_run, score
from swelive_plugin.core.verdict import Status
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.errors import (
    EnvironmentBuildError,
    InfraError,
    InstanceError,
    MirrorError,
    NoInterpreter,
    PatchError,
    SweliveError,
)
from swelive_plugin.extensions import environment_provider, sandbox_named
from swelive_plugin.grading.controls import Which, run_control, skip_reasons
from swelive_plugin.grading.rebuild import rebuild_told
from swelive_plugin.grading.session import read_session_folder
from swelive_plugin.grading.settings import Progress, Settings, scratch
from swelive_plugin.recipes.recipe import recipe_to_toml
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.validation.derive import Derived, Difference, DropReason, compare, derive
from swelive_plugin.workspace.checkout import remove_tree
from swelive_plugin.workspace.graded import Application
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url

__all__ = ["Options", "Run", "Validation", "test_files_of", "validate"]

_TEST_MODULE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_tests?|tests)\.py$")
_TEST_FIRST = re.compile(r"test_[^/]*\.py$")
_EVIDENCE_LINES = 20


@dataclass(frozen=True)
class Options:
    """How often and how much: the base control twice, so that a test which fails by chance shows; gold three times.

    ``scope``: ``files`` runs the test files that the test patch touches (and those that a given FAIL_TO_PASS names), as
    SWE-bench does; ``all`` runs the whole suite, as SWE-bench-Live does. ``search``: recipes are tried for an
    environment in which the gold patch shows something; without, the first that builds is taken.
    """

    gold_runs: int = 3
    base_runs: int = 2
    scope: Literal["files", "all"] = "files"
    search: bool = True


@dataclass(frozen=True)
class Run:
    """One run of one control: when it began (UTC), how long it took in seconds, how it ended, what it counted."""

    which: Which
    number: int
    at: str
    duration_s: float
    ended_by: str
    outcomes: Mapping[str, int]


@dataclass(frozen=True)
class Validation:
    """What validation found of one instance. ``reason`` is ``None`` for one that is kept.

    ``settled`` is false where our side failed (network, disk): the next run tries again. ``gold_resolves`` tells
    whether the gold patch satisfies the lists that the row came with (its own, where it came with none).
    """

    instance_id: str
    key: str
    settled: bool = True
    reason: DropReason | None = None
    message: str = ""
    hint: str = ""
    evidence: str = ""
    lists: Derived = field(default_factory=Derived)
    difference: Difference | None = None
    gold_resolves: bool = False
    environment: str = ""
    python: str = ""
    pytest: str = ""
    recipe: str = ""
    lock: str = ""
    scope: str = "files"
    test_files: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    validated_at: str = ""
    tool_version: str = __version__

    @property
    def kept(self) -> bool:
        """Whether the instance can be used."""
        return self.settled and self.reason is None


class _Drop(Exception):
    def __init__(self, reason: DropReason, message: str, *, hint: str = "", evidence: str = "") -> None:
        super().__init__(message)
        self.reason, self.message, self.hint, self.evidence = reason, message, hint, evidence


def key_of(instance: Instance, options: Options, settings: Settings) -> str:
    """Return the hash of what a validation depends on: what a resumed run compares."""
    told = (instance.sha256, options, settings.sandbox, *_settings_told(settings))
    return hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _settings_told(settings: Settings) -> tuple[object, ...]:
    return settings.timeout_s, settings.memory_mib, settings.processes, settings.network


def validate(
    instance: Instance,
    settings: Settings,
    options: Options | None = None,
    *,
    folder: Path,
    progress: Progress | None = None,
) -> Validation:
    """Return what both controls show of one instance; ``folder`` keeps each run's events and output.

    A run that is there whole is not repeated. Never raises for what an instance or its repository does; `UsageError`
    for options that can't be met.
    """
    options = options or Options()
    found = Validation(instance.instance_id, key_of(instance, options, settings), scope=options.scope)
    work = _Work(instance, settings, options, folder, progress or (lambda _: None))
    try:
        found = work.validate(found)
    except _Drop as drop:
        found = replace(found, reason=drop.reason, message=drop.message, hint=drop.hint, evidence=drop.evidence)
    except SweliveError as error:
        reason, settled = _reason_of(error)
        found = replace(
            found, settled=settled, reason=reason, message=error.message, hint=error.hint, evidence=error.evidence
        )
    except OSError as error:
        found = replace(found, settled=False, reason=DropReason.ERROR, message=str(error), hint="run again")
    except Exception as error:  # one odd row must not end the others
        told = f"{type(error).__name__}: {error} (a defect of ours)"
        found = replace(found, settled=False, reason=DropReason.ERROR, message=told, evidence=traceback.format_exc())
    return replace(work.with_environment(found), runs=work.runs, validated_at=_now())


_REASONS: tuple[tuple[type[SweliveError], DropReason, bool], ...] = (
    (NoInterpreter, DropReason.NO_INTERPRETER, True),
    (EnvironmentBuildError, DropReason.ENVIRONMENT_FAILED, True),
    (InstanceError, DropReason.TEST_PATCH_FAILS, True),
    (PatchError, DropReason.GOLD_PATCH_FAILS, True),
    (MirrorError, DropReason.NO_REPOSITORY, False),
    (InfraError, DropReason.ERROR, False),
)


def _reason_of(error: SweliveError) -> tuple[DropReason, bool]:
    for kind, reason, settled in _REASONS:
        if isinstance(error, kind):
            return reason, settled
    raise error


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Work:
    """One validation under way."""

    def __init__(
        self, instance: Instance, settings: Settings, options: Options, folder: Path, progress: Progress
    ) -> None:
        self.instance, self.settings, self.options = instance, settings, options
        self.folder, self.progress = folder, progress
        self.environment: Environment | None = None
        self.runs: tuple[Run, ...] = ()
        self.test_files: tuple[str, ...] = ()

    def with_environment(self, found: Validation) -> Validation:
        environment = self.environment
        if environment is None:
            return found
        return replace(
            found,
            environment=environment.key,
            python=".".join(map(str, environment.python_version)),
            recipe=recipe_to_toml(environment.recipe),
            lock=environment.lock_text,
            test_files=self.test_files,
        )

    def validate(self, found: Validation) -> Validation:
        instance, settings = self.instance, self.settings
        if not instance.patch.strip():
            raise _Drop(DropReason.NO_GOLD_PATCH, "the row has no patch: nothing shows that the task can be solved")
        if not instance.test_patch.strip():
            raise _Drop(DropReason.NO_TEST_PATCH, "the row has no test_patch: nothing shows that the bug is there")
        sandbox = sandbox_named(settings.sandbox, require=settings.require_sandbox)
        mirror = ensure_mirror(
            instance.repo,
            instance.base_commit,
            url=repo_url(settings.repo_url, instance.repo),
            cache=settings.cache,
            offline=settings.offline,
            progress=self.progress,
        )

        def check(environment: Environment) -> Trial:
            self.environment = environment
            return self.trial(mirror, sandbox)

        self.environment = environment_provider(settings).provide(
            instance,
            mirror=mirror,
            sandbox=sandbox,
            offline=settings.offline,
            progress=self.progress,
            check=check if self.options.search else None,
        )
        self.runs = ()
        base = [self.session("base", number, mirror, sandbox) for number in range(1, self.options.base_runs + 1)]
        gold = []
        for number in range(1, self.options.gold_runs + 1):
            gold.append(self.session("gold", number, mirror, sandbox))
            self.refuse_broken(gold[-1], number)
        lists = derive(base, gold)
        found = replace(
            found, lists=lists, pytest=gold[0].pytest_version, difference=_difference(instance, lists, base, gold)
        )
        if not lists.fail_to_pass:
            return self.as_built(_without_fail_to_pass(found, base, gold))
        return replace(found, gold_resolves=_resolves(instance, gold))

    def trial(self, mirror: Path, sandbox: Sandbox) -> Trial:
        """Return what one run of each control says of the environment."""
        base = self.session("base", 1, mirror, sandbox)
        gold = self.session("gold", 1, mirror, sandbox)
        lists = derive([base], [gold])
        outputs = (self.folder / name / "test_output.txt" for name in ("gold-1", "base-1"))
        output = "\n".join(path.read_text("utf-8", "replace") for path in outputs)
        output += skip_reasons(gold, self.instance.fail_to_pass or gold.tests)
        # where all passes with gold the environment is right: that nothing failed before is the instance's own fault
        holds = bool(lists.fail_to_pass) or _all_passes(gold)
        note = f"{len(lists.fail_to_pass)} turn green"
        if self.instance.fail_to_pass:
            missing = compare(self.instance, lists, [base], [gold]).f2p_missing
            holds = not missing and _resolves(self.instance, [gold])
            note = f"{len(missing)} FAIL_TO_PASS tests do not turn green"
        return Trial(holds, 1000 * len(lists.fail_to_pass) + len(lists.pass_to_pass), output, note)

    def session(self, which: Which, number: int, mirror: Path, sandbox: Sandbox) -> Session:
        """Return one run of a control: the one that is there, else a fresh one."""
        assert self.environment is not None
        folder = self.folder / f"{which}-{number}"
        key = self.run_key(which, sandbox)
        done = _done(folder)
        if done is None or done.get("key") != key:
            self.progress(f"{which} control {number}")
            remove_tree(folder)
            with scratch(self.settings.cache) as work:
                run_control(
                    which,
                    self.instance,
                    self.environment,
                    mirror=mirror,
                    sandbox=sandbox,
                    settings=self.settings,
                    test_files=self.choose,
                    folder=folder,
                    work=work,
                    key=key,
                    at=_now(),
                )
            done = _done(folder)
            assert done is not None
        session, _ = read_session_folder(folder)
        counts: dict[str, int] = {}
        for record in session.tests.values():
            counts[record.outcome.value] = counts.get(record.outcome.value, 0) + 1
        run = Run(
            which, number, done["at"], round(done["duration_s"], 3), done["ended_by"], dict(sorted(counts.items()))
        )
        self.runs += (run,)
        if which == "gold":
            self.test_files = tuple(done["files"])
        return session

    def as_built(self, found: Validation) -> Validation:
        """Return the finding with the compiler's words, where gold's extension modules could not be built."""
        told = (_done(self.folder / "gold-1") or {}).get("rebuild") or {}
        if not told.get("failed"):
            return found
        return replace(
            found, message=f"{found.message}; gold does not build: {told['failed']}", evidence=told["evidence"]
        )

    def run_key(self, which: Which, sandbox: Sandbox) -> str:
        assert self.environment is not None
        told = (
            self.instance.base_commit,
            self.instance.test_patch,
            self.instance.patch if which == "gold" else "",
            files_to_run(self.instance, "f2p-files"),
            self.options.scope,
            self.environment.key,
            sandbox.name,
            *_settings_told(self.settings),
            *rebuild_told(self.environment),
        )
        return hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:24]

    def choose(self, tree: Path, application: Application) -> Sequence[str]:
        """Return the files that show whether the bug is there; none at all stands for the whole suite."""
        if self.options.scope == "all":
            return ()
        listed = [name for name in files_to_run(self.instance, "f2p-files") if (tree / name).exists()]
        chosen = sorted({*listed, *test_files_of(application.test_files, tree)})
        if not chosen:
            raise _Drop(
                DropReason.NO_TEST_FILES,
                "the test patch leaves no file that pytest could run",
                hint="--scope all runs the whole suite instead",
            )
        return chosen

    def refuse_broken(self, session: Session, number: int) -> None:
        """Raise if a gold run can't show anything: no other would be better."""
        folder = self.folder / f"gold-{number}"
        if not session.ended or session.timed_out:
            done = _done(folder) or {}
            how = {"wall_clock": f"its time limit of {self.settings.timeout_s:g} s"}.get(
                done["ended_by"], done["ended_by"].replace("_", " ")
            )
            raise _Drop(
                DropReason.GOLD_BROKE_OFF,
                f"with the gold patch the session broke off ({how})",
                hint="raise --timeout or --memory if they are too tight",
                evidence=_tail(folder / "test_output.txt"),
            )
        if not session.ran_anything:
            errors = [f"{error.id}: {error.type}: {error.message}" for error in session.collect_errors]
            raise _Drop(
                DropReason.GOLD_RAN_NOTHING,
                "with the gold patch no test starts: " + (errors[0] if errors else "pytest found none"),
                hint="the environment may lack something: see recipe.toml and test_output.txt",
                evidence="\n".join(errors[:5]) or _tail(folder / "test_output.txt"),
            )


def test_files_of(touched: Sequence[str], tree: Path) -> list[str]:
    """Return what pytest is to run for a test patch that touches these paths.

    Its test modules; and for data that none of them lies near, the nearest folder above that holds test modules.
    """
    modules = [path for path in touched if _TEST_MODULE.search(path)]
    folders: set[str] = set()
    for path in touched:
        if path in modules or path.endswith(("conftest.py", "__init__.py")):
            continue
        folder = _nearest(posixpath.dirname(path), tree)
        if folder and not any(module.startswith(f"{folder}/") for module in modules):
            folders.add(folder)
    if modules or folders:
        return [*modules, *sorted(folders)]
    return [path for path in touched if path.endswith(".py") and posixpath.basename(path) != "conftest.py"]


def _nearest(folder: str, tree: Path) -> str:
    """Return the nearest folder, from ``folder`` upwards, that holds test modules; empty where none does.

    Names like ``test_x.py`` come first: a linter's sample may well be called ``using_constant_test.py``.
    """
    above = [folder[:end] for end in range(len(folder), 0, -1) if end == len(folder) or folder[end] == "/"]
    for named in (_TEST_FIRST, _TEST_MODULE):
        for each in above:
            if any(named.match(entry.name) for entry in _files(tree / each)):
                return each
    return ""


def _files(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if entry.is_file()] if folder.is_dir() else []


def _done(folder: Path) -> dict[str, Any] | None:
    try:
        done: dict[str, Any] = json.loads((folder / "done.json").read_bytes())
    except (OSError, ValueError):
        return None
    return done


def _tail(path: Path) -> str:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-_EVIDENCE_LINES:])


def _difference(
    instance: Instance, lists: Derived, base: Sequence[Session], gold: Sequence[Session]
) -> Difference | None:
    return compare(instance, lists, base, gold) if instance.fail_to_pass else None


def _resolves(instance: Instance, gold: Sequence[Session]) -> bool:
    if not instance.fail_to_pass:
        return True
    return all(score(instance, session).status is Status.RESOLVED for session in gold)


def _without_fail_to_pass(found: Validation, base: Sequence[Session], gold: Sequence[Session]) -> Validation:
    """Tell why there is nothing to grade by."""
    flaky = set(found.lists.flaky)
    would_be = sorted(
        test_id
        for test_id, record in gold[0].tests.items()
        if test_id in flaky and any(_passed(session, test_id) for session in gold) and not _passed(base[0], test_id)
    )
    if would_be:
        return replace(
            found,
            reason=DropReason.ONLY_FLAKY,
            message=f"{len(would_be)} tests turn green, but not in every run: {', '.join(would_be[:3])}",
            hint="more --runs show how often",
        )
    failing = [record for record in gold[0].tests.values() if record.outcome in (Outcome.FAILED, Outcome.ERROR)]
    first = failing[0] if failing else None
    why = f"; {len(failing)} fail with it, such as {first.id}" if first else ""
    evidence = f"{first.raised.type}: {first.raised.message}" if first and first.raised else ""
    return replace(
        found,
        reason=DropReason.NO_FAIL_TO_PASS,
        message=f"no test turns from failing to passing with the gold patch{why}",
        hint="the environment may lack something that the tests need" if failing else "",
        evidence=evidence,
    )


def _all_passes(session: Session) -> bool:
    outcomes = {record.outcome for record in session.tests.values()}
    whole = session.ended and not session.collect_errors and Outcome.PASSED in outcomes
    return whole and outcomes <= {Outcome.PASSED, Outcome.XFAILED, Outcome.XPASSED}


def _passed(session: Session, test_id: str) -> bool:
    record = session.tests.get(test_id)
    return record is not None and record.outcome is Outcome.PASSED
