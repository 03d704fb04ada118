"""Rebuilding: extension modules made anew where a patch touches what they are made of.

It is a command of its own in the sandbox, before the session, in a private copy of the tree that holds the patch and no
hidden test. What a build script does there (write tests, plant start-up files, leave processes behind) ends with that
copy: only compiled modules come back from it, and only at places where base or gold have some.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from swelive_plugin.core.extension_modules import Compiled, is_artefact, may_come_back, only_sources, why_rebuild
from swelive_plugin.core.paths import folder_of_tests
from swelive_plugin.core.verdict import RebuildReport
from swelive_plugin.environments import TESTBED, Environment
from swelive_plugin.environments.build import first_cause
from swelive_plugin.environments.extension_builds import (
    BUILD_LIB,
    WHEEL_FOLDER,
    build_requirements,
    find_artefacts,
    rebuild_argv,
    seeds,
)
from swelive_plugin.files import json_bytes, write_atomically
from swelive_plugin.grading.settings import scratch
from swelive_plugin.grading.tree import history_of, top_level_names
from swelive_plugin.sandbox import Command, Completed, Limits, Mount
from swelive_plugin.sandbox.processes import end_of_output
from swelive_plugin.workspace.checkout import copy_file, link_tree, remove_tree
from swelive_plugin.workspace.graded import Application, prepare_graded_tree
from swelive_plugin.workspace.patch import touched_paths
from swelive_plugin.workspace.unified import parse_diff, render

if TYPE_CHECKING:
    from swelive_plugin.grading.testbed import Testbed, Variant

__all__ = [
    "Rebuilt",
    "modules_can_be_built",
    "plan_may_come_back",
    "put_built",
    "rebuild",
    "rebuild_key",
    "rebuilt_from",
    "words_of",
]

SITE = "site-packages"  # so modules are told that go into the environment's package folder
_FORM = "rebuild 1"  # another number here runs the controls of such projects anew
_FILE_MIB = 2048
_MODULE_BYTES = 512 * 2**20
_FIXED_NS = 946_684_800 * 10**9
_INSTALL_PLAN = "meson-info/intro-install_plan.json"
_ERRORS = (
    r"^(\S+:\d+(?::\d+)?: (?:fatal )?error: .+)$",  # gcc, clang
    r"^(\S+\.(?:pyx|pxd|pxi|py):\d+:\d+: .+)$",  # Cython, mypyc
    r"^(error(?:\[E\d+\])?: .+\n\s+--> .+)$",  # rustc
    r"^(\S*meson\.build:\d+:\d+: ERROR: .+)$",
    r"^(CMake Error.+)$",
)
_CRATES = re.compile(r"offline mode \(--offline\)|no matching package named|crates\.io")


@dataclass(frozen=True)
class Rebuilt:
    """What one rebuild gave. ``report`` tells of it; ``built`` holds the modules by their paths in the tree.

    ``failed`` (in the report) is empty where it built. ``ended_by`` names the limit that ended it, if one did.
    """

    report: RebuildReport
    built: Path
    ended_by: str = "exit"
    evidence: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """Whether the modules were built."""
        return not self.report.failed

    def as_dict(self) -> dict[str, Any]:
        """Return it as a control's ``done.json`` keeps it."""
        report = self.report
        return {
            "because": list(report.because), "command": report.command, "duration_s": report.duration_s,
            "replaced": list(report.replaced), "refused": list(report.refused), "failed": report.failed,
            "ended_by": self.ended_by, "evidence": self.evidence,
        }  # fmt: skip


def rebuild_key(environment: Environment) -> tuple[object, ...]:
    """Return what a kept control depends on where there are extension modules: nothing elsewhere."""
    return () if environment.compiled is None else (_FORM, environment.compiled.how)


def rebuilt_from(data: Any, built: Path) -> Rebuilt | None:
    """Return the rebuild that a kept run tells of, with its modules in ``built``; ``None``: there was none."""
    if not isinstance(data, dict):
        return None
    report = RebuildReport(
        tuple(data["because"]), data["command"], data["duration_s"], tuple(data["replaced"]), tuple(data["refused"]),
        data["failed"],
    )  # fmt: skip
    return Rebuilt(report, built, data["ended_by"], data["evidence"])


