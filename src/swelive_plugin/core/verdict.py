"""The verdict: the judgement of one prediction, with its reasons, test by test."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

__all__ = [
    "EXIT_NOT_RESOLVED",
    "EXIT_NO_VERDICT",
    "EXIT_RESOLVED",
    "EXIT_USAGE",
    "Finding",
    "Integrity",
    "PatchReport",
    "Reason",
    "RebuildReport",
    "Status",
    "TestVerdict",
    "Verdict",
    "exit_code",
    "reward_of",
]

EXIT_RESOLVED, EXIT_NOT_RESOLVED, EXIT_USAGE, EXIT_NO_VERDICT = 0, 1, 2, 3


class Status(str, Enum):
    """The closed list of statuses, in the order in which the first that holds is taken."""

    EMPTY_PATCH = "empty_patch"
    INVALID_INSTANCE = "invalid_instance"
    ENV_ERROR = "env_error"
    PATCH_REJECTED = "patch_rejected"
    PATCH_FAILED = "patch_failed"
    TAMPERED = "tampered"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    UNRESOLVED = "unresolved"
    RESOLVED = "resolved"
    ERROR = "error"  # ours
    INCOMPLETE = "incomplete"  # not graded yet

    def __str__(self) -> str:
        """Return the bare word, as the report has it."""
        return self.value


NO_VERDICT = frozenset({Status.INVALID_INSTANCE, Status.ENV_ERROR, Status.ERROR, Status.INCOMPLETE})

Judgement = Literal["pass", "fail", "left_out"]
Severity = Literal["tampered", "flag", "warning", "suspicious"]


def reward_of(status: Status) -> float | None:
    """Return 1.0 for resolved, 0.0 for what the prediction caused, ``None`` where there is no verdict on it."""
    if status in NO_VERDICT:
        return None
    return 1.0 if status is Status.RESOLVED else 0.0


def exit_code(status: Status) -> int:
    """Return the exit code of every face that judges one thing: 0 resolved, 1 not resolved, 3 no verdict."""
    if status in NO_VERDICT:
        return EXIT_NO_VERDICT
    return EXIT_RESOLVED if status is Status.RESOLVED else EXIT_NOT_RESOLVED


@dataclass(frozen=True)
class Reason:
    """Why a verdict is what it is: a code for machines, a sentence for people, and where to look."""

    code: str
    message: str
    test: str = ""
    file: str = ""
    line: int = 0
    evidence: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that an integrity check saw. Only ``tampered`` changes the verdict; a ``flag`` asks for review.

    A ``suspicious`` one asks nobody: it makes the mutation control run, as a flag does.
    """

    code: str
    severity: Severity
    message: str
    file: str = ""
    line: int = 0
    evidence: str = ""


@dataclass(frozen=True)
class Integrity:
    """What was checked and what was found. ``mode``: ``driver``, or ``in-process`` (trusted code, nothing shielded).

    ``plugins`` are the distributions whose pytest plugins loaded by themselves; where ``checked`` has ``plugins``, only
    those that the controls had could.
    """

    mode: str = "driver"
    sandbox: str = ""
    network: bool = False
    checked: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    mutation: str = "not run"
    plugins: tuple[str, ...] = ()

    @property
    def review(self) -> bool:
        """Whether a flag asks a person to look, whatever the verdict."""
        return any(finding.severity == "flag" for finding in self.findings)


@dataclass(frozen=True)
class TestVerdict:
    """One recorded id and how it was judged.

    ``outcomes`` are those of ``matched``, in the same order; ``rule`` names the policy's rule that decided.
    """

    __test__ = False  # pytest must not take it for a test class

    id: str
    judgement: Judgement
    rule: str
    outcomes: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    how: str = "exact"
    message: str = ""


@dataclass(frozen=True)
class RebuildReport:
    """How the project's extension modules were built again, because the patch touches what they are made of.

    ``because`` lists the touched paths. ``replaced`` are the compiled modules that went into the graded tree,
    ``refused`` those that did not, with the reason. ``failed`` holds the compiler's words where it did not build.
    """

    because: tuple[str, ...] = ()
    command: str = ""
    duration_s: float = 0.0
    replaced: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    failed: str = ""


@dataclass(frozen=True)
class PatchReport:
    """How the prediction was applied: the strictness that worked, repairs, and what was put back afterwards.

    ``rebuild`` is there where the project has extension modules and the patch touches what they are made of.
    """

    strictness: str = ""
    repairs: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    rebuild: RebuildReport | None = None


@dataclass(frozen=True)
class Verdict:
    """The judgement of one prediction: a status, a reward and the reasons, test by test."""

    instance_id: str
    status: Status
    policy: str = "swelive"
    scope: str = "f2p-files"
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    fail_to_pass: tuple[TestVerdict, ...] = ()
    pass_to_pass: tuple[TestVerdict, ...] = ()
    controls: str = "none"
    integrity: Integrity = field(default_factory=Integrity)
    patch: PatchReport = field(default_factory=PatchReport)
    model: str = ""
    attempt: int = 1
    patch_sha256: str = ""
    instance_sha256: str = ""
    options_key: str = ""
    environment: str = ""
    python_version: str = ""
    pytest_version: str = ""
    duration_s: float = 0.0
    tool_version: str = ""

    @property
    def resolved(self) -> bool:
        """Whether the prediction fixes the bug and breaks nothing."""
        return self.status is Status.RESOLVED

    @property
    def reward(self) -> float | None:
        """1.0, 0.0 or ``None``, see `reward_of`."""
        return reward_of(self.status)

    @property
    def review(self) -> bool:
        """Whether a flag asks a person to look."""
        return self.integrity.review
