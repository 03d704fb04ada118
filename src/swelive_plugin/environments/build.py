"""Building one recipe with uv, inside the sandbox, from trusted code only: the base commit.

Two steps. *Lock*: what the recipe asks for, resolved as of the cut-off, with hashes; the same lock brings the same
bytes
next year. *Build*: a venv from that lock, then the project itself without dependencies.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from packaging.utils import canonicalize_name

from swelive_plugin.environments import TESTBED, VENV
from swelive_plugin.environments.interpreters import Interpreter
from swelive_plugin.environments.lock import era_options, locked_versions, split_lock, without_packages
from swelive_plugin.environments.released import take_released_files
from swelive_plugin.environments.uv import Uv, mounts_and_variables
from swelive_plugin.errors import EnvironmentBuildError, InfraError, SweliveError
from swelive_plugin.recipes.declared import read_declared
from swelive_plugin.recipes.listing import FolderFiles
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.sandbox import Command, Completed, Limits, Mount, Sandbox

__all__ = ["BuildRoom", "BuildStopped", "build_constraints", "build_venv", "environment_key", "layout_of", "local_urls"]

_WORK = "/opt/swelive/build"
_LIMITS = Limits(wall_clock_s=1800.0, output_mib=256)
_NO_EDITABLE = re.compile(
    r"build_editable|editable (?:mode|installs?)[^\n]*not supported|does not support editable", re.IGNORECASE
)
# A checkout of one of these is tested with the released ones as everybody's build tools: to build each sdist with the
# checkout's would be another thing than what the project tests.
_BUILDS_OTHERS = frozenset(
    {"cffi", "cmake", "cython", "editables", "flit-core", "hatch-vcs", "hatchling", "maturin", "meson", "meson-python",
     "ninja", "numpy", "packaging", "pathspec", "pdm-backend", "pip", "pluggy", "poetry-core", "pybind11",
     "scikit-build", "scikit-build-core", "setuptools", "setuptools-rust", "setuptools-scm", "tomli",
     "trove-classifiers", "wheel"}
)  # fmt: skip


class BuildStopped(EnvironmentBuildError):
    """A step of the build was stopped at a limit: another recipe of the same project would hang there too."""


@dataclass
class BuildRoom:
    """Where one build happens: the tree, the venv and a work folder on the host, and how the sandbox sees them."""

    sandbox: Sandbox
    interpreter: Interpreter
    uv: Uv
    tree: Path
    venv: Path
    work: Path
    log: Path
    offline: bool = False
    progress: Callable[[str], None] = field(default=lambda _: None)

    def __post_init__(self) -> None:
        """Make the folders and learn how a command sees them."""
        for folder in (self.tree, self.venv, self.work, self.work / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        self._mounts = [Mount(self.tree, TESTBED, "rw"), Mount(self.venv, VENV, "rw"), Mount(self.work, _WORK, "rw")]
        self.testbed, self.prefix, self.workdir = (self.sandbox.inside(mount) for mount in self._mounts)
        self._mounts += interpreter_mounts(self.interpreter)
        uv_mounts, self._env = mounts_and_variables(self.uv, self.sandbox, offline=self.offline)
        self._mounts += uv_mounts
        self.uv_program = self._env.pop("SWELIVE_UV")
        self._env["TMPDIR"] = f"{self.workdir}/tmp"  # noqa: S108  below our own folder

    @property
    def python(self) -> str:
        """The venv's interpreter as a command sees it."""
        return f"{self.prefix}/bin/python"

    def run(
        self, argv: Sequence[str], *, cwd: str = "", env: dict[str, str] | None = None, what: str = ""
    ) -> tuple[Completed, str]:
        """Run one command of the build; return how it ended and what it printed, which also goes into the log."""
        if what:
            self.progress(what)
        output = self.work / "output.txt"
        command = Command(
            argv=tuple(argv), cwd=cwd or self.workdir, env={**self._env, **(env or {})}, mounts=tuple(self._mounts),
            network=not self.offline, limits=_LIMITS,
        )  # fmt: skip
        began = time.monotonic()
        done = self.sandbox.run(command, output=output)
        text = output.read_text(encoding="utf-8", errors="replace")
        with self.log.open("a", encoding="utf-8") as log:
            took = f"{time.monotonic() - began:.1f} s"
            log.write(f"$ {' '.join(argv)}\n{text}\n[exit {done.exit_status}, {done.ended_by}, {took}]\n")
        return done, text

    def must(self, argv: Sequence[str], what: str, *, cwd: str = "", env: dict[str, str] | None = None) -> str:
        """Run one command that has to succeed. Raises `EnvironmentBuildError` with the end of what it printed."""
        done, text = self.run(argv, cwd=cwd, env=env, what=what)
        if done.exit_status != 0 or done.ended_by != "exit":
            raise build_error(what, done, text)
        return text

    def mount(self, source: Path, target: str) -> str:
        """Show one more folder to the commands, writable; return its path as they see it."""
        source.mkdir(parents=True, exist_ok=True)
        mount = Mount(source, target, "rw")
        self._mounts.append(mount)
        return self.sandbox.inside(mount)

    def write(self, name: str, text: str) -> str:
        """Put a file into the work folder; return its path as a command sees it."""
        (self.work / name).write_text(text, encoding="utf-8")
        return f"{self.workdir}/{name}"


