"""A driver that gets SIGKILL while it starts a command: defect of a command that outlived it, whatever it did."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swelive_plugin.sandbox import Sandbox

DRIVER = """
import os, signal, sys
from pathlib import Path
from swelive_plugin.sandbox import Command, Mount
from swelive_plugin.sandbox.gate import Gate
from swelive_plugin.sandbox.find import find_sandbox

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def release_and_die(gate, release=Gate.release):
    release(gate)
    die()

mode, moment, output, fd = sys.argv[1:]
sandbox = find_sandbox(mode)
if moment == "released":
    Gate.release = release_and_die
python = Mount(Path(sys.base_prefix), sys.base_prefix)
source = "import os, sys, time; os.write(int(sys.argv[1]), b'ran'); time.sleep(600)"
command = Command(
    (sandbox.inside(python) + "/bin/python3", "-I", "-c", source, fd), "/tmp", mounts=(python,), pass_fds=(int(fd),)
)
print("starting", flush=True)
sandbox.run(command, output=Path(output), started=die if moment == "started" else None)
"""


def what_outlives(sandbox: Sandbox, moment: str, tmp_path: Path) -> bytes:
    """Return what the command wrote before the last process of it was gone; the driver died at ``moment``."""
    told, tell = os.pipe()
    mode = "bwrap" if sandbox.name == "bubblewrap" else "none"
    argv = [sys.executable, "-c", DRIVER, mode, moment, str(tmp_path / "output"), str(tell)]
    try:
        driver = subprocess.run(argv, pass_fds=[tell], stdout=subprocess.PIPE, timeout=60, check=False)
        os.close(tell)
        assert (driver.returncode, driver.stdout) == (-9, b"starting\n")
        said = b""
        while select.select([told], [], [], 20)[0]:  # readable at the latest when every holder of the pipe is gone
            if not (data := os.read(told, 64)):
                return said
            said += data
        pytest.fail("a process of the command outlives its driver")
    finally:
        os.close(told)


def test_driver_killed_before_it_watches_means_stop(sandbox: Sandbox, tmp_path: Path) -> None:
    """The start waited for a byte on a pipe and took the pipe's end, too, for leave to run."""
    assert what_outlives(sandbox, "started", tmp_path) == b""


def test_driver_killed_as_it_lets_the_command_go_ends_it(sandbox: Sandbox, tmp_path: Path) -> None:
    if sandbox.name == "plain" and shutil.which("setpriv") is None:
        pytest.skip("without setpriv (util-linux) the plain sandbox can't bind a command to its driver")
    assert what_outlives(sandbox, "released", tmp_path) in (b"", b"ran")
