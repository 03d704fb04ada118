"""One attempt: a fresh work tree, the agent in the sandbox, and what it left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from swelive_plugin.core.instance import Instance
from swelive_plugin.environments import TESTBED
from swelive_plugin.errors import InstanceError
from swelive_plugin.grading.settings import scratch
from swelive_plugin.grading.testbed import Testbed
from swelive_plugin.sandbox import Command, Limits, Mount
from swelive_plugin.tier.agents import Agent, Surroundings
from swelive_plugin.tier.layout import Task
from swelive_plugin.tier.worktree import Work, collect_work
from swelive_plugin.workspace.apply import apply_patch
from swelive_plugin.workspace.checkout import export_tree, link_tree
from swelive_plugin.workspace.patch_repair import normalise_patch

__all__ = ["AgentRun", "run_agent", "used_bytes"]

PROMPT = "/opt/swelive/task"
OUT = "/opt/swelive/out"
MIB = 2**20
_COST_BYTES = MIB
_LOG_MIB = 256
_ENTRY_BYTES = 4096
_RESERVE_MIB = 512  # so much of the disk stays free, whatever an agent writes


@dataclass(frozen=True)
class AgentRun:
    """How one agent did in one attempt. ``ended_by`` is the sandbox's word, or ``disk``; built-in agents ``exit``."""

    ended_by: str
    exit_status: int
    duration_s: float
    peak_rss_mib: float | None = None
    work: Work = field(default_factory=lambda: Work(""))
    cost: Mapping[str, Any] | None = None


def run_agent(agent: Agent, task: Task, testbed: Testbed, surroundings: Surroundings, *, log: Path) -> AgentRun:
    """Return what ``agent`` made of a fresh work tree; its output goes to ``log``.

    It sees the work tree at ``/testbed``, the environment's interpreter first on its PATH, the prompt and a folder for
    ``cost.json``: nothing of the tier, the answer key or the caches. Raises `InfraError` where our side failed, and
    when it is interrupted; what the agent does is in the result.
    """
    environment, mirror = testbed.environment, testbed.mirror
    with scratch(testbed.settings.cache) as work:
        base, tree = work / "base", work / "tree"
        export_tree(mirror, task.base_commit, base)
        _add_generated(environment.tree, base)
        link_tree(base, tree, private=True)
        export_tree(mirror, task.base_commit, work / "history", with_git=True)
        (work / "history" / ".git").rename(tree / ".git")
        testbed.progress(f"{agent.name} at work")
        if not agent.command:
            return _built_in(agent, testbed.instance, base, tree, log)
        out = work / "out"
        out.mkdir()
        command = _command(agent, task, testbed, surroundings, work=work, tree=tree)
        with _DiskGuard([tree, out], surroundings.disk_mib) as guard:
            completed = testbed.sandbox.run(command, output=log, started=guard.started)
        cost = _take_cost(out, None) or _take_cost(tree, base)
        return AgentRun(
            ended_by="disk" if guard.full else completed.ended_by,
            exit_status=completed.exit_status,
            duration_s=round(completed.duration_s, 3),
            peak_rss_mib=completed.peak_rss_mib,
            work=collect_work(base, tree),
            cost=cost,
        )


def _add_generated(built: Path, base: Path) -> None:
    """Put in what the build left in the prepared tree (compiled modules, versions): the agent's tests need it too."""
    for root, folders, files in os.walk(built):
        inside = Path(root).relative_to(built)
        folders[:] = [name for name in folders if name != ".git" and not (Path(root) / name).is_symlink()]
        for name in files:
            target = base / inside / name
            source = Path(root) / name
            if not os.path.lexists(target) and not source.is_symlink() and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
                target.chmod(target.stat().st_mode | stat.S_IRUSR | stat.S_IWUSR)  # the store is read-only


def _built_in(agent: Agent, instance: Instance, base: Path, tree: Path, log: Path) -> AgentRun:
    began = time.perf_counter()
    log.write_text("", "utf-8")
    if agent.name == "gold":
        if not instance.patch.strip():
            raise InstanceError(f"{instance.instance_id} has no gold patch: its row's patch is empty")
        text, _ = normalise_patch(instance.patch, tree)
        apply_patch(text, tree, what="the gold patch")
    return AgentRun("exit", 0, round(time.perf_counter() - began, 3), work=collect_work(base, tree))