def layout_of(sandbox: Sandbox) -> str:
    """Return ``fixed`` where the sandbox mounts things at one place, ``host`` where a command sees the host's paths."""
    return "fixed" if sandbox.inside(Mount(Path("/nonexistent"), TESTBED)) == TESTBED else "host"


def interpreter_mounts(interpreter: Interpreter) -> list[Mount]:
    """Return the mounts that an interpreter outside the system's folders needs: its prefix, at its own path."""
    prefix = interpreter.prefix
    if prefix.is_relative_to("/usr"):
        return []
    real = prefix.resolve()
    return [Mount(real, str(path), "ro") for path in dict.fromkeys((prefix, real))]


def environment_key(
    recipe: Recipe, lock_text: str, interpreter: Interpreter, tree_hash: str, layout: str, root: Path
) -> str:
    """Return the content hash of all that a built environment depends on."""
    parts = {
        "format": 1,
        "interpreter": [interpreter.text, str(interpreter.prefix)],
        "platform": [sys.platform, platform.machine(), platform.libc_ver()[0]],
        "lock": lock_text,
        "tree": tree_hash,
        "project": [recipe.project, recipe.install, recipe.subdir, list(recipe.build_requires), recipe.build_backend],
        "beside": list(recipe.beside),
        "folders": list(recipe.folders),
        "env": dict(recipe.env),
        "needs_git": recipe.needs_git,
        "layout": layout if layout == "fixed" else f"{layout}:{root}",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]


def build_error(what: str, done: Completed, text: str) -> EnvironmentBuildError | InfraError:
    """Return the error that says which step failed, how, and what it printed last; a full disk is our side's."""
    tail = "\n".join(text.rstrip().splitlines()[-40:])
    how = {
        "exit": f"exit status {done.exit_status}",
        "wall_clock": f"stopped after {done.duration_s:.0f} s: it hangs, or waits for input that never comes",
        "output": "stopped: it printed too much",
    }.get(done.ended_by, f"ended by {done.ended_by}")
    kind: type[EnvironmentBuildError | InfraError] = BuildStopped
    if done.ended_by in ("exit", "signal"):
        kind = InfraError if "No space left on device" in tail else EnvironmentBuildError
    return kind(f"{what} failed ({how}): {first_cause(text)}", hint=build_hint(text), evidence=tail)


