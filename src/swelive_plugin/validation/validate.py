"""One instance, validated: both controls, repeated in one environment, and what they show."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from swelive_plugin._version import __version__
from swelive_plugin.core.decide import score
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.verdict import Status
from swelive_plugin.environments import Trial
from swelive_plugin.errors import (
    EnvironmentBuildError,
    InfraError,
    InstanceError,
    MirrorError,
    NoInterpreter,
    NoTestFiles,
    PatchError,
    SweliveError,
)
from swelive_plugin.grading.controls import Which, control_variant, skip_reasons
from swelive_plugin.grading.settings import Progress, Settings
from swelive_plugin.grading.testbed import RunResult, Testbed, open_testbed, run_kept
from swelive_plugin.recipes.recipe import recipe_to_toml
from swelive_plugin.sandbox.processes import end_of_output
from swelive_plugin.validation.derive import Derived, Difference, DropReason, derive, difference_from_row

__all__ = ["Options", "RecordedRun", "Validation", "key_of", "validate"]


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
class RecordedRun:
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
    runs: tuple[RecordedRun, ...] = ()
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
    limits = (settings.timeout_s, settings.memory_mib, settings.processes, settings.network)
    depends_on = (instance.sha256, options, settings.sandbox, settings.environment, *limits)
    return hashlib.sha256(repr(depends_on).encode("utf-8", "surrogateescape")).hexdigest()[:24]


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
    work = _Validator(instance, settings, options or Options(), folder, progress or (lambda _: None))
    try:
        work.validate()
    except _Drop as drop:
        work.say(reason=drop.reason, message=drop.message, hint=drop.hint, evidence=drop.evidence)
    except SweliveError as error:
        reason, settled = _reason_of(error)
        work.say(settled=settled, reason=reason, message=error.message, hint=error.hint, evidence=error.evidence)
    except OSError as error:
        work.say(settled=False, reason=DropReason.ERROR, message=str(error), hint="run again")
    except Exception as error:  # one odd row must not end the others
        message = f"{type(error).__name__}: {error} (a defect of ours)"
        work.say(settled=False, reason=DropReason.ERROR, message=message, evidence=traceback.format_exc())
    return replace(work.found, validated_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))


_REASONS: tuple[tuple[type[SweliveError], DropReason, bool], ...] = (
    (NoInterpreter, DropReason.NO_INTERPRETER, True),
    (EnvironmentBuildError, DropReason.ENVIRONMENT_FAILED, True),
    (NoTestFiles, DropReason.NO_TEST_FILES, True),
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


class _Validator:
    """One validation under way; ``found`` is what it has found so far."""

    def __init__(
        self, instance: Instance, settings: Settings, options: Options, folder: Path, progress: Progress
    ) -> None:
        self.instance, self.settings, self.options = instance, settings, options
        self.folder, self.progress = folder, progress
        self.found = Validation(instance.instance_id, key_of(instance, options, settings), scope=options.scope)

    def say(self, **changes: object) -> None:
        """Put what is known now into ``found``."""
        self.found = replace(self.found, **changes)  # type: ignore[arg-type]  # the callers give its own fields

    def validate(self) -> None:
        instance, options = self.instance, self.options
        if not instance.patch.strip():
            raise _Drop(DropReason.NO_GOLD_PATCH, "the row has no patch: nothing shows that the task can be solved")
        if not instance.test_patch.strip():
            raise _Drop(DropReason.NO_TEST_PATCH, "the row has no test_patch: nothing shows that the bug is there")
        testbed = open_testbed(
            instance,
            self.settings,
            scope="suite" if options.scope == "all" else "touched",
            check=self.trial if options.search else None,
            progress=self.progress,
        )
        self.say_environment(testbed)
        self.say(runs=())  # those of the search are counted again where they are used
        base = [self.session(testbed, "base", number).session for number in range(1, options.base_runs + 1)]
        gold: list[Session] = []
        first: RunResult | None = None
        for number in range(1, options.gold_runs + 1):
            run = self.session(testbed, "gold", number)
            self.refuse_broken(run)
            gold.append(run.session)
            first = first or run
        lists = derive(base, gold)
        difference = difference_from_row(instance, lists, base, gold) if instance.fail_to_pass else None
        self.say(lists=lists, pytest=gold[0].pytest_version, difference=difference)
        if lists.fail_to_pass:
            self.say(gold_resolves=_resolves(instance, gold))
            return
        self.found = _without_fail_to_pass(self.found, base, gold)
        rebuilt = first.rebuilt if first else None
        if rebuilt is not None and not rebuilt.ok:
            message = f"{self.found.message}; gold does not build: {rebuilt.report.failed}"
            self.say(message=message, evidence=rebuilt.evidence)

    def say_environment(self, testbed: Testbed) -> None:
        environment = testbed.environment
        self.say(
            environment=environment.key,
            python=".".join(map(str, environment.python_version)),
            recipe=recipe_to_toml(environment.recipe),
            lock=environment.lock_text,
        )

    def trial(self, testbed: Testbed) -> Trial:
        """Return what one run of each control says of the environment."""
        self.say_environment(testbed)
        runs = [self.session(testbed, which, 1) for which in ("base", "gold")]
        base, gold = (run.session for run in runs)
        lists = derive([base], [gold])
        output = "\n".join(run.output.read_text("utf-8", "replace") for run in reversed(runs))
        output += skip_reasons(gold, self.instance.fail_to_pass or gold.tests)
        # where all passes with gold the environment is right: that nothing failed before is the instance's own fault
        holds = bool(lists.fail_to_pass) or _all_passes(gold)
        note = f"{len(lists.fail_to_pass)} turn green"
        if self.instance.fail_to_pass:
            missing = difference_from_row(self.instance, lists, [base], [gold]).f2p_missing
            holds = not missing and _resolves(self.instance, [gold])
            note = f"{len(missing)} FAIL_TO_PASS tests do not turn green"
        return Trial(holds, 1000 * len(lists.fail_to_pass) + len(lists.pass_to_pass), output, note)

    def session(self, testbed: Testbed, which: Which, number: int) -> RunResult:
        """Return one run of a control: the one that is there, else a fresh one."""
        variant = control_variant(which, self.instance.patch)
        run = run_kept(testbed, variant, folder=self.folder / f"{which}-{number}", what=f"{which} control {number}")
        counts: dict[str, int] = {}
        for record in run.session.tests.values():
            counts[record.outcome.value] = counts.get(record.outcome.value, 0) + 1
        recorded = RecordedRun(which, number, run.at, run.duration_s, run.ended_by, dict(sorted(counts.items())))
        self.say(runs=(*self.found.runs, recorded))
        if which == "gold":
            self.say(test_files=run.files)
        return run

    def refuse_broken(self, run: RunResult) -> None:
        """Raise if a gold run can't show anything: no other would be better."""
        session = run.session
        if not session.ended or session.timed_out:
            limit = {"wall_clock": f"its time limit of {self.settings.timeout_s:g} s"}
            how = limit.get(run.ended_by, run.ended_by.replace("_", " "))
            raise _Drop(
                DropReason.GOLD_BROKE_OFF,
                f"with the gold patch the session broke off ({how})",
                hint="raise --timeout or --memory if they are too tight",
                evidence=end_of_output(run.output),
            )
        if not session.ran_anything:
            errors = [f"{error.id}: {error.type}: {error.message}" for error in session.collect_errors]
            raise _Drop(
                DropReason.GOLD_RAN_NOTHING,
                "with the gold patch no test starts: " + (errors[0] if errors else "pytest found none"),
                hint="the environment may lack something: see recipe.toml and test_output.txt",
                evidence="\n".join(errors[:5]) or end_of_output(run.output),
            )


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
