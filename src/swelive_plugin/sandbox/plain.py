"""No sandbox: the same limits and a private HOME, but nothing of the host is hidden. Reports say so.

Works wherever Python does. A process that leaves its session is found again by the parent it had when it was seen,
or by a mark in its environment; one that removes both outlives the grade. Killing the driver (SIGKILL) ends the
command's first process only, and only where the system has ``setpriv``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from swelive_plugin.errors import SandboxError
from swelive_plugin.sandbox import Command, Completed, Limits, Mount
from swelive_plugin.sandbox.gate import Gate, held_back
from swelive_plugin.sandbox.processes import (
    DYING_S,
    MIB,
    Usage,
    Watch,
    default_environment,
    ended_by,
    pipe_pair,
    set_limits,
)

__all__ = ["Plain"]

MARK = "SWELIVE_RUN"


class Plain:
    """Runs commands on the host itself."""

    name = "plain"
    overlays = False

    def inside(self, mount: Mount) -> str:
        """Return the mount's source: nothing is mounted, the command sees the host's own path."""
        return str(mount.source)

    def run(self, command: Command, *, output: Path, started: Callable[[int], None] | None = None) -> Completed:
        """Run ``command`` in a session of its own; its HOME and TMPDIR are made for it and removed after it.

        ``network=False`` can't be kept here, nor can a mount be kept read-only.

        Raises:
            SandboxError: the program or the folder to run it in is not there, or the output can't be written.
        """
        with contextlib.ExitStack() as ours:
            try:
                sink = ours.enter_context(output.open("wb", buffering=0))
                private = tempfile.TemporaryDirectory(prefix="swelive-", ignore_cleanup_errors=True)
                scratch = Path(ours.enter_context(private))
            except OSError as error:
                raise SandboxError(f"{error.filename or output} can't be written: {error.strerror}") from error
            mark = secrets.token_hex(8)
            for name in ("home", "tmp"):
                (scratch / name).mkdir()
            env = default_environment(str(scratch / "home"), str(scratch / "tmp")) | dict(command.env) | {MARK: mark}
            with contextlib.ExitStack() as theirs:
                pipe, pipe_in = pipe_pair(ours, theirs)
                gate, held = Gate.pair(ours, theirs)
                began = time.monotonic()
                try:
                    process = subprocess.Popen(
                        [*_bound_to_the_driver(), *held_back(command.argv, env)],
                        cwd=command.cwd,
                        env=env,
                        stdin=held,
                        stdout=pipe_in,
                        stderr=subprocess.STDOUT,
                        pass_fds=command.pass_fds,
                        start_new_session=True,
                        umask=0o022,
                    )
                except (OSError, ValueError) as error:  # ValueError: a NUL character
                    raise SandboxError(f"{command.argv[0]} can't be started in {command.cwd}: {error}") from error
            set_limits(process.pid, command.limits)
            tree = _Descendants(process, mark)
            watch = Watch(process, command.limits, tree, pipe, sink, {gate.ours.fileno(): gate.take})
            try:
                if started is not None:
                    started(process.pid)
                watch.wait(began)
                tree.kill()
                watch.drain()
            except BaseException:
                tree.kill()
                process.wait()
                raise
        status = process.returncode
        watch.raise_if_interrupted()
        if gate.missing:
            raise SandboxError(f"{command.argv[0]} can't be started in {command.cwd}: there is no such program")
        return Completed(status, watch.ended_by or ended_by(status), time.monotonic() - began, watch.peak_rss_mib)


@functools.cache
def _bound_to_the_driver() -> tuple[str, ...]:
    """Return the words before a command that end it with its driver; none where the system has no such program."""
    program = shutil.which("setpriv")
    words = () if program is None else (program, "--pdeathsig", "KILL", "--")
    if words and subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        return ()  # older than 2.33
    return words


class _Descendants:
    """The processes that came from one, also those that left its session or lost their parent."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self._mark = mark
        self._seen: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):  # it is over already
            self._seen[process.pid] = psutil.Process(process.pid)

    def _alive(self) -> list[psutil.Process]:
        """Return the living among those seen so far and what came from them since."""
        found: dict[int, psutil.Process] = {}
        for one in list(self._seen.values()):
            if one.pid in found or not _lives(one):
                continue
            found[one.pid] = one
            with contextlib.suppress(psutil.Error):
                found.update((child.pid, child) for child in one.children(recursive=True) if _lives(child))
        self._seen |= found
        return list(found.values())

    def usage(self, limits: Limits) -> Usage | None:
        """Return what the tree uses; files in the private TMPDIR lie on disk and are not counted."""
        alive = self._alive()
        rss = cpu = 0.0
        for one in alive:
            with contextlib.suppress(psutil.Error):
                rss += one.memory_info().rss / MIB
                if limits.cpu_s is not None:
                    times = one.cpu_times()
                    cpu += times.user + times.system + times.children_user + times.children_system
        memory = rss
        if limits.memory_mib is not None and rss > limits.memory_mib:
            memory = sum(_unique_mib(one) for one in alive)
        return Usage(len(alive), rss, memory, cpu)

    def kill(self) -> None:
        """Kill the process group, the descendants, and whoever carries the run's mark; return when they are gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: macOS, only zombies left
            os.killpg(self._process.pid, signal.SIGKILL)
        until = time.monotonic() + DYING_S
        while alive := self._alive() or self._marked():
            for one in alive:
                with contextlib.suppress(psutil.Error):
                    one.kill()
            self._process.poll()
            if time.monotonic() > until:
                break
            time.sleep(0.005)

    def _marked(self) -> list[psutil.Process]:
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if one.environ().get(MARK) == self._mark and _lives(one):
                    found.append(one)
        return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _unique_mib(process: psutil.Process) -> float:
    """Return what would be freed if ``process`` ended: forked processes share pages, which must not count twice."""
    try:
        full = process.memory_full_info()
        return float(getattr(full, "pss", full.uss)) / MIB
    except psutil.Error:
        return 0.0