def rebuild(
    testbed: Testbed,
    variant: Variant,
    *,
    touched: Iterable[str],
    output: Path,
    built: Path,
    work: Path,
    always: bool = False,
) -> Rebuilt | None:
    """Return the modules that a variant's patch makes; ``None`` where nothing touches what they are made of.

    ``touched`` are the patch's paths that are in effect. The file ``output`` gets what the build prints, the folder
    ``built`` the modules; ``work`` is thrown away. From a trusted variant's build every new module is taken; from any
    other those that `may_come_back`, with gold's own in test folders. ``always`` builds everything, whatever was
    touched. Raises `SandboxError`, `InfraError`; a build that fails is in the result.
    """
    environment, sandbox = testbed.environment, testbed.sandbox
    compiled = environment.compiled
    hidden = _parts_of(testbed.instance.test_patch, compiled)
    because = tuple(dict.fromkeys((*why_rebuild(touched, compiled), *hidden.paths)))
    if compiled is None or not (because or always):
        return None
    output.parent.mkdir(parents=True, exist_ok=True)
    if compiled.how == "none":
        return Rebuilt(RebuildReport(because, failed=compiled.note), built)
    testbed.progress(f"building extension modules again: {', '.join(because[:3]) or 'all'}")
    tree = work / "rebuild"
    _make_tree(testbed, tree, variant.patch, hidden.patch)
    if compiled.how == "setuptools":
        for name, artefact in seeds(compiled.artefacts, compiled.folder, environment.tree).items():
            _copy(environment.tree / artefact, tree / compiled.folder / BUILD_LIB / name)
    if always or not only_sources(because):
        _make_old(tree)
    command = _command(testbed, compiled, tree)
    done = sandbox.run(command, output=output)
    line = " ".join((PurePosixPath(command.argv[0]).name, *command.argv[1:]))
    if compiled.how == "hook":
        line = f"{environment.recipe.build_backend} build_editable"
    report = RebuildReport(because, line, round(done.duration_s, 3))
    if done.exit_status != 0 or done.ended_by != "exit":
        text = output.read_text("utf-8", "replace")
        failed = words_of(text, done, root=sandbox.inside(command.mounts[-1]))
        return Rebuilt(replace(report, failed=failed), built, done.ended_by, end_of_output(output))
    taken, refused = _collect(testbed, variant, tree, built)
    remove_tree(tree)
    return Rebuilt(replace(report, replaced=taken, refused=refused), built)


@dataclass(frozen=True)
class _Parts:
    paths: tuple[str, ...] = ()
    patch: str = ""


def _parts_of(patch: str, compiled: Compiled | None) -> _Parts:
    """Return what of the test patch a build needs: sources of compiled test helpers, and nothing else of it."""
    if compiled is None or not patch.strip():
        return _Parts()
    diff = parse_diff(patch.encode("utf-8", "surrogateescape"))
    diff.resolve()
    wanted = [section for section in diff.sections if why_rebuild((section.old, section.new), compiled)]
    paths = tuple(section.new for section in wanted)
    return _Parts(paths, render(wanted).decode("utf-8", "surrogateescape") if wanted else "")


def _make_tree(testbed: Testbed, tree: Path, patch: str, hidden: str) -> None:
    """Fill ``tree`` with copies (a build may write into each of its files) of base, and apply the patch."""
    environment = testbed.environment
    link_tree(environment.tree, tree, private=True)
    prepare_graded_tree(
        tree, base=environment.tree, prediction=patch, test_patch=hidden, top_level=top_level_names(environment)
    )
    if environment.recipe.scm_version:  # as in the first build
        history = history_of(environment, testbed.mirror, testbed.instance.base_commit)
        link_tree(history, tree / ".git", private=True)


def _make_old(tree: Path) -> None:
    """Make every source newer than what was made from it: tools that go by time build all of it again."""
    now = time.time()
    for root, _, names in os.walk(tree):
        there = set(names)
        for name in names:
            stem, dot, kind = name.rpartition(".")
            path = Path(root, name)
            if not dot or not only_sources((name,)) or path.is_symlink():
                continue
            c_of_it = {f"{stem}.c", f"{stem}.cpp"} & there
            if kind != "py" or c_of_it:
                from_cython = name in c_of_it and {f"{stem}.pyx", f"{stem}.py"} & there
                os.utime(path, (now, now - 1 if from_cython else now))


def _command(testbed: Testbed, compiled: Compiled, tree: Path) -> Command:
    environment, sandbox, settings = testbed.environment, testbed.sandbox, testbed.settings
    mount = Mount(tree, TESTBED, "rw")
    root = sandbox.inside(mount)
    mounts, env = build_requirements(environment, sandbox)
    return Command(
        argv=rebuild_argv(environment, compiled, tree),
        cwd=f"{root}/{compiled.folder}".rstrip("/"),
        env=env,
        mounts=(*environment.mounts, *mounts, mount),
        network=False,
        limits=Limits(
            wall_clock_s=settings.timeout_s,
            memory_mib=settings.memory_mib,
            processes=settings.processes,
            file_size_mib=_FILE_MIB,
        ),
    )


