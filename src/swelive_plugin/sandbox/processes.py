"""The loop that both sandboxes share: copy the output, watch the limits, end the tree when one is passed."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from swelive_plugin.errors import Interrupted, SandboxError
from swelive_plugin.sandbox import EndedBy, Limits

__all__ = [
    "DYING_S",
    "MIB",
    "Tree",
    "Usage",
    "Watch",
    "default_environment",
    "end_of_output",
    "ended_by",
    "interrupt_all",
    "open_pidfd",
    "pipe_pair",
    "readable",
    "send_kill",
    "set_limits",
    "wait_for_pidfd",
]

MIB = 1024 * 1024
CHUNK = 256 * 1024
DRAIN_READS = 64
UNSEEN_TICK_S, FIRST_TICK_S, TICK_S = 0.003, 0.02, 0.05
"""Seconds between two looks: before there is anything to see, in the first second, and later."""
DYING_S = 10.0
"""How long a killed tree may take to be gone: freeing many gigabytes is not instant."""


@dataclass(frozen=True)
class Usage:
    """What a tree of processes uses at one moment; ``memory_mib`` counts resident pages and files kept in memory."""

    processes: int = 0
    rss_mib: float = 0.0
    memory_mib: float = 0.0
    cpu_s: float = 0.0


class Tree(Protocol):
    """The processes of one command, as the watch sees them."""

    def usage(self, limits: Limits) -> Usage | None:
        """Return what the tree uses now, or None while (or because) it can't be seen; look only at what has a limit."""

    def kill(self) -> None:
        """End every process of the tree at once. May be called twice, and after the end."""


@dataclass(eq=False)
class Watch:
    """One run under limits. ``readers`` are further descriptors to be served while it runs (bubblewrap's status)."""

    process: subprocess.Popen[bytes]
    limits: Limits
    tree: Tree
    pipe: int
    output: BinaryIO
    readers: Mapping[int, Callable[[bytes], None]] = field(default_factory=dict)
    ended_by: EndedBy | None = None
    peak_rss_mib: float | None = None
    written: int = 0
    interrupted: bool = False

    def wait(self, started_at: float) -> None:
        """Return when the command's first process has ended, by itself or by a limit."""
        poller = _Poller(self.process.pid, [self.pipe, *self.readers])
        with _RUNNING_LOCK:
            _RUNNING.append(self)
        try:
            self._wait(poller, started_at)
        finally:
            with _RUNNING_LOCK:
                _RUNNING.remove(self)
            poller.close()

    def _wait(self, poller: _Poller, started_at: float) -> None:
        deadline = None if self.limits.wall_clock_s is None else started_at + self.limits.wall_clock_s
        next_look = 0.0
        while True:
            now = time.monotonic()
            if self.interrupted:
                self.end("interrupted")
            elif deadline is not None and now >= deadline:
                self.end("wall_clock")
            elif now >= next_look:
                next_look = now + self._look(now - started_at)
            if self.ended_by is not None:
                self._wait_for_death()
                return
            until = next_look if deadline is None else min(next_look, deadline)
            ready = poller.poll(max(0.0, until - now))
            for fd in ready:
                if not self.serve(fd):
                    poller.forget(fd)
            if self.process.poll() is not None:
                return

    def raise_if_interrupted(self) -> None:
        """Raise `Interrupted` if the run was ended from outside: no caller may take that for the command's own end."""
        if self.ended_by == "interrupted":
            raise Interrupted("the run was interrupted", hint="run again: what is finished is kept")

    def serve(self, fd: int) -> bool:
        """Take what ``fd`` has to say; False when it has said all."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        except ConnectionResetError:  # a held command that was killed before it read our line
            return False
        if fd == self.pipe:
            self._copy(data)
        else:
            self.readers[fd](data)
        return bool(data)

    def end(self, why: EndedBy) -> None:
        """End the tree, for the first reason that is given."""
        if self.ended_by is None:
            self.ended_by = why
        self.tree.kill()

    def _wait_for_death(self) -> None:
        try:
            self.process.wait(DYING_S)
        except subprocess.TimeoutExpired:  # in the kernel's hands (a dead network disk): it can't be waited for
            self.process.kill()

    def _copy(self, data: bytes) -> None:
        cap = None if self.limits.output_mib is None else self.limits.output_mib * MIB
        if cap is not None and self.written + len(data) > cap:
            data = data[: max(0, cap - self.written)]
            if self.ended_by is None:
                self.end("output")
        try:
            self.output.write(data)
        except OSError as error:
            raise SandboxError(
                f"The output file {self.output.name} can't be written: {error.strerror}", hint="free some disk space"
            ) from error
        self.written += len(data)

    def _look(self, age_s: float) -> float:
        """Check the tree against the limits; return after how many seconds to look again."""
        limits, looked_at = self.limits, time.monotonic()
        usage = self.tree.usage(limits)
        if usage is not None:
            if usage.rss_mib:
                self.peak_rss_mib = max(usage.rss_mib, self.peak_rss_mib or 0.0)
            if limits.processes is not None and usage.processes > limits.processes:
                self.end("processes")
            elif limits.memory_mib is not None and usage.memory_mib > limits.memory_mib:
                self.end("memory")
            elif limits.cpu_s is not None and usage.cpu_s > limits.cpu_s:
                self.end("cpu")
        tick = FIRST_TICK_S if age_s < 1.0 else TICK_S
        if usage is None and age_s < 1.0:
            tick = UNSEEN_TICK_S
        return max(tick, 20 * (time.monotonic() - looked_at))  # to look costs at most a twentieth of one core

    def drain(self) -> None:
        """Take what is left in the pipes now that the tree is dead; never wait for an end that others hold."""
        for fd in (self.pipe, *self.readers):
            # bounded: without namespaces a process may have got away, and go on writing for ever
            for _ in range(DRAIN_READS):
                if not readable([fd], 0) or not self.serve(fd):
                    break


_RUNNING: list[Watch] = []
_RUNNING_LOCK = threading.Lock()


def interrupt_all() -> int:
    """Tell every command that runs in any thread of this process to end, and return how many there are.

    Ctrl-C reaches the main thread alone; the grades in the others wait for commands that must not outlive it. Each is
    ended by its own thread, at that thread's next look (some hundredths of a second).
    """
    with _RUNNING_LOCK:
        for watch in _RUNNING:
            watch.interrupted = True
        return len(_RUNNING)


class _Poller:
    """Waits for descriptors and, where the system has it, for the end of a process."""

    def __init__(self, pid: int, fds: Iterable[int]) -> None:
        self._fds = set(fds)
        self._pidfd = open_pidfd(pid)

    def poll(self, timeout_s: float) -> list[int]:
        """Return the descriptors that have something to read; an empty list on time-out or the end of the process."""
        wanted = self._fds if self._pidfd is None else self._fds | {self._pidfd}
        # without a pidfd the end of a process that closed its output shows only when we look
        ready = readable(wanted, timeout_s if self._pidfd is not None else min(timeout_s, 0.01))
        return [fd for fd in ready if fd != self._pidfd]

    def forget(self, fd: int) -> None:
        self._fds.discard(fd)

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)


def readable(fds: Iterable[int], timeout_s: float) -> list[int]:
    """Return those of ``fds`` that have something to read (or an end) within ``timeout_s``."""
    poll = select.poll()  # not select(): a driver of many grades has descriptors beyond 1024
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(timeout_s * 1000)]


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable once ``pid`` has ended, or None where the system has no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def wait_for_pidfd(pidfd: int, timeout_s: float = DYING_S) -> bool:
    """Return whether the process behind ``pidfd`` is gone within ``timeout_s``."""
    return bool(readable([pidfd], timeout_s))


def pipe_pair(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Return the reading and the writing end of a new pipe, each closed with its own stack."""
    out, into = os.pipe()
    reader.callback(os.close, out)
    writer.callback(os.close, into)
    return out, into


