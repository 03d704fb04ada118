"""Outcomes: what the probe's events say about each test, reduced to one outcome per test id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

__all__ = ["IDLE", "CollectError", "Outcome", "Phase", "Raised", "Session", "TestRecord", "reduce_events"]


class Outcome(str, Enum):
    """One test's final state."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"  # setup or teardown failed, also when the call passed
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"  # not strict: a strict one arrives as failed
    CRASHED = "crashed"  # started, never ended
    TIMED_OUT = "timed_out"
    NOT_RUN = "not_run"  # collected, never started
    DESELECTED = "deselected"


IDLE = frozenset({Outcome.NOT_RUN, Outcome.DESELECTED})


@dataclass(frozen=True)
class Raised:
    """The exception that ended a phase; ``file`` is where project code raised it, relative to rootdir if inside it.

    ``via``: for skips and xfails, every project file on the way there.
    """

    type: str
    message: str = ""
    file: str = ""
    line: int = 0
    via: tuple[str, ...] = ()


@dataclass(frozen=True)
class Phase:
    """One phase of one attempt (or one subtest) as the probe recorded it."""

    when: str
    outcome: str
    duration_s: float = 0.0
    attempt: int = 1
    subtest: str = ""
    wasxfail: str | None = None
    xfail_run: bool | None = None
    xfail_strict: bool | None = None
    raised: Raised | None = None
    worker: str = ""
    forged: bool = False  # the report says passed, the exception says otherwise


