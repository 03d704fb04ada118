"""The graded tree: the prediction's code with base's tests, configuration and start-up files, and the hidden tests."""

from __future__ import annotations

import bisect
import contextlib
import errno
import os
import posixpath
import stat
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swelive_plugin.core.paths import folder_of_tests, is_conftest, is_only_for_tests, is_python, is_test_module
from swelive_plugin.errors import InfraError, InstanceError, Interrupted, PatchError, PatchRejected
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.checkout import remove_tree, scan_tree
from swelive_plugin.workspace.patch import check_patch, links_of, touched_paths
from swelive_plugin.workspace.patch_repair import normalise_patch
from swelive_plugin.workspace.patched import PatchedFiles, place
from swelive_plugin.workspace.pytest_config import SHARED_NAMES, has_pytest_section, with_pytest_section
from swelive_plugin.workspace.shadow import find_shadows
from swelive_plugin.workspace.unified import parse_diff, render

__all__ = ["Application", "Restored", "prepare_graded_tree"]

Action = Literal["restored", "removed", "section", "gold"]

_PYTEST_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc"})
_STARTUP_MODULES = frozenset({"sitecustomize", "usercustomize"})
_BESIDE_TESTS = frozenset({"__init__.py", "conftest.py"})
# Whatever else a reader of the report sees under these codes, an honest agent edits and adds tests all the time.
_ORDINARY = frozenset({"test-support", "bytecode"})
_FLAGS = {
    "test-file": "files of the hidden tests were written by the prediction and put back",
    "conftest": "conftest files were changed by the prediction and put back",
    "pytest-config": "pytest's configuration was changed by the prediction and put back",
    "startup": "files that Python runs at start were written by the prediction and put back",
    "metadata": "package metadata (entry points) was written by the prediction and left out",
    "bytecode": "bytecode was written by the prediction and left out",
    "gitattributes": ".gitattributes was changed by the prediction and put back",
    "shadow-stdlib": "a new module takes the place of one of the standard library; it was removed",
    "shadow-package": "a new module takes the place of an installed package; it was removed",
    "shadow-project": "a new module takes the place of the project itself; it was removed",
}


@dataclass(frozen=True)
class Restored:
    """One path whose state in the graded tree is not the prediction's.

    ``action``: ``restored`` to base's content, ``removed`` because base has no such path, ``section`` where only
    pytest's part of a shared file was put back, ``gold`` where gold's version was taken. ``why`` is a code:
    ``test-file`` (the test patch touches it), ``test-support`` (another file of the hidden tests' folder),
    ``conftest``, ``pytest-config``, ``startup``, ``metadata``, ``bytecode``, ``gitattributes``, or ``shadow-stdlib``,
    ``shadow-package``, ``shadow-project``, which no honest fix has.
    """

    path: str
    action: Action
    why: str


@dataclass(frozen=True)
class Application:
    """How a prediction got into the graded tree.

    ``strictness`` is `apply_patch`'s word, or ``empty`` where nothing was left to apply. ``changed`` lists the files
    that the prediction wrote and that are in effect. ``flags`` are sentences for people. ``test_files`` are the test
    patch's paths that exist. All paths are relative to the tree, with slashes.
    """

    strictness: str
    repairs: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restored: tuple[Restored, ...] = ()
    flags: tuple[str, ...] = ()
    test_files: tuple[str, ...] = ()

    @property
    def shadows(self) -> tuple[Restored, ...]:
        """What was removed because it shadows: a grade with any is tampered."""
        return tuple(item for item in self.restored if item.why.startswith("shadow-"))


def prepare_graded_tree(
    tree: Path,
    *,
    base: Path,
    prediction: str,
    test_patch: str,
    gold_patch: str = "",
    top_level: Collection[str] = (),
) -> Application:
    """Turn ``tree``, a farm of hard links to ``base`` (see `link_tree`), into the tree that is graded.

    The prediction is checked, repaired and applied; then all that decides *how* the tests run is taken from base: the
    paths that the test patch touches and the rest of their test folder, conftest files, pytest's configuration,
    start-up files, package metadata and modules that shadow others. Where gold touches such a file too, gold's version
    counts (test files excepted). Last comes the test patch. ``top_level`` names what is installed. ``base`` is only
    read, and no file of it is written through a link.

    Raises `PatchRejected` and `PatchError` for the prediction, `InstanceError` for the test patch, `InfraError`.
    """
    with contextlib.ExitStack() as stack:
        gold = PatchedFiles(base, gold_patch, "the gold patch", stack)
        tests = PatchedFiles(base, test_patch, "the test patch", stack)
        hidden = set(tests.paths)
        work = _Work(tree, base, gold, hidden, frozenset(top_level))
        with _counted_as_the_predictions(tree):
            strictness, repairs = work.apply(prediction)
            changed = work.restore()
        for path in sorted(hidden):
            work.replace(path, tests.file(path), "test-file")
    return Application(
        strictness=strictness,
        repairs=(*repairs, *(f"test patch: {repair}" for repair in tests.repairs)),
        changed=changed,
        restored=tuple(sorted(work.restored, key=lambda item: item.path)),
        flags=_flags(work.restored),
        test_files=tuple(sorted(path for path in hidden if (tree / path).is_file())),
    )


