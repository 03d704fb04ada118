"""Bad repositories, locks, disks and stores: each gives one clear line that says what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from swelive_plugin.doctor import examine
from swelive_plugin.environments.build import build_error
from swelive_plugin.environments.store import Store
from swelive_plugin.errors import EnvironmentBuildError, InfraError
from swelive_plugin.sandbox import Completed
from tests.cli.test_cli import swelive

BROKEN_TOML = """error: Failed to build `calc @ file:///testbed`
  cause: Failed to parse metadata from built wheel
  cause: Invalid `pyproject.toml`
  cause: TOML parse error at line 1, column 9
           |
         1 | [project
"""
PRIVATE = """error: No solution found when resolving dependencies
  cause: Because internal-lib was not found in the package registry and calc==1 depends on internal-lib==1.0, no.
"""
ASKS = '  File "<string>", line 1, in <module>\nEOFError: EOF when reading a line\n'
REMOVED = """error: No solution found when resolving dependencies
  cause: Because there is no version of iniconfig==2.0.99 and you require iniconfig==2.0.99, no.
"""


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (BROKEN_TOML, "Invalid `pyproject.toml`: TOML parse error at line 1, column 9", "is broken"),
        (PRIVATE, "internal-lib was not found in the package registry", "UV_INDEX"),
        (ASKS, "EOFError", "asks for input"),
        ("error: Distribution not found at: file:///home/dev/x", "file:///home/dev/x", "developers' own machine"),
        (REMOVED, "no version of iniconfig==2.0.99", "`swelive env build --redo`"),
    ],
)
def test_failed_build_says_what_to_do_next(text: str, said: str, hint: str) -> None:
    error = build_error("resolving", Completed(1, "exit", 5.0), text)
    assert isinstance(error, EnvironmentBuildError)
    assert "\n" not in error.message
    assert said in error.message
    assert hint in error.hint


def test_full_disk_is_our_failure_and_graded_again() -> None:
    """It was taken for the environment's: a resumed run kept the verdict, and the search another recipe."""
    error = build_error("installing", Completed(2, "exit", 5.0), "error: No space left on device (os error 28)")
    assert isinstance(error, InfraError)
    assert "gc --max-size" in error.hint


@pytest.mark.parametrize("args", [("list",), ("gc", "--max-size", "0")])
def test_store_of_another_version_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    """`list` found nothing in it, and `gc` would have cleared what it does not know."""
    root = tmp_path / "environments"
    (root / "built" / "key").mkdir(parents=True)
    (root / "store.json").write_text('{"version": 99}')
    assert swelive("env", *args, "--cache", tmp_path) == 3
    assert "was made by another version of this package (layout 99" in capsys.readouterr().err
    assert (root / "built" / "key").is_dir()
    disk = {check.name: check for check in examine(tmp_path, offline=True)}["disk"]
    assert (disk.state, "another version" in disk.found) == ("missing", True)
    assert disk.hint


def test_store_that_is_not_there_yet_is_of_this_version(tmp_path: Path) -> None:
    Store(tmp_path / "environments").check_version()
    assert not (tmp_path / "environments").exists()