def words_of(text: str, done: Completed, *, root: str = TESTBED) -> str:
    """Return the line of a failed build's output that tells a person most."""
    if done.ended_by not in ("exit", "signal"):
        return f"stopped at its limit of {done.ended_by.replace('_', ' ')} after {done.duration_s:.0f} s"
    if _CRATES.search(text):
        return "cargo needs crates that are not here, and a rebuild has no network"
    for pattern in _ERRORS:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return re.sub(r"\s*\n\s*", " ", found[1]).replace(f"{root}/", "")[:300]
    return first_cause(text)


# --- what comes back --------------------------------------------------------------------------------------------------


@dataclass
class Harvest:
    """What comes back from one build: from the tree ``source`` into ``built``."""

    source: Path
    built: Path
    environment: Environment
    known: frozenset[str]
    tests: frozenset[str]
    trusted: bool
    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def modules(self) -> None:
        """Take the modules that were made anew."""
        found = find_artefacts(self.source) if self.trusted else ()
        for place in sorted({path.rpartition("/")[0] for path in (*self.known, *found)}):
            for path, status in modules_in(self.source, place):
                if not self.is_old(path, status):
                    self.take(path, self.why_not(path, status))

    def is_old(self, path: str, status: os.stat_result) -> bool:
        old = self.environment.tree / path
        if not old.is_file():
            return False
        return (old.stat().st_size, old.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)

    def why_not(self, path: str, status: os.stat_result) -> str:
        if status.st_size > _MODULE_BYTES:
            return "it is too large"
        if self.trusted:
            return ""
        return may_come_back(
            path,
            known=self.known,
            tree=_names_beside(self.environment.tree, path.rpartition("/")[0]),
            test_folders=self.tests,
            names_taken=top_level_names(self.environment) | sys.stdlib_module_names,
        )

    def take(self, path: str, why_not: str = "") -> None:
        if why_not:
            self.refused.append(f"{path}: {why_not}")
        else:
            self.taken.append(path)
            _copy(self.source / path, self.built / path)

    def helpers_of(self, gold: Rebuilt) -> None:
        """Take gold's own modules in test folders: what tests are helped by is not the prediction's to make."""
        for path in gold.report.replaced:
            if any(path.startswith(f"{folder}/") for folder in self.tests):
                self.taken.append(path)
                _copy(gold.built / path, self.built / path)

    def wheel(self, folder: Path, names: Collection[str]) -> None:
        """Take from a wheel the modules that base has in the environment's package folder, to ``SITE``."""
        for wheel in folder.glob("*.whl") if _is_plain_folder(folder.parent, folder.name) else ():
            if not is_plain_file(folder, wheel.name):
                continue
            try:
                with zipfile.ZipFile(wheel) as archive:
                    for info in archive.infolist():
                        if info.filename in names and info.file_size <= _MODULE_BYTES:
                            target = self.built / SITE / info.filename
                            target.parent.mkdir(parents=True, exist_ok=True)
                            with archive.open(info) as member, target.open("wb") as file:
                                shutil.copyfileobj(member, file)  # never more than the size that was looked at
                            target.chmod(0o755)
                            self.taken.append(f"{SITE}/{info.filename}")
            except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
                self.refused.append(f"{wheel.name}: {error}")

    def install_plan(self, folder: str) -> None:
        """Take the file in which meson's editable installs look each module up."""
        plan = f"{folder}/{_INSTALL_PLAN}"
        if is_plain_file(self.source, plan):
            old, new = (self.environment.tree / plan).read_bytes(), (self.source / plan).read_bytes()
            fits = self.trusted or plan_may_come_back(old, new)
            self.take(plan, "" if fits else "it takes modules from places that base does not")