# What the machine does, whatever a patch holds.
_OURS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ENFILE", "ENOMEM", "EACCES", "EPERM", "ESTALE", "EBUSY")
)


@contextlib.contextmanager
def _counted_as_the_predictions(tree: Path) -> Iterator[None]:
    """Turn what goes wrong over a prediction's content into `PatchError`; what the machine does stays ours.

    A patch that makes the grader stumble must not get away without a verdict: base and gold went the same way and
    came through.
    """
    try:
        yield
    except (PatchError, InstanceError, Interrupted):
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, InfraError) else error
        if isinstance(cause, OSError) and cause.errno not in _OURS:
            message = f"the prediction can't be written: {cause.strerror}: {str(cause.filename)[-200:]}"
        elif isinstance(error, OSError | InfraError):
            raise
        else:
            message = f"the prediction can't be handled: {type(error).__name__}: {error}"[:500]
        message = message.replace(f"{tree}/", "")
        raise PatchError(message, evidence="".join(traceback.format_exception(error))[-4000:]) from error


def _flags(restored: Iterable[Restored]) -> tuple[str, ...]:
    by_why: dict[str, list[str]] = {}
    for item in restored:
        if item.why not in _ORDINARY:
            by_why.setdefault(item.why, []).append(item.path)
    flags = []
    for why, paths in sorted(by_why.items()):
        more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
        flags.append(f"{_FLAGS[why]}: {', '.join(sorted(paths)[:5])}{more}")
    return tuple(flags)


