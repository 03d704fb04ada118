"""The library's own functions around the core: score a finished run from its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swelive_plugin.core.instance import Instance
from swelive_plugin.core.policy import scope_named
from swelive_plugin.core.scoring import score
from swelive_plugin.core.testid import Matcher
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
    verdict = score(
        instance,
        session,
        policy=chosen,
        scope=scope_named(scope),
        integrity=Integrity(mode=f"finished run ({session.source})", sandbox="unknown"),
        root=root,
    )
    matcher = Matcher(session.tests, root=root)
    listed = (*instance.fail_to_pass, *instance.pass_to_pass)
    if session.tests and not any(matcher.match(recorded).reported for recorded in listed):
        told = Reason(
            "another_run",
            f"none of the {len(listed)} listed ids is among the {len(session.tests)} tests of {path}: "
            "is it the log of another instance?",
        )
        return replace(verdict, status=Status.ERROR, reasons=(told,))
    return verdict
