"""git, called so that nothing on the machine or in a repository can change what it does.

No system or user configuration, no hooks, no file-system monitor, no filters (there is no configuration that could
name one), no prompts, no background upkeep, messages in plain English.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from swelive_plugin.errors import InfraError, Interrupted, MissingProgram

__all__ = ["interrupt_git", "run_git"]

# Settings that a repository's own configuration must not override; the command line wins over every file.
_FORCED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.eol=lf",
    "core.untrackedCache=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
# Stands in for the user's own file. It only says that a mirror may belong to somebody else: the setting counts nowhere
# else, and git's own helper processes read it too.
_CONFIG = Path(__file__).with_name("gitconfig")
_DROPPED_PREFIXES = ("GIT_", "LC_", "LANG")
_KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND")


def run_git(
    *args: str,
    cwd: Path | None = None,
    git_dir: Path | None = None,
    input: bytes | None = None,  # noqa: A002 - as subprocess.run names it
    timeout_s: float = 600,
    cpu_s: int = 0,
    check: bool = True,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Return what git answered: exit status, stdout and stderr as bytes.

    ``git_dir`` names the repository; without one, git looks for it from ``cwd``. ``env`` adds variables (a private
    index, say). ``cpu_s`` limits the processor time, and then the memory too, for input that is not trusted: beyond it
    git is killed, which the exit status shows. Everything that git started is gone when this returns or raises. Raises
    `MissingProgram` without git, `InfraError` for a timeout and, with ``check``, for any exit status but 0.
    """
    program = shutil.which("git")
    if program is None:
        raise MissingProgram("git is not installed", hint="install git 2.30 or newer and put it on PATH")
    argv = [program, "--no-pager"]
    for setting in _FORCED:
        argv += ["-c", setting]
    if git_dir is not None:
        argv.append(f"--git-dir={git_dir}")
    argv += args
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=_environment(env or {}),
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that its helpers (git-remote-https, index-pack) can be ended with it
    )
    with process, _running(process):
        try:
            if cpu_s:
                _limit(process.pid, cpu_s)
            stdout, stderr = process.communicate(input, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise InfraError(f"git {_command(args)} did not end within {timeout_s:g} s", hint="try again") from None
        except BaseException:
            _end(process)
            raise
    if process.pid in _INTERRUPTED:
        _INTERRUPTED.discard(process.pid)
        raise Interrupted("the run was interrupted", hint="run again: what is finished is kept")
    done = subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)
    if check and done.returncode:
        raise failure(f"git {_command(args)} failed", done)
    return done


_MEMORY = 4 * 2**30


def _limit(pid: int, cpu_s: int) -> None:
    """Limit a process that was just started; where the system can't (macOS), the timeout has to do."""
    if sys.platform == "linux":
        with suppress(OSError):  # it has ended already
            resource.prlimit(pid, resource.RLIMIT_CPU, (cpu_s, cpu_s))
            resource.prlimit(pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _command(args: Sequence[str]) -> str:
    """Return the subcommand's name, which may come after options of git itself."""
    after_setting = {index + 1 for index, word in enumerate(args) if word in ("-c", "-C")}
    return next((w for index, w in enumerate(args) if not w.startswith("-") and index not in after_setting), args[0])


_RUNNING: dict[int, subprocess.Popen[bytes]] = {}
_RUNNING_LOCK = threading.Lock()
_INTERRUPTED: set[int] = set()


@contextmanager
def _running(process: subprocess.Popen[bytes]) -> Iterator[None]:
    with _RUNNING_LOCK:
        _RUNNING[process.pid] = process
    try:
        yield
    finally:
        with _RUNNING_LOCK:
            del _RUNNING[process.pid]


def interrupt_git() -> None:
    """End every git that runs in any thread of this process: after Ctrl-C nobody waits for a clone any more."""
    with _RUNNING_LOCK:
        for process in _RUNNING.values():
            if process.poll() is None:
                _INTERRUPTED.add(process.pid)
                _end(process)


def failure(what: str, done: subprocess.CompletedProcess[bytes]) -> InfraError:
    """Return the error for a failed git command: ``what``, git's first complaint, its last lines as evidence."""
    text = done.stderr.decode("utf-8", "replace")
    complaint = next((line for line in text.splitlines() if line.startswith(("fatal:", "error:"))), "")
    hint = "free some disk space" if "No space left on device" in text else ""
    return InfraError(
        f"{what}: {complaint or f'exit status {done.returncode}'}",
        hint=hint,
        evidence="\n".join(text.splitlines()[-20:]),
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(_DROPPED_PREFIXES)}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(_CONFIG),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_PROTOCOL_FROM_USER": "1",
        **extra,
    }
