"""Policies: how an outcome counts for FAIL_TO_PASS and PASS_TO_PASS. One rule, one named function.

A policy is a value: two rule tables and a few switches. The default, ``swelive``, stands here; those that
reproduce upstream graders stand in `swelive_plugin.core.policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import IDLE, Outcome, Session, TestRecord
from swelive_plugin.core.testid import Match, Matcher, file_of
from swelive_plugin.core.verdict import Judgement
from swelive_plugin.errors import UsageError

__all__ = [
    "OUT_OF_SCOPE",
    "SWELIVE",
    "Context",
    "ControlOutcome",
    "Controls",
    "Policy",
    "Ruling",
    "Scope",
    "scope_named",
]

Scope = Literal["f2p-files", "all"]

OUT_OF_SCOPE = "p2p-out-of-scope"  # the rule for a PASS_TO_PASS whose file the scope leaves out


def scope_named(name: str | None) -> Scope | None:
    """Return the scope of that name, ``None`` for none. Raises `UsageError` for any other."""
    if not name:
        return None
    scopes: dict[str, Scope] = {"all": "all", "f2p-files": "f2p-files"}
    if name in scopes:
        return scopes[name]
    raise UsageError(f"no scope is called {name!r}", hint="use f2p-files or all")


@dataclass(frozen=True)
class ControlOutcome:
    """One test under a control; ``forged`` where the project's own hooks overrule exceptions there too."""

    outcome: Outcome
    forged: bool = False


@dataclass(frozen=True)
class Controls:
    """The outcomes of sessions whose answer we know. ``None`` where a control was not run."""

    base: Mapping[str, ControlOutcome] | None = None
    gold: Mapping[str, ControlOutcome] | None = None

    @property
    def label(self) -> str:
        """``none``, ``base``, ``gold`` or ``base+gold``: what goes into the report."""
        names = [name for name, known in (("base", self.base), ("gold", self.gold)) if known is not None]
        return "+".join(names) or "none"


@dataclass(frozen=True)
class Context:
    """What a rule may look at besides the record."""

    session: Session
    controls: Controls = field(default_factory=Controls)
    patched_files: frozenset[str] = (
        frozenset()
    )  # files that the prediction wrote or changed, in effect in the graded tree
    files_in_scope: frozenset[str] | None = None  # None: every listed file

    @cached_property
    def _gold_matcher(self) -> Matcher:
        return Matcher(self.controls.gold or {})

    def ran_under_gold(self, recorded: str) -> bool:
        """Return whether the gold control ran a test that ``recorded`` names."""
        gold = self.controls.gold or {}
        return any(gold[found].outcome not in IDLE for found in self._gold_matcher.match(recorded).reported)


@dataclass(frozen=True)
class Ruling:
    """What a rule says of one record: the judgement, the rule's name, and a sentence where it needs one."""

    judgement: Judgement
    rule: str
    message: str = ""


RecordRule = Callable[[TestRecord, Context], Ruling]
MissingRule = Callable[[str, Context], Ruling]


@dataclass(frozen=True)
class Policy:
    """How outcomes count.

    ``f2p`` and ``p2p`` judge a test that was reported, ``f2p_missing`` and ``p2p_missing`` one that was not.
    ``needs_session_end``: a session that did not end by itself is never resolved.
    ``checks_integrity``: whether tampering is a status of its own.
    ``combine``: how several candidates for one cut id are judged: ``all`` must satisfy the rule.
    ``needs_f2p``: an instance without FAIL_TO_PASS can't be judged.
    ``view`` gives the session as an upstream grader sees it, ``find`` the ids that it takes a recorded one for.
    """

    name: str
    default_scope: Scope
    f2p: RecordRule
    p2p: RecordRule
    f2p_missing: MissingRule
    p2p_missing: MissingRule
    needs_session_end: bool = True
    checks_integrity: bool = True
    combine: Literal["all", "any", "last"] = "all"
    drops_impossible_ids: bool = True
    needs_f2p: bool = True
    view: Callable[[Session, Instance], Session] | None = None
    find: Callable[[Session, Matcher, str], Match] | None = None


