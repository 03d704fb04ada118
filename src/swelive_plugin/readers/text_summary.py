"""The short test summary: which of its lines are results, and which are text of a message.

A failure's message may hold line breaks (pytest prints it whole where ``CI`` is set) and so may an id. What tells them
apart: pytest prints one group per status, each once; the session's last line counts the results of each status; an id
with ``[`` is not over before a ``]``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from swelive_plugin.readers.text_lines import RERUN, FoldedSkip, Shown, is_complete, summary_line

__all__ = ["Summary", "read_summary"]

_JOIN_AT_MOST, _JOIN_CHARS = 20, 8192  # lines and characters of one id
_GROUP = {"SUBFAILED": "FAILED", "SUBFAIL": "FAILED"}


@dataclass(frozen=True)
class Summary:
    """The results that a summary shows, its folded skips, and the lines that were not believed."""

    shown: tuple[Shown, ...] = ()
    folded: tuple[FoldedSkip, ...] = ()
    disbelieved: tuple[Shown, ...] = ()

    @property
    def lists_passed(self) -> bool:
        """Whether passed tests are listed at all (``-rA``, ``-rP``)."""
        return any(shown.word == "PASSED" for shown in self.shown)


def read_summary(
    lines: Sequence[str], headings: Collection[str] = (), counts: Mapping[str, int] | None = None
) -> Summary:
    """Return what the lines of one short summary say.

    ``counts`` are the numbers of the session's last line, ``None`` where it is missing.
    """
    entries, folded = _entries(lines, headings)
    believed, not_believed = _believed(entries, counts)
    return Summary(tuple(believed), tuple(folded), tuple(not_believed))


def _entries(lines: Sequence[str], headings: Collection[str]) -> tuple[list[Shown], list[FoldedSkip]]:
    entries: list[Shown] = []
    folded: list[FoldedSkip] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        found = summary_line(line, headings)
        if isinstance(found, FoldedSkip):
            folded.append(found)
        elif found is None:
            if entries and line.startswith("  ") and entries[-1].word in ("XFAIL", "XPASS"):
                entries[-1] = replace(entries[-1], message=f"{entries[-1].message} {line.strip()}".strip())
        else:
            if not is_complete(found.id):
                found, position = _joined(found, lines, position, headings)
            entries.append(found)
    return entries, folded


def _joined(open_entry: Shown, lines: Sequence[str], position: int, headings: Collection[str]) -> tuple[Shown, int]:
    """Return the entry whose id goes on in the next lines, and the position behind it."""
    text = lines[position - 1]
    for following in range(position, min(position + _JOIN_AT_MOST, len(lines))):
        text = f"{text}\n{lines[following]}"
        if len(text) > _JOIN_CHARS:
            break
        if "]" not in lines[following]:
            continue
        found = summary_line(text, headings)
        if isinstance(found, Shown) and is_complete(found.id):
            return found, following + 1
    return open_entry, position


def _group(entry: Shown) -> str:
    return _GROUP.get(entry.word, entry.word)


def _believed(entries: Iterable[Shown], counts: Mapping[str, int] | None) -> tuple[list[Shown], list[Shown]]:
    runs = [(group, list(members)) for group, members in groupby(entries, _group)]
    trusted = _trusted_passed(runs, None if counts is None else counts.get("passed", 0))
    believed: list[Shown] = []
    dropped: list[Shown] = []
    for number, (group, members) in enumerate(runs):
        (believed if group != "PASSED" or number in trusted else dropped).extend(members)
    if counts is not None:
        believed, more = _without_false_failures(believed, counts.get("failed", 0))
        dropped += more
    return believed, dropped


def _trusted_passed(runs: Sequence[tuple[str, list[Shown]]], count: int | None) -> set[int]:
    """Return which runs of ``PASSED`` lines are the group of passed tests: each group is printed once, in one piece."""
    passed = [number for number, (group, _) in enumerate(runs) if group == "PASSED"]
    if not passed:
        return set()
    if count == 0:
        return set()
    if next(group for group, _ in runs if group != RERUN) == "PASSED":
        return {passed[0]}
    outside = [number for number in passed if not _sandwiched(runs, number)]
    fitting = [number for number in outside or passed if count is None or len(runs[number][1]) <= count]
    return {max(fitting, key=lambda number: len(runs[number][1]))} if fitting else set()


def _sandwiched(runs: Sequence[tuple[str, list[Shown]]], number: int) -> bool:
    return 0 < number < len(runs) - 1 and runs[number - 1][0] == runs[number + 1][0]


def _without_false_failures(entries: list[Shown], count: int) -> tuple[list[Shown], list[Shown]]:
    """Part off ``FAILED`` lines beyond the count that name a passed test: they stand in another test's message."""
    if sum(_group(entry) == "FAILED" for entry in entries) <= count:
        return entries, []
    passed = {entry.id for entry in entries if entry.word == "PASSED"}
    false = [entry for entry in entries if entry.word == "FAILED" and entry.id in passed]
    return [entry for entry in entries if not (entry.word == "FAILED" and entry.id in passed)], false