def set_limits(pid: int, limits: Limits, *, own_users: bool = False) -> None:
    """Hold ``pid`` and what it starts to what the kernel counts per process; sums over the tree are the watch's.

    ``own_users``: the tree's user namespace counts its processes apart, so their number can be held down, too.
    macOS can't limit another process: there the file size stays free.
    """
    wanted = [(resource.RLIMIT_CORE, 0)]
    if limits.file_size_mib is not None:
        wanted.append((resource.RLIMIT_FSIZE, limits.file_size_mib * MIB))
    if limits.cpu_s is not None:
        wanted.append((resource.RLIMIT_CPU, max(1, math.ceil(limits.cpu_s))))
    if limits.processes is not None and own_users and os.geteuid() != 0:
        # it counts threads and does not bind root: no more than a net below the watch
        wanted.append((resource.RLIMIT_NPROC, 4 * limits.processes + 256))
    if sys.platform == "linux":
        for which, most in wanted:
            hard = resource.prlimit(pid, which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, which, (most, most))


def ended_by(exit_status: int) -> EndedBy:
    """Return how a command ended that no limit of ours ended."""
    if exit_status == -signal.SIGXCPU:
        return "cpu"
    return "signal" if exit_status < 0 else "exit"


def default_environment(home: str, tmp: str) -> dict[str, str]:
    """Return what a command gets where its own ``env`` says nothing: UTC, C.UTF-8, a private HOME and TMPDIR."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "TMPDIR": tmp,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "USER": "tester",
        "LOGNAME": "tester",
    }


def end_of_output(path: Path, size: int = 2000) -> str:
    """Return the last characters of a command's output, for an error's evidence."""
    try:
        return path.read_bytes()[-size:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def send_kill(pid: int, pidfd: int | None) -> None:
    """Kill one process; through ``pidfd`` where there is one, so that a reused number is never hit."""
    try:
        if pidfd is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
