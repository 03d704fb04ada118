"""The text reader: what a log that pytest printed says of each test.

Text is the weakest evidence: the graded code prints into the same stream. So only what stands in the right place
counts, as far as text can show it:

- in the *short summary*, the last one of its session: an earlier one stood in some test's captured output;
- in the *verbose progress* before the first traceback section;
- never inside ``FAILURES``, ``ERRORS``, ``PASSES``: there captured output is shown, whole inner sessions among it.

The session's last line counts its results; lines beyond that count are text of some message. A log without any
structure (a fragment) is read line by line. What was not believed is noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from swelive_plugin.core.outcome import CollectError, Outcome, Raised, Session, TestRecord, worst
from swelive_plugin.readers.files import LINE_CHARS, lines_of
from swelive_plugin.readers.text_lines import RERUN, FoldedSkip, Shown
from swelive_plugin.readers.text_log import Log, Part, Verbose
from swelive_plugin.readers.text_summary import Summary, read_summary

__all__ = ["TextReader", "session_from_lines"]

_FAILED_WORDS = ("FAILED", "SUBFAILED", "SUBFAIL")
_STAMP = re.compile(r"(?:2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z|#\d+ \d+\.\d+) ")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.DOTALL)


class TextReader:
    """Reads what pytest printed, at any verbosity, with anything around it."""

    name = "log"

    def recognises(self, head: bytes) -> bool:
        """Return true: text is what is left when nothing else recognised the content."""
        return bool(head)

    def read(self, path: Path, *, root: str = "/testbed") -> Session:
        """Return the session that the log shows; the log is streamed, never held whole.

        Raises `InfraError` for an empty or damaged file and `UsageError` for one that can't be read as text.
        """
        return session_from_lines(lines_of(path), root=root)


def session_from_lines(lines: Iterable[str], *, root: str = "/testbed") -> Session:
    """Return the session that the lines of a log show; several sessions in one log count as one.

    An id that several of them report counts with its worst outcome: text can't show which of them is the graded one.
    """
    log = Log()
    cut = 0
    for line in _without_stamps(lines):
        cut += len(line) >= LINE_CHARS
        for piece in line.rstrip("\r").split("\r"):  # a progress bar begins its line anew
            log.feed(piece)
    for part in log.parts:
        part.finish()
    session = _Result(log, root).session()
    if not cut:
        return session
    number = "1 line is" if cut == 1 else f"{cut} lines are"
    note = f"{number} longer than {LINE_CHARS} characters: only the beginning was read"
    return replace(session, notes=(*session.notes, note))


def _without_stamps(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without what CI services and image builds put before each: a time, a step's number."""
    for line in lines:
        bare = line.lstrip("\ufeff")
        stamp = _STAMP.match(bare) if bare[:1] in ("2", "#") else None
        yield bare[stamp.end() :] if stamp else bare


