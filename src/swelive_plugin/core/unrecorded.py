"""Warnings of listed tests that a session does not have: nobody can say whether they would pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swelive_plugin.core.outcome import Session
from swelive_plugin.core.testid import file_of, is_test_id
from swelive_plugin.core.verdict import Reason, TestVerdict

__all__ = ["files_not_recorded", "kept_tests_missing"]

_NAMED = 5


def kept_tests_missing(pass_to_pass: Sequence[TestVerdict]) -> Iterator[Reason]:
    """Yield how many PASS_TO_PASS tests are missing from files that ran, where no gold control tells why."""
    missing = [test.id for test in pass_to_pass if test.rule == "p2p-missing"]
    if missing:
        number = "1 PASS_TO_PASS test is" if len(missing) == 1 else f"{len(missing)} PASS_TO_PASS tests are"
        message = f"{number} missing from files that ran, and no gold control tells whether they should be there"
        yield Reason("p2p_missing", message, test=missing[0], evidence="\n".join(missing[:_NAMED]))


def files_not_recorded(session: Session, listed: Sequence[TestVerdict]) -> Iterator[Reason]:
    """Yield how many files of listed tests a record does not have at all."""
    recorded = {file_of(test_id) for test_id in session.tests} | {error.id for error in session.collect_errors}
    files: dict[str, bool] = {}
    for test in listed:
        if is_test_id(test.id):
            file = file_of(test.id)
            files[file] = files.get(file, False) or bool(test.matched) or file in recorded
    missing = sorted(file for file, known in files.items() if not known)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        message = f"{len(missing)} of {len(files)} listed test files have no test in what was recorded"
        yield Reason("files_not_recorded", f"{message}: {', '.join(missing[:_NAMED])}{more}")
