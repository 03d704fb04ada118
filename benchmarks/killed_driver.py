"""How often something of a command outlives a driver that SIGKILL hits while it starts the command.

    python benchmarks/killed_driver.py [--drivers 300] [--sandbox bwrap|none]

Each driver is killed at a random moment within the first 30 ms of a start. Prints how many left a process of the
command, and how many a process in which nothing of the command runs; kills both.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

import psutil

DRIVER = """
import sys
from pathlib import Path
from swelive_plugin.sandbox import Command
from swelive_plugin.sandbox.find import find_sandbox
mode, mark, output = sys.argv[1:]
sandbox = find_sandbox(mode)
command = Command(("/bin/sh", "-c", "while :; do sleep 600; done; : " + mark), "/tmp", {"MARK": mark})
print("starting", flush=True)
sandbox.run(command, output=Path(output))
"""


def left_by(mark: str) -> tuple[set[str], set[str]]:
    """Return whose commands still run, and whose sandboxes do in which nothing was started; kill them all."""
    running: set[str] = set()
    waiting: set[str] = set()
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            run = next((word.split(mark)[1].split()[0] for word in words if mark in word), None)
            if run is None or process.pid == os.getpid():
                continue
            (waiting if "bwrap" in words[0] else running).add(run)
            process.kill()
        except (psutil.Error, IndexError):
            continue
    return running, waiting - running


def main() -> None:
    """Kill so many drivers, then count what they left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drivers", type=int, default=300)
    parser.add_argument("--sandbox", choices=["bwrap", "none"], default="bwrap")
    given = parser.parse_args()
    mark = f"killed-driver-{os.getpid()}-"
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.drivers):
            argv = [sys.executable, "-c", DRIVER, given.sandbox, f"{mark}{number}", f"{folder}/output"]
            with subprocess.Popen(argv, stdout=subprocess.PIPE) as driver:
                assert driver.stdout is not None
                assert driver.stdout.readline() == b"starting\n"
                time.sleep(random.uniform(0, 0.03))
                driver.kill()
        time.sleep(2)  # what is about to end may do so
        running, waiting = left_by(mark)
    print(f"{given.drivers} drivers killed: {len(running)} left their command, {len(waiting)} an empty sandbox")


if __name__ == "__main__":
    main()
