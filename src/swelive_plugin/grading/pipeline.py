"""One grade: a list of steps that gather evidence, and the decision on it.

`gather` is the list. It yields what is known after each step, so that an error in one of them is decided on with all
that was known before it, and tests can stop anywhere.
"""

from __future__ import annotations

import json
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from swelive_plugin._version import __version__
from swelive_plugin.core.decide import Evidence, Rebuild, decide
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Session
from swelive_plugin.core.policy import Policy, Scope
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Finding, Integrity, PatchReport, Verdict
from swelive_plugin.environments import Trial
from swelive_plugin.environments.search import words_of_lacks
from swelive_plugin.errors import InstanceError, SweliveError, UsageError
from swelive_plugin.extensions import policy_named
from swelive_plugin.grading.controls import ControlReport, run_controls, trial_of
from swelive_plugin.grading.rebuild import Rebuilt, modules_can_be_built
from swelive_plugin.grading.settings import Progress, Settings, scratch
from swelive_plugin.grading.testbed import (
    Prepared,
    RunResult,
    Testbed,
    Variant,
    open_testbed,
    prepare,
    run,
    run_kept,
    run_prepared,
)
from swelive_plugin.integrity.judge import CHECKED, judge, loaded_plugins
from swelive_plugin.integrity.mutation import mutation_control
from swelive_plugin.integrity.patch_scan import ASKS, scan_patch
from swelive_plugin.integrity.source_scan import scan_sources
from swelive_plugin.sandbox.processes import end_of_output
from swelive_plugin.workspace.checkout import remove_tree
from swelive_plugin.workspace.graded import Application

__all__ = ["GradeTask", "Known", "gather", "grade"]


@dataclass(frozen=True)
class GradeTask:
    """One prediction to be graded. ``folder`` keeps the report; ``work`` lies in the cache and is thrown away."""

    instance: Instance
    prediction: Prediction
    settings: Settings
    folder: Path
    work: Path
    progress: Progress

    @property
    def policy(self) -> Policy:
        """The scoring policy that the settings name."""
        return policy_named(self.settings.policy)

    @property
    def scope(self) -> Scope:
        """Which test files are run."""
        return self.settings.scope or self.policy.default_scope


@dataclass(frozen=True)
class Known:
    """What is known after a step: the evidence for the decision, and what else the report says."""

    evidence: Evidence
    environment: str = ""
    patch: PatchReport = field(default_factory=PatchReport)


def gather(task: GradeTask) -> Iterator[tuple[str, Known]]:
    """Yield (step, what is known after it). Raises errors of our tree, which become statuses in `core.decide`."""
    known = Known(Evidence(task.instance, task.policy, task.scope))
    check_inputs(task)
    known = replace(known, evidence=replace(known.evidence, empty=task.prediction.is_empty))
    yield "check_inputs", known
    if known.evidence.empty:
        return

    testbed, controls = open_with_controls(task)
    known = Known(_with_controls(known.evidence, testbed, controls), testbed.environment.key)
    yield "open_testbed", known

    variant = prediction_variant(task, controls)
    prepared = prepare(testbed, variant, folder=task.folder, work=task.work)
    rebuild = _rebuild_of(testbed, prepared.rebuilt, controls)
    evidence = replace(known.evidence, patched_files=prepared.application.changed, rebuild=rebuild)
    known = replace(known, evidence=evidence, patch=_patch_report(prepared))
    yield "prepare", known
    if rebuild is not None and rebuild.failed and rebuild.possible:
        return

    task.progress("tests")
    result = run_prepared(testbed, variant, prepared, folder=task.folder, work=task.work)
    known = replace(known, evidence=_with_session(known.evidence, result))
    yield "run_tests", known

    integrity = check_integrity(task, testbed, controls, prepared, result)
    known = replace(known, evidence=replace(known.evidence, integrity=integrity))
    yield "check_integrity", known

    if has_cause(task.settings, integrity) and decide(known.evidence).resolved:
        remove_tree(prepared.tree)  # a tree beside a mutant's shares files with it, and link counts would tell it
        integrity = run_mutants(task, testbed, controls, prepared, integrity)
        known = replace(known, evidence=replace(known.evidence, integrity=integrity))
        yield "mutation_control", known


