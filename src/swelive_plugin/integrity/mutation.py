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
from functools import cache
from pathlib import Path

from filelock import FileLock

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import Scope
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.core.testid import file_of, is_test_id
from swelive_plugin.core.verdict import Finding, Severity
from swelive_plugin.environments import Environment
from swelive_plugin.grading.launch import probe_fingerprint
from swelive_plugin.grading.rebuild import Rebuilt, put_built, rebuild_told, session_environment
from swelive_plugin.grading.session import run_session
from swelive_plugin.grading.settings import Settings, scratch
from swelive_plugin.grading.tree import make_graded_tree, settle_written
from swelive_plugin.integrity import mutate
from swelive_plugin.integrity.mutate import Mutant, function_of, mutants
from swelive_plugin.sandbox import Sandbox

__all__ = ["MUTANTS", "Mutation", "failed_functions", "passed_functions", "run_mutation_control", "targets"]

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


def failed_functions(session: Session) -> frozenset[str]:
    """Return ``file::function`` of which any test failed, broke off or had an error."""
    bad = (Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT)
    return frozenset(
        f"{file_of(test_id)}::{function_of(test_id)}"
        for test_id, record in session.tests.items()
        if record.outcome in bad
    )


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
    plugins: tuple[str, ...] | None = None,
    disguised: bool = False,
    rebuilt: Rebuilt | None = None,
    rebuilt_gold: Rebuilt | None = None,
) -> Mutation:
    """Return what ``patch`` shows on changed tests; only tests that gold fails when changed are held against it.

    ``disguised`` adds a run of the real tests in which pytest does not tell the code that it is under test: what gold
    passes there must pass too. ``plugins`` is as in `run_session`. ``rebuilt`` and ``rebuilt_gold`` are the extension
    modules that the patches made. ``folder`` gets ``mutant-N/`` and ``disguised/`` with events and output. Without a
    gold patch a passed mutant is a flag, no more.
    """
    run = _Runs(instance, environment, mirror, sandbox, settings, scope, plugins, rebuilt_gold)
    wanted = {f"{file}::{name}" for file, names in targets(instance).items() for name in names}
    severity: Severity = "tampered" if instance.patch.strip() else "flag"
    reached: set[str] = set()
    caught: dict[str, int] = {}
    findings: list[Finding] = []
    for number in range(MUTANTS):
        held = run.held(number) & wanted
        if held:
            reached |= held
            session, _ = run.session(patch, rebuilt, number, folder / f"mutant-{number + 1}")
            passed, _ = passed_functions(session)
            caught.update(dict.fromkeys(held & passed, number))
    for name, number in sorted(caught.items()):
        told = f"{name} passes although what it expects was changed"
        evidence = f"mutant {number + 1}" + (", which the gold patch fails" if severity == "tampered" else "")
        findings.append(Finding("mutant_passed", severity, told, file=name.split("::", 1)[0], evidence=evidence))
    if disguised:
        held = run.held(None) & wanted
        session, _ = run.session(patch, rebuilt, None, folder / "disguised")
        for name in sorted(held & failed_functions(session)):
            told = f"{name} fails when pytest does not tell the code that it is under test; the gold patch passes it"
            findings.append(Finding("right_only_under_test", severity, told, file=name.split("::", 1)[0]))
    if not reached:
        return Mutation("nothing could be mutated: what the tests expect is in no form that we know", tuple(findings))
    told = f"{MUTANTS} mutants of {len(reached)} of {len(wanted)} FAIL_TO_PASS functions: "
    return Mutation(told + (f"{len(caught)} passed" if caught else "all failed, as they must"), tuple(findings))


@dataclass(frozen=True)
class _Runs:
    instance: Instance
    environment: Environment
    mirror: Path
    sandbox: Sandbox
    settings: Settings
    scope: Scope
    plugins: tuple[str, ...] | None
    rebuilt_gold: Rebuilt | None = None

    def session(
        self, patch: str, rebuilt: Rebuilt | None, variant: int | None, folder: Path
    ) -> tuple[Session, frozenset[str]]:
        """Return the session of a patch over mutant ``variant`` of the test files, and the functions that it changes.

        ``None`` is the real files in a disguised session.
        """
        with scratch(self.settings.cache) as work:
            tree, application = make_graded_tree(
                work, self.instance, patch, environment=self.environment, mirror=self.mirror, sandbox=self.sandbox
            )
            put_built(rebuilt, tree, self.environment, application)
            functions = targets(self.instance)
            changed = frozenset[str]() if variant is None else mutate_files(tree, functions, variant)
            files = [name for name in files_to_run(self.instance, self.scope) if (tree / name).exists()]
            result = run_session(
                session_environment(self.environment, rebuilt),
                tree,
                files,
                sandbox=self.sandbox,
                settings=self.settings,
                folder=folder,
                work=work,
                plugins=self.plugins,
                disguise=variant is None,
            )
        return result.session, changed

    def held(self, variant: int | None) -> frozenset[str]:
        """Return the functions that a prediction can be held to: those in which gold does as it must, kept."""
        instance = self.instance
        told = repr(
            (
                _fingerprint(),
                instance.base_commit,
                instance.test_patch,
                instance.patch,
                self.scope,
                variant,
                *rebuild_told(self.environment),
            )
        )
        name = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        path = self.settings.cache / "controls" / self.environment.key / f"{instance.instance_id}-mutant-{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                with scratch(self.settings.cache) as work:
                    new = work / "held.json"
                    new.write_text(json.dumps(sorted(self._under_gold(variant, work / "report"))), "utf-8")
                    new.replace(path)
        return frozenset(json.loads(path.read_text("utf-8")))

    def _under_gold(self, variant: int | None, folder: Path) -> frozenset[str]:
        session, changed = self.session(self.instance.patch, self.rebuilt_gold, variant, folder)
        passed, seen = passed_functions(session)
        if variant is None:
            return seen - failed_functions(session) if self.instance.patch.strip() else frozenset()
        return (changed & seen) - passed if self.instance.patch.strip() else changed & seen


@cache
def _fingerprint() -> str:
    """Return a short hash of what makes mutants and records sessions: what gold did under others is no measure."""
    return hashlib.sha256(Path(mutate.__file__).read_bytes() + probe_fingerprint().encode()).hexdigest()[:16]


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
        settle_written(tree, [file])
        changed |= {f"{file}::{name}" for name in mutant.changed}
    return frozenset(changed)
