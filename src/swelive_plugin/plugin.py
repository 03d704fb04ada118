"""Face 1: ``pytest -p swelive --swelive-instance=<id>``. Inert unless asked.

Scores in the person's own process, which suits code that they trust; the report says ``"mode": "in-process"``. What is
not trusted is graded by the driver (``swelive grade``), where the answer key stays outside.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

if TYPE_CHECKING:
    from swelive_plugin.core.verdict import Verdict
    from swelive_plugin.deselected import Deselected
    from swelive_plugin.inprocess import CrashSupervisor, Request

# option: (help, what stands in when nobody says anything)
_OPTIONS: dict[str, tuple[str, str]] = {
    "instance": ("grade this instance: run its FAIL_TO_PASS test files and give a verdict", ""),
    "dataset": ("a hub name, or a .jsonl, .jsonl.gz, .json or .parquet file", "SWE-bench-Live/SWE-bench-Live"),
    "split": ("the split of a hub dataset (default: lite)", ""),
    "report": ("write the verdict to this JSON file", ""),
    "policy": ("how outcomes count: swelive (default), swebench, …", "swelive"),
    "any_commit": ("grade a checkout whose HEAD is not the instance's base_commit, too", ""),
    "scope": ("f2p-files or all: which test files run when none are named (default: the policy's)", ""),
}


_FLAGS = frozenset({"any_commit"})

_GRADER: pytest.StashKey[_Grader] = pytest.StashKey()


def option_of(name: str) -> str:
    """Return how the option of that name is written on the command line."""
    return f"--swelive-{name.replace('_', '-')}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--swelive-*`` and the ini keys ``swelive_*``; ``SWELIVE_*`` variables count where neither is given."""
    group = parser.getgroup("swelive", "grade a SWE-bench-Live style instance in this checkout")
    for name, (text, default) in _OPTIONS.items():
        told = f"{text} [also: ini key swelive_{name}, variable SWELIVE_{name.upper()}]"
        option = option_of(name)
        if name in _FLAGS:
            group.addoption(option, dest=f"swelive_{name}", default=None, action="store_const", const="1", help=told)
        else:
            group.addoption(option, dest=f"swelive_{name}", default=None, metavar=name.upper(), help=told)
        parser.addini(f"swelive_{name}", f"{text} (default: {default or 'none'})", default="")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Judge a checkout whose conftest.py can't be imported: no session ever begins, which is no resolved one."""
    try:
        return (yield)
    except Exception as error:
        if not _option(early_config, "instance") or hasattr(early_config, "workerinput"):
            raise
        cause = error.__cause__ or error
        request = _request(early_config)
        told = {"e": "internal_error", "msg": f"conftest: {type(cause).__name__}: {cause}"}
        lines = [json.dumps(event).encode() + b"\n" for event in (told, {"e": "end", "exitstatus": 4})]
        raise SystemExit(_tell(early_config, request.verdict(lines), request)) from error


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run the session in a child, so that code which takes the process down can't have the last word."""
    if hasattr(config, "workerinput") or not _option(config, "instance") or not _runs_tests(config):
        return None
    request = dataclasses.replace(_request(config), deselected=_deselected(config))
    # children must not inherit the wish: a project that tests pytest starts sessions of its own
    os.environ.pop("SWELIVE_INSTANCE", None)
    from swelive_plugin.errors import SweliveError
    from swelive_plugin.inprocess import CrashSupervisor

    try:
        request.begin()
    except SweliveError as error:
        _say(config, [f"swelive: {error}"], sys.stderr)
        return 2
    supervisor = CrashSupervisor()
    config.stash[_GRADER] = _Grader(config, request, supervisor)
    if not hasattr(os, "fork") or getattr(config.option, "usepdb", False):
        return None
    session = config.pluginmanager.subset_hook_caller("pytest_cmdline_main", [sys.modules[__name__]])

    def run() -> int:
        try:
            return int(session(config=config) or 0)
        finally:
            config._ensure_unconfigure()

    def broken(lines: list[bytes], stopped: bool) -> int:
        return _tell(config, request.verdict(lines, timed_out=stopped), request)

    return supervisor.watch(run, broken)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set up grading if an instance was asked for; else leave everything as it is."""
    if hasattr(config, "workerinput"):
        _join_as_worker(config)
        return
    grader = config.stash.get(_GRADER, None)
    if grader is not None:
        grader.join()


def _runs_tests(config: pytest.Config) -> bool:
    """Return whether this is a session and not one of pytest's ways to show something."""
    shows = ("help", "version", "collectonly", "showfixtures", "show_fixtures_per_test", "markers", "cacheshow")
    return not any(getattr(config.option, name, None) for name in shows)


