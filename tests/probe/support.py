"""Runs the probe on a small tree the way the driver does, without a sandbox."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Outcome, Session, reduce_events
from swelive_plugin.grading.launch import Channel, Launch, copy_probe, launch_argv, pytest_args, write_config
from swelive_plugin.readers.events import ChannelRead, read_channel


@dataclass(frozen=True)
class Ran:
    """One probed session: how the process ended, what it printed, what it reported."""

    exit_status: int
    output: str
    read: ChannelRead
    session: Session

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the recorder wrote, without the guard's and the canaries' records and without numbers."""
        own = ("changed", "hook", "saw", "comparison_methods", "modules", "plugins", "canaries")
        return [
            {key: value for key, value in event.items() if key not in ("n", "k")}
            for event in self.read.events
            if event["e"] not in own and event.get("id") not in self.session.canaries
        ]

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome per id, as plain words."""
        return {test_id: record.outcome.value for test_id, record in self.session.tests.items()}

    def phase(self, test_id: str, when: str = "call") -> dict[str, Any]:
        """The one event of that phase."""
        [found] = [e for e in self.events if e["e"] == "phase" and e["id"] == test_id and e["when"] == when]
        return found


def site_folder(python: str) -> str:
    """Return the site-packages folder of an interpreter."""
    if python == sys.executable:
        return sysconfig.get_paths()["purelib"]
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def write_tree(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder; return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def run_probe(
    tree: Path,
    args: Sequence[str] = (),
    *,
    python: str = sys.executable,
    cwd: str = ".",
    timeout_s: float = 60,
    env: Mapping[str, str] | None = None,
    site_folders_more: Sequence[str] = (),
    **more: Any,
) -> Ran:
    """Return what the probe reports of pytest in ``tree``; a session longer than ``timeout_s`` is killed."""
    inside = tree.parent / f"{tree.name}-inside"
    probe = copy_probe(inside)
    launch_env = {"PATH": os.environ.get("PATH", ""), "HOME": str(tree.parent), "LANG": "C.UTF-8", **(env or {})}
    timed_out = False
    log = inside / "output.txt"
    with Channel(inside / "events.jsonl") as channel, log.open("wb") as stream:
        launch = Launch(
            channel_fd=channel.write_fd,
            tree=str(tree),
            site_folders=(site_folder(python), *site_folders_more),
            pytest_args=pytest_args((), extra=args),
            **more,
        )
        config = write_config(launch, inside)
        process = subprocess.Popen(
            launch_argv(python, sys.version_info[:2], str(probe), str(config)),
            cwd=tree / cwd,
            env=launch_env,
            pass_fds=(channel.write_fd,),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        channel.close_write()
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left behind
    read = read_channel(channel.path)
    output = log.read_text(encoding="utf-8", errors="replace")
    return Ran(process.returncode, output, read, reduce_events(read.events, timed_out=timed_out))


WORDS = {
    "PASSED": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
    "ERROR": Outcome.ERROR,
    "SKIPPED": Outcome.SKIPPED,
    "XFAIL": Outcome.XFAILED,
    "XPASS": Outcome.XPASSED,
    "CRASHED": Outcome.CRASHED,
    "NOT_RUN": Outcome.NOT_RUN,
    "TIMEOUT": Outcome.TIMED_OUT,
}
"""The words of the shared cases."""
