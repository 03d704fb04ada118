"""The pipeline: one grade is one list of steps, so that resume, dry runs and tests are slices of that list."""

from __future__ import annotations

import json
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from swelive_plugin._version import __version__
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.core.verdict import Finding, PatchReport, Reason, Status, Verdict
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.errors import (
    EnvironmentBuildError,
    InfraError,
    InstanceError,
    Interrupted,
    PatchError,
    PatchRejected,
    SweliveError,
    UsageError,
)
from swelive_plugin.extensions import environment_provider, sandbox_named
from swelive_plugin.grading.controls import ControlReport, run_controls, trial_of
from swelive_plugin.grading.rebuild import session_environment
from swelive_plugin.grading.rebuild_step import rebuild_extensions
from swelive_plugin.grading.session import run_session
from swelive_plugin.grading.settings import Progress, Settings, scratch
from swelive_plugin.grading.state import Grade, Step
from swelive_plugin.grading.tree import make_graded_tree, python_sources
from swelive_plugin.grading.weigh import score_session
from swelive_plugin.integrity.judge import CHECKED, judge
from swelive_plugin.integrity.mutation import run_mutation_control
from swelive_plugin.integrity.patch_scan import ASKS, scan_patch
from swelive_plugin.integrity.source_scan import scan_sources
from swelive_plugin.workspace.checkout import remove_tree
from swelive_plugin.workspace.graded import Application
from swelive_plugin.workspace.mirror import ensure_mirror, repo_url

__all__ = ["STEPS", "Grade", "grade", "run_steps"]

# Which status an error of the tree becomes; the first that fits.
STATUS_OF: tuple[tuple[type[SweliveError], Status], ...] = (
    (PatchRejected, Status.PATCH_REJECTED),
    (PatchError, Status.PATCH_FAILED),
    (InstanceError, Status.INVALID_INSTANCE),
    (EnvironmentBuildError, Status.ENV_ERROR),
    (Interrupted, Status.INCOMPLETE),
    (InfraError, Status.ERROR),
)


def check_instance(grade: Grade) -> Verdict | None:
    """An instance without FAIL_TO_PASS can't be graded by anyone."""
    if not grade.instance.fail_to_pass:
        raise InstanceError(
            f"{grade.instance.instance_id} has no FAIL_TO_PASS: nothing to grade",
            hint="`swelive validate` derives the lists from the gold patch",
        )
    if not grade.instance.test_patch.strip():
        raise InstanceError(f"{grade.instance.instance_id} has no test_patch: the hidden tests are missing")
    return None


def check_prediction(grade: Grade) -> Verdict | None:
    """An empty patch is a status of its own and runs nothing; a row without a gold patch has no prediction to judge."""
    if grade.prediction.is_empty and grade.prediction.source == "gold":
        raise InstanceError(
            f"{grade.instance.instance_id} has no gold patch: its row's patch is empty, so there is nothing to grade",
            hint="give predictions with -p, or a dataset whose rows have a patch",
        )
    if grade.prediction.is_empty:
        return grade.verdict(Status.EMPTY_PATCH, [Reason("empty_patch", "the prediction is empty: nothing was run")])
    return None


def open_sandbox(grade: Grade) -> Verdict | None:
    """Find the sandbox that was asked for."""
    grade.sandbox = sandbox_named(grade.settings.sandbox, require=grade.settings.require_sandbox)
    return None


def find_mirror(grade: Grade) -> Verdict | None:
    """Have the repository, with the base commit in it, in the cache."""
    instance, settings = grade.instance, grade.settings
    grade.mirror = ensure_mirror(
        instance.repo,
        instance.base_commit,
        url=repo_url(settings.repo_url, instance.repo),
        cache=settings.cache,
        offline=settings.offline,
        progress=grade.progress,
    )
    return None


def build_environment(grade: Grade) -> Verdict | None:
    """Have the environment of the commit's day, from the store or built once from trusted code.

    With controls, what is built first is chosen by them: recipes are tried until the controls hold.
    """
    assert grade.mirror is not None
    assert grade.sandbox is not None
    provider = environment_provider(grade.settings)
    grade.environment = provider.provide(
        grade.instance,
        mirror=grade.mirror,
        sandbox=grade.sandbox,
        offline=grade.settings.offline,
        progress=grade.progress,
        check=None if grade.settings.controls == "off" else partial(_try_environment, grade),
    )
    return None