def _request(config: pytest.Config) -> Request:
    """Return what was asked for; a mistake is one clear line and exit code 2."""
    from swelive_plugin.errors import SweliveError
    from swelive_plugin.inprocess import request_from

    try:
        return request_from(partial(_option, config), Path(str(config.invocation_params.dir)))
    except SweliveError as error:
        _say(config, [f"swelive: {error}"], sys.stderr)
        raise SystemExit(2) from None


def _deselected(config: pytest.Config) -> Deselected:
    """Return what the arguments of the very command line narrow: `config.option` holds an ini file's as well."""
    from swelive_plugin.deselected import Deselected

    given = config._parser.parse_known_args(list(map(str, config.invocation_params.args)))
    return Deselected.of(given, Path(str(config.invocation_params.dir)))


def _say(config: pytest.Config, lines: list[str], stream: TextIO) -> None:
    capture = config.pluginmanager.get_plugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture()
    stream.write("\n".join(lines) + "\n")
    stream.flush()


def _tell(config: pytest.Config, verdict: Verdict, request: Request) -> int:
    """Print a verdict where no terminal reporter is left to do it, and return the exit code."""
    from swelive_plugin.core.verdict import exit_code
    from swelive_plugin.reports.terminal import verdict_lines

    head = f" swelive: {request.instance.instance_id} ".center(80, "=")
    _say(config, ["", head, *verdict_lines(verdict), request.write(verdict)], sys.stdout)
    return exit_code(verdict.status)


def _join_as_worker(config: pytest.Config) -> None:
    from swelive_plugin.probe import recorder

    recorder.pytest_configure(config)


def _option(config: pytest.Config, name: str) -> str:
    # while conftest files are loaded the options are only known, not yet taken over
    known = getattr(config, "known_args_namespace", None)
    given = config.getoption(f"swelive_{name}", None) or getattr(known, f"swelive_{name}", None)
    value = given or config.getini(f"swelive_{name}") or os.environ.get(f"SWELIVE_{name.upper()}") or _OPTIONS[name][1]
    return str(value)


class _Grader:
    """One graded session: collects the probe's events and scores them when the session ends."""

    def __init__(self, config: pytest.Config, request: Request, supervisor: CrashSupervisor) -> None:
        self.config = config
        self.request = request
        self.supervisor = supervisor
        self.verdict: Verdict | None = None
        self.told = ""

    def join(self) -> None:
        """Take part in the session: choose what to run, and record."""
        from swelive_plugin.core.scoring import files_to_run
        from swelive_plugin.probe.recorder import Recorder

        self.recorder = Recorder(self.supervisor.record)  # made here, since a recorder is silent after a fork
        self.config.pluginmanager.register(self.recorder, "swelive-recorder")
        self.config.pluginmanager.register(self, "swelive-grader")
        if not _named_by_person(self.config):
            root = self.request.root
            files = files_to_run(self.request.instance, self.request.scope)
            _run_only(self.config, [str(root / name) for name in files if (root / name).exists()])
        if hasattr(self.config.option, "maxfail"):
            self.config.option.maxfail = 0  # a session that stops at the first failure leaves the rest unjudged

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, Any, None]:
        """Score once every other hook has had its say, and make the verdict the exit code."""
        from swelive_plugin.core.verdict import exit_code

        yield
        self.recorder.end(int(getattr(session, "exitstatus", exitstatus)))
        self.verdict = self.request.verdict(self.supervisor.lines)
        self.told = self.request.write(self.verdict)
        session.exitstatus = exit_code(self.verdict.status)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the verdict where a person looks for it."""
        from swelive_plugin.core.verdict import Status
        from swelive_plugin.reports.terminal import verdict_lines

        if self.verdict is None:
            return
        terminalreporter.section(f"swelive: {self.request.instance.instance_id}", sep="=")
        good = self.verdict.status is Status.RESOLVED
        for number, line in enumerate(verdict_lines(self.verdict)):
            terminalreporter.write_line(line, **({"green": good, "red": not good, "bold": True} if number == 0 else {}))
        if self.told:
            terminalreporter.write_line(self.told)


def _run_only(config: pytest.Config, files: list[str]) -> None:
    """Narrow the session to ``files``; with none of them there, what the project runs shows what is missing."""
    if files:
        config.args[:] = files
        # xdist's workers parse the invocation's own arguments again
        invocation = config.invocation_params
        config.invocation_params = dataclasses.replace(invocation, args=(*invocation.args, *files))


def _named_by_person(config: pytest.Config) -> bool:
    source = getattr(config, "args_source", None)
    return source is None or source.name == "ARGS"
