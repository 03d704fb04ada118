"""The store: built environments under the hash of what they depend on, whole or not there at all.

::

    environments/
      store.json                  which version of this package's layout it is
      chosen/<repo>@<commit>…/    the recipe and lock for a commit, the key that they led to, whether controls held
      built/<key>/                environment.json (written last), venv/, tree/, recipe.toml, environment.lock,
                                  build.log; history-<commit>/, a packed .git, where the project's tests need one
      files/ab/<sha256>           file contents that environments share by hard links
      locks/, work/               who builds what; what a build throws away
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from swelive_plugin.errors import InfraError, UsageError
from swelive_plugin.recipes.recipe import Recipe, recipe_from_toml, recipe_to_toml
from swelive_plugin.workspace.checkout import remove_tree

__all__ = ["Choice", "Kept", "Store", "atomic_write"]

_VERSION = 1
_FIXED_TIME = 946684800  # 2000-01-01: files that are shared must agree on everything, also on their time


@dataclass(frozen=True)
class Choice:
    """What was decided for one commit: the recipe, its lock (empty: not resolved yet) and the key (empty: not
    built).

    ``proven``: the controls held, or the row that brought the recipe was validated with it. ``searched_by`` names the
    search that found nothing better (`search.SEARCHED_BY`); empty where none was made.
    """

    recipe: Recipe
    lock_text: str = ""
    key: str = ""
    proven: bool = False
    searched_by: str = ""

    @property
    def standing(self) -> str:
        """How much is known of the recipe, in words."""
        if self.proven:
            return "the controls held"
        return "the controls of no recipe held" if self.searched_by else "no controls were run yet"


@dataclass(frozen=True)
class Kept:
    """One built environment as ``swelive env list`` shows it.

    ``own_mib`` is what removing it would free: what it shares with others is not in it. ``used`` is seconds since the
    epoch.
    """

    key: str
    repo: str
    commit: str
    python: str
    recipe: str
    own_mib: float
    total_mib: float
    used: float


class Store:
    """Environments in ``root``; safe for parallel processes, and whole again after a kill at any moment."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def built(self) -> Path:
        """Where the built environments are."""
        return self.root / "built"

    def open(self) -> None:
        """Make the store's folders. Raises `InfraError` if another version made it, or the disk refuses."""
        try:
            for name in ("built", "chosen", "files", "locks", "work"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            marker = self.root / "store.json"
            if not marker.exists():
                atomic_write(marker, json.dumps({"version": _VERSION}))
        except OSError as error:
            raise InfraError(f"the environment store {self.root} can't be used: {error}", hint="see --cache") from error
        self.check_version()

    def check_version(self) -> None:
        """Return if the store is of this version, or not there yet. Raises `InfraError` if another version made it."""
        marker = self.root / "store.json"
        try:
            if not marker.exists():
                return
            said = json.loads(marker.read_text(encoding="utf-8"))
            version = said.get("version") if isinstance(said, dict) else None
        except (OSError, ValueError) as error:
            raise InfraError(f"the environment store {self.root} can't be used: {error}", hint="see --cache") from error
        if version != _VERSION:
            raise InfraError(
                f"the environment store {self.root} was made by another version of this package (layout {version}, "
                f"this one writes {_VERSION})",
                hint="use another --cache, or remove that folder",
            )

    @contextmanager
    def lock(self, name: str, *, timeout_s: float = 7200.0) -> Iterator[None]:
        """Hold the lock ``name``; whoever is killed lets go of it."""
        try:
            with FileLock(str(self.root / "locks" / f"{_safe(name)}.lock"), timeout=timeout_s):
                yield
        except Timeout as error:
            raise InfraError(f"another process has been building {name} for {timeout_s:.0f} s") from error

    @contextmanager
    def work(self) -> Iterator[Path]:
        """Give a private folder that is gone afterwards."""
        folder = Path(tempfile.mkdtemp(dir=self.root / "work"))
        try:
            yield folder
        finally:
            remove_tree(folder)

    def choice_folder(self, repo: str, commit: str, layout: str) -> Path:
        """Return where the decision for a commit is kept."""
        return self.root / "chosen" / f"{_safe(repo)}@{commit[:40]}-{layout}"

    def chosen(self, repo: str, commit: str, layout: str) -> Choice | None:
        """Return what was decided for a commit, if anything was."""
        folder = self.choice_folder(repo, commit, layout)
        try:
            recipe = recipe_from_toml(
                (folder / "recipe.toml").read_text(encoding="utf-8"), where=str(folder / "recipe.toml")
            )
        except (OSError, UsageError):
            return None
        key = _read(folder / "key").strip()
        proven, searched_by = _decided(folder, key)
        return Choice(recipe, _read(folder / "environment.lock"), key, proven, searched_by)

    def choose(self, repo: str, commit: str, layout: str, choice: Choice) -> None:
        """Keep the decision for a commit."""
        folder = self.choice_folder(repo, commit, layout)
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / "key", "")  # killed between the lines: decided, and to be built again
        atomic_write(folder / "recipe.toml", recipe_to_toml(choice.recipe))
        atomic_write(folder / "environment.lock", choice.lock_text)
        told = {"key": choice.key, "proven": choice.proven, "searched_by": choice.searched_by}
        atomic_write(folder / "decision.json", json.dumps(told))
        atomic_write(folder / "key", choice.key)

    def forget(self, repo: str, commit: str) -> None:
        """Drop what was decided for a commit; what was built stays."""
        for folder in (self.root / "chosen").glob(f"{_safe(repo)}@{commit[:40]}-*"):
            remove_tree(folder)

    def read(self, key: str) -> dict[str, Any] | None:
        """Return what ``environment.json`` of a built environment says; ``None`` if it is not there whole."""
        if not key:
            return None
        try:
            data = json.loads((self.built / key / "environment.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def begin(self, key: str) -> Path:
        """Return the empty folder to build ``key`` in; what a killed build left there is removed. Hold its lock."""
        folder = self.built / key
        remove_tree(folder)
        folder.mkdir(parents=True)
        return folder

    def finish(self, key: str, data: dict[str, Any]) -> None:
        """Declare ``key`` whole."""
        atomic_write(self.built / key / "environment.json", json.dumps(data, indent=1, sort_keys=True))

    def touch(self, key: str) -> None:
        """Remember that ``key`` was used just now: ``gc`` removes the longest unused first."""
        with suppress(OSError):
            os.utime(self.built / key / "environment.json")

    def lend_bytecode(self, folder: Path, *, tag: str, seen_at: str) -> None:
        """Link what was compiled before for the sources below ``folder``, so that only the rest has to be compiled.

        Bytecode is told by its source, not by itself: compiling twice gives two files. ``tag`` is the interpreter's
        (``cpython-311``), ``seen_at`` the path of ``folder`` as the interpreter sees it, which bytecode carries.
        """
        base = len(str(folder)) + 1
        for root, _, names in os.walk(folder):
            for name in names:
                if not name.endswith(".py"):
                    continue
                compiled = os.path.join(root, "__pycache__", f"{name[:-3]}.{tag}.pyc")  # noqa: PTH118
                with suppress(OSError):
                    shared = self._shared(_bytecode_digest(compiled, f"{seen_at}/{compiled[base:]}"))
                    if shared.exists() and not os.path.exists(compiled):  # noqa: PTH110
                        os.makedirs(os.path.dirname(compiled), exist_ok=True)  # noqa: PTH103, PTH120
                        os.link(shared, compiled)

    def _shared(self, digest: str) -> Path:
        return self.root / "files" / digest[:2] / digest

    def share(self, folder: Path, *, paths_count: bool, seen_at: str = "") -> None:
        """Replace the files below ``folder`` by hard links to contents that the store has already.

        With ``paths_count`` two files share only under the same relative path: a tree may ask which of its files are
        one.
        Sharing saves room and nothing else: where links can't be made, files stay as they are.
        """
        base = len(str(folder)) + 1
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)  # noqa: PTH118  thousands of files
                try:
                    self._share_file(path, path[base:] if paths_count else "", f"{seen_at}/{path[base:]}")
                except OSError:
                    return

    def _share_file(self, path: str, salt: str, seen_as: str) -> None:
        stat = os.lstat(path)
        if not os.path.isfile(path) or os.path.islink(path) or stat.st_size == 0 or stat.st_nlink > 1:  # noqa: PTH113, PTH114
            return
        if path.endswith(".pyc") and os.path.exists(_source_of(path)):  # noqa: PTH110
            shared = self._shared(_bytecode_digest(path, seen_as))
        else:
            executable = bool(stat.st_mode & 0o100)
            shared = self._shared(_digest(path, f"{salt}\0{executable}\0{int(stat.st_mtime)}\0"))
        temporary = f"{path}.swelive-link"
        try:
            os.link(shared, temporary)
        except FileNotFoundError:
            shared.parent.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                os.link(path, shared)
            return
        os.replace(temporary, path)  # noqa: PTH105

    def kept(self) -> list[Kept]:
        """Return the whole environments, the longest unused first."""
        found: list[Kept] = []
        for folder in sorted(self.built.glob("*")) if self.built.is_dir() else ():
            data = self.read(folder.name)
            if data is None:
                continue
            own, total = _sizes(folder)
            used = (folder / "environment.json").stat().st_mtime
            found.append(
                Kept(folder.name, str(data.get("repo", "")), str(data.get("commit", "")),
                str(data.get("python_version", "")),
                     str(data.get("recipe_name", "")), own / 2**20, total / 2**20, used)
            )  # fmt: skip
        return sorted(found, key=lambda item: item.used)

    def size_mib(self) -> float:
        """Return what the whole store takes on the disk, in MiB."""
        seen: set[tuple[int, int]] = set()
        total = 0
        for root, _, names in os.walk(self.root):
            for name in names:
                with suppress(OSError):
                    stat = os.lstat(os.path.join(root, name))  # noqa: PTH118
                    if (stat.st_dev, stat.st_ino) not in seen:
                        seen.add((stat.st_dev, stat.st_ino))
                        total += stat.st_blocks * 512
        return total / 2**20

    def gc(self, *, max_size_mib: float = 0.0, progress: Callable[[str], None] | None = None) -> list[Kept]:
        """Remove environments until the store is at most ``max_size_mib``, the longest unused first; return them.

        What is being built or was left by a killed build is told apart by its lock. Recipes and locks stay: what was
        removed
        comes back the same.
        """
        say = progress or (lambda _: None)
        self._sweep()
        removed: list[Kept] = []
        left = self.size_mib()  # a walk of the whole store: once
        for item in self.kept() if left > max_size_mib else ():
            if left <= max_size_mib:
                break
            with suppress(InfraError), self.lock(item.key, timeout_s=0.1):
                say(f"removing {item.key[:12]} ({item.repo} {item.commit[:10]})")
                own, _ = _sizes(self.built / item.key)  # what it shared with those before is its own now
                remove_tree(self.built / item.key)
                left -= own / 2**20
                removed.append(item)
        if removed:
            self._sweep_files()
        return removed

    def _sweep(self) -> None:
        """Remove what killed builds left behind."""
        for folder in self.built.glob("*"):
            if self.read(folder.name) is None:
                with suppress(InfraError), self.lock(folder.name, timeout_s=0.1):
                    if self.read(folder.name) is None:
                        remove_tree(folder)
        for folder in (self.root / "work").glob("*"):
            with suppress(OSError, InfraError):
                if time.time() - folder.stat().st_mtime > 86400:
                    remove_tree(folder)
        self._sweep_files()

    def _sweep_files(self) -> None:
        for path in (self.root / "files").glob("*/*"):
            with suppress(OSError):
                if path.stat().st_nlink == 1:
                    path.unlink()


def _digest(path: str, salt: str) -> str:
    digest = hashlib.sha256(salt.encode("utf-8", "surrogateescape"))
    with open(path, "rb") as file:  # noqa: PTH123
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _source_of(compiled: str) -> str:
    folder, name = os.path.split(compiled)
    return os.path.join(os.path.dirname(folder), f"{name.split('.')[0]}.py")  # noqa: PTH118, PTH120


def _bytecode_digest(compiled: str, seen_as: str) -> str:
    return _digest(_source_of(compiled), f"bytecode\0{seen_as}\0")


def settle_times(folder: Path) -> None:
    """Give every file below ``folder`` one fixed time, so that equal contents are equal in all and can be shared."""
    for root, folders, names in os.walk(folder):
        for name in [*names, *folders]:
            with suppress(OSError):
                os.utime(os.path.join(root, name), (_FIXED_TIME, _FIXED_TIME), follow_symlinks=False)  # noqa: PTH118


def make_read_only(folder: Path) -> None:
    """Take the write bits off everything below ``folder``."""
    for root, folders, names in os.walk(folder, topdown=False):
        for name in [*names, *folders]:
            path = os.path.join(root, name)  # noqa: PTH118
            with suppress(OSError):
                if not os.path.islink(path):  # noqa: PTH114
                    os.chmod(path, os.lstat(path).st_mode & 0o555)  # noqa: PTH101


def atomic_write(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises `InfraError` for a full disk."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise InfraError(f"{path} can't be written: {error.strerror}", hint="is the disk full?") from error


def free_mib(path: Path) -> float:
    """Return the room that is left where ``path`` is, in MiB."""
    return shutil.disk_usage(path).free / 2**20


def _sizes(folder: Path) -> tuple[int, int]:
    own = total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                stat = os.lstat(os.path.join(root, name))  # noqa: PTH118
                size = stat.st_blocks * 512
                total += size
                own += size if stat.st_nlink <= 2 else 0  # one link here, one in files/
    return own, total


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _decided(folder: Path, key: str) -> tuple[bool, str]:
    """Return whether the decision in ``folder`` is proven, and which search it stands for."""
    decision = _json(folder / "decision.json")
    if isinstance(decision, dict):
        # killed while the next one was written: what is said of another key says nothing of this one
        same = decision.get("key") == key
        return same and decision.get("proven") is True, str(decision.get("searched_by", "")) if same else ""
    attempts = _json(folder / "attempts.json")  # the decision is older than decision.json
    if not isinstance(attempts, list):
        return True, ""  # only a validated row's own recipe was kept without a word about attempts
    return any(isinstance(attempt, dict) and attempt.get("outcome") == "holds" for attempt in attempts), ""


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@+-]", "__", name)
