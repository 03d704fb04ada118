"""One session: pytest in an environment, over a tree, under the probe, in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swelive_plugin.core.outcome import Session, reduce_events, with_prefix
from swelive_plugin.environments import TESTBED, Environment
from swelive_plugin.grading.launch import Channel, Launch, copy_probe, launch_argv, pytest_args, write_config
from swelive_plugin.grading.settings import Settings
from swelive_plugin.integrity.judge import ChannelRead, read_channel
from swelive_plugin.sandbox import Command, Completed, Limits, Mount, Sandbox

__all__ = ["SessionResult", "read_session_folder", "run_session"]

INSIDE = "/opt/swelive/inside"


@dataclass(frozen=True)
class SessionResult:
    """What one session left: its outcomes, how it ended, and the files that show it."""

    session: Session
    read: ChannelRead
    completed: Completed
    events: Path
    output: Path
    root: str


def run_session(
    environment: Environment,
    tree: Path,
    test_files: Sequence[str],
    *,
    sandbox: Sandbox,
    settings: Settings,
    folder: Path,
    work: Path,
    extra_args: Sequence[str] = (),
    plugins: Sequence[str] | None = None,
    disguise: bool = False,
    started: Callable[[int], None] | None = None,
) -> SessionResult:
    """Run ``test_files`` of ``tree`` whole and return what came of it.

    ``tree`` must be private to this call: where the sandbox has no throw-away layers, the tests write into it.
    ``plugins``, when given, are the only distributions whose pytest plugins load by themselves.
    ``folder`` gets ``events.jsonl`` and ``test_output.txt``, ``work`` what is thrown away afterwards. Raises
    `SandboxError` if the session could not be started; what the session itself does (crash, hang) is in the result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tree_mount = Mount(tree, TESTBED, "overlay" if sandbox.overlays else "rw")
    root = sandbox.inside(tree_mount)
    inside_folder = work / "inside"
    inside_folder.mkdir(exist_ok=True)
    inside_mount = Mount(inside_folder, INSIDE, "ro")
    inside = sandbox.inside(inside_mount)
    events, output = folder / "events.jsonl", folder / "test_output.txt"
    probe = copy_probe(inside_folder)
    with Channel(events) as channel:
        launch = Launch(
            channel_fd=channel.write_fd,
            tree=root,
            site_folders=environment.site_folders,
            pytest_args=pytest_args(test_files, extra=extra_args),
            path_map=() if root == TESTBED else ((str(environment.tree), root),),
            test_files=tuple(test_files),
            plugins=None if plugins is None else tuple(plugins),
            disguise=disguise,
            extra_path=tuple(environment.env.get("PYTHONPATH", "").split(":"))
            if "PYTHONPATH" in environment.env
            else (),
            env=tuple(environment.env.items()),
        )
        config = write_config(launch, inside_folder)
        command = Command(
            argv=launch_argv(
                environment.python, environment.python_version[:2], f"{inside}/{probe.name}", f"{inside}/{config.name}"
            ),
            cwd=root,
            # PYTHONPATH would put the tree before pytest: the launch adds it when pytest is there
            env={name: value for name, value in environment.env.items() if name != "PYTHONPATH"},
            mounts=(*environment.mounts, inside_mount, tree_mount),
            network=settings.network,
            limits=Limits(
                wall_clock_s=settings.timeout_s,
                memory_mib=settings.memory_mib,
                processes=settings.processes,
            ),
            pass_fds=(channel.write_fd,),
        )
        completed = sandbox.run(command, output=output, started=started)
    session, read = _read(events, root, timed_out=completed.ended_by == "wall_clock")
    return SessionResult(session, read, completed, events, output, root)


def read_session_folder(folder: Path) -> tuple[Session, ChannelRead]:
    """Return the session that was kept in ``folder`` with its ``done.json``, and its records."""
    done = json.loads((folder / "done.json").read_text("utf-8"))
    return _read(folder / "events.jsonl", done["root"], timed_out=done["ended_by"] == "wall_clock")


def _read(events: Path, root: str, *, timed_out: bool) -> tuple[Session, ChannelRead]:
    read = read_channel(events)
    return _relative_to(reduce_events(read.events, timed_out=timed_out), root), read


def _relative_to(session: Session, root: str) -> Session:
    """Ids are relative to pytest's rootdir; recorded ones to the checkout: put the difference back."""
    if session.rootdir.startswith(root.rstrip("/") + "/"):
        return with_prefix(session, session.rootdir[len(root.rstrip("/")) + 1 :].strip("/"))
    return session
