"""Every error that this package raises on purpose.

::

    SweliveError
    ├── UsageError            the person asked for something that can't be done as asked   exit 2
    │   ├── DatasetError      a dataset that is missing, broken at line N, lacks a key
    │   └── PredictionsError  the same for predictions
    ├── InstanceError         the task row can't be graded by anyone     status invalid_instance
    │   └── NoTestFiles       its test patch leaves no file to run
    ├── PatchError            the prediction's patch does not apply      status patch_failed
    │   └── PatchRejected     it is refused before any try               status patch_rejected
    ├── EnvironmentBuildError the environment can't be built             status env_error
    │   └── NoInterpreter     no interpreter here fits the instance
    └── InfraError            our side failed: retry, never a verdict    status error
        ├── MissingProgram    git, uv, bubblewrap are not there
        ├── MirrorError       the repository or the commit can't be had
        ├── SandboxError      the sandbox did not start
        └── Interrupted       Ctrl-C ended a command that was under way  status incomplete

Each message says what happened, to which instance, path or line; ``hint`` says what to do next;
``evidence`` holds the last lines of the log that shows it. The original exception stays as ``__cause__``.
"""

from __future__ import annotations

__all__ = [
    "DatasetError",
    "EnvironmentBuildError",
    "InfraError",
    "InstanceError",
    "Interrupted",
    "MirrorError",
    "MissingProgram",
    "NoInterpreter",
    "NoTestFiles",
    "PatchError",
    "PatchRejected",
    "PredictionsError",
    "SandboxError",
    "SweliveError",
    "UsageError",
]


class SweliveError(Exception):
    """The root of the tree: what happened, what to do next (``hint``), and what shows it (``evidence``)."""

    def __init__(self, message: str, *, hint: str = "", evidence: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.evidence = evidence

    def __str__(self) -> str:
        """One line: the message, then the hint."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(SweliveError):
    """The person asked for something that can't be done as asked; faces exit with 2."""


class DatasetError(UsageError):
    """A dataset is missing, is not what its name says, or a row lacks a needed key."""


class PredictionsError(UsageError):
    """A predictions file is missing, is not what its name says, or an entry has no patch."""


class InstanceError(SweliveError):
    """The task row can't be graded by anyone: no FAIL_TO_PASS, or a test patch that does not apply."""


class NoTestFiles(InstanceError):
    """The test patch leaves no file that pytest could run."""


class PatchError(SweliveError):
    """The prediction's patch does not apply at base_commit; the message names the hunk."""


class PatchRejected(PatchError):
    """The prediction's patch is refused before any try: a path, mode or content that a fix never needs."""


class EnvironmentBuildError(SweliveError):
    """The environment of the instance can't be built; ``evidence`` holds the last lines of the log."""


class NoInterpreter(EnvironmentBuildError):
    """No interpreter on this machine fits the instance; the message lists those that are here."""


class InfraError(SweliveError):
    """Our side failed (disk, network, a missing program): retry; it never becomes a verdict."""


class MissingProgram(InfraError):
    """A program that the driver needs is not installed; the hint says how to get it."""


class MirrorError(InfraError):
    """The repository can't be cloned or fetched from where ``--repo-url`` points."""


class SandboxError(InfraError):
    """The sandbox that was asked for is not there or did not start."""


class Interrupted(InfraError):
    """A command under way was ended because the run was: what it was for is not done, and done again next time."""
