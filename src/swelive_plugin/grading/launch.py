"""How the graded pytest is started: the probe's copy, its config file, its command line, and the channel back."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import swelive_plugin
from swelive_plugin.readers.events import CHANNEL_MIB

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "OPTIONS",
    "Channel",
    "Launch",
    "copy_probe",
    "launch_argv",
    "probe_fingerprint",
    "pytest_args",
    "write_config",
]

PROBE_NAME = "swelive_probe.py"
"""The probe's name where it rides: not ``probe``, which a project may use."""

PARTS = ("channel", "start", "origin", "comparison_methods", "guard", "call_monitor", "canaries")
"""The modules of `swelive_plugin.probe` that ride beside it, as ``swelive_<name>.py``."""

OPTIONS: tuple[tuple[str, Any], ...] = (
    # stop early
    ("maxfail", 0),
    ("usepdb", False),
    ("collectonly", False),
    ("continue_on_collection_errors", True),
    # deselect
    ("keyword", ""),
    ("lf", False),
    ("stepwise", False),
    # rerun
    ("reruns", 0),
    ("looponfail", False),
    # reorder
    ("failedfirst", False),
    ("newfirst", False),
    ("randomly_reorganize", False),
    ("random_order", False),
    ("random_order_bucket", "none"),
    ("reverse", False),
    # name each test in the printed summary, so that `swelive score test_output.txt` has something to read
    ("reportchars", "fEsxXp"),
    # one process, so that one recorder sees all
    ("numprocesses", 0),
    ("dist", "no"),
    ("tx", []),
)
"""pytest's and well-known plugins' options (their ``dest``) that a project's addopts must not decide. The probe sets
those that exist after the command line was read, so that an absent plugin is no error and a present one no surprise."""


@dataclass(frozen=True)
class Launch:
    """Everything that the inside needs, in the paths that the inside sees; `write_config` puts it in a file.

    ``site_folders`` are the environment's site-packages folders. ``extra_path`` comes first on ``sys.path`` (a recipe's
    PYTHONPATH; never set that variable for the launch itself: put it in ``env``, which is set when pytest is safe).
    ``path_map`` holds pairs (recorded prefix, prefix here) for sandboxes without mounts: editable installs name the
    place where they were built. ``plugins``, when given, are the only distributions whose entry points are loaded.
    ``test_files`` (relative to ``tree``) are watched: graded code has no business to open them. ``guard`` and
    ``canaries`` switch those layers; what they do: docs/explanation/threat-model.md. ``disguise`` keeps pytest from
    telling the code that it is under test.
    """

    channel_fd: int
    tree: str
    site_folders: tuple[str, ...]
    pytest_args: tuple[str, ...]
    extra_path: tuple[str, ...] = ()
    path_map: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Any], ...] = field(default=OPTIONS)
    plugins: tuple[str, ...] | None = None
    test_files: tuple[str, ...] = ()
    guard: bool = True
    canaries: bool = True
    disguise: bool = False


@cache
def probe_fingerprint() -> str:
    """Return a short hash of all that rides inside: what one probe recorded is no measure for another's sessions."""
    home = Path(swelive_plugin.__file__).parent / "probe"
    files = [home / "recorder.py", *(home / f"{part}.py" for part in PARTS)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def copy_probe(folder: Path) -> Path:
    """Return the path of the probe's copy in ``folder``; its parts lie beside it. Nothing else of ours rides inside."""
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(swelive_plugin.__file__).parent / "probe"
    for part in PARTS:
        shutil.copyfile(home / f"{part}.py", folder / f"swelive_{part}.py")
    return Path(shutil.copyfile(home / "recorder.py", folder / PROBE_NAME))


def write_config(launch: Launch, folder: Path) -> Path:
    """Return the path of ``config.json`` in ``folder``. It holds no secret: the graded code may read it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    content = {**asdict(launch), "options": dict(launch.options), "env": dict(launch.env)}
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def launch_argv(python: str, python_version: tuple[int, int], probe: str, config: str) -> tuple[str, ...]:
    """Return the command that starts the probe.

    ``-S`` keeps ``.pth`` files and ``sitecustomize`` away until pytest and the recorder are imported; the probe then
    does what an ordinary start does. ``-I`` is left out on purpose: the environment is ours, word by word, so ignoring
    it gains nothing and would lose ``PYTHONHASHSEED`` and its like, and children would inherit the flag.
    """
    del python_version  # every Python since 3.6 has the same flags here
    return (python, "-S", probe, config)


def pytest_args(test_files: Sequence[str], *, extra: Sequence[str] = ()) -> tuple[str, ...]:
    """Return pytest's arguments: ``extra`` first, then the files. What addopts must not decide is in `OPTIONS`."""
    return (*extra, *test_files)


class Channel:
    """A pipe to the graded side: pass `write_fd` to the child, read the events from the file afterwards.

    A thread drains the pipe into ``path`` all the time, so that the child never waits; more than ``limit_mib`` is
    thrown away, which `read_channel` sees by the file's size. Leaving the context returns when all that was sent is in
    the file; it never waits for a stray process that still holds the other end.
    """

    def __init__(self, path: Path, *, limit_mib: int = CHANNEL_MIB) -> None:
        self.path = path
        self._left = limit_mib * 2**20
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._drain, name="swelive-channel", daemon=True)

    def __enter__(self) -> Self:
        """Start to drain."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take what is still in the pipe and close it."""
        self.close_write()
        os.write(self._stop_write, b"x")
        self._thread.join()
        for fd in (self._read_fd, self._stop_read, self._stop_write):
            os.close(fd)

    def close_write(self) -> None:
        """Close this side's copy of the write end, once the child has its own."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def _drain(self) -> None:
        with self.path.open("wb", buffering=0) as stream:
            while True:
                ready, _, _ = select.select([self._read_fd, self._stop_read], [], [])
                if self._read_fd in ready:
                    try:
                        chunk = os.read(self._read_fd, 2**16)
                    except BlockingIOError:
                        continue
                    if not chunk:
                        return
                    chunk = chunk[: self._left]
                    self._left -= len(chunk)
                    if chunk:
                        stream.write(chunk)
                elif self._stop_read in ready:
                    return
