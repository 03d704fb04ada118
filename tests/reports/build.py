"""Verdicts to report on: one of each kind that the reports treat differently."""

from __future__ import annotations

from swelive_plugin.core.verdict import (
    Finding,
    Integrity,
    Judgement,
    PatchReport,
    Reason,
    Status,
    TestVerdict,
    Verdict,
)

# Everything that the graded code can put into its ids and messages to fool a terminal, a parser or a table.
NASTY = "\x1b[2K\r\x00 <b>&]]> | `x` \u202e \udc80 \uffff\nsecond line"


def judged(
    test_id: str, judgement: Judgement = "pass", rule: str = "rule", message: str = "", outcome: str = ""
) -> TestVerdict:
    outcomes = (outcome,) if outcome else ()
    return TestVerdict(test_id, judgement, rule, outcomes, (test_id,) * len(outcomes), message=message)


RESOLVED = Verdict(
    "a__b-1",
    Status.RESOLVED,
    fail_to_pass=(judged("t.py::test_a", outcome="passed"),),
    pass_to_pass=(judged("t.py::test_b", outcome="skipped"), judged("u.py::test_c", "left_out", message="not run")),
    duration_s=1.5,
    model="some/model",
)
UNRESOLVED = Verdict(
    "a__b-2",
    Status.UNRESOLVED,
    reasons=(
        Reason("f2p-failed", "AssertionError: 1 != 2 (t.py:3)", test="t.py::test_a[x"),
        Reason("p2p-error", "KeyError: 'x'", test="t.py::test_b"),
    ),
    warnings=(Reason("ran_as_root", "the tests ran as root"),),
    fail_to_pass=(
        judged("t.py::test_ok", outcome="xfailed"),
        judged("t.py::test_a[x", "fail", "f2p-failed", "AssertionError: 1 != 2 (t.py:3)", outcome="failed"),
    ),
    pass_to_pass=(
        judged("t.py::test_fine", outcome="passed"),
        judged("t.py::test_b", "fail", "p2p-error", "KeyError: 'x'", outcome="error"),
        judged("u.py::test_c", "left_out", message="its file was not run"),
        judged("u.py::test_d", "left_out", message="its file was not run"),
    ),
    integrity=Integrity(sandbox="plain", findings=(Finding("looks_at_pytest", "flag", "asks for pytest", "x.py", 4),)),
    patch=PatchReport("strict", ("final newline added",), ("x.py",), ("t.py", "conftest.py")),
    duration_s=12.34,
)
PATCH_FAILED = Verdict(
    "a__b-3",
    Status.PATCH_FAILED,
    reasons=(Reason("patch_failed", "hunk 2 does not apply", file="x.py", line=30, evidence="error: one\nerror: two"),),
)
ENV_ERROR = Verdict("a__b-4", Status.ENV_ERROR, reasons=(Reason("build", "the project does not install"),))
EMPTY = Verdict("a__b-5", Status.EMPTY_PATCH)
TAMPERED = Verdict(
    "a__b-6",
    Status.TAMPERED,
    reasons=(Reason("forged_report", "t.py::test_a was reported as passed although it raised"),),
    fail_to_pass=(judged("t.py::test_a", outcome="passed"),),
    integrity=Integrity(findings=(Finding("forged_report", "tampered", "t.py::test_a was reported as passed"),)),
)
FOUL = Verdict(
    "a__b-7",
    Status.UNRESOLVED,
    reasons=(Reason("f2p-failed", NASTY, test="t.py::test_n", evidence=NASTY),),
    fail_to_pass=(judged(f"t.py::test_n[{NASTY}]", "fail", "f2p-failed", NASTY, outcome="failed"),),
    model=NASTY,
)
ALL = (RESOLVED, UNRESOLVED, PATCH_FAILED, ENV_ERROR, EMPTY, TAMPERED, FOUL)
