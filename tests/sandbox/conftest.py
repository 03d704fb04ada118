"""The sandboxes that this machine can run, and the shortest way to run Python in one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from swelive_plugin.errors import SweliveError
from swelive_plugin.sandbox import Command, Completed, Limits, Mount, Sandbox
from swelive_plugin.sandbox.find import find_sandbox

PYTHON = Path(sys.base_prefix)
"""The interpreter under the tests' own venv: mounted where it lies, for it may name its shared library by full path."""


@dataclass
class Ran:
    """What a program did: how it ended and all that it printed."""

    completed: Completed
    text: str


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def bubblewrap() -> Sandbox:
    try:
        return find_sandbox("bwrap")
    except SweliveError as error:
        pytest.skip(f"bubblewrap can't run here: {error.evidence or error}")


@pytest.fixture(params=["bubblewrap", "plain"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each sandbox in turn: for what both must keep."""
    found: Sandbox = request.getfixturevalue("bubblewrap") if request.param == "bubblewrap" else find_sandbox("none")
    return found


def runner(sandbox: Sandbox, folder: Path) -> Run:
    """Return a function that runs Python source in ``sandbox``, with the interpreter and what it is told mounted."""

    def run(
        source: str,
        *args: str,
        mounts: tuple[Mount, ...] = (),
        limits: Limits | None = None,
        env: dict[str, str] | None = None,
        network: bool = False,
        pass_fds: tuple[int, ...] = (),
        started: Callable[[int], None] | None = None,
    ) -> Ran:
        python = Mount(PYTHON, str(PYTHON))
        command = Command(
            (f"{sandbox.inside(python)}/bin/python3", "-I", "-c", source, *args),
            "/tmp",
            env or {},
            (python, *mounts),
            network,
            limits or Limits(wall_clock_s=60),
            pass_fds,
        )
        output = folder / "output"
        return Ran(sandbox.run(command, output=output, started=started), output.read_text("utf-8", "replace"))

    return run


@pytest.fixture
def run(sandbox: Sandbox, tmp_path: Path) -> Run:
    """Run Python source in each sandbox in turn."""
    return runner(sandbox, tmp_path)


@pytest.fixture
def run_hidden(bubblewrap: Sandbox, tmp_path: Path) -> Run:
    """Run Python source in the sandbox that hides the host."""
    return runner(bubblewrap, tmp_path)
