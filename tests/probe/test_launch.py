"""How pytest is started: nothing of the tree comes first, and what tests see is as ordinary as possible."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from swelive_plugin.grading.launch import Channel, copy_probe, launch_argv
from swelive_plugin.readers.events import read_channel

from .support import Ran, run_probe, site_folder, write_tree

FORGE = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome, report.longrepr = "passed", None
"""
FAILING = {"test_m.py": "def test_a(): assert 0\n"}
PLAIN = {"guard": False, "canaries": False}


@pytest.mark.parametrize("name", ["pytest", "_pytest", "pluggy", "json", "shlex", "unittest", "site", "tempfile"])
def test_a_module_of_the_tree_shadows_nothing(tmp_path: Path, name: str) -> None:
    tree = write_tree(tmp_path / "t", {**FAILING, f"{name}.py": "raise SystemExit(0)\n"})
    assert run_probe(tree, env={"PYTHONPATH": str(tree)}).outcomes == {"test_m.py::test_a": "failed"}


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_a_start_up_file_of_the_tree_is_not_run(tmp_path: Path, name: str) -> None:
    tree = write_tree(tmp_path / "t", {**FAILING, f"{name}.py": "import os\nos._exit(0)\n"})
    assert run_probe(tree, env={"PYTHONPATH": str(tree)}).outcomes == {"test_m.py::test_a": "failed"}


def test_an_entry_point_in_the_tree_is_not_loaded(tmp_path: Path) -> None:
    files = {
        "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
        "evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = evilplug\n",
        "evilplug.py": FORGE,
    }
    ran = run_probe(write_tree(tmp_path / "t", {**FAILING, **files}))
    assert not [name for name in ran.events[0]["plugins"] if "evil" in name]
    assert not any("forged" in event for event in ran.events)
    assert ran.outcomes == {"test_m.py::test_a": "failed"}


def test_the_project_is_importable_from_the_tree(tmp_path: Path) -> None:
    files = {"lib/__init__.py": "x = 1\n", "tests/test_m.py": "import lib\ndef test_a(): assert lib.x == 1\n"}
    assert run_probe(write_tree(tmp_path / "t", files)).outcomes == {"tests/test_m.py::test_a": "passed"}


def test_extra_path_and_pythonpath_come_first(tmp_path: Path) -> None:
    files = {
        "one/lib.py": "x = 1\n",
        "two/other.py": "x = 2\n",
        "test_m.py": "import lib, other\ndef test_a(): assert (lib.x, other.x) == (1, 2)\n",
    }
    tree = write_tree(tmp_path / "t", files)
    ran = run_probe(tree, extra_path=(str(tree / "one"),), env={"PYTHONPATH": str(tree / "two")})
    assert ran.outcomes == {"test_m.py::test_a": "passed"}, ran.output


def test_what_tests_see_of_the_interpreter_is_ordinary(tmp_path: Path) -> None:
    """multiprocessing and subprocess copy this interpreter's flags: a child without site would miss the environment."""
    source = f"""
import multiprocessing, os, site, subprocess, sys

def child(queue):
    import pytest
    queue.put((sys.prefix, pytest.__file__))

def test_prefix():
    assert sys.prefix == {sys.prefix!r}
    assert sys.executable == {sys.executable!r}
    assert sys.flags.no_site == 0 and sys.flags.isolated == 0
    assert {site_folder(sys.executable)!r} in sys.path
    assert {site_folder(sys.executable)!r} in site.getsitepackages()
    assert subprocess._args_from_interpreter_flags() == []
    assert not any(os.path.exists(os.path.join(entry, "swelive_probe.py")) for entry in sys.path)

def test_child():
    code = "import pytest, sys; print(sys.prefix)"
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert out.decode().strip() == sys.prefix

def test_spawn():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    prefix, file = queue.get(timeout=50)
    process.join()
    assert prefix == sys.prefix
    assert process.exitcode == 0

def test_main():
    assert sys.modules["__main__"].__spec__.name == "pytest.__main__"
    assert exit and quit and help
"""
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert set(ran.outcomes.values()) == {"passed"}, ran.output