def _command(
    agent: Agent, task: Task, testbed: Testbed, surroundings: Surroundings, *, work: Path, tree: Path
) -> Command:
    environment, sandbox = testbed.environment, testbed.sandbox
    prompt = work / "task"
    prompt.mkdir()
    (prompt / "prompt.txt").write_text(task.prompt, "utf-8")
    mounts = {"tree": Mount(tree, TESTBED, "rw"), "task": Mount(prompt, PROMPT), "out": Mount(work / "out", OUT, "rw")}
    places = {
        "workdir": sandbox.inside(mounts["tree"]),
        "prompt_file": sandbox.inside(mounts["task"]) + "/prompt.txt",
        "out_dir": sandbox.inside(mounts["out"]),
    }
    env = {f"SWELIVE_{name.upper()}": value for name, value in places.items()}
    more: tuple[Mount, ...] = ()
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if sandbox.inside(mounts["tree"]) == TESTBED:
        # where nothing is mounted the editable install would show the prepared tree instead of the agent's own
        path = f"{PurePosixPath(environment.python).parent}:{path}"
        more = environment.mounts
        env |= dict(environment.env)
    own = tuple(Mount(folder, str(folder)) for folder in surroundings.mounts)
    return Command(
        argv=("/bin/sh", "-c", agent.shell(places)),
        cwd=places["workdir"],
        env={"PATH": path, **env, **surroundings.env},
        mounts=(*more, *own, *mounts.values()),
        network=surroundings.network,
        limits=Limits(
            wall_clock_s=surroundings.timeout_s,
            memory_mib=surroundings.memory_mib,
            processes=surroundings.processes,
            file_size_mib=surroundings.disk_mib,
            output_mib=_LOG_MIB,
        ),
    )


class _DiskGuard:
    """Ends a command that fills the disk: a sandbox bounds memory and processes, not writing to a real folder."""

    def __init__(self, folders: list[Path], limit_mib: int) -> None:
        self.full = False
        self._folders, self._limit = folders, limit_mib * MIB
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> _DiskGuard:  # noqa: PYI034  typing.Self is there from 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def started(self, pid: int) -> None:
        """Watch from now on; ``pid`` is the process whose end is the end of all."""
        self._thread = threading.Thread(target=self._watch, args=(pid,), name="swelive-disk", daemon=True)
        self._thread.start()

    def _watch(self, pid: int) -> None:
        next_look = 0.0
        while not self._stop.wait(0.2):
            free = shutil.disk_usage(self._folders[0].parent).free
            began = time.monotonic()
            too_much = free < _RESERVE_MIB * MIB
            if not too_much and began >= next_look:
                too_much = sum(map(used_bytes, self._folders)) > self._limit
                next_look = time.monotonic() + max(1.0, 10 * (time.monotonic() - began))
            if too_much:
                self.full = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                return


def used_bytes(folder: Path) -> int:
    """Return the bytes that a folder holds on disk; an empty file costs an entry, and a million of them cost a disk."""
    return sum(max(status.st_blocks * 512, _ENTRY_BYTES) for status in _walk(str(folder)))


def _walk(folder: str) -> Iterator[os.stat_result]:
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        yield status
                        if stat.S_ISDIR(status.st_mode):
                            pending.append(entry.path)
        except OSError:
            continue


def _take_cost(folder: Path, base: Path | None) -> Mapping[str, Any] | None:
    """Return what ``cost.json`` tells, taken out of the folder so that it is no change of the agent's."""
    path = folder / "cost.json"
    if base is not None and os.path.lexists(base / "cost.json"):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as stream:  # noqa: PTH123  a descriptor
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = stream.read(_COST_BYTES + 1)
    try:
        told = json.loads(data) if len(data) <= _COST_BYTES else None
    except (ValueError, RecursionError):
        told = None
    if base is not None:
        with contextlib.suppress(OSError):
            path.unlink()
    return told if isinstance(told, dict) else None