@dataclass(frozen=True)
class TestRecord:
    """One test and what became of it.

    ``body_ran`` tells whether a call phase was recorded (``xfail(run=False)`` shows nothing). ``flaky`` is set where an
    earlier attempt failed. ``raised`` is the exception that decided, if one did. ``forged``: a report overruled the
    exception; ``reported`` is then the outcome by the reports alone (a project's own hooks may do that honestly).
    """

    __test__ = False  # pytest must not take it for a test class

    id: str
    outcome: Outcome
    duration_s: float = 0.0
    body_ran: bool = False
    flaky: bool = False
    attempts: int = 1
    raised: Raised | None = None
    forged: bool = False
    reported: Outcome | None = None
    phases: tuple[Phase, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class CollectError:
    """A file or folder that could not be collected; its tests are missing because of it."""

    id: str
    type: str = ""
    message: str = ""
    skipped: bool = False  # skipped at module level, which is no error
    file: str = ""


@dataclass(frozen=True)
class Session:
    """One pytest run as read by a reader.

    ``ended`` tells whether the session's own end was seen. ``source`` names the reader. ``complete_ids`` is false for
    sources that show only some ids in full (pytest's folded skip lines, JUnit without ``file``); ``notes`` say what.
    ``printed`` holds, for text, every line that looks like a result wherever it stands: what graders that read line by
    line go by, and what the policies that reproduce them are fed. No other rule looks at it.
    """

    tests: Mapping[str, TestRecord]
    collect_errors: tuple[CollectError, ...] = ()
    ended: bool = True
    timed_out: bool = False
    exit_status: int | None = None
    source: str = "events"
    rootdir: str = ""
    pytest_version: str = ""
    python_version: str = ""
    uid: int | None = None
    plugins: tuple[str, ...] = ()
    canaries: Mapping[str, TestRecord] = field(default_factory=dict)
    internal_error: str = ""
    interrupted: str = ""  # what ended the session before its last test: pytest.exit(), KeyboardInterrupt
    unnamed: int = 0  # results that the source counts without naming their tests (pytest's dots)
    foreign_records: int = 0  # lines of a signed record that its recorder did not write; none of them is believed
    damaged: str = ""  # why a signed record can't be verified to its end
    truncated: str = ""  # at which limit the record was cut: what came later is not there, so the tests did not crash
    notes: tuple[str, ...] = ()
    printed: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ran_anything(self) -> bool:
        """Whether at least one test was started."""
        return any(record.outcome not in IDLE for record in self.tests.values())


# From best to worst: where one id carries several results (duplicates, subtests, phases), the worst one counts.
_SEVERITY = (
    Outcome.DESELECTED,
    Outcome.PASSED,
    Outcome.XPASSED,
    Outcome.XFAILED,
    Outcome.SKIPPED,
    Outcome.NOT_RUN,
    Outcome.FAILED,
    Outcome.ERROR,
    Outcome.TIMED_OUT,
    Outcome.CRASHED,
)
_SEVERITY_OF = {outcome: rank for rank, outcome in enumerate(_SEVERITY)}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of several outcomes of one id."""
    return max(outcomes, key=_SEVERITY_OF.__getitem__)


def reduce_events(events: Iterable[Mapping[str, Any]], *, timed_out: bool = False) -> Session:
    """Return the session that a stream of probe events tells of (their form: docs/reference/events.md).

    The stream may break off anywhere. ``timed_out`` is the driver's word that it stopped the session itself: the test
    then running is ``timed_out``, else a test that never ended is ``crashed``. The order of events of different tests
    (xdist) never changes the result. Unknown kinds of events are passed over, so that newer probes stay readable.
    """
    state = _State()
    for event in events:
        handler = _HANDLERS.get(str(event.get("e")))
        if handler is not None:
            handler(state, event)
    return state.session(timed_out=timed_out)


class _State:
    def __init__(self) -> None:
        self.head: Mapping[str, Any] = {}
        self.collected: dict[str, None] = {}
        self.deselected: dict[str, None] = {}
        self.started: dict[str, int] = {}
        self.phases: dict[str, list[Phase]] = {}
        self.collect_errors: list[CollectError] = []
        self.end: Mapping[str, Any] | None = None
        self.internal_error = ""
        self.interrupted = ""
        self.canaries: set[str] = set()

    def session(self, *, timed_out: bool) -> Session:
        records: dict[str, TestRecord] = {}
        for test_id in {**self.collected, **self.started, **self.phases}:
            phases = tuple(self.phases.get(test_id, ()))
            records[test_id] = _reduce_test(test_id, phases, started=test_id in self.started, timed_out=timed_out)
        for test_id in self.deselected:
            records.setdefault(test_id, TestRecord(test_id, Outcome.DESELECTED))
        head = self.head
        uid = head.get("uid")
        return Session(
            tests={key: record for key, record in records.items() if key not in self.canaries},
            canaries={key: record for key, record in records.items() if key in self.canaries},
            collect_errors=tuple(self.collect_errors),
            ended=self.end is not None,
            timed_out=timed_out,
            exit_status=_int_or_none(self.end.get("exitstatus")) if self.end else None,
            rootdir=str(head.get("rootdir", "")),
            pytest_version=str(head.get("pytest", "")),
            python_version=str(head.get("python", "")),
            uid=uid if isinstance(uid, int) else None,
            plugins=tuple(str(name) for name in head.get("plugins", ()) or ()),
            internal_error=self.internal_error,
            interrupted=self.interrupted,
        )


def _int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _on_session(state: _State, event: Mapping[str, Any]) -> None:
    state.head = event


def _on_collected(state: _State, event: Mapping[str, Any]) -> None:
    state.collected.update(dict.fromkeys(map(str, event.get("ids", ()))))


def _on_deselected(state: _State, event: Mapping[str, Any]) -> None:
    state.deselected.update(dict.fromkeys(map(str, event.get("ids", ()))))


def _on_start(state: _State, event: Mapping[str, Any]) -> None:
    test_id = str(event["id"])
    state.started[test_id] = state.started.get(test_id, 0) + 1


def _on_phase(state: _State, event: Mapping[str, Any]) -> None:
    state.phases.setdefault(str(event["id"]), []).append(phase_from_event(event))


def _on_collect_error(state: _State, event: Mapping[str, Any]) -> None:
    state.collect_errors.append(
        CollectError(
            id=str(event.get("id", "")),
            type=str(event.get("type", "")),
            message=str(event.get("msg", "")),
            skipped=event.get("e") == "collect_skip",
            file=str(event.get("file", "")),
        )
    )


def _on_interrupted(state: _State, event: Mapping[str, Any]) -> None:
    told = f"{event.get('type') or 'interrupted'}: {event.get('msg', '')}".rstrip(": ")
    file = event.get("file")
    state.interrupted = f"{told} ({file}:{event.get('line') or 0})" if file else told


def _on_internal_error(state: _State, event: Mapping[str, Any]) -> None:
    state.internal_error = str(event.get("msg", "internal error"))


def _on_end(state: _State, event: Mapping[str, Any]) -> None:
    state.end = event


def _on_canaries(state: _State, event: Mapping[str, Any]) -> None:
    state.canaries.update(map(str, event.get("ids", ())))


_HANDLERS = {
    "session": _on_session,
    "collected": _on_collected,
    "deselected": _on_deselected,
    "start": _on_start,
    "phase": _on_phase,
    "collect_error": _on_collect_error,
    "collect_skip": _on_collect_error,
    "internal_error": _on_internal_error,
    "interrupted": _on_interrupted,
    "canaries": _on_canaries,
    "end": _on_end,
}


def phase_from_event(event: Mapping[str, Any]) -> Phase:
    """Return the phase that one ``phase`` event records."""
    raised = event.get("raised")
    xfail = event.get("xfail") or {}
    return Phase(
        when=str(event.get("when", "call")),
        outcome=str(event.get("outcome", "failed")),
        duration_s=float(event.get("d") or 0.0),
        attempt=int(event.get("attempt") or 1),
        subtest=str(event.get("subtest", "")),
        wasxfail=event.get("wasxfail"),
        xfail_run=xfail.get("run"),
        xfail_strict=xfail.get("strict"),
        raised=_raised(raised) if isinstance(raised, Mapping) else None,
        worker=str(event.get("worker", "")),
        forged=bool(event.get("forged", False)),
    )


def _raised(value: Mapping[str, Any]) -> Raised:
    return Raised(
        type=str(value.get("type", "")),
        message=str(value.get("msg", "")),
        file=str(value.get("file", "")),
        line=int(value.get("line") or 0),
        via=tuple(str(name) for name in value.get("via", ()) or ()),
    )


def _reduce_test(test_id: str, phases: tuple[Phase, ...], *, started: bool, timed_out: bool) -> TestRecord:
    if not phases:
        broke_off = Outcome.TIMED_OUT if timed_out else Outcome.CRASHED
        return TestRecord(test_id, broke_off if started else Outcome.NOT_RUN)
    last_attempt = max(phase.attempt for phase in phases)
    last = [phase for phase in phases if phase.attempt == last_attempt]
    outcome, decided_by = _attempt_outcome(last, timed_out=timed_out)
    earlier_failed = any(
        phase.attempt < last_attempt and phase.outcome not in ("passed", "skipped") for phase in phases
    )
    forged = any(phase.forged for phase in last)
    reported = outcome
    if forged:
        reported, _ = _attempt_outcome([replace(phase, forged=False) for phase in last], timed_out=timed_out)
    return TestRecord(
        id=test_id,
        outcome=outcome,
        duration_s=sum(phase.duration_s for phase in last if not phase.subtest),
        body_ran=any(phase.when == "call" for phase in last),
        flaky=earlier_failed,
        attempts=last_attempt,
        raised=decided_by.raised if decided_by else None,
        forged=forged,
        reported=reported,
        phases=phases,
    )


def _attempt_outcome(phases: list[Phase], *, timed_out: bool) -> tuple[Outcome, Phase | None]:
    """Return one attempt's outcome and the phase that decided it."""
    found: list[tuple[Outcome, Phase | None]] = []
    for phase in phases:
        outcome = _phase_outcome(phase)
        if phase.subtest and outcome in (Outcome.SKIPPED, Outcome.XFAILED):
            continue  # a skipped or expectedly failing subtest says nothing about its test
        found.append((outcome, phase))
    mains = [phase for phase in phases if not phase.subtest]
    if not any(phase.when == "teardown" for phase in mains):
        found.append((Outcome.TIMED_OUT if timed_out else Outcome.CRASHED, None))
    return max(found, key=lambda item: _SEVERITY_OF[item[0]])


def _phase_outcome(phase: Phase) -> Outcome:
    if phase.outcome == "failed" or phase.forged:
        return Outcome.FAILED if phase.when == "call" else Outcome.ERROR
    if phase.outcome == "rerun":  # rerunfailures gave up on this attempt: it failed
        return Outcome.FAILED
    if phase.outcome == "skipped":
        return Outcome.SKIPPED if phase.wasxfail is None else Outcome.XFAILED
    if phase.outcome == "passed":
        return Outcome.PASSED if phase.wasxfail is None or phase.when != "call" else Outcome.XPASSED
    return Outcome.FAILED


def with_prefix(session: Session, prefix: str) -> Session:
    """Return the session with ``prefix/`` before every id: a rootdir below the checkout's root makes ids shorter."""
    if not prefix:
        return session

    def moved(test_id: str) -> str:
        return f"{prefix}/{test_id}" if test_id else prefix

    return replace(
        session,
        tests={moved(key): replace(record, id=moved(key)) for key, record in session.tests.items()},
        collect_errors=tuple(replace(error, id=moved(error.id)) for error in session.collect_errors),
    )