def test_an_editable_install_points_at_this_grades_tree(tmp_path: Path) -> None:
    """Without mounts the recorded place of an editable install is another tree: its paths are moved."""
    tree = write_tree(
        tmp_path / "here",
        {
            "src/pathlib_style.py": "where = __file__\n",
            "src/finder_style.py": "where = __file__\n",
            "test_m.py": "import os, pathlib_style, finder_style\n"
            "def test_a():\n"
            "    assert pathlib_style.where == os.path.join(os.getcwd(), 'src', 'pathlib_style.py')\n"
            "    assert finder_style.where == os.path.join(os.getcwd(), 'src', 'finder_style.py')\n",
        },
    )
    recorded = write_tree(tmp_path / "there", {"src/pathlib_style.py": "where = 0\n", "src/finder_style.py": ""})
    site = write_tree(
        tmp_path / "site",
        {
            "project.pth": f"{recorded}/src\n",
            "__editable___x_finder.py": f"""
import importlib.util, sys
MAPPING = {{"finder_style": "{recorded}/src/finder_style"}}
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return importlib.util.spec_from_file_location(name, MAPPING[name] + ".py")
def install(): sys.meta_path.insert(0, Finder)
""",
            "zz.pth": "import __editable___x_finder; __editable___x_finder.install()\n",
        },
    )
    ran = run_probe(tree, path_map=((str(recorded), str(tree)),), site_folders_more=(str(site),))
    assert ran.outcomes == {"test_m.py::test_a": "passed"}, ran.output


def test_the_channel_is_not_inherited_by_children(tmp_path: Path) -> None:
    source = """
import os, subprocess, sys
CODE = '''
import os
pipes = [fd for fd in range(3, 256) if os.path.exists("/proc/self/fd/%d" % fd)
         and os.readlink("/proc/self/fd/%d" % fd).startswith("pipe:")]
print(pipes)
'''
def test_exec():
    out = subprocess.run([sys.executable, "-c", CODE], close_fds=False, stdout=subprocess.PIPE, check=True).stdout
    assert out.decode().strip() == "[]"

def test_fork():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        mine = {os.readlink("/proc/self/fd/%d" % fd) for fd in (read, write)}
        pipes = [fd for fd in range(3, 256) if os.path.exists("/proc/self/fd/%d" % fd)
                 and os.readlink("/proc/self/fd/%d" % fd).startswith("pipe:")
                 and os.readlink("/proc/self/fd/%d" % fd) not in mine]
        os.write(write, repr(pipes).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 100) == b"[]"
"""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("no /proc here")
    ran = run_probe(write_tree(tmp_path / "t", {"test_m.py": source}))
    assert set(ran.outcomes.values()) == {"passed"}, ran.output


def test_the_command_line_keeps_site_away_and_names_the_copied_probe(tmp_path: Path) -> None:
    probe = copy_probe(tmp_path)
    assert launch_argv("python", (3, 6), str(probe), "c.json") == ("python", "-S", str(probe), "c.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "swelive_call_monitor.py",
        "swelive_canaries.py",
        "swelive_channel.py",
        "swelive_comparison_methods.py",
        "swelive_guard.py",
        "swelive_origin.py",
        "swelive_probe.py",
        "swelive_start.py",
    ]


def test_the_channel_keeps_what_was_sent_and_waits_for_nobody(tmp_path: Path) -> None:
    """A stray process may hold the other end for ever."""
    with Channel(tmp_path / "events") as channel:
        held = os.dup(channel.write_fd)
        os.write(channel.write_fd, b"a\n" * 40000)
    os.close(held)
    assert (tmp_path / "events").read_bytes() == b"a\n" * 40000
    assert threading.active_count() == 1 or "swelive-channel" not in {t.name for t in threading.enumerate()}


def test_the_channel_stops_to_write_at_its_limit_but_goes_on_reading(tmp_path: Path) -> None:
    with Channel(tmp_path / "events", limit_mib=1) as channel:
        for _ in range(40):
            os.write(channel.write_fd, b"x" * 65536)
    assert (tmp_path / "events").stat().st_size == 2**20
    assert "limit of 1 MiB" in read_channel(channel.path, limit_mib=1).truncated


def test_only_the_named_distributions_load_their_plugins(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("one", "two"):
        files = {
            f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
            f"{name}-1.dist-info/entry_points.txt": f"[pytest11]\n{name} = plugin_{name}\n",
            f"plugin_{name}.py": "",
        }
        write_tree(site, files)
    tree = write_tree(tmp_path / "t", FAILING)
    free = run_probe(tree, site_folders_more=(str(site),))
    held = run_probe(tree, site_folders_more=(str(site),), plugins=("One",))
    assert {"one", "two"} <= set(free.events[0]["plugin_names"])
    assert held.events[0]["plugin_names"] == ["one"]
    assert [{"plugin_one", "plugin_two"} & set(_registered(ran)) for ran in (free, held)] == [
        {"plugin_one", "plugin_two"},
        {"plugin_one"},
    ]


def _registered(ran: Ran) -> list[str]:
    [event] = [event for event in ran.read.events if event["e"] == "plugins"]
    return list(event["names"])
