"""Runs the probe on a small tree the way the driver does, without a sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swelive_plugin.core.outcome import Outcome, Session, reduce_events
from swelive_plugin.grading.launch import Channel, Launch, copy_probe, launch_argv, pytest_args, write_config


@dataclass(frozen=True)
class Ran:
    """One probed session: how the process ended, what it printed, what it reported."""

    exit_status: int
    output: str
    events: list[dict[str, Any]]
    session: Session

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
    **more: Any,
) -> Ran:
    """Return what the probe reports of pytest in ``tree``; a session longer than ``timeout_s`` is killed."""
    inside = tree.parent / f"{tree.name}-inside"
    probe = copy_probe(inside)
    launch_env = {"PATH": os.environ.get("PATH", ""), "HOME": str(tree.parent), "LANG": "C.UTF-8", **(env or {})}
    timed_out = False
    with Channel(inside / "events.jsonl") as channel:
        launch = Launch(
            channel_fd=channel.write_fd,
            tree=str(tree),
            site_folders=(site_folder(python),),
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
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        channel.close_write()
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            process.kill()
            output, _ = process.communicate()
    events = [json.loads(line) for line in channel.path.read_text(encoding="ascii").splitlines()]
    return Ran(process.returncode, output, events, reduce_events(events, timed_out=timed_out))


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