class _Result:
    """What the parts of a log come to."""

    def __init__(self, log: Log, root: str) -> None:
        self.log = log
        self.bases = [base.rstrip("/") + "/" for base in (root, log.facts.get("rootdir", "")) if base.strip("/")]
        self.shown: dict[str, list[Shown]] = {}
        self.broken: dict[str, None] = {}  # started, never ended
        self.flaky: set[str] = set()
        self.collect_errors = list(log.collect_errors)
        self.notes: list[str] = []
        self.folded: list[FoldedSkip] = []
        self.without_id = 0

    def session(self) -> Session:
        """Return the session."""
        log = self.log
        fragment = Verbose()
        if not log.parts:
            self._take_fragment()
        elif not log.parts[0].header:
            for line in log.fragment:
                fragment.feed(line)
        for number, part in enumerate(log.parts):
            self._take_part(part, fragment if number == 0 and not part.header else part.progress)
        ended = bool(log.parts) and all(part.ended for part in log.parts)
        if not log.parts and self.shown:
            ended = not log.timed_out  # a fragment: nothing tells
        tests = self._tests(timed_out=log.timed_out)
        self._note()
        return Session(
            tests=tests,
            collect_errors=tuple({error.id: error for error in self.collect_errors}.values()),
            ended=ended,
            timed_out=log.timed_out,
            exit_status=log.exit_status,
            source="log",
            rootdir=log.facts.get("rootdir", ""),
            pytest_version=log.facts.get("pytest", ""),
            python_version=log.facts.get("python", ""),
            plugins=log.plugins,
            internal_error=log.internal_error,
            unnamed=self.without_id,
            notes=tuple(self.notes),
            printed=tuple(log.printed),
        )

    def _take_fragment(self) -> None:
        verbose = Verbose()
        summary = read_summary([line for line in self.log.fragment if not verbose.feed(line)])
        # nothing shows groups or counts here, so no line is better than another
        self._take_shown((*summary.shown, *summary.disbelieved))
        self.folded += summary.folded
        for results in verbose.results.values():
            self._take_shown(results)

    def _take_part(self, part: Part, progress: Verbose) -> None:
        counts = part.counts if part.counted else None
        summary = read_summary(part.summary or [], part.headings, counts)
        for shown in summary.disbelieved:
            self.log.disbelieve(f"{shown.word} {shown.id}", line_number=0)
        self.folded += summary.folded
        verbose = self._believed(progress, summary, counts)
        self._compare_counts(part, progress)
        unread = _unread_failures(part, summary, verbose)
        if unread:
            self.notes.append(f"the last line counts {unread} that no line names, so no passed test is believed")
        for results in (summary.shown, *verbose.values()):
            self._take_shown([one for one in results if not (unread and one.outcome_is_good)], part.headings)
        if part.broke_off:
            self.notes.append(f"pytest broke off: {part.broke_off}")
        if not part.ended:
            self.broken.update((self._id(test_id), None) for test_id in progress.started if test_id not in verbose)
        if part.counted:
            listed = {shown.id for shown in summary.shown}
            named = len(summary.shown) + len(verbose.keys() - listed) + sum(skip.count for skip in summary.folded)
            if unread:
                named -= sum(one.outcome_is_good for results in (summary.shown, *verbose.values()) for one in results)
            total = sum(count for what, count in part.counts.items() if what not in ("deselected", "rerun", "error"))
            self.without_id += max(0, total - named)

    def _believed(self, verbose: Verbose, summary: Summary, counts: dict[str, int] | None) -> dict[str, list[Shown]]:
        """Return the results of the verbose progress by id, without those that the whole summary speaks against."""
        listed = {shown.id for shown in summary.shown}
        passed_are_known = False
        if counts is not None and summary.lists_passed:
            passed = {shown.id for shown in summary.shown if shown.word == "PASSED"}
            passed_are_known = len(passed) >= counts.get("passed", 0)
        believed = {}
        for test_id, results in verbose.results.items():
            if passed_are_known and test_id not in listed and {shown.word for shown in results} == {"PASSED"}:
                # the summary lists every passed test that the last line counts, and this is none of them
                self.log.disbelieve(f"{test_id} PASSED", line_number=0)
                continue
            believed[test_id] = results
        return believed

    def _compare_counts(self, part: Part, progress: Verbose) -> None:
        """Note where the progress shows more passed tests than the last line counts: a test printed such lines."""
        shown = sum(any(one.word == "PASSED" for one in results) for results in progress.results.values())
        if part.counted and shown > part.counts.get("passed", 0) + part.counts.get("error", 0):
            counted = part.counts.get("passed", 0)
            self.notes.append(f"the progress shows {shown} passed tests, the last line counts {counted}")

    def _take_shown(self, results: Iterable[Shown], headings: set[str] | frozenset[str] = frozenset()) -> None:
        for shown in results:
            test_id = self._id(shown.id)
            if shown.word == RERUN:
                self.flaky.add(test_id)
            elif shown.word == "ERROR" and ("::" not in shown.id or f"ERROR collecting {shown.id}" in headings):
                raised = _raised(shown)
                self.collect_errors.append(
                    CollectError(test_id, raised.type if raised else "", raised.message if raised else "")
                )
            else:
                self.shown.setdefault(test_id, []).append(shown)

    def _id(self, printed: str) -> str:
        """Return a printed id relative to the checkout, without the ``()`` that pytest before 4 put for instances.

        Ids are absolute where the test lies outside of where pytest was started.
        """
        if "::()::" in printed:
            name, bracket, parameters = printed.partition("[")
            printed = name.replace("::()::", "::") + bracket + parameters
        for base in self.bases:
            if printed.startswith(base):
                return printed[len(base) :]
        return printed

    def _tests(self, *, timed_out: bool) -> dict[str, TestRecord]:
        tests = {test_id: self._record(test_id, results) for test_id, results in self.shown.items()}
        broke = Outcome.TIMED_OUT if timed_out else Outcome.CRASHED
        tests.update((test_id, TestRecord(test_id, broke)) for test_id in self.broken)
        return tests

    def _record(self, test_id: str, results: list[Shown]) -> TestRecord:
        outcome = worst(shown.outcome for shown in results)
        decided = next(shown for shown in results if shown.outcome is outcome)
        message = next((shown.message for shown in results if shown.outcome is outcome and shown.message), "")
        ran = any(shown.word not in ("ERROR", "SKIPPED") and "[NOTRUN]" not in shown.message for shown in results)
        return TestRecord(
            id=test_id,
            outcome=outcome,
            body_ran=ran and "[NOTRUN]" not in message,
            flaky=test_id in self.flaky,
            raised=_raised(Shown(decided.id, decided.word, message)),
        )

    def _note(self) -> None:
        log, notes = self.log, self.notes
        if not log.parts and not self.shown:
            notes.append("the log shows no pytest session and no result")
        elif not log.parts:
            notes.append("the log is a fragment: no session header, no summary, so every line was taken at its word")
        if len(log.parts) > 1:
            notes.append(f"the log holds {len(log.parts)} pytest sessions; the worst outcome of each id counts")
        if self.folded:
            places = ", ".join(f"{skip.file}:{skip.line}" for skip in self.folded[:5])
            more = ", …" if len(self.folded) > 5 else ""
            count = sum(skip.count for skip in self.folded)
            notes.append(f"{count} skipped tests are printed without their ids ({places}{more})")
        if self.without_id:
            notes.append(f"{self.without_id} results are counted but not named: the log was made without -rA or -v")
        if log.disbelieved_count:
            examples = "; ".join(f"line {number}: {line}" if number else line for number, line in log.disbelieved)
            notes.append(
                f"{log.disbelieved_count} lines look like results but stand in captured output or in a message "
                f"and were not believed ({examples})"
            )
        if any(test_id.startswith("../") for test_id in self.shown):
            notes.append("ids are relative to the directory that pytest was started in, which the log does not name")


