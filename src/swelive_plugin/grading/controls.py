"""Controls: sessions whose answer we know, run once per environment and instance and kept with it.

Base: the test patch alone, FAIL_TO_PASS must fail. Gold: the gold patch and the test patch, all must pass.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from filelock import FileLock

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import ControlOutcome, Controls, Scope
from swelive_plugin.core.scoring import files_to_run, score
from swelive_plugin.core.verdict import Verdict
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.files import json_bytes, write_atomically
from swelive_plugin.grading.launch import probe_fingerprint
from swelive_plugin.grading.rebuild import (
    BUILD_OUTPUT,
    BUILT,
    Rebuilt,
    put_built,
    rebuild,
    rebuild_told,
    rebuilt_from,
    session_environment,
)
from swelive_plugin.grading.session import read_session_folder, run_session
from swelive_plugin.grading.settings import Progress, Settings, scratch
from swelive_plugin.grading.tree import make_graded_tree
from swelive_plugin.integrity.judge import Facts, facts
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.workspace.checkout import remove_tree
from swelive_plugin.workspace.graded import Application

__all__ = ["ControlReport", "ControlRun", "rebuild_at_base", "run_control", "run_controls", "skip_reasons", "trial_of"]

Which = Literal["base", "gold"]


@dataclass(frozen=True)
class ControlRun:
    """One control: its session, how it scores, and the folder with its events and output.

    ``rebuilt`` tells of the extension modules, where the control's patches touch what those are made of.
    """

    which: Which
    session: Session
    verdict: Verdict
    folder: Path
    facts: Facts = field(default_factory=Facts)
    rebuilt: Rebuilt | None = None

    @property
    def unbuilt(self) -> str:
        """Why extension modules could not be built again; empty where they were, or nothing touches them."""
        return self.rebuilt.report.failed if self.rebuilt else ""

    @property
    def ran_nothing(self) -> bool:
        """Whether pytest never got as far as starting a test."""
        return not self.session.ran_anything


@dataclass(frozen=True)
class ControlReport:
    """Both controls of an instance in one environment. ``gold`` is ``None`` where the instance has no gold patch."""

    base: ControlRun
    gold: ControlRun | None

    @property
    def outcomes(self) -> Controls:
        """The controls as scoring takes them."""
        return Controls(base=_outcomes(self.base.session), gold=_outcomes(self.gold.session) if self.gold else None)

    @property
    def facts(self) -> Facts:
        """What the trusted sessions show: normal in this environment, so no sign of tampering."""
        if self.gold is None:  # a test module that base can't import registers nothing there
            return replace(self.base.facts, registered=frozenset())
        return self.base.facts | self.gold.facts

    @property
    def plugins(self) -> tuple[str, ...] | None:
        """The distributions whose pytest plugins loaded by themselves; ``None`` where no session got that far."""
        known = [run.facts.plugins for run in (self.base, self.gold) if run and run.facts.plugins is not None]
        return tuple(sorted(frozenset().union(*known))) if known else None

    @property
    def pass_at_base(self) -> tuple[str, ...]:
        """FAIL_TO_PASS ids that pass without any fix: they show nothing here."""
        return tuple(test.id for test in self.base.verdict.fail_to_pass if test.judgement == "pass")

    @property
    def fail_under_gold(self) -> tuple[str, ...]:
        """FAIL_TO_PASS ids that fail with the gold patch: no prediction can be held to them here."""
        if self.gold is None:
            return ()
        return tuple(test.id for test in self.gold.verdict.fail_to_pass if test.judgement == "fail")

    @property
    def hold(self) -> bool:
        """Whether FAIL_TO_PASS fails at base and everything listed passes under gold."""
        return not self.pass_at_base and self.gold is not None and self.gold.verdict.resolved


def trial_of(report: ControlReport) -> Trial:
    """Return what both controls say of the environment, as the search for a recipe takes it."""
    runs = [report.base] if report.gold is None else [report.gold, report.base]
    output = "\n".join((run.folder / "test_output.txt").read_text("utf-8", "replace") for run in runs)
    if report.pass_at_base:
        note = f"pass at base: {', '.join(report.pass_at_base[:3])}"
        return Trial(holds=False, output=output, note=note, pass_at_base=True)
    if report.gold is None:  # no gold patch: all that can be asked for is that the tests run
        ran = not report.base.ran_nothing
        return Trial(ran, good=int(ran), output=output, note="" if ran else "no test runs at base")
    listed = (*report.gold.verdict.fail_to_pass, *report.gold.verdict.pass_to_pass)
    bad = [test.id for test in listed if test.judgement == "fail"]
    output += skip_reasons(report.gold.session, {one for t in listed if t.judgement == "fail" for one in t.matched})
    note = f"fail with gold: {', '.join(bad[:3])}" if bad else ""
    if bad and report.gold.rebuilt is not None and report.gold.unbuilt:
        note = f"gold does not build: {report.gold.unbuilt}"
        output += report.gold.rebuilt.evidence
    return Trial(report.hold, sum(test.judgement == "pass" for test in listed), output, note)


def skip_reasons(session: Session, ids: Collection[str]) -> str:
    """Return why those of the tests that were skipped were, one line each: pytest does not say unless it is asked."""
    records = (each for key, each in session.tests.items() if key in ids and each.outcome is Outcome.SKIPPED)
    return "".join(f"\nskipped {each.id}: {each.raised.message}" for each in records if each.raised)


def _outcomes(session: Session) -> dict[str, ControlOutcome]:
    return {test_id: ControlOutcome(record.outcome, record.forged) for test_id, record in session.tests.items()}


def run_controls(
    instance: Instance,
    environment: Environment,
    *,
    mirror: Path,
    sandbox: Sandbox,
    settings: Settings,
    scope: Scope,
    progress: Progress | None = None,
) -> ControlReport:
    """Return both controls, from the store where they were run before in this environment.

    Raises `InstanceError` if the test patch, and `InstanceError` naming the gold patch if that does not apply at base.
    """
    runs: dict[Which, ControlRun] = {}
    wanted: tuple[Which, ...] = ("base", "gold") if instance.patch.strip() else ("base",)
    for which in wanted:
        folder = _folder(instance, environment, sandbox, settings, scope, which)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not (folder / "done.json").exists():
                if progress:
                    progress(f"{which} control")
                _run(which, instance, environment, mirror, sandbox, settings, scope, folder)
            session, read = read_session_folder(folder)
            done = json.loads((folder / "done.json").read_text("utf-8"))
        verdict = score(instance, session, scope=scope)
        rebuilt = rebuilt_from(done.get("rebuild"), folder)
        runs[which] = ControlRun(which, session, verdict, folder, facts(read, session), rebuilt)
    return ControlReport(base=runs["base"], gold=runs.get("gold"))


def _folder(
    instance: Instance, environment: Environment, sandbox: Sandbox, settings: Settings, scope: Scope, which: Which
) -> Path:
    told = (
        instance.base_commit,
        instance.test_patch,
        instance.patch if which == "gold" else "",
        files_to_run(instance, scope),
        sandbox.name,
        settings.network,
        settings.timeout_s,
        probe_fingerprint(),
        *rebuild_told(environment),
    )
    name = hashlib.sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return settings.cache / "controls" / environment.key / f"{instance.instance_id}-{name}" / which


def _run(
    which: Which,
    instance: Instance,
    environment: Environment,
    mirror: Path,
    sandbox: Sandbox,
    settings: Settings,
    scope: Scope,
    folder: Path,
) -> None:
    """Run one control and rename its report into place, so that a kill leaves nothing half done."""
    with scratch(settings.cache) as work:
        report = work / "report"
        run_control(
            which,
            instance,
            environment,
            mirror=mirror,
            sandbox=sandbox,
            settings=settings,
            test_files=files_to_run(instance, scope),
            folder=report,
            work=work,
        )
        remove_tree(folder)
        report.replace(folder)


def rebuild_at_base(
    instance: Instance, environment: Environment, *, mirror: Path, sandbox: Sandbox, settings: Settings
) -> str:
    """Return why the extension modules can't be built again without any patch; empty if they can. Kept once known.

    It is the proof that a prediction which does not build is to blame for that itself.
    """
    told = repr((sandbox.name, settings.timeout_s, settings.memory_mib, *rebuild_told(environment)))
    name = hashlib.sha256(told.encode()).hexdigest()[:24]
    path = settings.cache / "controls" / environment.key / f"rebuild-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            with scratch(settings.cache) as work:
                found = rebuild(
                    replace(instance, test_patch=""),
                    "",
                    environment,
                    touched=(),
                    mirror=mirror,
                    sandbox=sandbox,
                    settings=settings,
                    output=work / BUILD_OUTPUT,
                    built=work / BUILT,
                    work=work,
                    trusted=True,
                    always=True,
                )
            write_atomically(path, json_bytes({"failed": found.report.failed if found else ""}))
    return str(json.loads(path.read_text("utf-8"))["failed"])


def run_control(
    which: Which,
    instance: Instance,
    environment: Environment,
    *,
    mirror: Path,
    sandbox: Sandbox,
    settings: Settings,
    test_files: Sequence[str] | Callable[[Path, Application], Sequence[str]],
    folder: Path,
    work: Path,
    key: str = "",
    at: str = "",
) -> None:
    """Run one control afresh into ``folder``; its ``done.json`` is written last and says that the rest is whole.

    ``test_files`` may be a function that chooses them in the finished tree; none at all means those of the test patch.
    ``work`` is thrown away by the caller. ``key`` and ``at`` (when it began) are kept in ``done.json``. Raises as
    `make_graded_tree` does. Extension modules that can't be built again stay as base made them; ``done.json`` says so.
    """
    gold = instance.patch if which == "gold" else ""
    tree, application = make_graded_tree(work, instance, gold, environment=environment, mirror=mirror, sandbox=sandbox)
    rebuilt = rebuild(
        instance,
        gold,
        environment,
        touched=application.changed,
        mirror=mirror,
        sandbox=sandbox,
        settings=settings,
        output=folder / BUILD_OUTPUT,
        built=folder / BUILT,
        work=work,
        trusted=True,
    )
    put_built(rebuilt, tree, environment, application)
    files = test_files(tree, application) if callable(test_files) else test_files or application.test_files
    result = run_session(
        session_environment(environment, rebuilt),
        tree,
        files,
        sandbox=sandbox,
        settings=settings,
        folder=folder,
        work=work,
    )
    summary = {
        "ended_by": result.completed.ended_by,
        "root": result.root,
        "duration_s": result.completed.duration_s,
        "files": list(files),
        "key": key,
        "at": at,
        "rebuild": rebuilt.as_dict() if rebuilt else None,
    }
    write_atomically(folder / "done.json", json_bytes(summary))
