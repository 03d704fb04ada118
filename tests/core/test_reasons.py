"""One reason for one cause."""

from __future__ import annotations

from swelive_plugin.core.reasons import group_reasons
from swelive_plugin.core.verdict import Reason

WHY = "missing: tests/test_a.py could not be collected: ImportError: no x"


def test_a_file_that_does_not_import_gave_22_equal_reasons() -> None:
    ids = [f"tests/test_a.py::test_{number}" for number in range(22)]
    (reason,) = group_reasons(Reason("f2p-missing", WHY, test=test_id) for test_id in ids)
    assert reason == Reason(
        "f2p-missing", f"22 tests: {WHY}", test=ids[0], evidence="\n".join([*ids[:5], "and 17 more"])
    )


def test_reasons_of_several_causes_stay_in_their_order() -> None:
    reasons = [
        Reason("collection_error", "bad.py: ImportError: x", file="bad.py"),
        Reason("f2p-failed", "assert 1 == 2", test="t.py::a"),
        Reason("f2p-missing", WHY, test="tests/test_a.py::b"),
        Reason("f2p-failed", "assert 1 == 2", test="t.py::c"),
        Reason("p2p-failed", "assert 1 == 2", test="t.py::d"),
    ]
    grouped = group_reasons(reasons)
    assert [(reason.code, reason.message, reason.test) for reason in grouped] == [
        ("collection_error", "bad.py: ImportError: x", ""),
        ("f2p-failed", "2 tests: assert 1 == 2", "t.py::a"),
        ("f2p-missing", WHY, "tests/test_a.py::b"),
        ("p2p-failed", "assert 1 == 2", "t.py::d"),
    ]
    assert grouped[1].evidence == "t.py::a\nt.py::c"
    assert grouped[0] is reasons[0]


def test_a_message_that_holds_the_id_is_one_cause_too() -> None:
    reasons = [
        Reason("missing", f"{test_id} was not collected", test=test_id) for test_id in ("t.py::a", "t.py::b", "t.py::c")
    ]
    assert [reason.message for reason in group_reasons(reasons)] == ["t.py::a was not collected, and 2 more such tests"]


def test_a_reason_keeps_its_own_evidence_and_place() -> None:
    one = Reason("f2p-failed", "no", test="t.py::a", file="lib.py", line=3, evidence="trace")
    other = Reason("f2p-failed", "no", test="t.py::b", file="lib.py", line=3, evidence="trace")
    elsewhere = Reason("f2p-failed", "no", test="t.py::c", file="lib.py", line=4, evidence="trace")
    first, second = group_reasons([one, other, elsewhere])
    assert (first.message, first.evidence, first.line, second) == ("2 tests: no", "trace", 3, elsewhere)


def test_the_same_reason_twice_is_one() -> None:
    assert group_reasons([Reason("x", "y", test="t.py::a")] * 2) == [Reason("x", "y", test="t.py::a")]
