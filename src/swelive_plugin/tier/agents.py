"""Agents: a shell command each, or one of the two that ship for tests, ``gold`` and ``noop``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.errors import UsageError

__all__ = ["BUILT_IN", "Agent", "agents_of"]

BUILT_IN = ("gold", "noop")

PLACES = ("workdir", "prompt_file", "out_dir")
"""What a command may name in braces."""

_PLACEHOLDER = re.compile(r"(?<![${])\{([A-Za-z_]\w*)\}(?!\})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class Agent:
    """One agent under test. ``command`` is for ``/bin/sh -c``; empty for the built-in ones."""

    name: str
    command: str = ""

    def shell(self, places: Mapping[str, str]) -> str:
        """Return the command with ``{workdir}``, ``{prompt_file}`` and ``{out_dir}`` filled in, shell-quoted."""
        command = self.command
        for name, value in places.items():
            command = command.replace("{" + name + "}", shlex.quote(value))
        return command


def agents_of(given: Sequence[str]) -> list[Agent]:
    """Return the agents that ``NAME='command'`` and the words ``gold`` and ``noop`` describe.

    Raises `UsageError` for a name that can't name a folder, one that is there twice, an empty command, and an unknown
    placeholder in one.
    """
    agents: dict[str, Agent] = {}
    for text in given:
        name, separator, command = text.partition("=")
        if not separator and name not in BUILT_IN:
            raise UsageError(
                f"the agent {text!r} has no command",
                hint="write NAME='command with {workdir} {prompt_file}', or one of gold and noop",
            )
        if separator and name in BUILT_IN:
            raise UsageError(f"the name {name!r} is taken by a built-in agent", hint="choose another")
        if not _NAME.fullmatch(name):
            raise UsageError(f"the agent's name {name!r} can't name a folder", hint="use letters, digits, . _ + -")
        if separator and not command.strip():
            raise UsageError(f"the agent {name!r} has an empty command")
        for found in _PLACEHOLDER.findall(command):
            if found not in PLACES:
                known = ", ".join(f"{{{place}}}" for place in PLACES)
                raise UsageError(
                    f"the agent {name!r} has an unknown placeholder {{{found}}} in its command",
                    hint=f"there are {known}; what the shell itself is to see in braces needs a space inside them",
                )
        if name in agents:
            raise UsageError(f"the agent {name!r} is given twice", hint="for more than one try there is --attempts")
        agents[name] = Agent(name, command.strip())
    return list(agents.values())


@dataclass(frozen=True)
class Surroundings:
    """What a person lets every agent have beyond its work tree: variables, folders (read-only), the network; limits."""

    env: Mapping[str, str]
    mounts: tuple[Path, ...] = ()
    network: bool = False
    timeout_s: float = 1800.0
    memory_mib: int | None = 8192
    processes: int | None = 512
    disk_mib: int = 4096
