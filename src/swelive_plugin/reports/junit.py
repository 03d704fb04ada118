"""results.xml: a suite per prediction, a case per FAIL_TO_PASS and PASS_TO_PASS test, so that any CI shows them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from swelive_plugin.core.verdict import NO_VERDICT, Status, TestVerdict, Verdict
from swelive_plugin.files import one_line, visible, write_atomically

__all__ = ["junit_bytes", "write_junit"]


def junit_bytes(verdicts: Iterable[Verdict]) -> bytes:
    """Return JUnit XML of several verdicts.

    What no test shows (a patch that does not apply, tampering, an environment that can't be built) is a case of its
    own, called after the status: ``failure`` where the prediction caused it, ``error`` where there is no verdict.
    """
    document = JUnitXml("swelive")
    suites = [_suite(verdict) for verdict in verdicts]
    for suite in suites:
        document.add_testsuite(suite)
    for count in ("tests", "failures", "errors", "skipped"):
        setattr(document, count, sum(getattr(suite, count) for suite in suites))
    document.time = round(sum(suite.time for suite in suites), 3)
    buffer = io.BytesIO()
    document.write(buffer)
    return buffer.getvalue() + b"\n"


def write_junit(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Write ``results.xml``, whole or not at all. Raises `InfraError` where it can't be written."""
    write_atomically(path, junit_bytes(verdicts))


def _suite(verdict: Verdict) -> TestSuite:
    name = verdict.instance_id if verdict.attempt == 1 else f"{verdict.instance_id} (attempt {verdict.attempt})"
    suite = TestSuite(visible(name))
    told = {"status": verdict.status.value, "policy": verdict.policy, "scope": verdict.scope, "model": verdict.model}
    for key, value in told.items():
        suite.add_property(key, visible(value))
    cases = [_case(test, "FAIL_TO_PASS") for test in verdict.fail_to_pass]
    cases += [_case(test, "PASS_TO_PASS") for test in verdict.pass_to_pass]
    shown = verdict.status is Status.UNRESOLVED and any(
        test.judgement == "fail" for test in (*verdict.fail_to_pass, *verdict.pass_to_pass)
    )
    if verdict.status is not Status.RESOLVED and not shown:
        cases.append(_status_case(verdict))
    suite.add_testcases(cases)
    suite.time = round(verdict.duration_s, 3)  # of the grade: a verdict does not keep each test's own time
    return suite


def _case(test: TestVerdict, list_name: str) -> TestCase:
    case = TestCase(visible(test.id), classname=list_name)
    if test.judgement != "pass":
        why = one_line(test.message or test.rule)
        case.result = [Failure(why, test.rule) if test.judgement == "fail" else Skipped(why, test.rule)]
    return case


def _status_case(verdict: Verdict) -> TestCase:
    case = TestCase(verdict.status.value, classname="verdict")
    message = "; ".join(one_line(reason.message) for reason in verdict.reasons) or verdict.status.value
    kind = Error if verdict.status in NO_VERDICT else Failure
    result = kind(message, verdict.reasons[0].code if verdict.reasons else verdict.status.value)
    evidence = [line for reason in verdict.reasons for line in reason.evidence.splitlines()]
    if evidence:
        result.text = "\n".join(map(visible, evidence))
    case.result = [result]
    return case
