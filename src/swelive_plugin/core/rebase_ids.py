"""Runs whose ids are relative to another directory than the recorded ones.

pytest prints ids relative to where it was started, and reports hold them relative to its rootdir; either may lie below
or above the checkout's root. Where no listed id is among the reported ones, one change of directory may explain it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from swelive_plugin.core.outcome import Session
from swelive_plugin.core.testid import Matcher, file_of, is_test_id

__all__ = ["overlaps", "rebased"]


def overlaps(session: Session, listed: Collection[str], *, root: str = "") -> int:
    """Return how many of the listed ids name a reported test."""
    matcher = Matcher(session.tests, root=root)
    return sum(bool(matcher.match(recorded).reported) for recorded in listed)


def rebased(session: Session, listed: Collection[str], *, root: str = "") -> Session:
    """Return the session with its ids as the lists have them, if one change of directory brings most of them together.

    Otherwise, and where anything matches already, the session comes back as it is. A note says what was done.
    """
    if not session.tests or overlaps(session, listed, root=root):
        return session
    change = _change(session.tests, [recorded for recorded in listed if is_test_id(recorded)])
    if change is None:
        return session
    here, there = change

    def moved(test_id: str) -> str:
        return there + test_id[len(here) :] if test_id.startswith(here) else test_id

    after = replace(
        session,
        tests={moved(test_id): replace(record, id=moved(test_id)) for test_id, record in session.tests.items()},
        collect_errors=tuple(replace(error, id=moved(error.id)) for error in session.collect_errors),
        notes=(*session.notes, f"ids were read relative to another directory: {here or './'} became {there or './'}"),
    )
    return after if overlaps(after, listed, root=root) * 2 > len(listed) else session


def _change(reported: Mapping[str, object], listed: Collection[str]) -> tuple[str, str] | None:
    """Return which beginning of the reported files to put for which, by majority; ``None`` where two are as good."""
    by_name: dict[str, set[str]] = {}
    for file in {file_of(recorded) for recorded in listed}:
        by_name.setdefault(file.rpartition("/")[2], set()).add(file)
    votes: Counter[tuple[str, str]] = Counter()
    for file in {file_of(test_id) for test_id in reported}:
        for other in by_name.get(file.rpartition("/")[2], ()):
            votes[_beginnings(file, other)] += 1
    best = votes.most_common(2)
    if not best or (len(best) == 2 and best[0][1] == best[1][1]):
        return None
    return best[0][0]


def _beginnings(file: str, other: str) -> tuple[str, str]:
    """Return what is left of two paths when their common end is taken off."""
    mine, theirs = file.split("/"), other.split("/")
    while mine and theirs and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    return "".join(f"{part}/" for part in mine), "".join(f"{part}/" for part in theirs)
