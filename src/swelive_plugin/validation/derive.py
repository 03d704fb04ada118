"""From the sessions of both controls to FAIL_TO_PASS and PASS_TO_PASS: pure, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.testid import Matcher, file_of, is_test_id

__all__ = ["Derived", "Difference", "DropReason", "State", "derive", "difference_from_row", "reduce_runs"]

State = Literal["pass", "fail", "skip"]


class DropReason(str, Enum):
    """The closed list of reasons why an instance is not kept."""

    NO_GOLD_PATCH = "no_gold_patch"
    NO_TEST_PATCH = "no_test_patch"
    NO_REPOSITORY = "no_repository"  # the repository or its base commit can't be had
    TEST_PATCH_FAILS = "test_patch_fails"
    GOLD_PATCH_FAILS = "gold_patch_fails"
    NO_TEST_FILES = "no_test_files"  # the test patch leaves nothing that pytest could run
    NO_INTERPRETER = "no_interpreter"
    ENVIRONMENT_FAILED = "environment_failed"
    GOLD_RAN_NOTHING = "gold_ran_nothing"  # with the gold patch no test starts
    GOLD_BROKE_OFF = "gold_broke_off"  # with the gold patch the session crashed or met a limit
    NO_FAIL_TO_PASS = "no_fail_to_pass"  # noqa: S105  it is no password
    ONLY_FLAKY = "only_flaky"  # what turns green does not do so every time
    ERROR = "error"  # ours: the next run tries again


@dataclass(frozen=True)
class Derived:
    """What the controls show of each test. All ids as pytest reports them, sorted.

    ``flaky``: tests that did not do the same in every run of one side; they are in neither list. ``undecided``: tests
    that the base session never reached because it broke off: no one can say whether they passed before.
    """

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


def reduce_runs(runs: Sequence[Mapping[str, State]]) -> tuple[dict[str, State], frozenset[str]]:
    """Return each test's state over several runs, and which of them are flaky.

    Any fail is a fail, else any skip a skip, else a pass; a test that a run does not have counts as skipped in it (as
    in SWE-bench-Live's ``evaluation/validation.py``).
    """
    states: dict[str, State] = {}
    flaky = set()
    for test_id in {test_id for run in runs for test_id in run}:
        found = {run.get(test_id, "skip") for run in runs}
        states[test_id] = "fail" if "fail" in found else "skip" if "skip" in found else "pass"
        if len(found) > 1:
            flaky.add(test_id)
    return states, frozenset(flaky)


def derive(base: Sequence[Session], gold: Sequence[Session]) -> Derived:
    """Return the lists that the runs of both controls show.

    FAIL_TO_PASS passes after and not before, PASS_TO_PASS passes before and after. A test that xfails or xpasses counts
    as a pass before (so that it can't become FAIL_TO_PASS without showing anything) and as none after (graders
    disagree about it): it is in neither list.
    """
    before, flaky_before = reduce_runs([_states(session, expected_failure="pass") for session in base])
    after, flaky_after = reduce_runs([_states(session, expected_failure="skip") for session in gold])
    flaky = flaky_before | flaky_after
    unreached = {
        record.id
        for session in base
        if not session.ended
        for record in session.tests.values()
        if record.outcome is Outcome.NOT_RUN
    }
    passes = sorted(test_id for test_id, state in after.items() if state == "pass" and test_id not in flaky)
    reached = [test_id for test_id in passes if test_id not in unreached]
    return Derived(
        fail_to_pass=tuple(test_id for test_id in reached if before.get(test_id) != "pass"),
        pass_to_pass=tuple(test_id for test_id in reached if before.get(test_id) == "pass"),
        flaky=tuple(sorted(flaky)),
        undecided=tuple(sorted(unreached & set(passes))),
    )


def _states(session: Session, *, expected_failure: State) -> dict[str, State]:
    return {record.id: _state(record.outcome, expected_failure) for record in session.tests.values()}


def _state(outcome: Outcome, expected_failure: State) -> State:
    if outcome is Outcome.PASSED:
        return "pass"
    if outcome in (Outcome.XFAILED, Outcome.XPASSED):
        return expected_failure
    if outcome in (Outcome.SKIPPED, Outcome.NOT_RUN, Outcome.DESELECTED):
        return "skip"
    return "fail"


@dataclass(frozen=True)
class Difference:
    """How derived lists differ from those that the row came with. Ids that can't be test ids are left out.

    ``missing`` are ids of the row that we did not find so, with what we saw instead; ``extra`` are ours that no id of
    the row names. ``f2p_elsewhere`` are extra ones in files that none of the row's ids names: who made its lists never
    ran those files. PASS_TO_PASS is compared only for files that were run.
    """

    f2p_missing: Mapping[str, str]
    f2p_extra: tuple[str, ...]
    p2p_missing: Mapping[str, str]
    p2p_extra: tuple[str, ...]
    f2p_elsewhere: tuple[str, ...] = ()
    p2p_not_run: int = 0

    @property
    def same_f2p(self) -> bool:
        """Whether FAIL_TO_PASS is the same in the files that the row's lists name."""
        return not self.f2p_missing and not self.f2p_extra


def difference_from_row(
    instance: Instance, derived: Derived, base: Sequence[Session], gold: Sequence[Session]
) -> Difference:
    """Return how the derived lists differ from the row's own, id by id; recorded ids may be cut (see `Matcher`)."""
    seen_before = {test_id: record.outcome.value for session in base for test_id, record in session.tests.items()}
    seen_after = {test_id: record.outcome.value for session in gold for test_id, record in session.tests.items()}
    matcher = Matcher(seen_before | seen_after)
    ours = {"F2P": set(derived.fail_to_pass), "P2P": set(derived.pass_to_pass)}
    recorded = {"F2P": instance.fail_to_pass, "P2P": instance.pass_to_pass}
    missing: dict[str, dict[str, str]] = {"F2P": {}, "P2P": {}}
    named: dict[str, set[str]] = {"F2P": set(), "P2P": set()}
    not_run = 0
    for which in ("F2P", "P2P"):
        for test_id in recorded[which]:
            found = matcher.match(test_id).reported
            named[which].update(found)
            if not is_test_id(test_id) or any(one in ours[which] for one in found):
                continue
            if not found and which == "P2P":
                not_run += 1
            else:
                missing[which][test_id] = _outcomes_seen(found, seen_before, seen_after, derived)
    files = {file_of(test_id) for listed in recorded.values() for test_id in listed}
    extra = sorted(ours["F2P"] - named["F2P"])
    return Difference(
        f2p_missing=missing["F2P"],
        f2p_extra=tuple(test_id for test_id in extra if file_of(test_id) in files),
        f2p_elsewhere=tuple(test_id for test_id in extra if file_of(test_id) not in files),
        p2p_missing=missing["P2P"],
        p2p_extra=tuple(sorted(ours["P2P"] - named["P2P"])),
        p2p_not_run=not_run,
    )


def _outcomes_seen(found: Sequence[str], before: Mapping[str, str], after: Mapping[str, str], derived: Derived) -> str:
    if not found:
        return "not among the tests that were run"
    seen = []
    for test_id in found[:3]:
        flaky = ", not in every run" if test_id in derived.flaky else ""
        seen.append(f"{before.get(test_id, 'missing')} at base, {after.get(test_id, 'missing')} with gold{flaky}")
    return "; ".join(dict.fromkeys(seen))