def _try_environment(grade: Grade, environment: Environment) -> Trial:
    return trial_of(_controls_in(grade, environment))


def _controls_in(grade: Grade, environment: Environment) -> ControlReport:
    assert grade.sandbox is not None
    assert grade.mirror is not None
    return run_controls(
        grade.instance,
        environment,
        mirror=grade.mirror,
        sandbox=grade.sandbox,
        settings=grade.settings,
        scope=grade.scope,
        progress=grade.progress,
    )


def make_tree(grade: Grade) -> Verdict | None:
    """Make the graded tree: the prediction, tests and pytest's configuration put back, the hidden tests on top."""
    assert grade.environment is not None
    assert grade.sandbox is not None
    assert grade.mirror is not None
    grade.tree, grade.application = make_graded_tree(
        grade.work,
        grade.instance,
        grade.prediction.patch,
        environment=grade.environment,
        mirror=grade.mirror,
        sandbox=grade.sandbox,
    )
    grade.checked += ("files",)
    grade.findings += tuple(_findings_of(grade.application))
    return None


def _findings_of(application: Application) -> Iterator[Finding]:
    """What the files of the prediction show: shadowing modules are tampering, whatever was put back is a flag."""
    for item in application.shadows:
        told = f"{item.path} takes the place of another module ({item.why}); it was removed"
        yield Finding(item.why.replace("-", "_"), "tampered", told, file=item.path)
    for flag in application.flags:
        yield Finding("put_back", "flag", flag)


def run_both_controls(grade: Grade) -> Verdict | None:
    """Have the sessions whose answer we know; an environment in which they don't hold gives no verdict."""
    if grade.settings.controls == "off":
        return None
    assert grade.environment is not None
    grade.controls = _controls_in(grade, grade.environment)
    return None


def run_tests(grade: Grade) -> Verdict | None:
    """Run the one deciding session."""
    assert grade.environment is not None
    assert grade.sandbox is not None
    assert grade.tree is not None
    assert grade.application is not None
    files = files_to_run(grade.instance, grade.scope)
    grade.progress(f"tests: {len(files)} file{'s' if len(files) != 1 else ''}")
    grade.result = run_session(
        session_environment(grade.environment, grade.rebuilt),
        grade.tree,
        [name for name in files if (grade.tree / name).exists()] or files,
        sandbox=grade.sandbox,
        settings=grade.settings,
        folder=grade.folder,
        work=grade.work,
        plugins=grade.plugins,
    )
    return None


def check_integrity(grade: Grade) -> Verdict | None:
    """Judge whether the session can be believed, with the trusted sessions as the measure of what is normal."""
    assert grade.environment is not None
    assert grade.tree is not None
    assert grade.result is not None
    assert grade.application is not None
    grade.checked += CHECKED if grade.plugins is None else ("plugins", *CHECKED)
    grade.findings += judge(
        grade.result.read,
        grade.result.session,
        touched=grade.application.changed,
        control=grade.controls.facts if grade.controls else None,
    )
    grade.findings += scan_patch(
        grade.prediction.patch,
        known=grade.instance.patch,
        hidden=grade.instance.test_patch,
        told=grade.instance.problem_statement,
        in_effect=grade.application.changed,
    )
    told = {finding.message for finding in grade.findings}
    changed = python_sources(grade.environment.tree, grade.tree, grade.application.changed)
    grade.findings += tuple(look for look in scan_sources(changed) if look.message not in told)
    return None