_OUTCOME_EXCEPTIONS = frozenset({"Skipped", "SkipTest", "XFailed"})  # pytest.skip(), unittest's, pytest.xfail()


def raised_by_prediction(record: TestRecord, context: Context) -> bool:
    """Return whether a skip or xfail was raised from a file that the prediction wrote or changed.

    What the gold patch does in the same test is normal, wherever it is raised. Where the gold control tells that it
    does not, a changed file anywhere on the way counts too: a helper of the tests may raise it for the prediction.
    """
    if record.raised is None or not (record.raised.via or record.raised.type in _OUTCOME_EXCEPTIONS):
        return False  # an xfail marker expects ordinary exceptions, and those come from the code under test
    gold = context.controls.gold
    if gold is not None and record.id in gold:
        if gold[record.id].outcome is record.outcome:
            return False
        return bool({record.raised.file, *record.raised.via} & context.patched_files)
    return record.raised.file in context.patched_files


def _where(record: TestRecord) -> str:
    if record.raised is None or not record.raised.file:
        return ""
    return f"{record.raised.file}:{record.raised.line}"


def _why(record: TestRecord) -> str:
    if record.forged:
        return "the report was overruled: it says passed, but the test raised " + (
            record.raised.type if record.raised else "an exception"
        )
    if record.raised is None:
        return ""
    text = f"{record.raised.type}: {record.raised.message}".rstrip(": ")
    where = _where(record)
    return f"{text} ({where})" if where else text


@cache
def _passing(rule: str) -> Ruling:
    return Ruling("pass", rule)


def swelive_f2p(record: TestRecord, context: Context) -> Ruling:
    """A FAIL_TO_PASS test must pass; a skip shows nothing. XFAIL: see `swelive_xfailed`."""
    outcome = record.outcome
    if outcome in (Outcome.PASSED, Outcome.XPASSED):
        return _passing(f"f2p-{outcome.value}")
    if outcome is Outcome.XFAILED:
        return swelive_xfailed(record, context, "f2p")
    if outcome is Outcome.SKIPPED:
        by_whom = " by code of the prediction" if raised_by_prediction(record, context) else ""
        return Ruling("fail", "f2p-skipped", f"skipped{by_whom}: a skip shows nothing. {_why(record)}".rstrip(" ."))
    return Ruling("fail", f"f2p-{outcome.value}", _why(record))


def swelive_p2p(record: TestRecord, context: Context) -> Ruling:
    """A PASS_TO_PASS test must not break; a skip keeps it, unless the prediction's own code raised it."""
    outcome = record.outcome
    if outcome in (Outcome.PASSED, Outcome.XPASSED):
        return _passing(f"p2p-{outcome.value}")
    if outcome is Outcome.XFAILED and record.body_ran:
        ruling = swelive_xfailed(record, context, "p2p")
        if ruling.judgement == "pass":
            return ruling
        return left_out_if_gold_fails(record, context) or ruling
    if outcome in (Outcome.SKIPPED, Outcome.XFAILED):  # an xfail that never ran its body shows as much as a skip
        if raised_by_prediction(record, context):
            return Ruling("fail", "p2p-skipped-by-prediction", f"skipped by code of the prediction: {_why(record)}")
        if runs_under_both_controls(record, context):
            told = (
                f"skipped, but it runs and passes at base and with gold: the prediction made it a skip. {_why(record)}"
            )
            return Ruling("fail", "p2p-skipped-but-ran-under-controls", told.rstrip(" ."))
        return Ruling("pass", "p2p-skipped", f"skipped, which keeps it: {_why(record)}".rstrip(": "))
    return left_out_if_gold_fails(record, context) or Ruling("fail", f"p2p-{outcome.value}", _why(record))


def passes_plainly_under_control(record: TestRecord, context: Context) -> bool:
    """Return whether the test is a plain pass under gold (at base where there is no gold): it bears no xfail mark.

    With a mark it would have been XPASS or XFAIL. Patched code can reach into the tests and mark them while they run.
    """
    for control in (context.controls.gold, context.controls.base):
        if control is not None and record.id in control:
            return control[record.id].outcome is Outcome.PASSED
    return False