class _Work:
    """One tree on its way from base to graded."""

    def __init__(self, tree: Path, base: Path, gold: PatchedFiles, hidden: set[str], top_level: frozenset[str]) -> None:
        self.tree = tree
        self.base = base
        self.hidden = hidden
        self.above_hidden = {path[:at] for path in hidden for at, letter in enumerate(path) if letter == "/"}
        self.top_level = top_level
        self.base_files = scan_tree(base)
        self.test_folders = _test_folders(hidden, self.base_files)
        self.gold = gold
        self.links_to_tests: set[str] = set()
        links = [path for path, status in self.base_files.items() if stat.S_ISLNK(status.st_mode)]
        files = sorted(self.base_files) if links else []
        self.links_to_tests = {path for path in links if self.reaches(base, path, files)}
        self.changes: list[str] = []
        self.linked = False  # a private tree must stay one: nothing of base may be linked into it
        self.restored: list[Restored] = []
        self.gone: set[str] = set()

    def apply(self, prediction: str) -> tuple[str, tuple[str, ...]]:
        if not prediction.strip():
            return "empty", ()
        links = links_of(self.gold.patch)
        check_patch(prediction, self.tree, links=links)
        text, repairs = normalise_patch(prediction, self.tree)
        text = self.without_metadata(text)
        if not text:
            return "empty", repairs
        strictness = apply_patch(text, self.tree, what="the prediction")
        expected = {path for change in touched_paths(text) for path in (change.old, change.new)}
        self.changes = self.differences()
        for path in self.changes:
            # Our reading of the patch and git's must agree, whatever a hostile text tries.
            if path not in expected:
                raise PatchRejected(f"the patch changes {path!r} in a way that its headers do not show")
        self.check_links(links)
        return strictness, repairs

    def check_links(self, known: Mapping[str, bytes]) -> None:
        """Raise `PatchRejected` for a new symbolic link through which tests or configuration could be reached."""
        links = [path for path in self.changes if (self.tree / path).is_symlink()]
        files = sorted({*self.base_files, *self.changes}) if links else []
        for path in links:
            target = (self.tree / path).readlink()
            if known.get(path) == os.fsencode(target):
                continue  # gold makes it too
            at_tests = self.reason(path) or is_only_for_tests(path)
            if reached := path if at_tests else self.reaches(self.tree, path, files):
                raise PatchRejected(
                    f"the patch makes {path!r} a symbolic link to {str(target)!r}: {reached!r} is reached through it",
                    hint="a link may lead to code and data of the tree, not to tests, configuration or out of it",
                )

    def reaches(self, root: Path, path: str, files: Sequence[str]) -> str:
        """Return what a symbolic link must not reach: a test or a configuration file, or what is out of the tree."""
        target = os.path.relpath(os.path.realpath(root / path), os.path.realpath(root))
        if target.split("/")[0] == "..":
            return target if root == self.tree else ""
        below = files if target == "." else sorted(_at_or_below(target, files))
        return next((each for each in (target, *below) if self.reason(each) or is_only_for_tests(each)), "")

    def without_metadata(self, text: str) -> str:
        """Return the patch without sections on metadata: never in effect, and often in the way of what a build left."""
        diff = parse_diff(text.encode("utf-8", "surrogateescape"))
        diff.resolve()
        kept = []
        for section in diff.sections:
            why = _is_metadata(section.new)
            if why and section.old == section.new and section.new not in self.gold.paths:
                known = section.new in self.base_files
                self.restored.append(Restored(section.new, "restored" if known else "removed", why))
            else:
                kept.append(section)
        return text if len(kept) == len(diff.sections) else render(kept).decode("utf-8", "surrogateescape")

    def differences(self) -> list[str]:
        """Return the paths at which the tree and base differ."""
        now = scan_tree(self.tree)
        self.linked = any(
            (status.st_dev, status.st_ino) == (old.st_dev, old.st_ino)
            for path, status in now.items()
            if (old := self.base_files.get(path)) is not None
        )
        differing = [path for path, status in now.items() if not self.same(path, status)]
        return sorted([*differing, *(self.base_files.keys() - now.keys())])

    def same(self, path: str, status: os.stat_result) -> bool:
        old = self.base_files.get(path)
        if old is None or old.st_mode != status.st_mode:
            return False
        if stat.S_ISLNK(status.st_mode):
            return (self.base / path).readlink() == (self.tree / path).readlink()
        linked = (old.st_dev, old.st_ino) == (status.st_dev, status.st_ino)
        return linked or (old.st_size, old.st_mtime_ns) == (status.st_size, status.st_mtime_ns)

    def restore(self) -> tuple[str, ...]:
        """Put back what is not the prediction's to decide; return the files of it that stay in effect."""
        reasons = {path: self.reason(path) for path in self.changes}
        self.remove_shadows([path for path, why in reasons.items() if why in ("", "test-support")])
        for path, why in reasons.items():
            if why == "pytest-config" and path.rpartition("/")[2] in SHARED_NAMES:
                self.put_section_back(path)
            elif why and path not in self.gone:
                self.put_back(path, why)
        return tuple(path for path in self.changes if self.in_effect(path))

    def in_effect(self, path: str) -> bool:
        try:
            return not self.same(path, (self.tree / path).lstat())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def reason(self, path: str) -> str:
        parts = path.split("/")
        name = parts[-1]
        above = {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
        if above & self.hidden or path in self.above_hidden:
            return "test-file"
        if is_conftest(path):
            return "conftest"
        if name in _PYTEST_FILES or name in SHARED_NAMES:
            return "pytest-config"
        if name.endswith(".pth") or any(part.partition(".")[0] in _STARTUP_MODULES for part in parts):
            return "startup"
        if why := _is_metadata(path):
            return why
        if name == ".gitattributes":
            return "gitattributes"
        if above & (self.test_folders | self.links_to_tests) and path not in self.gold.paths:
            return "test-support"
        return ""

    def put_back(self, path: str, why: str) -> None:
        source = self.base / path
        action: Action = "restored" if path in self.base_files else "removed"
        if why != "test-file" and path in self.gold.paths:
            source, action = self.gold.file(path), "gold"
            if _same_content(source, self.tree / path):
                return
        self.replace(path, source, why)
        self.restored.append(Restored(path, action, why))

    def replace(self, path: str, source: Path, why: str) -> None:
        """Make ``path`` in the tree what ``source`` is, or nothing; a file that stands where a folder belongs goes."""
        target = self.tree / path
        for above in reversed(target.relative_to(self.tree).parents):
            in_the_way = os.path.lexists(self.tree / above) and not _is_folder(self.tree / above)
            if in_the_way and above.as_posix() not in self.base_files:
                remove_tree(self.tree / above)
                self.restored.append(Restored(above.as_posix(), "removed", why))
        self.remove(target)
        if not os.path.lexists(source):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        place(source, target, link=self.linked and source.is_relative_to(self.base))

    def put_section_back(self, path: str) -> None:
        target, name = self.tree / path, path.rpartition("/")[2]
        by_gold = path in self.gold.paths
        source = self.gold.file(path) if by_gold else self.base / path
        wanted, present = _text(source), _text(target)
        if not os.path.lexists(target) and (wanted is None or not has_pytest_section(name, wanted)):
            return  # deleted, and it never configured pytest
        if present is not None and (edited := with_pytest_section(name, present, wanted or "")):
            if edited != present:
                self.write(path, edited)
                self.restored.append(Restored(path, "gold" if by_gold else "section", "pytest-config"))
            return
        self.put_back(path, "pytest-config")

    def write(self, path: str, text: str) -> None:
        """Give a file another content, never through a link; base's own content means base's own file."""
        target = self.tree / path
        mode = target.stat().st_mode
        remove_tree(target)
        if text == _text(self.base / path):
            place(self.base / path, target, link=self.linked)
        else:
            target.write_bytes(text.encode("utf-8", "surrogateescape"))
            target.chmod(stat.S_IMODE(mode))

    def remove(self, target: Path) -> None:
        """Remove a file, and the folders that are empty now and that base does not have."""
        remove_tree(target)
        for folder in target.parents:
            if folder == self.tree or (self.base / folder.relative_to(self.tree)).is_dir():
                return
            with contextlib.suppress(OSError):  # not empty, or gone already
                folder.rmdir()

    def remove_shadows(self, changed: list[str]) -> None:
        """Remove new modules that shadow others."""
        new = sorted(path for path in changed if path not in self.base_files)
        links = [path for path in new if (self.tree / path).is_symlink() and (self.tree / path).is_dir()]
        packages = [f"{path}/__init__.py" for path in links]
        now = {path for path in self.changes if os.path.lexists(self.tree / path)}
        tree = (self.base_files.keys() - self.changes) | now
        shadows = find_shadows(
            [*new, *packages], base=self.base_files.keys(), tree=tree, top_level=self.top_level, tests=self.hidden
        )
        for shadow in shadows:
            below = _at_or_below(shadow.entry, new)
            if below & self.gold.paths:
                continue
            for path in below:
                self.remove(self.tree / path)
            self.restored.append(Restored(shadow.entry, "removed", shadow.why))
            self.gone |= below


def _test_folders(hidden: Collection[str], base: Iterable[str]) -> set[str]:
    """Return the folders of the hidden tests, in which base's files count: by their name, or by what is in them.

    A folder of any name counts when each Python file in it is a test module, a conftest or ``__init__.py``.
    """
    named = {folder for path in hidden if (folder := folder_of_tests(path))}
    others = {posixpath.dirname(path) for path in hidden if is_test_module(path) and not folder_of_tests(path)} - {""}
    for path in base:
        folder, name = posixpath.split(path)
        if folder in others and is_python(name) and not (is_test_module(name) or name in _BESIDE_TESTS):
            others.discard(folder)
    return named | others


def _at_or_below(entry: str, paths: Sequence[str]) -> set[str]:
    """Return which of the sorted ``paths`` are ``entry`` or below it."""
    inside = set()
    for path in (entry, f"{entry}/"):
        at = bisect.bisect_left(paths, path)
        while at < len(paths) and (paths[at] == entry or paths[at].startswith(f"{entry}/")):
            inside.add(paths[at])
            at += 1
    return inside


def _is_metadata(path: str) -> str:
    parts = path.split("/")
    if any(part.endswith((".dist-info", ".egg-info")) for part in parts):
        return "metadata"
    return "bytecode" if "__pycache__" in parts or path.endswith((".pyc", ".pyo")) else ""


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _same_content(one: Path, other: Path) -> bool:
    if os.path.lexists(one) != os.path.lexists(other):
        return False
    return not os.path.lexists(one) or (
        one.is_file() and other.is_file() and not other.is_symlink() and one.read_bytes() == other.read_bytes()
    )


def _text(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file():
            return None
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise InfraError(f"can't read {path.name}: {error}") from error
