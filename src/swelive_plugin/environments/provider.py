"""The door of this room: an instance comes in, its environment goes out, built once and kept."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from swelive_plugin.core.extension_modules import Compiled
from swelive_plugin.core.instance import Instance
from swelive_plugin.environments import SYSTEM_PATH, VENV, Environment, Trial
from swelive_plugin.environments.advisor import advisor_from_environment
from swelive_plugin.environments.build import (
    BuildRoom,
    BuildStopped,
    build_hint,
    build_venv,
    compile_bytecode,
    environment_key,
    interpreter_mounts,
    layout_of,
    site_folders,
)
from swelive_plugin.environments.extension_builds import (
    BUILD_ENV,
    compiled_as_dict,
    compiled_from,
    find_artefacts,
    keep_compiled,
)
from swelive_plugin.environments.interpreters import Interpreter, find_interpreters, no_interpreter
from swelive_plugin.environments.repair import repaired
from swelive_plugin.environments.resolve import resolve_lock
from swelive_plugin.environments.search import SEARCHED_BY, Attempt, Found, search
from swelive_plugin.environments.store import Choice, Store, atomic_write, free_mib, make_read_only, settle_times
from swelive_plugin.environments.uv import find_uv
from swelive_plugin.errors import EnvironmentBuildError, InfraError, NoInterpreter, UsageError
from swelive_plugin.recipes.declared import read_declared
from swelive_plugin.recipes.discovery import discover
from swelive_plugin.recipes.era import parse_minor
from swelive_plugin.recipes.listing import FolderFiles
from swelive_plugin.recipes.recipe import Recipe, recipe_from_toml, recipe_to_toml
from swelive_plugin.sandbox import Mount, Sandbox
from swelive_plugin.workspace.checkout import export_tree, remove_tree
from swelive_plugin.workspace.git import run_git

__all__ = ["Attempt", "UvProvider"]

_REPAIRS = 4
_ROOM_MIB = 1024.0


class UvProvider:
    """Builds environments with uv and keeps them in the cache folder.

    ``recipes`` is a folder of decided recipes, ``<instance_id>/recipe.toml`` with an ``environment.lock`` beside it
    if the same
    bytes are wanted: they come before what is found here.
    """

    def __init__(self, cache: Path, *, recipes: Path | None = None) -> None:
        self.store = Store(cache / "environments")
        self.recipes = recipes

    def provide(
        self,
        instance: Instance,
        *,
        mirror: Path,
        sandbox: Sandbox,
        offline: bool = False,
        progress: Callable[[str], None] | None = None,
        check: Callable[[Environment], Trial] | None = None,
    ) -> Environment:
        """Return the instance's environment: from the store, else built by the first candidate recipe that builds.

        With ``check`` the candidates are searched for one whose controls hold; where none does, the best is returned.
        That one is kept, too, until another version of the search comes along.
        Raises `EnvironmentBuildError` (with the log's last lines as evidence), `NoInterpreter`, `InfraError`.
        """
        say = progress or (lambda _: None)
        self.store.open()
        layout = layout_of(sandbox)
        given = self._given(instance)
        choice = given or self.store.chosen(instance.repo, instance.base_commit, layout)
        searching = check is not None and not offline  # offline another recipe could hardly be built

        def stands(choice: Choice | None) -> bool:
            return choice is not None and (choice.proven or not searching or choice.searched_by == SEARCHED_BY)

        if choice is not None and given is None and stands(choice) and (known := self._load(choice.key, sandbox)):
            return known
        with self.store.lock(f"{instance.repo}@{instance.base_commit}-{layout}"):
            choice = given or self.store.chosen(instance.repo, instance.base_commit, layout)
            if choice is not None and (given is not None or stands(choice)):
                if given is None and (known := self._load(choice.key, sandbox)) is not None:
                    return known
                candidates = [choice.recipe]
            elif (proven := self._proven(instance, mirror, sandbox, offline, say)) is not None:
                return proven
            elif check is not None:
                if choice is not None:
                    say("searching for a recipe again: no controls held with the one that was kept")
                found = self.search(
                    instance, mirror=mirror, sandbox=sandbox, check=check, offline=offline, progress=progress,
                    kept=choice,
                )  # fmt: skip
                if found.environment is not None:
                    return found.environment
                if choice is None:
                    evidence = next((each.evidence for each in found.attempts if each.evidence), "")
                    raise EnvironmentBuildError(found.cause, hint=build_hint(evidence), evidence=evidence)
                candidates = [choice.recipe]
            else:
                say("reading what the repository says about its tests")
                candidates = self.candidates(instance, mirror=mirror)
            environment = self._first_that_builds(instance, candidates, choice, mirror, sandbox, offline, say)
            self.choose(instance, environment, sandbox, proven=choice is not None and choice.proven,
                        searched_by=choice.searched_by if choice is not None else "")  # fmt: skip
            return environment

    def _proven(
        self, instance: Instance, mirror: Path, sandbox: Sandbox, offline: bool, say: Callable[[str], None]
    ) -> Environment | None:
        """Return what the recipe and lock of a validated row build, where they still do so on this machine."""
        told = instance.row.get("validation")
        if not isinstance(told, dict) or not isinstance(told.get("recipe"), str) or not told.get("lock"):
            return None
        try:
            recipe = recipe_from_toml(told["recipe"], where=f"{instance.instance_id}: validation.recipe")
            environment = self.build(
                instance, recipe, mirror=mirror, sandbox=sandbox, lock=str(told["lock"]), offline=offline, progress=say
            )
        except (UsageError, EnvironmentBuildError) as error:
            say(f"the recipe that the row brings does not build here: {error.message}")
            return None
        self.choose(instance, environment, sandbox, proven=True)
        return environment

    def _first_that_builds(
        self, instance: Instance, candidates: list[Recipe], choice: Choice | None, mirror: Path, sandbox: Sandbox,
        offline: bool, say: Callable[[str], None],
    ) -> Environment:  # fmt: skip
        first_error: EnvironmentBuildError | None = None
        attempts: list[Attempt] = []
        for recipe in candidates:
            lock = choice.lock_text if choice is not None else ""
            try:
                environment = self.build(
                    instance, recipe, mirror=mirror, sandbox=sandbox, lock=lock, offline=offline, progress=say
                )
            except EnvironmentBuildError as error:
                attempts.append(Attempt(recipe, "not built", error.message))
                say(f"recipe {recipe.name} on Python {recipe.python}: {error.message}")
                first_error = first_error or error
                if isinstance(error, BuildStopped):
                    break
            else:
                self._log(instance, sandbox, [*attempts, Attempt(environment.recipe, "built", key=environment.key)])
                return environment
        self._log(instance, sandbox, attempts)
        assert first_error is not None
        raise first_error

    def search(
        self,
        instance: Instance,
        *,
        mirror: Path,
        sandbox: Sandbox,
        check: Callable[[Environment], Trial],
        offline: bool = False,
        tries: int = 8,
        progress: Callable[[str], None] | None = None,
        kept: Choice | None = None,
    ) -> Found:
        """Return how the search for a recipe whose controls hold ended; the best one found is kept for the commit.

        ``check`` runs the controls. ``kept`` is what an earlier search was left with: nothing worse takes its place.
        Raises `NoInterpreter`, `InfraError`.
        """
        self.store.open()

        def build(recipe: Recipe) -> Environment:
            return self.build(instance, recipe, mirror=mirror, sandbox=sandbox, offline=offline, progress=progress)

        known = [] if kept is None else [kept.recipe]
        found = search(
            [*known, *self.candidates(instance, mirror=mirror)],
            build=build,
            check=check,
            tries=tries,
            advise=advisor_from_environment(say=progress),
            progress=progress,
        )
        if found.environment is not None:
            self.choose(instance, found.environment, sandbox, proven=found.holds, searched_by=SEARCHED_BY)
        self._log(instance, sandbox, found.attempts)
        return found

    def _log(self, instance: Instance, sandbox: Sandbox, attempts: Sequence[Attempt]) -> None:
        """Keep what was tried, and what came of it, beside the decision."""
        folder = self.store.choice_folder(instance.repo, instance.base_commit, layout_of(sandbox))
        folder.mkdir(parents=True, exist_ok=True)
        told = [
            {"recipe": attempt.recipe.name, "python": attempt.recipe.python, "outcome": attempt.outcome,
             "reason": attempt.reason, "key": attempt.key, "good": attempt.good, "why": attempt.recipe.reasons[-1:]}
            for attempt in attempts
        ]  # fmt: skip
        atomic_write(folder / "attempts.json", json.dumps(told, indent=1))

    def candidates(self, instance: Instance, *, mirror: Path) -> list[Recipe]:
        """Return the ranked recipes for an instance. Raises `NoInterpreter` if nothing here fits."""
        self.store.open()
        there = find_interpreters()
        with self.store.work() as work:
            export_tree(mirror, instance.base_commit, work / "tree")
            files = FolderFiles(work / "tree")
            added = _added_lines(instance.test_patch)
            tests = [*added, *(test.split("::")[0] for test in instance.fail_to_pass)]
            found = discover(
                files,
                commit_date=commit_date(mirror, instance.base_commit),
                minors=sorted({interpreter.minor for interpreter in there}),
                test_paths=list(dict.fromkeys(tests)),
                added_tests=added,
            )
            wanted = read_declared(files).requires_python or "3"
        if not found:
            raise no_interpreter(wanted, there, instance_id=instance.instance_id)
        return found

    def build(
        self,
        instance: Instance,
        recipe: Recipe,
        *,
        mirror: Path,
        sandbox: Sandbox,
        lock: str = "",
        offline: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> Environment:
        """Return the environment that ``recipe`` makes, repaired on the way where the log tells how.

        Raises `EnvironmentBuildError`, `NoInterpreter`, `InfraError`.
        """
        say = progress or (lambda _: None)
        self.store.open()
        for _ in range(_REPAIRS):
            try:
                built = self._build_once(instance, recipe, mirror, sandbox, lock, offline, say)
            except NoInterpreter:
                raise
            except EnvironmentBuildError as error:
                better = None if lock else repaired(recipe, f"{error.message}\n{error.evidence}")
                if better is None:
                    raise type(error)(
                        f"{instance.instance_id}: {error.message}", hint=error.hint, evidence=error.evidence
                    ) from error
                say(better.reasons[-1])
                recipe, last = better, error
                continue
            return built
        raise EnvironmentBuildError(
            f"{instance.instance_id}: {last.message}", hint=last.hint, evidence=last.evidence
        ) from last

    def _build_once(
        self, instance: Instance, recipe: Recipe, mirror: Path, sandbox: Sandbox, lock: str, offline: bool,
        say: Callable[[str], None],
    ) -> Environment:  # fmt: skip
        interpreter = self._interpreter(recipe, instance)
        if free_mib(self.store.root) < _ROOM_MIB:
            raise InfraError(
                f"less than {_ROOM_MIB:.0f} MiB are left for {self.store.root}",
                hint="`swelive env gc --max-size 10G` makes room",
            )
        layout, uv = layout_of(sandbox), find_uv()
        with self.store.work() as work, _disk_errors(self.store.root):
            tree = work / "tree"
            exported = export_tree(mirror, instance.base_commit, tree, with_git=recipe.scm_version)
            lacks = (*exported.missing, *(f"{name} (a submodule)" for name in exported.submodules))
            if lacks:
                say(f"not to be had from the mirror: {', '.join(lacks[:3])}{' and more' if lacks[3:] else ''}")
            room = BuildRoom(
                sandbox, interpreter, uv, tree, work / "venv", work / "room", work / "build.log", offline, say
            )
            if not lock:
                lock = resolve_lock(room, recipe)
            tree_hash = run_git("rev-parse", f"{instance.base_commit}^{{tree}}", git_dir=mirror).stdout.decode().strip()
            tree_hash = " without ".join((tree_hash, *lacks))  # once the mirror has all, it is another tree
            key = environment_key(recipe, lock, interpreter, tree_hash, layout, self.store.root)
            with self.store.lock(key):
                known = self._load(key, sandbox)
                if known is not None:
                    return replace(known, recipe=recipe)
                folder = self.store.begin(key)
                try:
                    tree.rename(folder / "tree")
                    shutil.copyfile(work / "build.log", folder / "build.log") if (work / "build.log").exists() else None
                    room = BuildRoom(
                        sandbox,
                        interpreter,
                        uv,
                        folder / "tree",
                        folder / "venv",
                        work / "room",
                        folder / "build.log",
                        offline,
                        say,
                    )
                    build_venv(room, recipe, lock)
                    tracked = _tracked(mirror, instance.base_commit)
                    compiled = keep_compiled(room, recipe, lock, folder=folder, tracked=tracked)
                    self._settle(room, folder, say)
                except BaseException:
                    remove_tree(folder)
                    raise
                atomic_write(folder / "recipe.toml", recipe_to_toml(recipe))
                atomic_write(folder / "environment.lock", lock)
                self.store.finish(key, self._describe(instance, recipe, interpreter, room, compiled) | {"lacks": lacks})
        environment = self._load(key, sandbox)
        if environment is None:
            raise InfraError(
                f"the environment {key} vanished while it was finished", hint="does another process collect garbage?"
            )
        return environment

    def _settle(self, room: BuildRoom, folder: Path, say: Callable[[str], None]) -> None:
        """Make what was built final: one time, compiled, shared, read-only; nothing of git is left in the tree."""
        remove_tree(folder / "tree" / ".git")
        settle_times(folder / "venv")
        settle_times(folder / "tree")
        major, minor, _ = room.interpreter.version
        self.store.lend_bytecode(folder / "venv", tag=f"cpython-{major}{minor}", seen_at=room.prefix)
        compile_bytecode(room)
        say("keeping the environment")
        settle_times(folder / "venv" / "bin")
        self.store.share(folder / "venv", paths_count=False, seen_at=room.prefix)
        self.store.share(folder / "tree", paths_count=True)
        make_read_only(folder / "venv")
        settle_times(folder / "build-env")
        self.store.share(folder / "build-env", paths_count=False, seen_at=BUILD_ENV)
        make_read_only(folder / "build-env")

    def _describe(
        self, instance: Instance, recipe: Recipe, interpreter: Interpreter, room: BuildRoom, compiled: Compiled | None
    ) -> dict[str, Any]:
        return {
            "repo": instance.repo,
            "commit": instance.base_commit,
            "recipe_name": recipe.name,
            "python_version": interpreter.text,
            "interpreter": str(interpreter.path),
            "prefix": str(interpreter.prefix),
            "site_folders": [path.relative_to(room.venv).as_posix() for path in site_folders(room.venv)],
            "layout": layout_of(room.sandbox),
            "env": dict(recipe.env),
            "needs_git": recipe.needs_git,
            "compiled": compiled_as_dict(compiled),
        }

    def _load(self, key: str, sandbox: Sandbox) -> Environment | None:
        data = self.store.read(key)
        if data is None:
            return None
        folder = self.store.built / key
        venv = Mount(folder / "venv", VENV, "ro")
        prefix = sandbox.inside(venv)
        version = tuple(int(part) for part in data["python_version"].split("."))
        interpreter = Interpreter(Path(data["interpreter"]), (version[0], version[1], version[2]), Path(data["prefix"]))
        if not interpreter.path.exists():
            return None  # the interpreter was removed: build again with what is there
        if "compiled" not in data and find_artefacts(folder / "tree"):
            return None  # built before extension modules could be rebuilt: what that takes is not there
        try:
            recipe = recipe_from_toml(
                (folder / "recipe.toml").read_text(encoding="utf-8"), where=f"{folder}/recipe.toml"
            )
            lock = (folder / "environment.lock").read_text(encoding="utf-8")
        except (OSError, UsageError):
            return None  # gone, or in the words of another version: build again
        self.store.touch(key)
        return Environment(
            key=key,
            folder=folder,
            python=f"{prefix}/bin/python",
            python_version=interpreter.version,
            site_folders=tuple(f"{prefix}/{name}" for name in data["site_folders"]),
            tree=folder / "tree",
            mounts=(venv, *interpreter_mounts(interpreter)),
            env={"PATH": f"{prefix}/bin:{SYSTEM_PATH}", **data["env"]},
            recipe=recipe,
            lock_text=lock,
            needs_git=bool(data["needs_git"]),
            lacks=tuple(data.get("lacks", ())),
            compiled=compiled_from(data.get("compiled")),
        )

    def choose(
        self, instance: Instance, environment: Environment, sandbox: Sandbox, *, proven: bool = False,
        searched_by: str = "",
    ) -> None:  # fmt: skip
        """Keep ``environment`` as the one for the instance's base commit, see `Choice`."""
        layout = layout_of(sandbox)
        self.store.choose(
            instance.repo,
            instance.base_commit,
            layout,
            Choice(environment.recipe, environment.lock_text, environment.key, proven, searched_by),
        )

    def _given(self, instance: Instance) -> Choice | None:
        if self.recipes is None:
            return None
        path = self.recipes / instance.instance_id / "recipe.toml"
        if not path.is_file():
            return None
        lock = path.with_name("environment.lock")
        return Choice(
            recipe_from_toml(path.read_text(encoding="utf-8"), where=str(path)),
            lock.read_text(encoding="utf-8") if lock.is_file() else "",
        )

    def _interpreter(self, recipe: Recipe, instance: Instance) -> Interpreter:
        there = find_interpreters()
        wanted = parse_minor(recipe.python)
        fitting = [interpreter for interpreter in there if interpreter.minor == wanted]
        if not fitting:
            raise no_interpreter(recipe.python, there, instance_id=instance.instance_id)
        return max(
            fitting,
            key=lambda interpreter: (
                interpreter.headers,
                not interpreter.prefix.is_relative_to("/usr"),
                interpreter.version,
            ),
        )


def commit_date(mirror: Path, commit: str) -> datetime:
    """Return when a commit was made, in UTC. Raises `InfraError` if it is not in the mirror."""
    text = run_git("show", "-s", "--format=%cI", commit, git_dir=mirror).stdout.decode().strip()
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def _tracked(mirror: Path, commit: str) -> frozenset[str]:
    """Return the paths that a commit has."""
    listing = run_git("ls-tree", "-r", "-z", "--name-only", commit, git_dir=mirror).stdout
    return frozenset(os.fsdecode(listing).split("\0"))


def _added_lines(patch: str) -> dict[str, str]:
    """Return the lines that a patch adds, file by file."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in patch.splitlines():
        if line.startswith("+++ "):
            path = re.sub(r"^\+\+\+ (?:b/)?", "", line).split("\t")[0]
            current = [] if path == "/dev/null" else found.setdefault(path, [])
        elif line.startswith("+"):
            current.append(line[1:])
    return {path: "\n".join(lines) for path, lines in found.items()}


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfraError(
            f"an environment can't be built in {root}: {error.strerror or error}", hint="is the disk full?"
        ) from error


def describe(environment: Environment) -> dict[str, Any]:
    """Return what ``swelive env show`` prints, as plain values."""
    log = environment.folder / "build.log"
    kept = environment.folder / "recipe.toml"  # with the reasons, which a recipe that was read has no more
    return {
        "key": environment.key,
        "folder": os.fspath(environment.folder),
        "python": ".".join(map(str, environment.python_version)),
        "recipe": kept.read_text(encoding="utf-8") if kept.is_file() else recipe_to_toml(environment.recipe),
        "lock": environment.lock_text,
        "log": os.fspath(log) if log.exists() else "",
    }
