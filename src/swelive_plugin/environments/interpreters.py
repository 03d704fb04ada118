"""The interpreters of this machine: uv's own, those on PATH, and pyenv's version folders."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.errors import NoInterpreter
from swelive_plugin.recipes.era import Minor

__all__ = ["Interpreter", "find_interpreters", "no_interpreter"]

_ASK = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]), "prefix": sys.base_prefix,
    "implementation": platform.python_implementation(),
    "executable": sys.executable, "final": sys.version_info[3] == "final",
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One CPython that answered: where it is, what it says it is, and whether extensions can be built with it."""

    path: Path
    version: tuple[int, int, int]
    prefix: Path
    headers: bool = True

    @property
    def minor(self) -> Minor:
        """The release line, as ``(3, 11)``."""
        return self.version[:2]

    @property
    def text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version))


def find_interpreters(environ: Mapping[str, str] | None = None) -> tuple[Interpreter, ...]:
    """Return this machine's CPythons, at most one per patch release, the newest first.

    A shim that does not answer is skipped: pyenv puts one on PATH for every version, whether it is active or not.
    Among several of one release the one with headers wins, then the one found first.
    """
    env = dict(os.environ if environ is None else environ)
    return _find(
        env.get("PATH", ""), env.get("PYENV_ROOT", ""), env.get("UV_PYTHON_INSTALL_DIR", ""), env.get("HOME", "")
    )


@functools.lru_cache(maxsize=8)
def _find(path: str, pyenv: str, uv_pythons: str, home: str) -> tuple[Interpreter, ...]:
    best: dict[tuple[int, int, int], Interpreter] = {}
    seen: set[Path] = set()
    for candidate in _candidates(path, pyenv, uv_pythons, home):
        try:
            real = candidate.resolve(strict=True)
        except OSError:
            continue
        if real in seen:
            continue
        seen.add(real)
        found = _ask(candidate)
        if found is None:
            continue
        known = best.get(found.version)
        if known is None or (found.headers and not known.headers):
            best[found.version] = found
    return tuple(sorted(best.values(), key=lambda interpreter: interpreter.version, reverse=True))


def _candidates(path: str, pyenv: str, uv_pythons: str, home: str) -> Iterator[Path]:
    roots = [Path(uv_pythons)] if uv_pythons else [Path(home) / ".local/share/uv/python"] if home else []
    for root in roots:
        yield from sorted(root.glob("cpython-*/bin/python3.*"))
    for base in (Path(pyenv),) if pyenv else (Path(home) / ".pyenv",) if home else ():
        yield from sorted(base.glob("versions/*/bin/python"))
    for folder in filter(None, path.split(os.pathsep)):
        yield from (
            p
            for p in sorted(Path(folder).glob("python3*"))
            if p.name.removeprefix("python3").strip(".0123456789") == ""
        )


def _ask(path: Path) -> Interpreter | None:
    try:
        done = subprocess.run(
            [str(path), "-I", "-c", _ASK], capture_output=True, timeout=20, stdin=subprocess.DEVNULL, check=False
        )
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if not isinstance(said, dict) or said.get("implementation") != "CPython" or not said.get("final"):
        return None
    major, minor, micro = said["version"]
    # A virtual environment answers too: what it was made from is the interpreter.
    prefix = Path(said["prefix"])
    own = prefix / "bin" / f"python{major}.{minor}"
    return Interpreter(own if own.exists() else path, (major, minor, micro), prefix, bool(said["headers"]))


def no_interpreter(wanted: str, there: tuple[Interpreter, ...], *, instance_id: str) -> NoInterpreter:
    """Return the error that says which interpreter is wanted, which are here, and how to get it."""
    have = ", ".join(interpreter.text for interpreter in reversed(there)) or "none"
    return NoInterpreter(
        f"{instance_id}: no interpreter here fits Python {wanted}; here are: {have}",
        hint=f"uv python install {wanted.split(',')[0].strip('<>=~! ')}, or point PYENV_ROOT at pyenv's folder",
    )