def runs_under_both_controls(record: TestRecord, context: Context) -> bool:
    """Return whether the test passes at base and under gold: then nothing but the prediction turns it into a skip."""
    known = [control.get(record.id) for control in (context.controls.base, context.controls.gold) if control]
    return len(known) == 2 and all(found is not None and found.outcome is Outcome.PASSED for found in known)


def swelive_xfailed(record: TestRecord, context: Context, which: str) -> Ruling:
    """XFAIL counts as a pass when the hidden tests declare it, the body ran and no control passes without a mark."""
    if raised_by_prediction(record, context):
        return Ruling(
            "fail", f"{which}-xfailed-by-prediction", f"xfail raised by code of the prediction: {_why(record)}"
        )
    if not record.body_ran:
        return Ruling("fail", f"{which}-xfailed-without-run", "xfail, but the test's body never ran: nothing was shown")
    if passes_plainly_under_control(record, context):
        told = "xfail, but the control shows that the hidden tests expect no failure here: the mark came from elsewhere"
        return Ruling("fail", f"{which}-xfailed-undeclared", f"{told}. {_why(record)}".rstrip(" ."))
    return Ruling("pass", f"{which}-xfailed")


def left_out_if_gold_fails(record: TestRecord, context: Context) -> Ruling | None:
    """A PASS_TO_PASS test that fails under the gold control too can't be held against a prediction."""
    gold = context.controls.gold
    if gold is None or record.id not in gold:
        return None
    if gold[record.id].outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT):
        return Ruling("left_out", "p2p-fails-under-gold-too", f"fails under the gold patch too: {_why(record)}")
    return None


def swelive_f2p_missing(recorded: str, context: Context) -> Ruling:
    """A FAIL_TO_PASS test that never ran fails."""
    return Ruling("fail", "f2p-missing", missing_because(recorded, context))


def swelive_p2p_missing(recorded: str, context: Context) -> Ruling:
    """A missing PASS_TO_PASS test whose file was to run is a regression if gold ran it or the session broke off."""
    file = file_of(recorded)
    because = missing_because(recorded, context)
    if context.files_in_scope is not None and file not in context.files_in_scope:
        return Ruling("left_out", OUT_OF_SCOPE, "its file was not run")
    if broke_off(file, context.session):
        return Ruling("fail", "p2p-missing-session-broke-off", because)
    gold = context.controls.gold
    if context.ran_under_gold(recorded):
        return Ruling("fail", "p2p-missing-but-ran-under-gold", because + "; it ran under the gold patch")
    if gold is not None:
        return Ruling("left_out", "p2p-missing-under-gold-too", "did not run under the gold patch either")
    return Ruling("left_out", "p2p-missing", because + "; no gold control tells whether it should")


def broke_off(file: str, session: Session) -> bool:
    """Return whether the session, or the collection of this file, ended before its tests could run."""
    if not session.ended or session.timed_out:
        return True
    return any(not error.skipped and error.id in ("", ".", file) for error in session.collect_errors) or any(
        not error.skipped and error.id and file.startswith(error.id + "/") for error in session.collect_errors
    )


def missing_because(recorded: str, context: Context) -> str:
    """Return the likeliest reason why a recorded test was not reported."""
    file = file_of(recorded)
    for error in context.session.collect_errors:
        if error.id == file or (error.id and file.startswith(error.id + "/")):
            what = "was skipped whole" if error.skipped else "could not be collected"
            return f"missing: {error.id} {what}: {error.type}: {error.message}".rstrip(": ")
    if context.session.timed_out:
        return "missing: the session was stopped at its time limit before it"
    if not context.session.ended:
        return "missing: the session broke off before it"
    return "missing: no such test was collected"


SWELIVE = Policy(
    name="swelive",
    default_scope="f2p-files",
    f2p=swelive_f2p,
    p2p=swelive_p2p,
    f2p_missing=swelive_f2p_missing,
    p2p_missing=swelive_p2p_missing,
)
