"""Each limit ends the command, says so, and leaves nobody behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest

from swelive_plugin.errors import Interrupted, SandboxError
from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from swelive_plugin.sandbox.processes import Usage, Watch, interrupt_all
from tests.sandbox.conftest import PYTHON, Run

MIB = 1024 * 1024

OPEN_DESCRIPTORS = """
import os
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
print([number for number in range(200) if is_open(number)])
"""


@pytest.fixture
def mark() -> str:
    """Something by which this test's processes are found among all others."""
    return f"mark-{uuid.uuid4().hex}"


class BlindTree:
    """A tree that sees nobody and reaches nobody."""

    def usage(self, limits: Limits) -> Usage | None:
        return None

    def kill(self) -> None:
        pass


def carriers_of(mark: str) -> list[int]:
    """Return the processes of the host whose command line or environment holds ``mark``, ourselves aside."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except (psutil.Error, OSError):
            continue
        if process.pid != os.getpid() and any(mark in word for word in words):
            found.append(process.pid)
    return found


def test_output_is_cut_and_the_flood_ended(run: Run) -> None:
    ran = run(
        "import sys\nprint('head')\nwhile True: sys.stdout.write('x' * 65536)",
        limits=Limits(wall_clock_s=30, output_mib=2),
    )
    assert ran.completed.ended_by == "output"
    assert ran.text.startswith("head\n")
    assert len(ran.text) == 2 * MIB


def test_output_below_the_limit_is_whole(run: Run) -> None:
    ran = run("print('x' * (3 << 20)); print('tail')", limits=Limits(wall_clock_s=30, output_mib=4))
    assert (ran.completed.ended_by, len(ran.text)) == ("exit", 3 * MIB + 6)
    assert ran.text.endswith("tail\n")


def test_memory(run: Run) -> None:
    ran = run(
        "import time\nkept = bytearray(90 << 20)\nprint('held', flush=True)\ntime.sleep(30)",
        limits=Limits(wall_clock_s=30, memory_mib=60),
    )
    assert ran.completed.ended_by == "memory"
    assert ran.completed.peak_rss_mib is not None
    assert ran.completed.peak_rss_mib > 60


def test_memory_of_forked_children_is_not_counted_twice(run: Run) -> None:
    """Ten children share what their parent holds: the sum of their resident pages is ten times too much."""
    ran = run(
        "import os, time\nkept = bytearray(40 << 20)\n"
        "children = [pid for _ in range(9) if (pid := os.fork() or time.sleep(0.5) or os._exit(0))]\n"
        "[os.waitpid(pid, 0) for pid in children]\nprint('done')",
        limits=Limits(wall_clock_s=30, memory_mib=200),
    )
    assert (ran.completed.ended_by, ran.text) == ("exit", "done\n")


def test_files_in_memory_count_as_memory(run_hidden: Run) -> None:
    """Everything outside of rw mounts lies in memory, so a disk filler is a memory hog."""
    ran = run_hidden(
        "import time\n"
        "for path in '/tmp/a', '/dev/shm/b', '/home/tester/c':\n"
        "    with open(path, 'wb') as file: file.write(bytes(30 << 20))\n"
        "time.sleep(30)",
        limits=Limits(wall_clock_s=30, memory_mib=80),
    )
    assert ran.completed.ended_by == "memory"


def test_files_in_an_overlay_count_as_memory(bubblewrap: Sandbox, run_hidden: Run, tmp_path: Path) -> None:
    if not bubblewrap.overlays:
        pytest.skip("this bubblewrap or kernel has no overlay")
    ran = run_hidden(
        "import time\nopen('/testbed/big', 'wb').write(bytes(90 << 20))\ntime.sleep(30)",
        mounts=(Mount(tmp_path, "/testbed", "overlay"),),
        limits=Limits(wall_clock_s=30, memory_mib=60),
    )
    assert ran.completed.ended_by == "memory"


def test_processes(run: Run) -> None:
    ran = run(
        "import os, time\nfor _ in range(40):\n    if not os.fork(): time.sleep(30); os._exit(0)\ntime.sleep(30)",
        limits=Limits(wall_clock_s=30, processes=20),
    )
    assert ran.completed.ended_by == "processes"
    assert ran.completed.duration_s < 10


@pytest.mark.parametrize(("most", "ended_by"), [(5, "exit"), (4, "processes")])
def test_every_process_of_the_command_counts_and_no_other(run: Run, most: int, ended_by: str) -> None:
    """A parent and four children are five, in each sandbox: what the sandbox itself needs is not the command's."""
    ran = run(
        "import os, time\n"
        "for _ in range(4):\n"
        "    if not os.fork(): time.sleep(0.8); os._exit(0)\n"
        "for _ in range(4): os.wait()",
        limits=Limits(wall_clock_s=20, processes=most),
    )
    assert ran.completed.ended_by == ended_by


