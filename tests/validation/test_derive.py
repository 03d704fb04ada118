"""FAIL_TO_PASS and PASS_TO_PASS from what the controls did."""

from __future__ import annotations

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.validation.derive import Derived, derive, difference_from_row, reduce_runs


def session(*, ended: bool = True, **outcomes: str) -> Session:
    tests = {f"t.py::{name}": TestRecord(f"t.py::{name}", Outcome(value)) for name, value in outcomes.items()}
    return Session(tests=tests, ended=ended)


def ids(*names: str) -> tuple[str, ...]:
    return tuple(f"t.py::{name}" for name in names)


def test_any_fail_is_a_fail_else_any_skip_a_skip_and_a_missing_test_counts_as_skipped() -> None:
    states, flaky = reduce_runs(
        [{"a": "pass", "b": "pass", "c": "skip", "d": "pass"}, {"a": "fail", "b": "skip", "c": "skip"}]
    )
    assert states == {"a": "fail", "b": "skip", "c": "skip", "d": "skip"}
    assert flaky == {"a", "b", "d"}


def test_lists_follow_from_before_and_after() -> None:
    base = session(turns="failed", breaks="passed", stays="passed", skipped="skipped", errs="error", never="failed")
    gold = session(
        turns="passed", breaks="failed", stays="passed", skipped="passed", errs="passed", never="failed", new="passed"
    )
    found = derive([base], [gold, gold, gold])
    assert found == Derived(fail_to_pass=ids("errs", "new", "skipped", "turns"), pass_to_pass=ids("stays"))


def test_a_test_that_is_flaky_on_either_side_is_in_neither_list() -> None:
    base = [session(a="failed", b="passed", c="failed"), session(a="passed", b="passed", c="failed")]
    gold = [session(a="passed", b="passed", c="passed"), session(a="passed", b="failed", c="passed")]
    found = derive(base, gold)
    assert found == Derived(fail_to_pass=ids("c"), flaky=ids("a", "b"))


def test_an_id_that_changes_at_every_run_is_flaky() -> None:
    gold = [Session(tests={name: TestRecord(name, Outcome.PASSED)}) for name in ("t.py::x[0x7f01]", "t.py::x[0x7f02]")]
    assert derive([session()], gold).fail_to_pass == ()
    assert derive([session()], gold).flaky == ("t.py::x[0x7f01]", "t.py::x[0x7f02]")


def test_an_expected_failure_shows_nothing() -> None:
    """xfailed after is no pass, and before it is no failure: neither turn proves that the bug is gone."""
    base = session(a="failed", b="xfailed", c="passed", d="xpassed")
    gold = session(a="xfailed", b="passed", c="xpassed", d="passed")
    assert derive([base], [gold]) == Derived(pass_to_pass=ids("b", "d"))


def test_what_a_broken_base_session_never_reached_is_undecided() -> None:
    base = session(ended=False, a="failed", hangs="timed_out", later="not_run")
    gold = session(a="passed", hangs="passed", later="passed")
    found = derive([base], [gold])
    assert found == Derived(fail_to_pass=ids("a", "hangs"), undecided=ids("later"))


def test_given_lists_are_compared_id_by_id_also_when_they_are_cut() -> None:
    reported = {
        "t.py::a[one and two]": ("failed", "passed"),
        "t.py::b": ("failed", "passed"),
        "t.py::c": ("passed", "passed"),
        "u.py::e": ("failed", "passed"),
    }
    base, gold = (
        Session(tests={name: TestRecord(name, Outcome(states[side])) for name, states in reported.items()})
        for side in (0, 1)
    )
    row = Instance(
        "o__p-1",
        "o/p",
        "0" * 40,
        fail_to_pass=("t.py::a[one", "t.py::c", "t.py::gone", "[100%]"),
        pass_to_pass=("other.py::d",),
    )
    found = difference_from_row(row, derive([base], [gold]), [base], [gold])
    assert found.f2p_missing == {
        "t.py::c": "passed at base, passed with gold",
        "t.py::gone": "not among the tests that were run",
    }
    assert found.f2p_extra == ("t.py::b",)
    assert found.f2p_elsewhere == ("u.py::e",)  # the row's lists never speak of this file
    assert (found.p2p_missing, found.p2p_extra, found.p2p_not_run) == ({}, ("t.py::c",), 1)
    assert not found.same_f2p