def first_cause(text: str) -> str:
    """Return the line of a log that tells most."""
    patterns = (
        r"^.*No solution found[^\n]*\n(?:[^\n]*╰─▶|\s*cause:)?\s*([^\n]+)",
        r"cause: (Invalid `pyproject\.toml`\n\s*cause: TOML parse error[^\n]*)",
        r"fatal error: ([^\n]+: No such file or directory)",
        r"(No space left on device)",
        r"(Program '[^'\n]+' not found)",
        r"(Hash mismatch for `[^`\n]+`)",
        r"^\s*([\w.]*(?:Error|Exception): [^\n]+)",
        r"^\s*(error: [^\n]+)",
    )
    for pattern in patterns:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            line = found.group(1) if found.groups() else found.group(0)
            return re.sub(r"\n\s*cause:", ":", line).strip()[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


_BUILD_HINTS = (
    ("TOML parse error", "the pyproject.toml of the base commit is broken: nobody can install the project"),
    (r"EOFError: EOF when reading a line", "its build asks for input, and nobody is there to answer"),
    (r"Distribution not found at: file:", "it names a path of its developers' own machine"),
    (r"was not found in the package registry", "is it on an index of your own? Then name that with UV_INDEX"),
)


def build_hint(text: str) -> str:
    """Return what a person can do about a failed build, where the log tells."""
    header = re.search(r"fatal error: (\S+): No such file or directory", text)
    if header:
        return f"a header is missing: apt-file search {header.group(1)}"
    program = re.search(r"Program '([\w.+-]+)[^'\n]*' not found", text)
    if program:
        return f"a program is missing: apt-get install {program.group(1)}, or what your system calls it"
    missing = re.search(
        r"(?:command not found|not found on PATH|Could not find|unable to find)[: ]+['\"]?([\w.+-]+)", text
    )
    if re.search(r"No space left on device", text):
        return "the disk is full: `swelive env gc --max-size 10G` makes room"
    if re.search(r"(?:hash mismatch|Hash mismatch|no versions? of \S+|was yanked|there is no version of)", text):
        return "a package of the lock can't be had any more: `swelive env build --redo` resolves again"
    if re.search(r"offline|network (?:was )?disabled", text, re.IGNORECASE) and re.search(r"cache", text):
        return "not in uv's cache: run once without --offline"
    for pattern, told in _BUILD_HINTS:
        if re.search(pattern, text):
            return told
    return f"{missing.group(1)} may be missing on this machine" if missing else ""


def build_venv(room: BuildRoom, recipe: Recipe, lock: str) -> None:
    """Fill the room's venv from ``lock`` and install the project into it. Raises `EnvironmentBuildError`."""
    packages, build, release, checkout = split_lock(lock)
    # the lock says where the tree is seen in the sandbox, whatever sandbox it was made with
    build = build.replace(f"file://{TESTBED}", f"file://{room.testbed}")
    for name in recipe.folders:
        _make_folder(room.tree, name)
    room.must(
        [room.uv_program, "venv", room.prefix, "--python", str(room.interpreter.path), "--allow-existing", "--quiet"],
        "making the virtual environment",
    )
    install = [
        room.uv_program,
        "pip",
        "install",
        "--python",
        room.python,
        "--no-deps",
        "--no-sources",
        *era_options(recipe),
    ]
    room.must(
        [*install, *build_constraints(room, recipe), "--require-hashes", "-r", room.write("environment.txt", packages)],
        "installing the locked packages",
    )
    others = [*(place.partition("[")[0] for place in recipe.beside), *checkout]
    if recipe.install == "path":
        _put_on_path(room, recipe)
        _install_others(room, recipe, others, install, build)
        return
    if release.strip():
        _take_release(room, recipe, install, release)
    if recipe.build_backend.startswith("mesonpy") and recipe.install != "develop":
        # its editable installs build again whenever they are imported: what builds has to be there then, too
        have = locked_versions(lock)
        wanted = without_packages(build, have)
        if wanted.strip():
            room.must([*install, "-r", room.write("build-beside.txt", wanted)], "installing what builds")
        install.append("--no-build-isolation")
    _install(room, recipe, install, build)
    _install_others(room, recipe, others, install, build)


def _install_others(room: BuildRoom, recipe: Recipe, places: Sequence[str], install: Sequence[str], build: str) -> None:
    """Install further projects and archives of the checkout, the projects editable, each with its own back end."""
    for place in dict.fromkeys(places):
        if not (room.tree / place).is_dir():
            room.must([*install, f"{room.testbed}/{place}"], f"installing {place} of the checkout")
            continue
        declared = read_declared(FolderFiles(room.tree), place)
        project = replace(
            recipe, subdir=place, project=declared.name, install="editable",
            build_requires=tuple(declared.build_requires), build_backend=declared.build_backend,
        )  # fmt: skip
        _install(room, project, install, build)


def _install(room: BuildRoom, recipe: Recipe, install: Sequence[str], build: str) -> None:
    """Install the package in the recipe's folder of the tree, editable and without dependencies."""
    project = f"{room.testbed}/{recipe.subdir}".rstrip("/")
    if recipe.install == "develop" or _before_editables(recipe, build):
        _develop(room, recipe, build, project, first=None)
        return
    what = f"installing {recipe.subdir or 'the project'}"
    done, text = room.run([*install, *build_constraints(room, recipe, build), "-e", project], what=what)
    if done.exit_status == 0:
        return
    has_setup = (room.tree / recipe.subdir / "setup.py").exists()
    if "setuptools" in recipe.build_backend or (has_setup and _NO_EDITABLE.search(text)):
        _develop(room, recipe, build, project, first=build_error(what, done, text))
    else:
        raise build_error(what, done, text)


def local_urls(room: BuildRoom, recipe: Recipe) -> dict[str, str]:
    """Return where a command finds the names that the checkout provides: as ``file:`` addresses, the project's too."""
    places = dict(recipe.siblings)
    if recipe.project and recipe.install != "path":
        places[canonicalize_name(recipe.project)] = recipe.subdir
    return {name: f"file://{quote(f'{room.testbed}/{place}'.rstrip('/'))}" for name, place in places.items()}


def build_constraints(room: BuildRoom, recipe: Recipe, build: str = "") -> list[str]:
    """Return uv's options for what builds: locked versions, and the checkout's own projects under their names."""
    lines = [f"{name} @ {url}" for name, url in local_urls(room, recipe).items() if name not in _BUILDS_OTHERS]
    own = {line.partition(" ")[0] for line in lines}
    locked = without_packages(build, own)
    text = "\n".join([locked.strip(), *lines]).strip()
    return ["--build-constraints", room.write("build-constraints.txt", f"{text}\n")] if text else []


def _make_folder(tree: Path, name: str) -> None:
    """Make an empty folder in the tree; where a file or a link is in the way, leave things as they are."""
    target = tree / name
    if target.resolve().is_relative_to(tree.resolve()) and not target.exists():
        with contextlib.suppress(OSError):
            target.mkdir(parents=True)


def _before_editables(recipe: Recipe, build: str) -> bool:
    """Whether that day's setuptools is older than the hook for editable installs, which came with 64."""
    version = locked_versions(build).get("setuptools", "")
    return "setuptools" in recipe.build_backend and version.split(".")[0].isdigit() and int(version.split(".")[0]) < 64


def _take_release(room: BuildRoom, recipe: Recipe, install: list[str], release: str) -> None:
    """Put the generated files of the project's last release into the tree; an editable install finds them there."""
    room.must(
        [*install, "--target", f"{room.workdir}/release", "--require-hashes", "-r", room.write("release.txt", release)],
        "taking generated files from the project's last release",
    )
    taken = take_released_files(room.work / "release", room.tree / recipe.subdir, work=room.work)
    with room.log.open("a", encoding="utf-8") as log:
        log.write(f"taken from the last release: {', '.join(taken) or 'nothing'}\n")


def _develop(room: BuildRoom, recipe: Recipe, build: str, project: str, *, first: SweliveError | None) -> None:
    """Install as pip did before setuptools 64: ``setup.py develop``, with that day's build requirements beside it."""
    # without a setup.py pip made one up
    has_setup = (room.tree / recipe.subdir / "setup.py").exists()
    script = ["setup.py"] if has_setup else ["-c", "import setuptools; setuptools.setup()"]
    target = f"{room.workdir}/build-env"
    install_build_requirements(room, recipe, build, target)
    done, text = room.run(
        [room.python, *script, "develop", "--no-deps"],
        cwd=project,
        env={"PYTHONPATH": target},
        what="installing the project (setup.py develop)",
    )
    if done.exit_status != 0:
        raise build_error("installing the project (setup.py develop)", done, text) from first


def install_build_requirements(room: BuildRoom, recipe: Recipe, build: str, target: str) -> None:
    """Install the build requirements into a folder of their own. Raises `EnvironmentBuildError`."""
    wanted = room.write("build-env.txt", build if build.strip() else "\n".join(recipe.build_requires) + "\n")
    room.must(
        [
            room.uv_program,
            "pip",
            "install",
            "--python",
            room.python,
            "--target",
            target,
            *era_options(recipe),
            *build_constraints(room, recipe),
            "-r",
            wanted,
        ],
        "installing the build requirements",
    )


def _put_on_path(room: BuildRoom, recipe: Recipe) -> None:
    """Make the tree importable where there is nothing to install: as if one worked in its root, and in ``src``."""
    root = room.tree / recipe.subdir
    folders = [f"{room.testbed}/{recipe.subdir}".rstrip("/")]
    if (root / "src").is_dir() and not (root / "src" / "__init__.py").exists():
        folders.append(f"{folders[0]}/src")
    for site in site_folders(room.venv):
        (site / "swelive_testbed.pth").write_text("\n".join(folders) + "\n", encoding="utf-8")


def site_folders(venv: Path) -> list[Path]:
    """Return a venv's package folders on the host."""
    return sorted(path for path in venv.glob("lib/python3*/site-packages") if path.is_dir())


def compile_bytecode(room: BuildRoom) -> None:
    """Compile what was installed, once: a read-only venv can't keep what a session compiles."""
    folders = [f"{room.prefix}/{path.relative_to(room.venv)}" for path in site_folders(room.venv)]
    room.run(
        [room.python, "-I", "-S", "-m", "compileall", "-q", "-j", str(min(4, os.cpu_count() or 1)), *folders],
        what="compiling bytecode",
    )