def test_thread_bomb_is_stopped(run_hidden: Run) -> None:
    """One process, forty threads: a count of processes does not see them."""
    ran = run_hidden(
        "import threading, time\n"
        "for _ in range(40): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
        "time.sleep(30)",
        limits=Limits(wall_clock_s=20, processes=1),
    )
    assert ran.completed.ended_by == "processes"


def test_fork_bomb_is_stopped(run_hidden: Run, mark: str) -> None:
    """Every process forks until the depth is reached: 64 of them at most, should the limit fail."""
    ran = run_hidden(
        "import os, time\nfor _ in range(6): os.fork()\ntime.sleep(30)",
        mark,
        limits=Limits(wall_clock_s=20, processes=10),
    )
    assert ran.completed.ended_by == "processes"
    assert carriers_of(mark) == []


def test_cpu_time_is_summed_over_the_tree(run: Run) -> None:
    """Two children that share the work stay below the kernel's limit per process; together they don't."""
    ran = run(
        "import os\nfor _ in range(2):\n    if not os.fork():\n        while True: pass\nos.wait()",
        limits=Limits(wall_clock_s=30, cpu_s=1.2),
    )
    assert ran.completed.ended_by == "cpu"
    assert ran.completed.duration_s < 10


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of another process")
def test_file_size(run: Run) -> None:
    ran = run(
        "import os\n"
        "try:\n    with open(os.environ['HOME'] + '/big', 'wb') as file: file.write(bytes(3 << 20))\n"
        "except OSError as error: print(error.strerror)",
        limits=Limits(wall_clock_s=30, file_size_mib=1),
    )
    assert (ran.completed.ended_by, ran.text) == ("exit", "File too large\n")


def test_daemon_that_holds_the_output_neither_blocks_nor_survives(run: Run, mark: str) -> None:
    """A detached grandchild keeps stdout: who waits for the pipe's end waits for it."""
    ran = run(
        "import os, sys, time\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    if not os.fork():\n        time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.wait(); time.sleep(0.1); print('parent is done')",
        mark,
        limits=Limits(wall_clock_s=30),
    )
    assert (ran.completed.ended_by, ran.text) == ("exit", "parent is done\n")
    assert ran.completed.duration_s < 10
    assert carriers_of(mark) == []


def test_flood_of_a_process_that_got_away_is_not_waited_for(tmp_path: Path) -> None:
    """Without namespaces one can get away (here: the watch is blind); what it writes must not be read for ever."""
    reading, writing = os.pipe()

    def flood() -> None:
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(writing, b"x" * 4096)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        with subprocess.Popen(["true"]) as process, (tmp_path / "output").open("wb", buffering=0) as output:
            process.wait()
            watch = Watch(process, Limits(output_mib=1), BlindTree(), reading, output)
            watch.drain()
    finally:
        os.close(reading)
        thread.join()
        os.close(writing)
    assert 0 < watch.written <= MIB


