"""Mutation control: the FAIL_TO_PASS tests again with other expected values, which an honest fix must now fail.

It catches what a single run can't: code that reads the tests' files, objects that equal everything, records that are
forged with the recorder's own key. It does not see answers that are written into the code: see
docs/explanation/threat-model.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.testid import file_of, is_test_id
from swelive_plugin.core.verdict import Finding, Severity
from swelive_plugin.integrity import mutate
from swelive_plugin.integrity.mutate import Mutant, function_of_test, mutants
from swelive_plugin.workspace.checkout import settle_written

__all__ = [
    "MUTANTS",
    "Mutation",
    "Runner",
    "failed_functions",
    "mutate_files",
    "mutation_control",
    "mutation_fingerprint",
    "passed_functions",
    "targets",
]

MUTANTS = 2

Runner = Callable[[bool, int | None], tuple[Session, frozenset[str]]]
"""Runs gold (true) or the prediction (false) over a mutant of the hidden tests, or disguised over the real ones
(``None``), and returns the session and the functions that were changed, as ``file::function``."""


@dataclass(frozen=True)
class Mutation:
    """What the mutation control found, and one sentence on how far it reached."""

    summary: str
    findings: tuple[Finding, ...] = ()


def targets(instance: Instance) -> dict[str, frozenset[str]]:
    """Return the FAIL_TO_PASS functions (``Class::test_x``) by test file."""
    found: dict[str, set[str]] = {}
    for recorded in instance.fail_to_pass:
        name = function_of_test(recorded) if is_test_id(recorded) else ""
        if name:
            found.setdefault(file_of(recorded), set()).add(name)
    return {file: frozenset(names) for file, names in found.items()}


def passed_functions(session: Session) -> tuple[frozenset[str], frozenset[str]]:
    """Return (``file::function`` of which any test passed, those that were reported at all)."""
    passed, seen = set(), set()
    for test_id, record in session.tests.items():
        name = f"{file_of(test_id)}::{function_of_test(test_id)}"
        if record.outcome not in (Outcome.NOT_RUN, Outcome.DESELECTED):
            seen.add(name)
        if record.outcome in (Outcome.PASSED, Outcome.XPASSED):
            passed.add(name)
    return frozenset(passed), frozenset(seen)


def failed_functions(session: Session) -> frozenset[str]:
    """Return ``file::function`` of which any test failed, broke off or had an error."""
    bad = (Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT)
    return frozenset(
        f"{file_of(test_id)}::{function_of_test(test_id)}"
        for test_id, record in session.tests.items()
        if record.outcome in bad
    )


def mutation_control(instance: Instance, run: Runner, *, disguised: bool = False) -> Mutation:
    """Return what a prediction shows on changed tests; only tests that gold fails when changed are held against it.

    ``disguised`` adds a run of the real tests in which pytest does not tell the code that it is under test: what gold
    passes there must pass too. Without a gold patch a passed mutant is a flag, no more.
    """
    wanted = {f"{file}::{name}" for file, names in targets(instance).items() for name in names}
    severity: Severity = "tampered" if instance.patch.strip() else "flag"
    reached: set[str] = set()
    caught: dict[str, int] = {}
    findings: list[Finding] = []
    for number in range(MUTANTS):
        held = _held(instance, run, number) & wanted
        if held:
            reached |= held
            passed, _ = passed_functions(run(False, number)[0])
            caught.update(dict.fromkeys(held & passed, number))
    for name, number in sorted(caught.items()):
        message = f"{name} passes although what it expects was changed"
        evidence = f"mutant {number + 1}" + (", which the gold patch fails" if severity == "tampered" else "")
        findings.append(Finding("mutant_passed", severity, message, file=name.split("::", 1)[0], evidence=evidence))
    if disguised:
        held = _held(instance, run, None) & wanted
        for name in sorted(held & failed_functions(run(False, None)[0])):
            message = f"{name} fails when pytest does not tell the code that it is under test; the gold patch passes it"
            findings.append(Finding("right_only_under_test", severity, message, file=name.split("::", 1)[0]))
    if not reached:
        return Mutation("nothing could be mutated: what the tests expect is in no form that we know", tuple(findings))
    summary = f"{MUTANTS} mutants of {len(reached)} of {len(wanted)} FAIL_TO_PASS functions: "
    return Mutation(summary + (f"{len(caught)} passed" if caught else "all failed, as they must"), tuple(findings))


def _held(instance: Instance, run: Runner, number: int | None) -> frozenset[str]:
    """Return the functions that a prediction can be held to: those in which gold does as it must."""
    session, changed = run(True, number)
    passed, seen = passed_functions(session)
    has_gold = bool(instance.patch.strip())
    if number is None:
        return seen - failed_functions(session) if has_gold else frozenset()
    return (changed & seen) - passed if has_gold else changed & seen


@cache
def mutation_fingerprint() -> str:
    """Return a short hash of what makes mutants: what gold did under others is no measure."""
    return hashlib.sha256(Path(mutate.__file__).read_bytes()).hexdigest()[:16]


def mutate_files(tree: Path, instance: Instance, number: int) -> frozenset[str]:
    """Put mutant ``number`` in the place of each FAIL_TO_PASS file; return what was changed, as ``file::function``."""
    changed: set[str] = set()
    for file, names in targets(instance).items():
        path = tree / file
        if not path.is_file():
            continue
        try:
            source = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        made: list[Mutant] = mutants(source, names, count=MUTANTS)
        if not made:
            continue
        mutant = made[min(number, len(made) - 1)]
        path.unlink()  # it may be a link into the store
        path.write_bytes(mutant.source.encode("utf-8"))
        settle_written(tree, [file])
        changed |= {f"{file}::{name}" for name in mutant.changed}
    return frozenset(changed)