def check_inputs(task: GradeTask) -> None:
    """Raise `InstanceError` for a task row that nobody can grade."""
    instance = task.instance
    if not instance.fail_to_pass:
        raise InstanceError(
            f"{instance.instance_id} has no FAIL_TO_PASS: nothing to grade",
            hint="`swelive validate` derives the lists from the gold patch",
        )
    if not instance.test_patch.strip():
        raise InstanceError(f"{instance.instance_id} has no test_patch: the hidden tests are missing")
    if task.prediction.is_empty and task.prediction.source == "gold":
        raise InstanceError(
            f"{instance.instance_id} has no gold patch: its row's patch is empty, so there is nothing to grade",
            hint="give predictions with -p, or a dataset whose rows have a patch",
        )


def open_with_controls(task: GradeTask) -> tuple[Testbed, ControlReport | None]:
    """Return the testbed and its controls; what is built first is chosen by them. ``None``: they are switched off."""
    if task.settings.controls == "off":
        return open_testbed(task.instance, task.settings, progress=task.progress), None
    reports: dict[str, ControlReport] = {}

    def check(testbed: Testbed) -> Trial:
        report = reports[testbed.environment.key] = run_controls(testbed)
        return trial_of(report)

    testbed = open_testbed(task.instance, task.settings, check=check, progress=task.progress)
    return testbed, reports.get(testbed.environment.key) or run_controls(testbed)


def _with_controls(evidence: Evidence, testbed: Testbed, controls: ControlReport | None) -> Evidence:
    evidence = replace(evidence, lacks=words_of_lacks(testbed.environment))
    if controls is None:
        return evidence
    gold = controls.gold.evidence if controls.gold else None
    return replace(evidence, outcomes=controls.outcomes, base=controls.base.evidence, gold=gold)


def _gold_built(controls: ControlReport | None) -> Rebuilt | None:
    return controls.gold.run.rebuilt if controls and controls.gold else None


def prediction_variant(task: GradeTask, controls: ControlReport | None) -> Variant:
    """Return the variant that decides: the prediction, held to the pytest plugins that the controls loaded."""
    gold = _gold_built(controls)
    return Variant(
        task.prediction.patch,
        plugins=controls.plugins if controls else None,
        gold_built=gold if gold and gold.ok else None,
    )


def _rebuild_of(testbed: Testbed, rebuilt: Rebuilt | None, controls: ControlReport | None) -> Rebuild | None:
    if rebuilt is None:
        return None
    possible = rebuilt.ok or modules_can_be_built(testbed, _gold_built(controls))
    return Rebuild(rebuilt.report, rebuilt.ended_by, rebuilt.evidence, possible)


def _patch_report(prepared: Prepared) -> PatchReport:
    application = prepared.application
    restored = tuple(f"{item.path}: {item.action} ({item.why})" for item in application.restored)
    report = prepared.rebuilt.report if prepared.rebuilt else None
    return PatchReport(application.strictness, application.repairs, application.changed, restored, report)


def _with_session(evidence: Evidence, result: RunResult) -> Evidence:
    return replace(
        evidence,
        session=result.session,
        root=result.root,
        ended_by=result.ended_by,
        last_output=end_of_output(result.output),
    )


def check_integrity(
    task: GradeTask, testbed: Testbed, controls: ControlReport | None, prepared: Prepared, result: RunResult
) -> Integrity:
    """Return what shows whether the session can be believed, with the controls as the measure of what is normal."""
    plugins = controls.plugins if controls else None
    changed = prepared.application.changed
    findings = [
        *_findings_of(prepared.application),
        *_findings_of_build(prepared.rebuilt),
        *judge(result.read, result.session, touched=changed, control=controls.facts if controls else None),
        *scan_patch(
            task.prediction.patch,
            known=task.instance.patch,
            hidden=task.instance.test_patch,
            issue=task.instance.problem_statement,
            in_effect=changed,
        ),
    ]
    messages = {finding.message for finding in findings}
    findings += [found for found in scan_sources(prepared.sources) if found.message not in messages]
    return Integrity(
        mode="driver",
        sandbox=testbed.sandbox.name,
        network=task.settings.network,
        checked=("files", *(() if plugins is None else ("plugins",)), *CHECKED),
        findings=tuple(findings),
        plugins=tuple(sorted(loaded_plugins(result.read.events) or ())),
    )


def _findings_of(application: Application) -> Iterator[Finding]:
    """Yield what the prediction's files show: shadowing modules are tampering, whatever was put back is a flag."""
    for item in application.shadows:
        message = f"{item.path} takes the place of another module ({item.why}); it was removed"
        yield Finding(item.why.replace("-", "_"), "tampered", message, file=item.path)
    for flag in application.flags:
        yield Finding("put_back", "flag", flag)


