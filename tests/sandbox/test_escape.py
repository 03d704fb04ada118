"""What a graded program tries, once each and bounded, and what it gets in the sandbox that hides the host."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swelive_plugin.errors import SandboxError
from swelive_plugin.sandbox import Command, Limits, Mount, Sandbox
from tests.sandbox.conftest import PYTHON, Run

REACH = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
    print("reached")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A server of the host on its loopback address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_no_server_of_the_host_is_reached(run_hidden: Run, port: int) -> None:
    assert run_hidden(REACH, str(port)).text in {"ConnectionRefusedError\n", "OSError\n"}


def test_network_is_there_when_asked_for(run_hidden: Run, port: int) -> None:
    assert run_hidden(REACH, str(port), network=True).text == "reached\n"


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_abstract_sockets_of_the_host_are_not_reached(run_hidden: Run) -> None:
    """They have no file that could be hidden: only a network namespace keeps them out."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0swelive-test")
        server.listen()
        ran = run_hidden("import socket\nsocket.socket(socket.AF_UNIX).connect('\\0swelive-test')")
    assert "ConnectionRefusedError" in ran.text


def test_answer_key_beside_a_mounted_tree_is_not_there(run_hidden: Run, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    key = tmp_path / "key.json"
    key.write_text("the answer")
    ran = run_hidden(
        "import sys\n"
        "for path in sys.argv[1], '/testbed/../key.json', '/proc/1/root' + sys.argv[1], '/proc/1/cwd/../key.json':\n"
        "    try: print(open(path).read())\n"
        "    except OSError as error: print(type(error).__name__)",
        str(key),
        mounts=(Mount(tree, "/testbed", "ro"),),
    )
    assert set(ran.text.split()) <= {"FileNotFoundError", "PermissionError"}


def test_home_and_secrets_of_the_host_are_not_there(run_hidden: Run) -> None:
    """Of the home, only the way to a mounted interpreter that lies below it."""
    home = Path.home()
    secrets = [path for path in (*home.glob("*"), *home.glob(".*")) if path not in (PYTHON, *PYTHON.parents)]
    ran = run_hidden(
        "import os, sys\nprint([p for p in sys.argv[1:] if os.path.exists(p)], os.listdir(os.environ['HOME']))",
        *(str(path) for path in secrets),
        *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/etc/machine-id", "/sys"),
        *("/boot", "/mnt", "/srv", "/media", "/run/docker.sock", "/var/run", "/var/lib", "/dev/kmsg", "/dev/mem"),
    )
    assert ran.text == "[] []\n"


def test_environment_of_the_driver_is_not_inherited(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    ran = run("import os; print(sorted(os.environ))", env={"ASKED": "1"})
    assert "SECRET_TOKEN" not in ran.text
    assert "'ASKED'" in ran.text


def test_environment_of_processes_above_is_not_read(run_hidden: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/<pid>/environ of the driver or of bubblewrap would hold it."""
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    ran = run_hidden(
        "import glob\n"
        "for path in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: print('hunter2' in open(path).read())\n"
        "    except OSError: print(False)"
    )
    assert set(ran.text.split()) == {"False"}


def test_host_processes_are_not_seen(run_hidden: Run) -> None:
    """Two processes: pid 1, which buries the dead, and the command."""
    ran = run_hidden("import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()), os.getppid())")
    assert ran.text == "[1, 2] 1\n"


def test_host_processes_are_not_signalled(run_hidden: Run) -> None:
    ran = run_hidden("import os, sys; os.kill(int(sys.argv[1]), 0)", str(os.getpid()))
    assert "ProcessLookupError" in ran.text


def test_only_its_own_places_are_writable(run_hidden: Run, tmp_path: Path) -> None:
    """Every folder of the tree above is tried, down to the second level."""
    for name in ("environment", "tree"):
        (tmp_path / name).mkdir()
    ran = run_hidden(
        """
import os
folders = ["/"]
for first in os.listdir("/"):
    folder = "/" + first
    if os.path.isdir(folder) and first != "proc":
        folders += [folder] + [folder + "/" + name for name in os.listdir(folder) if os.path.isdir(folder + "/" + name)]
for folder in sorted(folders):
    try:
        open(folder + "/attempt", "w").close()
        print(folder)
    except OSError:
        pass
""",
        mounts=(Mount(tmp_path / "environment", "/environment"), Mount(tmp_path / "tree", "/testbed", "rw")),
    )
    assert ran.text.split() == ["/dev", "/dev/shm", "/home/tester", "/run", "/testbed", "/tmp", "/var/tmp"]
    assert sorted(path.name for path in tmp_path.rglob("attempt")) == ["attempt"]


def test_nothing_of_proc_beyond_its_own_processes_is_writable(run_hidden: Run) -> None:
    """Who is root outside owns /proc/sys inside, and bubblewrap leaves it open: core_pattern runs a program as root."""
    ran = run_hidden(
        """
import os
def ours(path):
    return path.split("/")[2].isdigit() or path.startswith(("/proc/self", "/proc/thread-self"))
for folder, folders, files in os.walk("/proc"):
    folders[:] = [name for name in folders if not ours(folder + "/" + name)]
    for name in files:
        path = folder + "/" + name
        if not ours(path) and os.access(path, os.W_OK) and not os.path.samefile(path, os.devnull):
            if os.stat(path).st_rdev != os.stat(os.devnull).st_rdev:
                print(path)
"""
    )
    assert (ran.text, ran.completed.exit_status) == ("", 0)


def test_capabilities_are_gone_and_stay_gone(run_hidden: Run) -> None:
    ran = run_hidden(
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    print(name, "works" if getattr(libc, name)(*args) == 0 else "refused")
with open("/proc/self/status") as status:
    print(*sorted({line.split()[1] for line in status if line.startswith("Cap")}))
print(os.getuid(), os.geteuid(), os.getgid(), 0 in os.getgroups())
call("mount", None, b"/", None, 32, None)                    # MS_REMOUNT, writable
call("mount", None, b"/usr", None, 32 | 4096, None)          # MS_REMOUNT | MS_BIND
call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)
call("umount2", b"/proc/sys", 2)
call("unshare", 0x10000000)                                  # CLONE_NEWUSER
call("unshare", 0x00020000)                                  # CLONE_NEWNS
call("setuid", 0)
call("setgid", 0)
call("chroot", b"/tmp")
call("sethostname", b"mine", 4)
"""
    )
    first, ids, *calls = ran.text.splitlines()
    assert first == "0000000000000000"
    assert ids == "1000 1000 1000 False"
    assert len(calls) == 10
    assert [call for call in calls if not call.endswith("refused")] == []


def test_permission_bits_bind_also_when_root_started_it(run_hidden: Run) -> None:
    """Projects test that an unreadable file raises; with root's capabilities none would."""
    ran = run_hidden(
        "import os\nopen('/tmp/f', 'w').close(); os.chmod('/tmp/f', 0)\n"
        "try: open('/tmp/f')\nexcept PermissionError: print('refused')"
    )
    assert ran.text == "refused\n"


def test_a_terminal_is_not_there_to_be_written_to(run_hidden: Run) -> None:
    """TIOCSTI pushes commands into the terminal that the driver was started from."""
    ran = run_hidden("open('/dev/tty')")
    assert "OSError" in ran.text


def test_folders_above_a_mount_can_be_passed(run_hidden: Run, tmp_path: Path) -> None:
    """An interpreter may lie below a home that is open to its owner alone."""
    closed = tmp_path / "home"
    (closed / "python").mkdir(parents=True)
    (closed / "python" / "file").write_text("read")
    closed.chmod(0o700)
    inside = str(closed / "python")
    ran = run_hidden(
        "import sys; print(open(sys.argv[1] + '/file').read())", inside, mounts=(Mount(closed / "python", inside),)
    )
    assert ran.text == "read\n"


def test_mounts_may_come_in_any_order(run_hidden: Run, tmp_path: Path) -> None:
    """A child that is given first must not be hidden by its parent."""
    (tmp_path / "tree" / "cache").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("seen")
    mounts = (Mount(tmp_path / "other", "/testbed/cache"), Mount(tmp_path / "tree", "/testbed", "rw"))
    assert run_hidden("print(open('/testbed/cache/file').read())", mounts=mounts).text == "seen\n"


def test_read_only_mounts_stay_so(run_hidden: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    ran = run_hidden(
        "import os\nfor mode in 'w', 'a', 'r+':\n"
        "    try: open('/mounted/file', mode)\n    except OSError as error: print(error.strerror)\n"
        "try: os.chmod('/mounted/file', 0o777)\nexcept OSError as error: print(error.strerror)",
        mounts=(Mount(tmp_path / "file", "/mounted/file"),),
    )
    assert ran.text.splitlines() == ["Read-only file system"] * 4


def test_time_and_language_do_not_depend_on_the_host(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("LC_ALL", "de_DE.ISO-8859-1")
    ran = run("import locale, time; print(time.strftime('%Z'), locale.getpreferredencoding())")
    assert ran.text == "UTC UTF-8\n"


def test_time_zone_is_utc_also_where_a_test_unsets_it(run_hidden: Run) -> None:
    """Without TZ the C library reads /etc/localtime, which must not be the host's."""
    ran = run_hidden("import os, time; del os.environ['TZ']; time.tzset(); print(time.strftime('%Z'), time.timezone)")
    assert ran.text == "UTC 0\n"


def test_command_may_set_its_own_time_zone(run: Run) -> None:
    assert run("import time; print(time.strftime('%Z'))", env={"TZ": "XYZ-3"}).text == "XYZ\n"


def test_home_and_tmp_are_empty_private_and_gone_afterwards(run: Run) -> None:
    source = (
        "import os, tempfile\nprint(os.listdir(os.environ['HOME']), os.listdir(tempfile.gettempdir()))\n"
        "for name in os.environ['HOME'], tempfile.gettempdir(): open(name + '/left', 'w').close(); print(name)"
    )
    first, home, tmp = run(source).text.splitlines()
    assert first == "[] []"
    assert not Path(home, "left").exists()
    assert not Path(tmp, "left").exists()
    assert run(source).text.startswith("[] []\n")


def test_missing_source_is_named(bubblewrap: Sandbox, tmp_path: Path) -> None:
    mount = Mount(tmp_path / "nowhere", "/testbed")
    with pytest.raises(SandboxError, match="nowhere is to be mounted at /testbed but does not exist"):
        bubblewrap.run(Command(("true",), "/", mounts=(mount,)), output=tmp_path / "output")


def test_missing_folder_to_run_in_is_named(bubblewrap: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="/nowhere"):
        bubblewrap.run(Command(("true",), "/nowhere", limits=Limits(wall_clock_s=20)), output=tmp_path / "output")
