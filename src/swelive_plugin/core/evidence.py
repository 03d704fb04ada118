"""What a decision is made from: all that is known of one prediction, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Session
from swelive_plugin.core.policy import SWELIVE, Controls, Policy, Scope
from swelive_plugin.core.verdict import Integrity, RebuildReport, Verdict

__all__ = ["Control", "Evidence", "Rebuild"]


@dataclass(frozen=True)
class Control:
    """One control as the decision needs it: its own verdict, and what pytest printed last where no test ran.

    ``build_failure`` says why its extension modules could not be built again; empty where they were, or need not be.
    """

    verdict: Verdict
    ran_nothing: bool = False
    last_output: str = ""
    build_failure: str = ""


@dataclass(frozen=True)
class Rebuild:
    """How the project's extension modules were built again for the prediction.

    ``possible`` tells whether trusted code does build here: if not, a failure says nothing about the prediction.
    ``ended_by`` names the limit that ended the build, if one did. ``output`` is the end of what it printed.
    """

    report: RebuildReport
    ended_by: str = "exit"
    output: str = ""
    possible: bool = True

    @property
    def failed(self) -> bool:
        """Whether the modules were not built."""
        return bool(self.report.failed)


@dataclass(frozen=True)
class Evidence:
    """All that is known of one prediction when its status is decided.

    ``empty``: the prediction is empty. ``error``: what ended the grade before its tests could be judged. ``session``:
    what ran, if anything did; ``ended_by`` is the sandbox's word on its end, ``last_output`` the end of what it
    printed, ``root`` the checkout's absolute path where ids may carry it. ``outcomes`` are those of both controls,
    ``base`` and ``gold`` their verdicts. ``lacks`` names what of the commit could not be had.

    For a finished run, ``record`` names its file; ``own_record`` tells that the driver wrote it during this very run,
    so that what is not in it did not run.
    For ``pytest -p swelive``, ``deselected`` says of listed tests why the person's own arguments kept them from
    running, ``arguments`` are those arguments, ``hidden_tests`` tells whether the test patch is in the checkout, and
    ``head`` is the commit that is checked out, where that is known and asked for.
    """

    instance: Instance
    policy: Policy = SWELIVE
    scope: Scope | None = None
    empty: bool = False
    error: BaseException | None = None
    session: Session | None = None
    root: str = ""
    ended_by: str = "exit"
    last_output: str = ""
    patched_files: Collection[str] = ()
    outcomes: Controls = field(default_factory=Controls)
    base: Control | None = None
    gold: Control | None = None
    rebuild: Rebuild | None = None
    integrity: Integrity = field(default_factory=Integrity)
    lacks: str = ""
    record: str = ""
    own_record: bool = False
    deselected: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    hidden_tests: bool = True
    head: str = ""
