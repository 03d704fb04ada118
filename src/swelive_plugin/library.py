"""The library's own functions around the core: score a finished run from its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.outcome import Session
from swelive_plugin.core.policy import scope_named
from swelive_plugin.core.relocate import overlaps, relocated
from swelive_plugin.core.scoring import score
from swelive_plugin.core.verdict import Integrity, Reason, Status, Verdict
from swelive_plugin.extensions import log_readers, policy_named

__all__ = ["score_file"]


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
    from swelive_plugin.readers import read_session

    chosen = policy_named(policy)
    session = read_session(path, kind=kind, readers=log_readers(), root=root or "/testbed")
    root = root or session.rootdir  # ids may carry the path that the run had
    listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    session = relocated(session, listed, root=root)
    verdict = score(
        instance,
        session,
        policy=chosen,
        scope=scope_named(scope),
        integrity=Integrity(mode=f"finished run ({session.source})", sandbox="unknown"),
        root=root,
    )
    why = _no_evidence(path, session, listed, root) or _only_unnamed(path, session, verdict)
    return replace(verdict, status=Status.ERROR, reasons=(why,)) if why else verdict


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
