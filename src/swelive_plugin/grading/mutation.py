"""Mutation control: the FAIL_TO_PASS tests again with other expected values, which an honest fix must now fail.

It catches what a single run can't: code that reads the tests' files, objects that equal everything, records that are
forged with the recorder's own key. It does not see answers that are written into the code: see
docs/explanation/threat-model.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import Scope
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.core.testid import file_of, is_test_id
from swelive_plugin.core.verdict import Finding
from swelive_plugin.environments import Environment
from swelive_plugin.grading.mutate import Mutant, function_of, mutants
from swelive_plugin.grading.session import run_session
from swelive_plugin.grading.settings import Settings, scratch
from swelive_plugin.grading.tree import make_graded_tree
from swelive_plugin.sandbox import Sandbox

__all__ = ["MUTANTS", "Mutation", "passed_functions", "run_mutation_control", "targets"]

MUTANTS = 2


@dataclass(frozen=True)
class Mutation:
    """What the mutation control found, and one sentence on how far it reached."""

    told: str
    findings: tuple[Finding, ...] = ()


def targets(instance: Instance) -> dict[str, frozenset[str]]:
    """Return the FAIL_TO_PASS functions (``Class::test_x``) by test file."""
    found: dict[str, set[str]] = {}
    for recorded in instance.fail_to_pass:
        name = function_of(recorded) if is_test_id(recorded) else ""
        if name:
            found.setdefault(file_of(recorded), set()).add(name)
    return {file: frozenset(names) for file, names in found.items()}


def passed_functions(session: Session) -> tuple[frozenset[str], frozenset[str]]:
    """Return (``file::function`` of which any test passed, those that were reported at all)."""
    passed, seen = set(), set()
    for test_id, record in session.tests.items():
        name = f"{file_of(test_id)}::{function_of(test_id)}"
        if record.outcome not in (Outcome.NOT_RUN, Outcome.DESELECTED):
            seen.add(name)
        if record.outcome in (Outcome.PASSED, Outcome.XPASSED):
            passed.add(name)
    return frozenset(passed), frozenset(seen)


def run_mutation_control(
    instance: Instance,
    patch: str,
    environment: Environment,
    *,
    mirror: Path,
    sandbox: Sandbox,
    settings: Settings,
    scope: Scope,
    folder: Path,
) -> Mutation:
    """Return what ``patch`` shows on changed tests; only tests that gold fails when changed are held against it.

    ``folder`` gets ``mutant-N/`` with events and output. Without a gold patch a passed mutant is a flag, no more.
    """
    run = _Runs(instance, environment, mirror, sandbox, settings, scope)
    wanted = {f"{file}::{name}" for file, names in targets(instance).items() for name in names}
    reached: set[str] = set()
    caught: dict[str, int] = {}
    for number in range(MUTANTS):
        changed, honest = run.valid_under_gold(number)
        if not changed:
            continue
        held = changed & honest if honest is not None else changed
        reached |= held & wanted
        session, _ = run.session(patch, number, folder / f"mutant-{number + 1}")
        passed, _ = passed_functions(session)
        caught.update(dict.fromkeys(held & wanted & passed, number))
    told = f"{MUTANTS} mutants of {len(reached)} of {len(wanted)} FAIL_TO_PASS functions"
    if not reached:
        return Mutation("nothing could be mutated: what the tests expect is in no form that we know")
    if not caught:
        return Mutation(f"{told}: all failed, as they must")
    severity = "tampered" if instance.patch.strip() else "flag"
    findings = tuple(
        Finding(
            "mutant_passed",
            "tampered" if severity == "tampered" else "flag",
            f"{name} passes although what it expects was changed; the gold patch fails it",
            file=name.split("::", 1)[0],
            evidence=f"mutant {number + 1}",
        )
        for name, number in sorted(caught.items())
    )
    return Mutation(f"{told}: {len(caught)} passed", findings)


@dataclass(frozen=True)
class _Runs:
    instance: Instance
    environment: Environment
    mirror: Path
    sandbox: Sandbox
    settings: Settings
    scope: Scope

    def session(self, patch: str, number: int, folder: Path) -> tuple[Session, frozenset[str]]:
        """Return the session of a patch over the mutated test files, and the functions that were changed."""
        with scratch(self.settings.cache) as work:
            tree, _ = make_graded_tree(
                work, self.instance, patch, environment=self.environment, mirror=self.mirror, sandbox=self.sandbox
            )
            changed = mutate_files(tree, targets(self.instance), number)
            files = [name for name in files_to_run(self.instance, self.scope) if (tree / name).exists()]
            result = run_session(
                self.environment,
                tree,
                files,
                sandbox=self.sandbox,
                settings=self.settings,
                folder=folder,
                work=work,
            )
        return result.session, changed

    def valid_under_gold(self, number: int) -> tuple[frozenset[str], frozenset[str] | None]:
        """Return the functions that mutant ``number`` changes, and which of them gold fails; kept with the controls."""
        told = repr((self.instance.base_commit, self.instance.test_patch, self.instance.patch, self.scope, number))
        name = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        path = (
            self.settings.cache / "controls" / self.environment.key / f"{self.instance.instance_id}-mutant-{name}.json"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                self._run_gold(number, path)
        kept: Mapping[str, list[str] | None] = json.loads(path.read_text("utf-8"))
        failed = kept["failed"]
        return frozenset(kept["changed"] or ()), None if failed is None else frozenset(failed)

    def _run_gold(self, number: int, path: Path) -> None:
        with scratch(self.settings.cache) as work:
            session, changed = self.session(self.instance.patch, number, work / "report")
            failed = None
            if self.instance.patch.strip():
                passed, seen = passed_functions(session)
                failed = sorted((changed & seen) - passed)
            content = json.dumps({"changed": sorted(changed), "failed": failed})
            new = work / "kept.json"
            new.write_text(content, "utf-8")
            new.replace(path)


def mutate_files(tree: Path, functions: Mapping[str, frozenset[str]], number: int) -> frozenset[str]:
    """Put mutant ``number`` in the place of each test file; return what was changed, as ``file::function``."""
    changed: set[str] = set()
    for file, names in functions.items():
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
        changed |= {f"{file}::{name}" for name in mutant.changed}
    return frozenset(changed)
