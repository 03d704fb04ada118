"""Controls: runs whose answer we know, once per environment and instance, kept in the cache.

Base: the test patch alone, FAIL_TO_PASS must fail. Gold: the gold patch and the test patch, all must pass.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from swelive_plugin.core.decide import Control, score
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import ControlOutcome, Controls, Scope
from swelive_plugin.core.verdict import Verdict
from swelive_plugin.environments import Trial
from swelive_plugin.grading.testbed import RunResult, Testbed, Variant, run_kept
from swelive_plugin.integrity.judge import Facts, facts
from swelive_plugin.sandbox.processes import end_of_output

__all__ = ["ControlReport", "ControlRun", "Which", "control_variant", "run_controls", "skip_reasons", "trial_of"]

Which = Literal["base", "gold"]


@dataclass(frozen=True)
class ControlRun:
    """One control: its run, how that scores, and what it shows to be normal in this environment."""

    run: RunResult
    verdict: Verdict
    facts: Facts

    @property
    def build_failure(self) -> str:
        """Why extension modules could not be built again; empty where they were, or nothing touches them."""
        return self.run.rebuilt.report.failed if self.run.rebuilt else ""

    @property
    def ran_nothing(self) -> bool:
        """Whether pytest never got as far as starting a test."""
        return not self.run.session.ran_anything

    @property
    def evidence(self) -> Control:
        """The control as the decision takes it."""
        output = end_of_output(self.run.output) if self.ran_nothing else ""
        return Control(self.verdict, self.ran_nothing, output, self.build_failure)


@dataclass(frozen=True)
class ControlReport:
    """Both controls of an instance in one environment. ``gold`` is ``None`` where the instance has no gold patch."""

    base: ControlRun
    gold: ControlRun | None

    @property
    def outcomes(self) -> Controls:
        """The controls as scoring takes them."""
        gold = _outcomes(self.gold.run.session) if self.gold else None
        return Controls(base=_outcomes(self.base.run.session), gold=gold)

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
    def hold(self) -> bool:
        """Whether FAIL_TO_PASS fails at base and everything listed passes under gold."""
        return not self.pass_at_base and self.gold is not None and self.gold.verdict.resolved


def _outcomes(session: Session) -> dict[str, ControlOutcome]:
    return {test_id: ControlOutcome(record.outcome, record.forged) for test_id, record in session.tests.items()}


def control_variant(which: Which, gold_patch: str) -> Variant:
    """Return the variant that a control runs."""
    return Variant(gold_patch if which == "gold" else "", trusted=True)


def run_controls(testbed: Testbed) -> ControlReport:
    """Return both controls, from the cache where they were run before.

    Raises `InstanceError` if the test patch does not apply, or naming the gold patch if that does not.
    """
    base = _control(testbed, "base")
    return ControlReport(base, _control(testbed, "gold") if testbed.instance.patch.strip() else None)


def _control(testbed: Testbed, which: Which) -> ControlRun:
    run = run_kept(testbed, control_variant(which, testbed.instance.patch), what=f"{which} control")
    scope: Scope = "all" if testbed.scope in ("all", "suite") else "f2p-files"
    return ControlRun(run, score(testbed.instance, run.session, scope=scope), facts(run.read, run.session))


def trial_of(report: ControlReport) -> Trial:
    """Return what both controls say of the environment, as the search for a recipe takes it."""
    runs = [report.base] if report.gold is None else [report.gold, report.base]
    output = "\n".join(_text(each.run.output) for each in runs)
    if report.pass_at_base:
        note = f"pass at base: {', '.join(report.pass_at_base[:3])}"
        return Trial(holds=False, output=output, note=note, pass_at_base=True)
    if report.gold is None:  # no gold patch: all that can be asked for is that the tests run
        ran = not report.base.ran_nothing
        return Trial(ran, good=int(ran), output=output, note="" if ran else "no test runs at base")
    listed = (*report.gold.verdict.fail_to_pass, *report.gold.verdict.pass_to_pass)
    bad = [test.id for test in listed if test.judgement == "fail"]
    failing = {one for test in listed if test.judgement == "fail" for one in test.matched}
    output += skip_reasons(report.gold.run.session, failing)
    note = f"fail with gold: {', '.join(bad[:3])}" if bad else ""
    if bad and report.gold.run.rebuilt is not None and report.gold.build_failure:
        note = f"gold does not build: {report.gold.build_failure}"
        output += report.gold.run.rebuilt.evidence
    return Trial(report.hold, sum(test.judgement == "pass" for test in listed), output, note)


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def skip_reasons(session: Session, ids: Collection[str]) -> str:
    """Return why those of the tests that were skipped were, one line each: pytest does not say unless it is asked."""
    records = (each for key, each in session.tests.items() if key in ids and each.outcome is Outcome.SKIPPED)
    return "".join(f"\nskipped {each.id}: {each.raised.message}" for each in records if each.raised)
