"""A grade under way: what the steps of the pipeline hand on to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.policy import Policy, Scope
from swelive_plugin.core.prediction import Prediction
from swelive_plugin.core.verdict import Finding, Reason, Status, Verdict
from swelive_plugin.environments import Environment
from swelive_plugin.extensions import policy_named
from swelive_plugin.grading.controls import ControlReport
from swelive_plugin.grading.rebuild import Rebuilt
from swelive_plugin.grading.session import SessionResult
from swelive_plugin.grading.settings import Progress, Settings
from swelive_plugin.sandbox import Sandbox
from swelive_plugin.workspace.graded import Application

__all__ = ["Grade", "Step"]


@dataclass
class Grade:
    """One grade under way: what was given, and what the steps so far have found."""

    instance: Instance
    prediction: Prediction
    settings: Settings
    folder: Path  # the report: kept
    work: Path  # on the store's own file system, so that trees can share files with it; thrown away
    progress: Progress = field(default=lambda _: None)
    sandbox: Sandbox | None = None
    mirror: Path | None = None
    environment: Environment | None = None
    controls: ControlReport | None = None
    tree: Path | None = None
    application: Application | None = None
    rebuilt: Rebuilt | None = None
    result: SessionResult | None = None
    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    mutation: str = "not run"
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        """The scoring policy that the settings name."""
        return policy_named(self.settings.policy)

    @property
    def scope(self) -> Scope:
        """Which test files are run."""
        return self.settings.scope or self.policy.default_scope

    @property
    def plugins(self) -> tuple[str, ...] | None:
        """The distributions whose pytest plugins may load: those that the controls had, ``None`` for all installed."""
        return self.controls.plugins if self.controls else None

    def verdict(self, status: Status, reasons: Sequence[Reason] = ()) -> Verdict:
        """Return a verdict that ends the grade before its tests could be scored."""
        return Verdict(
            instance_id=self.instance.instance_id,
            status=status,
            policy=self.policy.name,
            scope=self.scope,
            reasons=tuple(reasons),
        )


Step = Callable[[Grade], "Verdict | None"]
