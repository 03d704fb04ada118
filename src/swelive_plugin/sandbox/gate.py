"""What holds a command back until its driver watches over it, and stops it if that driver is gone.

The command's first program is a shell that says that it is there and waits for one line. An end instead of that line
means that the driver is dead: the shell stops, and nothing of the command ever ran. (Bubblewrap's own ``--block-fd``
takes an end for a yes.)
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["ENV", "SHELL", "Gate", "held_back"]

SHELL, ENV = "/bin/sh", "/usr/bin/env"

_WAIT = """program=$1; shift
if command -v "$program" >/dev/null; then echo ready >&0 && read -r go && exec "$@" </dev/null
else echo "$program: not found"; echo missing >&0; fi
exit 127"""


def held_back(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments of a shell that becomes ``argv`` under exactly ``env`` once its standard input says so.

    The environment is given again at the end: shells add variables of their own, and drop those with odd names.
    """
    command = (SHELL, "-c", 'exec "$0" "$@"', *argv) if "=" in argv[0] else argv  # else env takes it for a variable
    variables = (f"{name}={value}" for name, value in env.items())
    return (SHELL, "-c", _WAIT, SHELL, argv[0], ENV, "-i", "--", *variables, *command)


@dataclass(eq=False)
class Gate:
    """The driver's end of the socket that is the held command's standard input. ``watched`` returns when nothing of
    the command can outlive the driver any more.
    """

    ours: socket.socket
    watched: Callable[[], None] = lambda: None
    missing: bool = False
    _said: bytes = field(default=b"", repr=False)

    @classmethod
    def pair(cls, ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[Gate, int]:
        """Return a gate and the descriptor for the command's standard input, each closed with its own stack."""
        here, there = socket.socketpair()
        ours.enter_context(here)
        theirs.enter_context(there)
        return cls(here), there.fileno()

    def take(self, data: bytes) -> None:
        """Read what the held command says, and let it go."""
        self._said += data
        if data and self._said == b"missing\n":
            self.missing = True
        elif data and self._said == b"ready\n":
            self.watched()
            self.release()

    def release(self) -> None:
        """Let the command run."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            os.write(self.ours.fileno(), b"go\n")
