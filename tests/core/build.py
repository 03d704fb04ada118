"""Small builders that the core's tests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Raised, Session, TestRecord
from swelive_plugin.core.policy import ControlOutcome, Controls


def instance(f2p: Sequence[str] = (), p2p: Sequence[str] = ()) -> Instance:
    return Instance("o__n-1", "o/n", "0" * 40, fail_to_pass=tuple(f2p), pass_to_pass=tuple(p2p))


def record(test_id: str, outcome: str, *, raised_in: str = "", body_ran: bool = True, **more: Any) -> TestRecord:
    raised = Raised("Skipped", "why", raised_in, 3) if raised_in else None
    return TestRecord(test_id, Outcome(outcome), raised=raised, body_ran=body_ran, **more)


def session(outcomes: Mapping[str, str], **more: Any) -> Session:
    return Session(tests={test_id: record(test_id, outcome) for test_id, outcome in outcomes.items()}, **more)


def controls(gold: Mapping[str, str] | None = None, base: Mapping[str, str] | None = None) -> Controls:
    def known(outcomes: Mapping[str, str] | None) -> Mapping[str, ControlOutcome] | None:
        if outcomes is None:
            return None
        return {test_id: ControlOutcome(Outcome(outcome)) for test_id, outcome in outcomes.items()}

    return Controls(base=known(base), gold=known(gold))