def _findings_of_build(rebuilt: Rebuilt | None) -> Iterator[Finding]:
    if rebuilt is None:
        return
    for refused in rebuilt.report.refused:
        yield Finding("module_refused", "flag", f"left out: {refused}")
    if rebuilt.ok:
        message = "compiled code of the prediction's runs where no audit hook sees it"
        yield Finding("suspicious", "suspicious", message)  # so that the mutation control runs


def has_cause(settings: Settings, integrity: Integrity) -> bool:
    """Return whether the mutation control is to run: always, or where something was found that asks for it."""
    found = any(finding.severity in ("flag", "suspicious") for finding in integrity.findings)
    return settings.mutate == "always" or (settings.mutate == "auto" and found)


def run_mutants(
    task: GradeTask, testbed: Testbed, controls: ControlReport | None, prepared: Prepared, integrity: Integrity
) -> Integrity:
    """Return the integrity with what the mutation control found. Gold's runs are kept in the cache."""
    task.progress("mutation control")
    plugins = controls.plugins if controls else None

    def outcome(gold: bool, number: int | None) -> tuple[Session, frozenset[str]]:
        result = run_one(gold, number)
        return result.session, result.mutated

    def run_one(gold: bool, number: int | None) -> RunResult:
        variant = Variant(mutant=number, disguise=number is None, plugins=plugins)
        if gold:
            built = _gold_built(controls)
            return run_kept(testbed, replace(variant, patch=task.instance.patch, trusted=True, built=built))
        name = "disguised" if number is None else f"mutant-{number + 1}"
        changed = replace(variant, patch=task.prediction.patch, built=prepared.rebuilt)
        return run(testbed, changed, folder=task.folder / name)

    asks = any(ASKS in finding.message for finding in integrity.findings)
    found = mutation_control(task.instance, outcome, disguised=task.settings.mutate == "always" or asks)
    return replace(
        integrity,
        mutation=found.summary,
        findings=(*integrity.findings, *found.findings),
        checked=(*integrity.checked, "mutation"),
    )


def run_steps(task: GradeTask) -> tuple[Verdict, dict[str, float]]:
    """Return the verdict on what the steps gathered, and how long each took in seconds. Usage errors pass through."""
    timings: dict[str, float] = {}
    known = Known(Evidence(task.instance, task.policy, task.scope))
    began = step_began = time.perf_counter()
    try:
        for step, after in gather(task):
            known = after
            timings[step] = round(time.perf_counter() - step_began, 4)
            step_began = time.perf_counter()
    except UsageError:
        raise
    except Exception as error:
        known = replace(known, evidence=replace(known.evidence, error=error))
        if not isinstance(error, SweliveError):
            with suppress(OSError):  # the disk may be what failed: the reason in the verdict has to do
                (task.folder / "error.txt").write_text(traceback.format_exc(), "utf-8")
    verdict = replace(
        decide(known.evidence),
        patch=known.patch,
        model=task.prediction.model,
        attempt=task.prediction.attempt,
        patch_sha256=task.prediction.sha256,
        environment=known.environment,
        instance_sha256=task.instance.sha256,
        options_key=task.settings.key,
        duration_s=round(time.perf_counter() - began, 3),
        tool_version=__version__,
    )
    return verdict, timings


def grade(
    instance: Instance,
    prediction: Prediction | str,
    settings: Settings | None = None,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Return the verdict on one prediction; prints nothing and is safe in threads.

    ``prediction`` may be the bare patch text. ``folder`` gets ``patch.diff``, ``events.jsonl``, ``test_output.txt`` and
    ``timings.json``; without one they are thrown away. Raises `UsageError` for options that can't be met (an unknown
    policy, a template with unknown fields, a folder that can't be written) and `InfraError` for a cache that can't;
    everything else becomes a status of the verdict.
    """
    if isinstance(prediction, str):
        prediction = Prediction(instance.instance_id, prediction)
    if not isinstance(prediction, Prediction):
        raise UsageError(f"a prediction is a patch's text or a Prediction, not {type(prediction).__name__}")
    settings = settings or Settings()
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="swelive-") as name:
            return grade(instance, prediction, settings, folder=Path(name), progress=progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "patch.diff").write_text(prediction.patch, "utf-8", "surrogateescape", newline="")
    except OSError as error:
        raise UsageError(f"{folder} can't be written: {error.strerror or error}", hint="give another folder") from error
    with scratch(settings.cache) as work:
        task = GradeTask(instance, prediction, settings, folder, work, progress or (lambda _: None))
        verdict, timings = run_steps(task)
    (folder / "timings.json").write_text(json.dumps(timings, indent=1) + "\n", "utf-8")
    return verdict
