"""The step of a grade that builds extension modules again, and what a verdict is worth where that is not possible."""

from __future__ import annotations

from dataclasses import replace

from swelive_plugin.core.extension_modules import is_build_script
from swelive_plugin.core.verdict import Finding, Reason, Status, Verdict
from swelive_plugin.grading.controls import rebuild_at_base
from swelive_plugin.grading.rebuild import BUILD_OUTPUT, BUILT, Rebuilt, put_built, rebuild
from swelive_plugin.grading.state import Grade

__all__ = ["as_built", "rebuild_extensions"]


def rebuild_extensions(grade: Grade) -> Verdict | None:
    """Build the extension modules again where the patch touches what they are made of.

    A prediction that does not build is unresolved, by the compiler's words, where gold or base does build here.
    """
    assert grade.environment is not None
    assert grade.sandbox is not None
    assert grade.mirror is not None
    assert grade.tree is not None
    assert grade.application is not None
    gold = grade.controls.gold.rebuilt if grade.controls and grade.controls.gold else None
    grade.rebuilt = rebuild(
        grade.instance,
        grade.prediction.patch,
        grade.environment,
        touched=grade.application.changed,
        mirror=grade.mirror,
        sandbox=grade.sandbox,
        settings=grade.settings,
        output=grade.folder / BUILD_OUTPUT,
        built=grade.work / BUILT,
        work=grade.work,
        gold=gold if gold and gold.ok else None,
        progress=grade.progress,
    )
    if grade.rebuilt is None:
        return None
    report = grade.rebuilt.report
    grade.findings += tuple(Finding("module_refused", "flag", f"left out: {told}") for told in report.refused)
    if grade.rebuilt.ok:
        told = "compiled code of the prediction's runs where no audit hook sees it"
        grade.findings += (Finding("suspicious", "suspicious", told),)  # the mutation control does
        put_built(grade.rebuilt, grade.tree, grade.environment, grade.application)
        return None
    if _nobody_can(grade, gold):
        return None  # the session runs with what base built; `as_built` says what that is worth
    told = f"the project does not build with this patch: {report.failed}"
    status = Status.TIMED_OUT if grade.rebuilt.ended_by == "wall_clock" else Status.UNRESOLVED
    return grade.verdict(status, [Reason("does_not_build", told, evidence=grade.rebuilt.evidence)])


def _nobody_can(grade: Grade, gold: Rebuilt | None) -> bool:
    """Return whether no patch can be built here, proven by a build of trusted code."""
    assert grade.environment is not None
    assert grade.sandbox is not None
    assert grade.mirror is not None
    compiled = grade.environment.compiled
    if compiled is not None and compiled.how == "none":
        return True
    if gold is not None:
        return not gold.ok
    if grade.settings.controls == "off":
        return False
    grade.progress("building the extension modules of base again")
    failed = rebuild_at_base(
        grade.instance, grade.environment, mirror=grade.mirror, sandbox=grade.sandbox, settings=grade.settings
    )
    return bool(failed)


def as_built(rebuilt: Rebuilt | None, verdict: Verdict) -> Verdict:
    """Return a session's verdict where nothing could be rebuilt: none on sources that had no effect."""
    if rebuilt is None or rebuilt.ok or verdict.status in (Status.ENV_ERROR, Status.TAMPERED):
        return verdict
    told = Reason(
        "not_rebuilt",
        f"{', '.join(rebuilt.report.because[:3])} changed, but extension modules can't be built again here: "
        f"{rebuilt.report.failed}",
        evidence=rebuilt.evidence,
    )
    if verdict.resolved and all(map(is_build_script, rebuilt.report.because)):
        return replace(verdict, warnings=(*verdict.warnings, told))
    return replace(verdict, status=Status.ENV_ERROR, reasons=(told, *verdict.reasons))
