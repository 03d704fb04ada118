"""Plugins of others: a reader through the command line, and one clear line for each plugin that is broken."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.outcome import Outcome, Session, TestRecord
from swelive_plugin.errors import UsageError
from swelive_plugin.extensions import executor_named, log_readers, plugin_manager, policies
from swelive_plugin.hookspecs import hookimpl
from tests.cli.test_cli import swelive

ROW = {
    "instance_id": "o__n-1",
    "repo": "o/n",
    "base_commit": "0" * 40,
    "patch": "",
    "test_patch": "",
    "FAIL_TO_PASS": ["t.py::f"],
    "PASS_TO_PASS": [],
}
WORDS = {"ok": Outcome.PASSED, "bad": Outcome.FAILED}


class MyReader:
    """Reads lines ``id: word`` below a first line ``mine``."""

    name = "mine"

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"mine\n")

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        pairs = [line.rsplit(": ", 1) for line in path.read_text().splitlines()[1:]]
        tests = {test_id: TestRecord(test_id, WORDS[word], body_ran=True) for test_id, word in pairs}
        return Session(tests=tests, source=self.name)


class Readers:
    """A plugin that returns these readers, or whatever it is given."""

    def __init__(self, readers: Any) -> None:
        self.readers = readers

    @hookimpl
    def swelive_log_readers(self) -> Any:
        if isinstance(self.readers, Exception):
            raise self.readers
        return self.readers


@pytest.fixture
def plugins() -> Iterator[list[str]]:
    """Register plugins by `register`; all are gone afterwards."""
    names: list[str] = []
    yield names
    for name in names:
        plugin_manager().unregister(name=name)


def register(plugins: list[str], plugin: object, name: str = "theirs") -> None:
    plugin_manager().register(plugin, name)
    plugins.append(name)


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "result.txt").write_text("mine\nt.py::f: ok\n")
    return ["score", str(tmp_path / "result.txt"), "-d", str(tmp_path / "rows.jsonl"), "-i", "o__n-1"]


def test_the_command_line_reaches_a_plugins_reader(
    plugins: list[str], run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: only the six readers of our own had an option."""
    register(plugins, Readers([MyReader()]))
    assert swelive(*run, "--format", "mine") == 0
    assert "finished run (mine)" in capsys.readouterr().out
    assert swelive(*run) == 0  # found by its content
    assert "finished run (mine)" in capsys.readouterr().out
    assert swelive(*run, "--format", "log") == 3
    Path(run[1]).write_text("mine\nt.py::f: bad\n")
    assert swelive(*run, "--format", "mine") == 1