def test_keyboard_interrupt_kills_the_tree_and_goes_on(run: Run, mark: str) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    # a suite that was started in the background ignores SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run("import time; time.sleep(60)", mark, started=lambda pid: timer.start())
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 10
    assert carriers_of(mark) == []


def test_interrupt_all_ends_the_commands_of_other_threads(run: Run, mark: str) -> None:
    """Ctrl-C reaches only the main thread."""
    told: list[int] = []
    begun = time.monotonic()
    with pytest.raises(Interrupted, match="the run was interrupted"):
        run(
            "import time; time.sleep(60)",
            mark,
            started=lambda pid: threading.Timer(0.3, lambda: told.append(interrupt_all())).start(),
        )
    assert told == [1]
    assert time.monotonic() - begun < 10
    assert carriers_of(mark) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_full_disk_is_our_error_and_ends_the_command(sandbox: Sandbox, mark: str) -> None:
    command = Command(("/bin/sh", "-c", f"echo {mark}; sleep 60"), "/tmp")
    with pytest.raises(SandboxError, match="/dev/full can't be written: No space left on device"):
        sandbox.run(command, output=Path("/dev/full"))
    assert carriers_of(mark) == []


def test_error_in_started_kills_the_tree(run: Run, mark: str) -> None:
    """The very first moment: bubblewrap has not yet said who its child is."""

    def fail(pid: int) -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        run("import time; time.sleep(60)", mark, started=fail)
    assert carriers_of(mark) == []


def test_nothing_outlives_a_killed_driver(tmp_path: Path, bubblewrap: Sandbox, mark: str) -> None:
    """SIGKILL gives the driver no moment to clean up: the kernel must."""
    source = (
        "import sys; from pathlib import Path; from swelive_plugin.sandbox import Command;"
        "from swelive_plugin.sandbox.find import find_sandbox;"
        "find_sandbox('bwrap').run(Command(('/bin/sh', '-c', 'sleep 60; : ' + sys.argv[2]), '/tmp'),"
        " output=Path(sys.argv[1]), started=lambda pid: print(pid, flush=True))"
    )
    argv = [sys.executable, "-c", source, str(tmp_path / "output"), mark]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline().strip().isdigit()
        time.sleep(0.3)
        driver.kill()
    until = time.monotonic() + 10
    while carriers_of(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert carriers_of(mark) == []


def test_killing_the_started_pid_ends_all(run_hidden: Run, mark: str) -> None:
    """Other threads stop a grade by the pid that `started` told them."""
    ran = run_hidden(
        "import os, time\nos.fork()\ntime.sleep(60)",
        mark,
        started=lambda pid: threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start(),
    )
    assert (ran.completed.exit_status, ran.completed.ended_by) == (-9, "signal")
    assert carriers_of(mark) == []


def test_many_threads_run_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    """Descriptors of one grade must not reach the commands of the others, nor outputs be mixed."""
    python = Mount(PYTHON, str(PYTHON))
    results: dict[int, str] = {}

    def grade(number: int) -> None:
        output = tmp_path / f"output{number}"
        source = f"print({number}, end=' ')\n{OPEN_DESCRIPTORS}"
        command = Command((f"{sandbox.inside(python)}/bin/python3", "-I", "-c", source), "/tmp", mounts=(python,))
        sandbox.run(command, output=output)
        results[number] = output.read_text()

    threads = [threading.Thread(target=grade, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number} [0, 1, 2]\n" for number in range(8)}


def test_descriptors_pass_under_their_numbers_and_no_others(run: Run) -> None:
    reading, writing = os.pipe()
    secret = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        ran = run(
            OPEN_DESCRIPTORS + "import sys; os.write(int(sys.argv[1]), b'event')",
            str(writing),
            pass_fds=(writing,),
        )
        os.close(writing)
        assert os.read(reading, 100) == b"event"
        assert os.read(reading, 100) == b""
        assert ran.text == f"{[0, 1, 2, writing]}\n"
    finally:
        os.close(reading)
        os.close(secret)
