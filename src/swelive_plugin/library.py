"""The library's own functions around the core: score a finished run from its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Outcome, Session
from swelive_plugin.core.policy import Policy, Scope, scope_named
from swelive_plugin.core.rebase_ids import overlaps, relocated
from swelive_plugin.core.scoring import files_to_run, score
from swelive_plugin.core.testid import file_of, is_test_id
from swelive_plugin.core.verdict import Integrity, Reason, Status, Verdict
from swelive_plugin.extensions import log_readers, policy_named

if TYPE_CHECKING:
    from swelive_plugin.readers.folder import FoundRun

__all__ = ["scope_note", "score_file", "score_run"]


def score_file(
    instance: Instance,
    path: Path,
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
    return _score(instance, path, kind, policy_named(policy), scope_named(scope), root)


def score_run(
    instance: Instance, run: FoundRun, *, policy: Policy, scope: Scope | None = None, root: str = ""
) -> Verdict:
    """Return the verdict on a run that was found in a folder; see `swelive_plugin.readers.folder.runs_in`.

    A verdict of ours that was given without the tests (a patch that does not apply) stands. Where one lies beside the
    session's record, it tells what the record does not: that the driver stopped it at the time limit, which files the
    prediction changed and what the integrity checks found. Raises as `score_file`.
    """
    kept = run.kept
    if kept is not None and run.stands:
        return replace(kept, attempt=run.attempt, policy=policy.name, scope=scope or policy.default_scope)
    if run.evidence is None:
        verdict = score(instance, Session(tests={}), policy=policy, scope=scope)
        why = Reason("no_session", "nothing that its session recorded is left: events.jsonl is not there")
        return replace(verdict, status=Status.ERROR, reasons=(why,), attempt=run.attempt)
    return replace(_score(instance, run.evidence, None, policy, scope, root, kept), attempt=run.attempt)


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
    listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    session = relocated(session, listed, root=root)
    if kept is not None and kept.status is Status.TIMED_OUT:
        session = _stopped(session)
    # `score` finds these in the session itself
    known = [found for found in kept.integrity.findings if found.code != "forged_report"] if kept else []
    verdict = score(
        instance,
        session,
        policy=policy,
        scope=scope,
        patched_files=kept.patch.changed if kept else (),
        integrity=Integrity(mode=f"finished run ({session.source})", sandbox="unknown", findings=tuple(known)),
        root=root,
    )
    verdict = replace(verdict, warnings=(*verdict.warnings, *_files_not_told_of(session, verdict)))
    if kept is not None and session.source == "events":
        return verdict  # our own record of this very run: what is not in it did not run
    why = _no_evidence(path, session, listed, root) or _only_unnamed(path, session, verdict)
    return replace(verdict, status=Status.ERROR, reasons=(why,)) if why else verdict


def _files_not_told_of(session: Session, verdict: Verdict) -> Iterable[Reason]:
    """Say how much of scope ``all`` the record does not cover: a missing PASS_TO_PASS test may count for nothing."""
    if verdict.scope != "all":
        return
    told_of = {file_of(test_id) for test_id in session.tests} | {error.id for error in session.collect_errors}
    listed: dict[str, bool] = {}
    for test in (*verdict.fail_to_pass, *verdict.pass_to_pass):
        if is_test_id(test.id):
            file = file_of(test.id)
            listed[file] = listed.get(file, False) or bool(test.matched) or file in told_of
    missing = sorted(file for file, told in listed.items() if not told)
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        told = f"{len(missing)} of {len(listed)} listed test files have no test in what was recorded"
        yield Reason("files_not_recorded", f"{told}: {', '.join(missing[:5])}{more}")


def _stopped(session: Session) -> Session:
    """Return the session as the driver knew it that stopped it at the time limit: the test then running timed out."""
    tests = {
        test_id: replace(record, outcome=Outcome.TIMED_OUT) if record.outcome is Outcome.CRASHED else record
        for test_id, record in session.tests.items()
    }
    return replace(session, tests=tests, timed_out=True)


def _only_unnamed(path: Path, session: Session, verdict: Verdict) -> Reason | None:
    """Return why a log of dots is no evidence: what it does not name may well be what is missing from it."""
    failed = [test for test in (*verdict.fail_to_pass, *verdict.pass_to_pass) if test.judgement == "fail"]
    if not session.unnamed or not failed or any(test.outcomes for test in failed):
        return None
    told = f"{path} counts {session.unnamed} results without naming them, and {len(failed)} listed tests are not named"
    return Reason("unnamed_results", f"{told}: run pytest with -rA or -v, or take its JUnit XML")


def _no_evidence(path: Path, session: Session, listed: Sequence[str], root: str) -> Reason | None:
    """Return why a file tells nothing of the instance, or ``None``: then there is no verdict, whoever is to blame."""
    if session.tests:
        if overlaps(session, listed, root=root):
            return None
        told = f"none of the {len(listed)} listed ids is among the {len(session.tests)} tests of {path}"
        return Reason("another_run", f"{told}: is it the log of another instance?")
    told_of = session.ended or session.collect_errors or session.internal_error or session.pytest_version
    return None if told_of else Reason("no_session", f"{path} shows no pytest session: nothing was recorded")
