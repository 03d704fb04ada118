"""Face 1: ``pytest -p swelive --swelive-instance=<id>``. Inert unless asked.

Scores in the person's own process, which suits code that they trust; the report says ``"mode": "in-process"``. What is
not trusted is graded by the driver (``swelive grade``), where the answer key stays outside.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from swelive_plugin.core.instance import Instance
    from swelive_plugin.core.policy import Scope
    from swelive_plugin.core.verdict import Verdict

# option: (help, what stands in when nobody says anything)
_OPTIONS: dict[str, tuple[str, str]] = {
    "instance": ("grade this instance: run its FAIL_TO_PASS test files and give a verdict", ""),
    "dataset": ("a hub name, or a .jsonl, .jsonl.gz, .json or .parquet file", "SWE-bench-Live/SWE-bench-Live"),
    "split": ("the split of a hub dataset (default: lite)", ""),
    "report": ("write the verdict to this JSON file", ""),
    "policy": ("how outcomes count: swelive (default), swebench, …", "swelive"),
    "scope": ("f2p-files or all: which test files run when none are named (default: the policy's)", ""),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--swelive-*`` and the ini keys ``swelive_*``; ``SWELIVE_*`` variables count where neither is given."""
    group = parser.getgroup("swelive", "grade a SWE-bench-Live style instance in this checkout")
    for name, (text, default) in _OPTIONS.items():
        told = f"{text} [also: ini key swelive_{name}, variable SWELIVE_{name.upper()}]"
        group.addoption(f"--swelive-{name}", default=None, metavar=name.upper(), help=told)
        parser.addini(f"swelive_{name}", f"{text} (default: {default or 'none'})", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set up grading if an instance was asked for; else leave everything as it is."""
    if hasattr(config, "workerinput"):
        _join_as_worker(config)
        return
    instance_id = _option(config, "instance")
    if not instance_id:
        return
    # children must not inherit the wish: a project that tests pytest starts sessions of its own
    os.environ.pop("SWELIVE_INSTANCE", None)
    grader = _Grader.prepare(config, instance_id)
    config.pluginmanager.register(grader, "swelive-grader")


def _join_as_worker(config: pytest.Config) -> None:
    from swelive_plugin import probe

    probe.pytest_configure(config)


def _option(config: pytest.Config, name: str) -> str:
    given = config.getoption(f"swelive_{name}", None)
    value = given or config.getini(f"swelive_{name}") or os.environ.get(f"SWELIVE_{name.upper()}") or _OPTIONS[name][1]
    return str(value)


class _Grader:
    """One graded session: collects the probe's events and scores them when the session ends."""

    def __init__(self, config: pytest.Config, instance: Instance, scope: Scope, policy: str, report: str) -> None:
        from swelive_plugin.probe import Recorder

        self.config = config
        self.instance = instance
        self.scope = scope
        self.policy = policy
        self.report = report
        self.lines: list[bytes] = []
        self.verdict: Verdict | None = None
        self.recorder = Recorder(self.lines.append)
        config.pluginmanager.register(self.recorder, "swelive-recorder")

    @classmethod
    def prepare(cls, config: pytest.Config, instance_id: str) -> _Grader:
        """Load the instance, choose what to run, and start to record; a mistake ends the session with exit code 2."""
        from swelive_plugin.core.policy import scope_named
        from swelive_plugin.core.scoring import files_to_run
        from swelive_plugin.errors import SweliveError
        from swelive_plugin.extensions import policy_named
        from swelive_plugin.sources.instances import load_instances

        try:
            policy = policy_named(_option(config, "policy"))
            scope = scope_named(_option(config, "scope")) or policy.default_scope
            loaded = load_instances(
                _option(config, "dataset"), split=_option(config, "split") or None, ids=[instance_id]
            )
        except SweliveError as error:
            pytest.exit(f"swelive: {error}", returncode=2)
        instance = loaded[0]
        if not _named_by_person(config):
            root = Path(str(config.invocation_params.dir))
            files = files_to_run(instance, scope)
            _run_only(config, [str(root / name) for name in files if (root / name).exists()])
        if hasattr(config.option, "maxfail"):
            config.option.maxfail = 0  # a session that stops at the first failure leaves the rest unjudged
        return cls(config, instance, scope, policy.name, _option(config, "report"))

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, Any, None]:
        """Score once every other hook has had its say, and make the verdict the exit code."""
        from swelive_plugin.core.verdict import exit_code
        from swelive_plugin.reports.json_report import write_verdict

        yield
        self.recorder.end(int(getattr(session, "exitstatus", exitstatus)))
        self.verdict = self._score()
        if self.report:
            write_verdict(Path(self.report), self.verdict)
        session.exitstatus = exit_code(self.verdict.status)

    def _score(self) -> Verdict:
        from swelive_plugin.core.outcome import reduce_events, with_prefix
        from swelive_plugin.core.scoring import score
        from swelive_plugin.core.verdict import Integrity
        from swelive_plugin.extensions import policy_named
        from swelive_plugin.readers.events import parse_events

        root = Path(str(self.config.invocation_params.dir))
        session = reduce_events(parse_events(self.lines))
        below = os.path.relpath(session.rootdir or root, root)
        if below != "." and not below.startswith(".."):
            session = with_prefix(session, below.replace(os.sep, "/"))
        return score(
            self.instance,
            session,
            policy=policy_named(self.policy),
            scope=self.scope,
            patched_files=_changed_since(root, self.instance),
            integrity=Integrity(mode="in-process", sandbox="none"),
            root=str(root),
        )

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the verdict where a person looks for it."""
        from swelive_plugin.core.verdict import Status
        from swelive_plugin.reports.terminal import verdict_lines

        if self.verdict is None:
            return
        terminalreporter.section(f"swelive: {self.instance.instance_id}", sep="=")
        good = self.verdict.status is Status.RESOLVED
        for number, line in enumerate(verdict_lines(self.verdict)):
            terminalreporter.write_line(line, **({"green": good, "red": not good, "bold": True} if number == 0 else {}))
        if self.report:
            terminalreporter.write_line(f"report: {self.report}")


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


def _changed_since(root: Path, instance: Instance) -> frozenset[str]:
    """Return the files that differ from base_commit in this checkout, but for the hidden tests; empty without git."""
    from swelive_plugin.errors import SweliveError
    from swelive_plugin.workspace.git import run_git
    from swelive_plugin.workspace.patch import touched_paths

    try:
        told = run_git("diff", "--name-only", "-z", "--no-renames", instance.base_commit, "--", cwd=root, timeout_s=60)
        new = run_git("ls-files", "--others", "--exclude-standard", "-z", cwd=root, timeout_s=60)
        hidden = {path for change in touched_paths(instance.test_patch) for path in change.paths}
    except SweliveError:
        return frozenset()
    names = (told.stdout + new.stdout).decode("utf-8", "surrogateescape").split("\0")
    return frozenset(name for name in names if name) - hidden
