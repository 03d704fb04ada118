"""Grading in a person's own pytest: what was asked for, the verdict on it, and the process that outlives a crash.

The graded code shares the process with the recorder. If it takes the process down (``os._exit(0)``, a segmentation
fault, a hang that somebody ends with SIGTERM), pytest's own exit status says nothing or, worse, success. So the session
runs in a forked child, and the parent, which runs none of it, has the last word.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swelive_plugin.core.decide import Evidence, decide
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import with_prefix
from swelive_plugin.core.policy import Scope, scope_named
from swelive_plugin.core.verdict import Integrity, Reason, Status, Verdict
from swelive_plugin.deselected import Deselected
from swelive_plugin.errors import SweliveError
from swelive_plugin.extensions import policy_named
from swelive_plugin.integrity.judge import loaded_plugins
from swelive_plugin.readers.events import read_lines, session_of
from swelive_plugin.reports.json_report import write_verdict
from swelive_plugin.sources.instances import load_instances

__all__ = ["CrashSupervisor", "Request", "request_from"]

_DONE = b'{"e":"done"}\n'
_LOOK_S = 0.05


@dataclass(frozen=True)
class Request:
    """What a person asked for: the instance, how to judge it, the report's place, the checkout, what was left out."""

    instance: Instance
    scope: Scope
    policy: str
    report: str
    root: Path
    any_commit: bool = False
    deselected: Deselected = field(default_factory=Deselected)

    def begin(self) -> None:
        """Write a report that says that there is no verdict yet: what a kill leaves must not be an older one.

        Raises `InfraError` where it can't be written.
        """
        if self.report:
            reason = Reason("incomplete", "the session has begun and not ended")
            verdict = Verdict(self.instance.instance_id, Status.INCOMPLETE, self.policy, self.scope, (reason,))
            write_verdict(Path(self.report), verdict)

    def verdict(self, lines: Sequence[bytes], *, timed_out: bool = False) -> Verdict:
        """Return the verdict on the session that the probe's lines tell of."""
        read = read_lines(lines)
        session = session_of(read, timed_out=timed_out)
        below = os.path.relpath(session.rootdir or self.root, self.root)
        if below != "." and not below.startswith(".."):
            session = with_prefix(session, below.replace(os.sep, "/"))
        return decide(
            Evidence(
                self.instance,
                policy_named(self.policy),
                self.scope,
                session=session,
                root=str(self.root),
                patched_files=_changed_since(self.root, self.instance),
                integrity=Integrity(
                    mode="in-process", sandbox="none", plugins=tuple(sorted(loaded_plugins(read.events) or ()))
                ),
                deselected=self.deselected.listed_not_run(self.instance, session),
                arguments=self.deselected.arguments,
                hidden_tests=_has_hidden_tests(self.root, self.instance),
                head="" if self.any_commit else _head_of(self.root),
            )
        )

    def write(self, verdict: Verdict) -> str:
        """Write the report; return what to print about it, also where it can't be written."""
        if not self.report:
            return ""
        try:
            write_verdict(Path(self.report), verdict)
        except SweliveError as error:
            return f"the report was not written: {error}"
        return f"report: {self.report}"


def request_from(option: Callable[[str], str], root: Path) -> Request:
    """Return the request that the options make. Raises `UsageError` for whatever can't be met."""
    policy = policy_named(option("policy"))
    scope = scope_named(option("scope")) or policy.default_scope
    loaded = load_instances(option("dataset"), split=option("split") or None, ids=[option("instance")])
    any_commit = option("any_commit").lower() in ("1", "true", "yes")
    return Request(loaded[0], scope, policy.name, option("report"), root, any_commit)


def _head_of(root: Path) -> str:
    """Return the commit that is checked out; empty where ``root`` is no git checkout."""
    from swelive_plugin.workspace.git import run_git

    try:
        found = run_git("rev-parse", "--verify", "--quiet", "HEAD", cwd=root, check=False)
    except SweliveError:
        return ""
    return found.stdout.decode("ascii", "replace").strip() if found.returncode == 0 else ""


def _has_hidden_tests(root: Path, instance: Instance) -> bool:
    """Return whether the test patch is in this checkout; true where that can't be found out."""
    from swelive_plugin.workspace.git import run_git

    if not instance.test_patch.strip():
        return True
    text = instance.test_patch.encode("utf-8", "surrogateescape")
    try:
        return run_git("apply", "--reverse", "--check", "-", cwd=root, input=text, check=False).returncode == 0
    except SweliveError:
        return True


def _changed_since(root: Path, instance: Instance) -> frozenset[str]:
    """Return the files that differ from base_commit in this checkout, but for the hidden tests; empty without git."""
    from swelive_plugin.workspace.git import run_git
    from swelive_plugin.workspace.patch import touched_paths

    try:
        changed = run_git(
            "diff", "--name-only", "-z", "--no-renames", instance.base_commit, "--", cwd=root, timeout_s=60
        )
        new = run_git("ls-files", "--others", "--exclude-standard", "-z", cwd=root, timeout_s=60)
        hidden = {path for change in touched_paths(instance.test_patch) for path in change.paths}
    except SweliveError:
        return frozenset()
    names = (changed.stdout + new.stdout).decode("utf-8", "surrogateescape").split("\0")
    return frozenset(name for name in names if name) - hidden


class CrashSupervisor:
    """A pipe from the child that runs the session to the parent that only watches."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._read, self._write = os.pipe()
        self._alive_read, self._alive_write = os.pipe()

    def record(self, line: bytes) -> None:
        """Keep one line of the probe's, here and in the parent."""
        self.lines.append(line)
        os.write(self._write, line)

    def watch(self, run: Callable[[], int], broken: Callable[[list[bytes], bool], int]) -> int:
        """Fork; the child exits with what ``run`` returns, the parent returns it, or ``broken(lines, stopped)``.

        ``broken`` is asked where the child ended without having come to its own end; ``stopped`` tells that somebody
        ended the parent with SIGTERM.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            self._be_child(run)
        os.close(self._write)
        os.close(self._alive_read)
        stopped = threading.Event()

        def stop(*_: object) -> None:
            stopped.set()
            os.kill(child, signal.SIGKILL)

        # Ctrl-C reaches the child too, which knows what to do with it
        before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
        try:
            text, status = self._follow(child)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        lines = text.splitlines(keepends=True)
        if lines and lines[-1] == _DONE and os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        return broken(lines, stopped.is_set())

    def _be_child(self, run: Callable[[], int]) -> None:
        os.close(self._read)
        os.close(self._alive_write)
        threading.Thread(target=self._die_with_parent, daemon=True).start()
        code = 70  # an error of our own in the child
        try:
            code = run()
            os.write(self._write, _DONE)
        finally:
            # never back into whoever called pytest: there must not be two of them
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _die_with_parent(self) -> None:
        """End this process when the parent's end of the pipe is gone: a killed session must not go on unseen."""
        os.read(self._alive_read, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    def _follow(self, child: int) -> tuple[bytes, int]:
        """Return all that came through the pipe and the child's wait status; never wait for a stray process's end."""
        os.set_blocking(self._read, False)
        got = bytearray()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            try:
                ready, _, _ = select.select([self._read], [], [], 0 if ended else _LOOK_S)
                while ready and (data := os.read(self._read, 1 << 16)):
                    got += data
                if ready and not ended:  # the pipe is at its end before its child is
                    ended, status = os.waitpid(child, 0)
            except BlockingIOError:
                pass
            if ended:
                return bytes(got), status
