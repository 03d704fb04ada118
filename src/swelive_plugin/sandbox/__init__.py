"""Where a command runs: the seam between the driver and the machine.

A sandbox is matched by Protocol, never inherited. Built in: ``bubblewrap`` and ``plain``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

__all__ = ["Command", "Completed", "Limits", "Mount", "Sandbox"]

MountKind = Literal["ro", "rw", "overlay", "tmpfs"]
EndedBy = Literal["exit", "signal", "wall_clock", "cpu", "output", "memory", "processes", "interrupted"]


@dataclass(frozen=True)
class Mount:
    """One place of the host as the command sees it.

    ``overlay`` shows ``source`` with a throw-away writable layer on top: nothing that the command writes reaches
    ``source``. A sandbox without overlays must be handed a private copy, see `Sandbox.overlays`.
    """

    source: Path
    target: str
    kind: MountKind = "ro"


@dataclass(frozen=True)
class Limits:
    """What one command may use; ``None`` means no limit."""

    wall_clock_s: float | None = 1800.0
    cpu_s: float | None = None
    memory_mib: int | None = None
    processes: int | None = None
    file_size_mib: int | None = None
    output_mib: int | None = 64


@dataclass(frozen=True)
class Command:
    """What to run and what it may see.

    ``argv`` and ``env`` speak in the paths that the command itself sees: build them with `Sandbox.inside`.
    ``env`` is the whole environment; nothing is inherited. ``pass_fds`` stay open in the command under the same
    numbers. Standard input is always empty.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    network: bool = False
    limits: Limits = field(default_factory=Limits)
    pass_fds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Completed:
    """How a command ended. ``exit_status`` is the process's own, negative for a signal (as in `subprocess`)."""

    exit_status: int
    ended_by: EndedBy
    duration_s: float
    peak_rss_mib: float | None = None


class Sandbox(Protocol):
    """Four members: who it is, whether it can show throw-away layers, where things are, and run."""

    @property
    def name(self) -> str:
        """``bubblewrap``, ``plain`` or a name of one's own; goes into the report."""

    @property
    def overlays(self) -> bool:
        """Whether `Mount` kind ``overlay`` is honoured; else the caller mounts a private copy as ``rw``."""

    def inside(self, mount: Mount) -> str:
        """Return the path at which the command sees ``mount``: its target, or its source where nothing is mounted."""

    def run(self, command: Command, *, output: Path, started: Callable[[int], None] | None = None) -> Completed:
        """Run ``command`` with stdout and stderr in the file ``output``; return when every process of it is gone.

        ``started`` is called with the pid on the host. Raises `SandboxError` if it could not be started at all, and
        `Interrupted` if the run was ended while it was under way.
        """
