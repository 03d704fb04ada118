"""What every sandbox keeps: the seam's own promises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swelive_plugin.errors import SandboxError
from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from tests.sandbox.conftest import Run


def test_output_and_exit_status_come_back(run: Run) -> None:
    ran = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ran.completed.exit_status, ran.completed.ended_by) == (3, "exit")
    assert sorted(ran.text.split()) == ["err", "out"]


def test_death_by_signal_is_told_as_subprocess_does(run: Run) -> None:
    ran = run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (ran.completed.exit_status, ran.completed.ended_by) == (-11, "signal")


def test_wall_clock(run: Run) -> None:
    ran = run("import time; print('begun', flush=True); time.sleep(60)", limits=Limits(wall_clock_s=0.5))
    assert ran.completed.ended_by == "wall_clock"
    assert 0.5 <= ran.completed.duration_s < 5
    assert ran.text == "begun\n"


def test_missing_program_is_our_error_not_a_verdict(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no-such-program"):
        sandbox.run(Command(("no-such-program",), "/tmp"), output=tmp_path / "output")


def test_overlay_leaves_the_source_untouched(bubblewrap: Sandbox, run_hidden: Run, tmp_path: Path) -> None:
    if not bubblewrap.overlays:
        pytest.skip("this bubblewrap or kernel has no overlay")
    tree = tmp_path / "tree"
    (tree / "package").mkdir(parents=True)
    (tree / "package" / "module.py").write_text("x = 1\n")
    ran = run_hidden(
        """
import os, shutil
os.chdir("/testbed")
print(open("package/module.py").read().strip())
for name in "package/module.py", "new":
    with open(name, "w") as file:
        file.write("x = 2")
print(open("package/module.py").read())
shutil.rmtree("package")
os.mkdir("package")
print(sorted(os.listdir(".")), os.listdir("package"))
""",
        mounts=(Mount(tree, "/testbed", "overlay"),),
    )
    assert ran.text.splitlines() == ["x = 1", "x = 2", "['new', 'package'] []"]
    assert [path.name for path in tree.rglob("*")] == ["package", "module.py"]
    assert (tree / "package" / "module.py").read_text() == "x = 1\n"


def test_umask_does_not_depend_on_the_driver(run: Run) -> None:
    """Files that tests make must have the same bits for everybody."""
    before = os.umask(0o077)
    try:
        ran = run("import os; print(oct(os.umask(0)))")
    finally:
        os.umask(before)
    assert ran.text == "0o22\n"


def test_nul_in_a_variable_does_not_become_an_option(bubblewrap: Sandbox, tmp_path: Path) -> None:
    """Bubblewrap's options are parted by NUL: a variable could else mount the host's root."""
    command = Command(("true",), "/", {"A": "x\0--bind\0/\0/"})
    with pytest.raises(SandboxError, match="NUL"):
        bubblewrap.run(command, output=tmp_path / "output")


def test_variables_that_look_like_options_are_variables(run: Run) -> None:
    ran = run("import os; print(os.environ['--file'], os.environ['A'])", env={"--file": "--bind", "A": "--file"})
    assert ran.text == "--bind --file\n"


def test_loopback_of_its_own_works(run_hidden: Run) -> None:
    """Many projects' tests start a server and talk to it, by address and by both names of the machine."""
    ran = run_hidden(
        "import socket\n"
        "for name in '127.0.0.1', 'localhost', socket.gethostname():\n"
        "    with socket.create_server((name, 0)) as server:\n"
        "        socket.create_connection((name, server.getsockname()[1]), timeout=5).close()\n"
        "        print(name)"
    )
    assert ran.text.split() == ["127.0.0.1", "localhost", "testbed"]