def mutation_control(grade: Grade) -> Verdict | None:
    """Where the tests pass and there is cause to look (or always): they must fail when they expect something else."""
    mode = grade.settings.mutate
    cause = any(finding.severity in ("flag", "suspicious") for finding in grade.findings)
    if mode == "off" or (mode == "auto" and not cause) or not score_session(grade).resolved:
        return None
    assert grade.environment is not None
    assert grade.sandbox is not None
    assert grade.mirror is not None
    grade.progress("mutation control")
    if grade.tree is not None:  # a tree beside it shares files, and the number of their links would tell a mutant
        remove_tree(grade.tree)
    found = run_mutation_control(
        grade.instance,
        grade.prediction.patch,
        grade.environment,
        mirror=grade.mirror,
        sandbox=grade.sandbox,
        settings=grade.settings,
        scope=grade.scope,
        folder=grade.folder,
        plugins=grade.plugins,
        disguised=mode == "always" or any(ASKS in finding.message for finding in grade.findings),
        rebuilt=grade.rebuilt,
        rebuilt_gold=grade.controls.gold.rebuilt if grade.controls and grade.controls.gold else None,
    )
    grade.mutation = found.told
    grade.findings += found.findings
    grade.checked += ("mutation",)
    return None


STEPS: tuple[Step, ...] = (
    check_instance,
    check_prediction,
    open_sandbox,
    find_mirror,
    build_environment,
    make_tree,
    run_both_controls,
    rebuild_extensions,
    run_tests,
    check_integrity,
    mutation_control,
    score_session,
)


def run_steps(grade: Grade, steps: Sequence[Step] = STEPS) -> Verdict:
    """Return the verdict of the first step that gives one. Errors of our tree become statuses; usage errors pass."""
    verdict: Verdict | None = None
    for step in steps:
        began = time.perf_counter()
        try:
            verdict = step(grade)
        except UsageError:
            raise
        except SweliveError as error:
            verdict = grade.verdict(_status_of(error), [_reason_of(error)])
        except OSError as error:
            hint = "free some space and run again" if error.errno in (28, 122) else "see error.txt in the report folder"
            verdict = grade.verdict(Status.ERROR, [Reason("os_error", f"{step.__name__}: {error} ({hint})")])
            _keep_traceback(grade)
        except Exception as error:
            told = f"{step.__name__}: {type(error).__name__}: {error} (a defect of ours; see error.txt)"
            verdict = grade.verdict(Status.ERROR, [Reason("internal_error", told)])
            _keep_traceback(grade)
        finally:
            grade.timings[step.__name__] = round(time.perf_counter() - began, 4)
        if verdict is not None:
            return _complete(grade, verdict)
    return _complete(
        grade, grade.verdict(Status.INCOMPLETE, [Reason("incomplete", "the steps ended without a verdict")])
    )


def _status_of(error: SweliveError) -> Status:
    return next((status for kind, status in STATUS_OF if isinstance(error, kind)), Status.ERROR)


def _reason_of(error: SweliveError) -> Reason:
    code = "".join("_" + letter.lower() if letter.isupper() else letter for letter in type(error).__name__).strip("_")
    return Reason(code, str(error), evidence=error.evidence)


def _keep_traceback(grade: Grade) -> None:
    try:
        (grade.folder / "error.txt").write_text(traceback.format_exc(), "utf-8")
    except OSError:  # the disk is what failed: the reason in the verdict has to do
        return


def _complete(grade: Grade, verdict: Verdict) -> Verdict:
    application = grade.application
    patch = PatchReport()
    if application is not None:
        restored = tuple(f"{item.path}: {item.action} ({item.why})" for item in application.restored)
        patch = PatchReport(
            application.strictness,
            application.repairs,
            application.changed,
            restored,
            grade.rebuilt.report if grade.rebuilt else None,
        )
    return replace(
        verdict,
        patch=patch,
        model=grade.prediction.model,
        attempt=grade.prediction.attempt,
        patch_sha256=grade.prediction.sha256,
        environment=grade.environment.key if grade.environment else "",
        controls=grade.controls.outcomes.label if grade.controls else "none",
        instance_sha256=grade.instance.sha256,
        options_key=grade.settings.key,
        duration_s=round(sum(grade.timings.values()), 3),
        tool_version=__version__,
    )


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
        under_way = Grade(instance, prediction, settings, folder, work, progress or (lambda _: None))
        verdict = run_steps(under_way)
    (folder / "timings.json").write_text(json.dumps(under_way.timings, indent=1) + "\n", "utf-8")
    return verdict