def _unread_failures(part: Part, summary: Summary, verbose: Mapping[str, Sequence[Shown]]) -> str:
    """Return how many failures and errors the last line counts beyond those that were read; nothing where all were."""
    if not part.counted:
        return ""
    unread = []
    collecting = sum(heading.startswith("ERROR collecting ") for heading in part.headings)
    for what, words, more in (("failed", _FAILED_WORDS, 0), ("error", ("ERROR",), collecting)):
        listed = [shown.id for shown in summary.shown if shown.word in words]
        progress = [one.id for results in verbose.values() for one in results if one.word in words]
        # ids without a file, such as pytest-checkdocs' ``::project``, name no test
        without_file = sum(line.startswith(f"{words[0]} ::") for line in part.summary or ())
        read = without_file + max(len(listed), len(progress) + more, len({*listed, *progress}))
        if part.counts.get(what, 0) > read:
            name, missing = ("failure" if what == "failed" else "error"), part.counts[what] - read
            unread.append(f"{missing} {name}" if missing == 1 else f"{missing} {name}s")
    return " and ".join(unread)


def _raised(shown: Shown) -> Raised | None:
    if not shown.message:
        return None
    found = _EXCEPTION.fullmatch(shown.message)
    if found and shown.word not in ("SKIPPED", "XFAIL", "XPASS", "xfail"):
        return Raised(found[1], (found[2] or "").strip())
    return Raised("", shown.message.strip("() "))
