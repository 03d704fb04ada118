"""One session: pytest in an environment, over a tree, under the probe, in a sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from swelive_plugin.core.outcome import Session, with_prefix
from swelive_plugin.environments import TESTBED
from swelive_plugin.grading.launch import Channel, Launch, copy_probe, launch_argv, write_config
from swelive_plugin.grading.rebuild import session_environment
from swelive_plugin.readers.events import ChannelRead, read_channel, session_of
from swelive_plugin.sandbox import Command, Completed, Limits, Mount

if TYPE_CHECKING:
    from swelive_plugin.grading.testbed import Prepared, Testbed, Variant

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
    testbed: Testbed, variant: Variant, prepared: Prepared, files: Sequence[str], *, folder: Path, work: Path
) -> SessionResult:
    """Run ``files`` of a prepared tree, or the tests that the variant names, and return what came of it.

    The tree must be private to this call: where the sandbox has no throw-away layers, the tests write into it.
    ``files`` hold the hidden tests: the code under test has no business to open them.
    ``folder`` gets ``events.jsonl`` and ``test_output.txt``, ``work`` what is thrown away afterwards. Raises
    `SandboxError` if the session could not be started; what the session itself does (crash, hang) is in the result.
    """
    environment = session_environment(testbed.environment, prepared.rebuilt)
    sandbox, settings = testbed.sandbox, testbed.settings
    folder.mkdir(parents=True, exist_ok=True)
    tree_mount = Mount(prepared.tree, TESTBED, "overlay" if sandbox.overlays else "rw")
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
            pytest_args=variant.tests or tuple(files),
            path_map=() if root == TESTBED else ((str(environment.tree), root),),
            test_files=tuple(files),
            plugins=variant.plugins,
            disguise=variant.disguise,
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
        completed = sandbox.run(command, output=output)
    session, read = _read(events, root, timed_out=completed.ended_by == "wall_clock")
    return SessionResult(session, read, completed, events, output, root)


def read_session_folder(folder: Path, *, root: str, timed_out: bool) -> tuple[Session, ChannelRead]:
    """Return the session that was recorded in ``folder``, and its records; ``root`` is its tree's path inside."""
    return _read(folder / "events.jsonl", root, timed_out=timed_out)


def _read(events: Path, root: str, *, timed_out: bool) -> tuple[Session, ChannelRead]:
    read = read_channel(events)
    return _relative_to(session_of(read, timed_out=timed_out), root), read


def _relative_to(session: Session, root: str) -> Session:
    """Ids are relative to pytest's rootdir; recorded ones to the checkout: put the difference back."""
    if session.rootdir.startswith(root.rstrip("/") + "/"):
        return with_prefix(session, session.rootdir[len(root.rstrip("/")) + 1 :].strip("/"))
    return session
