"""The library's own functions around the core: score a finished run from its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from swelive_plugin.core.decide import Evidence, decide
from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import Policy, Scope, scope_named
from swelive_plugin.core.rebase_ids import rebased
from swelive_plugin.core.scoring import files_to_run
from swelive_plugin.core.verdict import Finding, Integrity, Status, Verdict
from swelive_plugin.errors import InfraError
from swelive_plugin.extensions import log_readers, policy_named

if TYPE_CHECKING:
    from swelive_plugin.readers.folder import FoundRun

__all__ = ["scope_note", "score_file", "score_run"]


def score_file(
    instance: Instance,
    path: str | Path,
    *,
    kind: str | None = None,
    policy: str = "swelive",
    scope: str | None = None,
    root: str = "",
) -> Verdict:
    """Return the verdict on a finished run that ``path`` tells of.

    ``kind`` names the reader (``events``, ``log``, ``junit``, ``report-log``, ``json-report``, ``ctrf``, or one of a
    plugin's); without one it is recognised. ``root`` is the checkout's path in that run. Raises `UsageError` for a file
    that can't be read and for unknown names.
    """
    return _score(instance, Path(path), kind, policy_named(policy), scope_named(scope), root)


def score_run(
    instance: Instance,
    run: FoundRun,
    *,
    policy: Policy,
    scope: Scope | None = None,
    root: str = "",
    kind: str | None = None,
) -> Verdict:
    """Return the verdict on a run that was found in a folder; see `swelive_plugin.readers.folder.runs_in`.

    A verdict of ours that was given without the tests (a patch that does not apply) stands. Where one lies beside the
    session's record, it tells what the record does not: that the driver stopped it at the time limit, which files the
    prediction changed and what the integrity checks found. ``kind`` and errors as in `score_file`.
    """
    kept = run.kept
    if kept is not None and run.stands:
        return replace(kept, attempt=run.attempt, policy=policy.name, scope=scope or policy.default_scope)
    if run.evidence is None:
        return replace(decide(Evidence(instance, policy, scope)), attempt=run.attempt)
    return replace(_score(instance, run.evidence, kind, policy, scope, root, kept), attempt=run.attempt)


def scope_note(
    instances: Mapping[str, Instance], runs: Iterable[FoundRun], *, policy: Policy, scope: Scope | None = None
) -> str:
    """Return a sentence where listed tests are to be judged whose files a run of ours did not run; else nothing."""
    if (scope or policy.default_scope) != "all":
        return ""
    narrow = any(
        run.kept is not None
        and run.kept.scope == "f2p-files"
        and not run.stands
        and files_to_run(instances[run.instance_id], "f2p-files") != files_to_run(instances[run.instance_id], "all")
        for run in runs
    )
    if not narrow:
        return ""
    by = "scope all" if scope else f"policy {policy.name}"
    return f"this run ran the FAIL_TO_PASS files only; {by} judges all listed: run again with --scope all"


def _score(
    instance: Instance,
    path: Path,
    kind: str | None,
    policy: Policy,
    scope: Scope | None,
    root: str,
    kept: Verdict | None = None,
) -> Verdict:
    from swelive_plugin.readers import read_session

    session = read_session(path, kind=kind, readers=log_readers(), root=root or "/testbed")
    root = root or session.rootdir  # ids may carry the path that the run had
    session = rebased(session, (*instance.fail_to_pass, *instance.pass_to_pass), root=root)
    if kept is not None and kept.status is Status.TIMED_OUT:
        session = _stopped(session)
    # what the session itself shows is found again
    findings = [found for found in kept.integrity.findings if found.code != "forged_report"] if kept else []
    if session.damaged and (kept is None or kept.status is not Status.TAMPERED):
        raise InfraError(f"{path}, {session.damaged}", hint="score an unchanged copy of the file")
    if session.foreign_records and kept is None:  # the driver's own verdict knows what its controls show
        message = f"{session.foreign_records} records on the channel were not written by the recorder"
        findings.append(Finding("foreign_records", "tampered", message))
    return decide(
        Evidence(
            instance,
            policy,
            scope,
            session=session,
            root=root,
            patched_files=kept.patch.changed if kept else (),
            integrity=Integrity(mode=f"finished run ({session.source})", sandbox="unknown", findings=tuple(findings)),
            record=str(path),
            own_record=kept is not None and session.source == "events",
        )
    )


def _stopped(session: Session) -> Session:
    """Return the session as the driver knew it that stopped it at the time limit: the test then running timed out."""
    tests = {
        test_id: replace(record, outcome=Outcome.TIMED_OUT) if record.outcome is Outcome.CRASHED else record
        for test_id, record in session.tests.items()
    }
    return replace(session, tests=tests, timed_out=True)