def test_an_unknown_format_names_those_that_there_are(
    plugins: list[str], run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    register(plugins, Readers([MyReader()]))
    assert swelive(*run, "--format", "jnuit") == 2
    assert capsys.readouterr().err == (
        "swelive: no reader is called 'jnuit'\n  there are: mine, events, report-log, json-report, ctrf, junit, log\n"
    )


def test_a_folder_is_read_in_the_format_that_is_named(
    plugins: list[str], run: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register(plugins, Readers([MyReader()]))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "o__n-1.txt").write_text("no first line\nt.py::f: ok\n")
    given = ["score", tmp_path / "runs", "-d", tmp_path / "rows.jsonl", "--json"]
    assert swelive(*given, "--format", "mine") == 0
    assert json.loads(capsys.readouterr().out)["resolved_ids"] == ["o__n-1"]
    assert swelive(*given) == 0
    assert json.loads(capsys.readouterr().out)["resolved_ids"] == []


class Raises(MyReader):
    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        raise AssertionError("no idea")


class ReturnsNothing(MyReader):
    def read(self, path: Path, *, root: str = "/testbed") -> Any:
        return None


class ReturnsOutcomes(MyReader):
    def read(self, path: Path, *, root: str = "/testbed") -> Any:
        return Session(tests={"t.py::f": "passed"})  # type: ignore[dict-item]  # what such a plugin gets wrong


class Unsure(MyReader):
    def recognises(self, head: bytes) -> bool:
        raise KeyError("head")


@pytest.mark.parametrize(
    ("readers", "message"),
    [
        (RuntimeError("no\nway"), "plugin 'theirs': its swelive_log_readers raised RuntimeError: no way"),
        (5, "plugin 'theirs': its swelive_log_readers returned int, not a list of readers"),
        ([MyReader], "which is not one of readers (objects with name, recognises and read)"),
        (["mine"], "returned 'mine', which is not one of readers"),
        ([MyReader(), MyReader()], "plugin 'theirs': the reader 'mine': it has two"),
        ([Raises()], "is not of the form that reader mine knows: AssertionError: no idea"),
        ([ReturnsNothing()], "reader mine returned NoneType, not a Session"),
        ([ReturnsOutcomes()], "reader mine returned Session, not a Session of TestRecords"),
    ],
)
def test_a_broken_reader_is_one_clear_line(
    plugins: list[str], run: list[str], capsys: pytest.CaptureFixture[str], readers: Any, message: str
) -> None:
    register(plugins, Readers(readers))
    assert swelive(*run, "--format", "mine") == 2
    first, *hint = capsys.readouterr().err.splitlines()
    assert message in first
    assert len(hint) == 1


def test_a_reader_that_fails_to_look_is_one_clear_line(
    plugins: list[str], run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    register(plugins, Readers([Unsure()]))
    assert swelive(*run) == 2
    assert capsys.readouterr().err.startswith("swelive: reader mine can't look at a file: KeyError: 'head'\n")


def test_two_plugins_with_a_reader_of_one_name_are_told(plugins: list[str]) -> None:
    register(plugins, Readers([MyReader()]), "one")
    register(plugins, Readers([MyReader()]), "two")
    with pytest.raises(UsageError, match="plugin 'one': the reader 'mine': 'two' has one too"):
        log_readers()


def test_a_plugins_reader_wins_over_the_built_in_one_of_that_name(plugins: list[str]) -> None:
    class Log(MyReader):
        name = "log"

    own = Log()
    register(plugins, Readers([own]))
    assert [reader for reader in log_readers() if reader.name == "log"] == [own]


class Nonsense:
    @hookimpl
    def swelive_policies(self) -> Any:
        return ["swebench"]

    @hookimpl
    def swelive_executors(self, workers: int) -> Any:
        return [workers]


def test_other_hooks_that_return_nonsense_are_told(plugins: list[str]) -> None:
    register(plugins, Nonsense())
    with pytest.raises(UsageError, match="its swelive_policies returned 'swebench', which is not one of policies"):
        policies()
    with pytest.raises(UsageError, match="its swelive_executors returned list, not a mapping by name"):
        executor_named("threads", 1)


def installed(site: Path, package: str, entry: str, source: str) -> None:
    """Put a package with one entry point of the group ``swelive`` into a folder as an installer would."""
    info = site / f"{package}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[swelive]\n{entry}\n")
    (site / f"{package}.py").write_text(source)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugin_manager.cache_clear()
    yield tmp_path / "site"
    plugin_manager.cache_clear()
    for name in ("theirs_a", "theirs_b"):
        sys.modules.pop(name, None)


HOOK = "from swelive_plugin.hookspecs import hookimpl\n@hookimpl\ndef {}({}): return []\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", "it can't be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise ValueError('a\\nb')", "it can't be loaded: ValueError: a b"),
        (HOOK.format("swelive_log_reader", ""), "it can't be loaded: PluginValidationError: unknown hook"),
        (
            HOOK.format("swelive_log_readers", "path"),
            "it can't be loaded: PluginValidationError: Plugin 'mine' for hook",
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_one_clear_line(
    site: Path, run: list[str], capsys: pytest.CaptureFixture[str], source: str, message: str
) -> None:
    installed(site, "theirs_a", "mine = theirs_a", source)
    assert swelive(*run) == 2
    first, hint = capsys.readouterr().err.splitlines()
    assert first.startswith(f"swelive: plugin 'mine': {message}")
    assert hint == "  mend or uninstall the package theirs_a"


def test_a_plugin_of_a_package_is_loaded_once_where_the_package_is_found_twice(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(site, "theirs_a", "mine = theirs_a", HOOK.format("swelive_log_readers", ""))
    monkeypatch.syspath_prepend(str(site) + "/")
    assert plugin_manager().has_plugin("mine")


def test_two_packages_with_a_plugin_of_one_name_are_told(site: Path) -> None:
    for package in ("theirs_a", "theirs_b"):
        installed(site, package, f"mine = {package}", HOOK.format("swelive_log_readers", ""))
    with pytest.raises(UsageError, match=r"plugin 'mine': theirs_[ab] brings a second plugin of that name"):
        plugin_manager()