def _collect(testbed: Testbed, variant: Variant, tree: Path, built: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy the modules that were made anew into ``built``; return their paths, and those refused with the reason."""
    compiled, gold = testbed.environment.compiled, variant.gold_built
    assert compiled is not None, "only what has extension modules is built again"
    known = frozenset((*compiled.artefacts, *(gold.report.replaced if gold else ())))
    hidden = (path for change in touched_paths(testbed.instance.test_patch) for path in (change.old, change.new))
    tests = frozenset(folder for path in hidden if (folder := folder_of_tests(path)))
    harvest = Harvest(tree, built, testbed.environment, known, tests, variant.trusted)
    harvest.modules()
    if gold is not None:
        harvest.helpers_of(gold)
    if compiled.how == "meson":
        harvest.install_plan(compiled.folder)
    if compiled.site:
        harvest.wheel(tree / compiled.folder / WHEEL_FOLDER, frozenset(compiled.site))
    return tuple(dict.fromkeys(harvest.taken)), tuple(harvest.refused)


def modules_can_be_built(testbed: Testbed, gold: Rebuilt | None) -> bool:
    """Return whether trusted code does build here: then a prediction that does not is itself to blame.

    Gold's build shows it where there was one; else base is built once more without any patch, and the answer is kept.
    """
    compiled = testbed.environment.compiled
    if compiled is None or compiled.how == "none":
        return False
    if gold is not None:
        return gold.ok
    if testbed.settings.controls == "off":
        return True
    base = replace(testbed, instance=replace(testbed.instance, test_patch=""))
    variant = _trusted_base()
    path = base.folder(variant).with_suffix(".rebuild.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            testbed.progress("building the extension modules of base again")
            with scratch(testbed.settings.cache) as work:
                found = rebuild(
                    base, variant, touched=(), output=work / "build_output.txt", built=work / "built", work=work,
                    always=True,
                )  # fmt: skip
            write_atomically(path, json_bytes({"failed": found.report.failed if found else ""}))
    return not json.loads(path.read_text("utf-8"))["failed"]


def _trusted_base() -> Variant:
    from swelive_plugin.grading.testbed import Variant  # it imports this module

    return Variant(trusted=True)


def plan_may_come_back(old: bytes, new: bytes) -> bool:
    """Return whether meson's new install plan takes each module from where it must be, going by the old one.

    A build script could map a test module of the package to a file of its own.
    """
    before, after = _destinations(old), _destinations(new)
    if before is None or after is None:
        return False
    roots = {source[: -len(name)] for source, name in before if source.endswith(f"/{name}")}
    return all(
        item in before or (item[0].endswith(f"/{item[1]}") and item[0][: -len(item[1])] in roots) for item in after
    )


def _destinations(text: bytes) -> set[tuple[str, str]] | None:
    """Return (source, place below site-packages) of each Python module in an install plan; ``None``: it is none."""
    found = set()
    try:
        plan = json.loads(text)
        for files in plan.values():
            for source, said in files.items():
                where, _, name = said["destination"].partition("/")
                if where in ("{py_purelib}", "{py_platlib}"):
                    found.add((source, name))
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None
    return found


def modules_in(tree: Path, place: str) -> list[tuple[str, os.stat_result]]:
    """Return the compiled modules that lie in one folder; nothing is followed, for a build may have left links."""
    if not _is_plain_folder(tree, place):
        return []
    found = []
    with os.scandir(tree / place if place else tree) as entries:
        for entry in entries:
            if is_artefact(entry.name) and entry.is_file(follow_symlinks=False):
                path = f"{place}/{entry.name}" if place else entry.name
                found.append((path, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda item: item[0])


def _is_plain_folder(tree: Path, place: str) -> bool:
    parts = place.split("/") if place else []
    above = [tree.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
    try:
        return all(stat.S_ISDIR(folder.lstat().st_mode) for folder in above)
    except OSError:
        return False


def is_plain_file(tree: Path, path: str) -> bool:
    if not _is_plain_folder(tree, path.rpartition("/")[0]):
        return False
    try:
        status = (tree / path).lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= _MODULE_BYTES


def _names_beside(tree: Path, place: str) -> Collection[str]:
    try:
        return os.listdir(tree / place if place else tree)  # noqa: PTH208  names are all that is asked for
    except OSError:
        return ()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    copy_file(str(source), str(target))
    target.chmod(0o755)


def put_built(rebuilt: Rebuilt | None, tree: Path, environment: Environment, application: Application) -> None:
    """Put the modules that were built into a session's tree; what is linked with the store is replaced, not written."""
    if rebuilt is None or not rebuilt.ok:
        return
    for path in rebuilt.report.replaced:
        if not path.startswith(f"{SITE}/"):
            _copy(rebuilt.built / path, tree / path)
    compiled = environment.compiled
    if compiled is not None and compiled.how == "meson":
        # meson's editable installs run ninja when they are imported: it is to find nothing that is out of date
        for path in why_rebuild((*application.changed, *application.test_files), compiled):
            if is_plain_file(tree, path):
                os.utime(tree / path, ns=(_FIXED_NS, _FIXED_NS))


def session_environment(environment: Environment, rebuilt: Rebuilt | None) -> Environment:
    """Return the environment with the rebuilt modules of its own package folder shown over base's."""
    if rebuilt is None or not rebuilt.ok:
        return environment
    inside = [path.partition("/")[2] for path in rebuilt.report.replaced if path.startswith(f"{SITE}/")]
    there = environment.site_folders[0] if environment.site_folders else ""
    mounts = [Mount(rebuilt.built / SITE / path, f"{there}/{path}", "ro") for path in inside]
    return replace(environment, mounts=(*environment.mounts, *mounts)) if mounts else environment
