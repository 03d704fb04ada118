"""The state of reading a log line by line: which sessions it holds, and where in each a line stands."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from swelive_plugin.core.outcome import CollectError
from swelive_plugin.readers.text_lines import (
    Shown,
    clean,
    is_complete,
    looks_like_id,
    progress_line,
    whole_id,
)

__all__ = ["Log", "Part", "Verbose"]

_START = re.compile(r"=+ test session starts\b.*")
_SUMMARY = re.compile(r"=+ short test summary info =+")
_DETAILS = re.compile(r"=+ (?:ERRORS|FAILURES|PASSES|XPASSES|XFAILURES|warnings summary.*|rerun test summary info) =+")
_COUNT = re.compile(r"(?<!\d)(\d{1,9}) (failed|passed|skipped|deselected|xfailed|xpassed|errors?|rerun)\b")
_COUNTS = re.compile(r"no tests (?:ran|collected)|\d{1,9}(?:/\d{1,9})? [a-z]")
_DURATION = re.compile(r"\d[\d.:]* ?s")
_END_CHARS = 1000  # of a last line, with all its counts
# the last line of pytest-pretty and pytest-sugar: the counts follow, one a line
_RESULTS = re.compile(r"Results \(\d[\d.:hms ]{0,30}\):")
_RESULTS_COUNT = re.compile(r"\s+(\d{1,9}) (failed|passed|skipped|deselected|xfailed|xpassed|errors?|rerun)")
_PROGRESS = re.compile(r"[^\s:]{1,500} [.FEsxXR]+(?:\s+\[\s*\d+%\])?$")
_LETTERS = re.compile(r"([.FEsxXRup,-]+)(?:\s+\[\s*\d+%\])?\s*")
_LETTER = {".": "passed", "F": "failed", "E": "error", "s": "skipped", "x": "xfailed", "X": "xpassed", "u": "failed"}
_HEADING = re.compile(r"_{2,} (.+?) _{2,}")
_BROKE_OFF = re.compile(
    r"!{3,} ((?:Interrupted|KeyboardInterrupt|xdist\.dsession|_pytest\.outcomes\.Exit|stopping).*?) !{3,}"
)
_PLATFORM = re.compile(r"platform \S+ -- Python (\d[\w.+]*).*?, pytest-([\w.+]+)")
_ROOTDIR = re.compile(r"rootdir: (.+?)(?:, (?:inifile|configfile|testpaths):.*)?")
_PLUGINS = re.compile(r"plugins: (.+)")
_BARE_STATUS = re.compile(
    r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|xfail|XPASS|RERUN)(?: \(.*\))?(?:\s+\[\s*\d+(?:%|/\d+)\])?\s*"
)
_HALF_WORD = re.compile(
    r"(\S.*\s)(P|PA|PAS|PASS|PASSE|F|FA|FAI|FAIL|FAILE|E|ER|ERR|ERRO|S|SK|SKI|SKIP|SKIPP|SKIPPE|X|XF|XFA|XFAI|XP|XPA|XPAS)"
)
_CONFTEST = re.compile(r"(\w+) while loading conftest '(.+?)'\.?")
_TIMED_OUT = re.compile(r"\++ Timeout \++|>>>>> Tests Timed Out.*")
_EXIT_STATUS = re.compile(r".*>>>>> Test Exit Code: (-?\d+).*")
_STATUS_WORDS = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")
_RESULT_WORDS = (*_STATUS_WORDS, "SUBFAIL", "RERUN", "SKIP", "xfail")
_MERGED = re.compile(r"(?<=%\])\s*(?=[^\s:\"'=<>()|\[%][^\s:%]*::\S)")  # two results on one line
_NARROW = 60  # columns: no terminal that wraps is narrower
_CONTINUED_AT_MOST = 20  # lines of one message or id that are kept
_PRINTED_LIMIT = 500_000  # lines kept for graders that read line by line: the last ones, which win there
_PRINTED_CHARS = 8192  # of each
_PRINTED_TOTAL = 64 * 2**20  # characters of all of them
_SUMMARY_LINES = 500_000  # of one short summary


class Verbose:
    """Reads the verbose progress: results, tests that start, and what is printed between the two."""

    def __init__(self) -> None:
        self.results: dict[str, list[Shown]] = {}
        self.started: dict[str, None] = {}
        self._open = ""  # a test that was announced and has no status yet; perhaps only the beginning of its id
        self._wrapped = ""  # a line that may have been cut inside its id
        self._half = ""  # a line cut inside its status word

    def feed(self, line: str) -> bool:
        """Take one line; return whether it belongs to the progress."""
        if "%]" in line and len(several := _MERGED.split(line)) > 1:
            for part in several:
                self.feed(part)
            return True
        half, self._half = self._half, ""
        if half and (shown := progress_line(half + line)):
            self._result(shown)
            return True
        shown = progress_line(line)
        if shown is None and self._open:
            shown = self._rest_of_open(line)
        if shown is not None:
            self._result(shown)
            return True
        if not looks_like_id(line):
            return False
        self._half = line if _HALF_WORD.fullmatch(line) else ""
        self._open = whole_id(line.rstrip())
        self._wrapped = line if len(line) >= _NARROW and line == self._open else ""
        if is_complete(self._open):
            self.started[self._open] = None
        return True

    def _result(self, shown: Shown) -> None:
        self._open = ""
        self.results.setdefault(shown.id, []).append(shown)

    def _rest_of_open(self, line: str) -> Shown | None:
        """Return the result of the test that was announced before: its status alone, or the rest of its id."""
        if is_complete(self._open):
            found = _BARE_STATUS.fullmatch(line)
            if found:
                return Shown(self._open, found[1])
            return progress_line(self._wrapped + line) if self._wrapped and not line[:1].isspace() else None
        joined = f"{self._open}\n{line}"
        if len(joined) >= 4096:
            self._open = ""
            return None
        shown = progress_line(joined) if any(word in line for word in _RESULT_WORDS) else None
        if shown is None:
            self._open = joined
        return shown


@dataclass
class Part:
    """One pytest session inside the log, as far as it was read."""

    header: bool
    first_line: int
    in_details: bool = False
    depth: int = 0  # inner sessions shown in captured output that have begun and not ended
    closed: bool = False  # its last line was seen, and no inner session was open then
    ended: bool = False  # the last of its structure is a last line, whichever session it closed
    progress: Verbose = field(default_factory=Verbose)
    summary: list[str] | None = None
    in_summary: bool = False
    headings: set[str] = field(default_factory=set)
    continued: int = 0  # lines of the summary since the last that begins as a result does
    broke_off: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    counted: bool = False
    results: dict[str, int] | None = None  # the counts of a block ``Results (1s):``, while nothing follows it
    letters: dict[str, int] = field(default_factory=dict)  # the counts of a quiet session's dots

    def finish(self) -> None:
        """Take what stands for the last line where a session has none: a block of counts, or ``-qq``'s dots."""
        if self.ended:
            return
        if self.results:
            self.ended = self.counted = True
            self.counts = self.results
        elif not self.header and self.summary and not self.broke_off:
            # ``-qq`` prints neither header nor last line; the summary is printed when all tests have run
            self.ended, self.counted, self.counts = True, bool(self.letters), self.letters


class Log:
    """The state of reading; `feed` takes one line at a time."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.fragment: list[str] = []  # what looks like a result outside of any structure
        self.printed: deque[str] = deque()
        self._printed_chars = 0
        self._letters: dict[str, int] = {}
        self.facts: dict[str, str] = {}
        self.plugins: tuple[str, ...] = ()
        self.collect_errors: list[CollectError] = []
        self.internal_error = ""
        self.timed_out = False
        self.exit_status: int | None = None
        self.disbelieved: list[tuple[int, str]] = []
        self.disbelieved_count = 0
        self.line_number = 0

    def feed(self, raw: str) -> None:
        self.line_number += 1
        self._keep_printed(raw)
        line = clean(raw).rstrip("\r")
        part = self.parts[-1] if self.parts else None
        if line.startswith("=") and self._structure(line, part):
            return
        if part is not None and self._results(line, part):
            return
        if part is None or part.closed:
            self._outside(line, part)
        elif part.in_summary:
            self._in_summary(line, part)
        elif part.in_details:
            self._in_details(line, part)
        else:
            self._in_progress(line, part)

    def _structure(self, line: str, part: Part | None) -> bool:
        """Take a line that draws pytest's own structure; return whether it was one."""
        if _START.fullmatch(line):
            self._start(part)
            return True
        if _SUMMARY.fullmatch(line):
            part = self._reopened(part)
            part.summary, part.in_summary, part.in_details, part.broke_off = [], True, True, ""
            return True
        if _DETAILS.fullmatch(line):
            part = self._reopened(part)
            part.in_details, part.in_summary = True, False
            return True
        counted = last_line(line.strip("=").strip(" ")) if line.endswith("=") else None
        if counted is not None:
            self._end(counted, part)
            return True
        return False

    def _results(self, line: str, part: Part) -> bool:
        """Take a line of the block that pytest-pretty and pytest-sugar print in place of the last line."""
        if _RESULTS.fullmatch(line):
            part.results = {}
            return True
        if part.results is None:
            return False
        if found := _RESULTS_COUNT.fullmatch(line):
            part.results[_singular(found[2])] = int(found[1])
            return True
        if looks_like_id(line) or _PROGRESS.match(line):
            part.results = None  # the session goes on: a test printed the block
        return not line.strip() or line[:1].isspace()

    def _start(self, part: Part | None) -> None:
        if part is not None and not part.closed and part.in_details and part.results is None:
            part.ended = False
            part.depth += 1  # an inner session, shown in some test's captured output
            part.in_summary = False
            return
        self.parts.append(Part(header=True, first_line=self.line_number))

    def _reopened(self, part: Part | None) -> Part:
        """Return the session that a section belongs to: the open one, or the one whose end was none."""
        if part is None:
            part = Part(header=False, first_line=self.line_number)
            part.letters = self._letters
            self.parts.append(part)
        part.closed = part.ended = False
        part.results = None
        return part

    def _end(self, counted: str, part: Part | None) -> None:
        part = self._reopened(part)
        part.in_summary = False
        if part.depth:
            part.depth -= 1
        else:
            part.closed = True
        part.ended = True
        part.in_details = True
        part.counted = True
        part.counts = {}
        for count, what in _COUNT.findall(counted):
            part.counts[_singular(what)] = int(count)

    def _outside(self, line: str, part: Part | None) -> None:
        """Take a line that stands before, between or after sessions."""
        if found := _EXIT_STATUS.fullmatch(line):
            self.exit_status = int(found[1])
        elif _TIMED_OUT.fullmatch(line):
            self.timed_out = True
        elif found := _CONFTEST.fullmatch(line):
            self.collect_errors.append(CollectError("", found[1], f"while loading conftest {found[2]}", file=found[2]))
        elif line.startswith("E   ") and self.collect_errors and not self.collect_errors[-1].id:
            last = self.collect_errors[-1]
            self.collect_errors[-1] = replace(last, message=f"{last.message}: {line[4:].strip()}")
        elif line.startswith("INTERNALERROR>"):
            self.internal_error = line.removeprefix("INTERNALERROR>").strip() or self.internal_error
        elif part is None and last_line(line):
            self._end(line, None)
        elif part is None:
            self._fragment(line)
        elif line.startswith(_STATUS_WORDS) and "::" in line:
            self.disbelieve(line, self.line_number)

    def _fragment(self, line: str) -> None:
        if line and (found := _LETTERS.fullmatch(line)):
            for letter, what in _LETTER.items():
                self._letters[what] = self._letters.get(what, 0) + found[1].count(letter)
        if len(self.fragment) < _PRINTED_LIMIT and ("::" in line or _BARE_STATUS.fullmatch(line) or self._wants_rest()):
            self.fragment.append(line)

    def _wants_rest(self) -> bool:
        return bool(self.fragment) and "::" in self.fragment[-1] and bool(_HALF_WORD.fullmatch(self.fragment[-1]))

    def _in_summary(self, line: str, part: Part) -> None:
        assert part.summary is not None
        if not part.header and last_line(line):
            self._end(line, part)
        elif found := _BROKE_OFF.fullmatch(line):
            part.broke_off = found[1]
        else:
            part.continued = 0 if line.startswith(_RESULT_WORDS) else part.continued + 1
            if part.continued <= _CONTINUED_AT_MOST and len(part.summary) < _SUMMARY_LINES:
                part.summary.append(line)

    def _in_details(self, line: str, part: Part) -> None:
        if line.startswith("_") and (found := _HEADING.fullmatch(line)):
            part.headings.add(found[1])
        elif line.startswith(_STATUS_WORDS) and "::" in line:
            self.disbelieve(line, self.line_number)
        elif not part.header and last_line(line):
            self._end(line, part)
        elif _TIMED_OUT.fullmatch(line):
            self.timed_out = True
        elif part.ended and (found := _EXIT_STATUS.fullmatch(line)):
            self.exit_status = int(found[1])

    def disbelieve(self, line: str, line_number: int) -> None:
        """Note a line that looks like a result and is none; the number 0 means that its place is not known."""
        self.disbelieved_count += 1
        if len(self.disbelieved) < 3:
            self.disbelieved.append((line_number, line))

    def _in_progress(self, line: str, part: Part) -> None:
        if line.startswith(("platform ", "rootdir: ", "plugins: ")):
            self._header(line)
            return
        if line.startswith("INTERNALERROR>"):
            self.internal_error = line.removeprefix("INTERNALERROR>").strip() or self.internal_error
            return
        if found := _BROKE_OFF.fullmatch(line):
            part.broke_off = found[1]
            return
        if _TIMED_OUT.fullmatch(line):
            self.timed_out = True
            return
        part.progress.feed(line)

    def _header(self, line: str) -> None:
        if found := _PLATFORM.match(line):
            self.facts.update(python=found[1], pytest=found[2])
        elif found := _ROOTDIR.fullmatch(line):
            self.facts["rootdir"] = found[1].strip()
        elif found := _PLUGINS.fullmatch(line):
            self.plugins = tuple(name.strip() for name in found[1].split(","))

    def _keep_printed(self, raw: str) -> None:
        """Keep what a grader that reads line by line would go by; see `swelive_plugin.core.policies`."""
        if any(word in raw for word in _STATUS_WORDS):
            plain = clean(raw)
            if not (plain.startswith(_STATUS_WORDS) or plain.endswith(_STATUS_WORDS) or _second_word_is_passed(plain)):
                return
        elif ">>>>> " not in raw:
            return
        self.printed.append(raw[:_PRINTED_CHARS])
        self._printed_chars += len(self.printed[-1])
        while self._printed_chars > _PRINTED_TOTAL or len(self.printed) > _PRINTED_LIMIT:
            self._printed_chars -= len(self.printed.popleft())


def last_line(text: str) -> str | None:
    """Return the counts of a session's last line without its ``=``, such as ``1 failed, 2 passed in 0.1s``."""
    if len(text) > _END_CHARS or "=" in text or not _COUNTS.match(text):
        return None
    before, separator, after = text.rpartition(" in ")
    return text if separator and before and _DURATION.match(after) else None


def _singular(what: str) -> str:
    return "error" if what == "errors" else what


def _second_word_is_passed(line: str) -> bool:
    return line.split(maxsplit=2)[1:2] == ["PASSED"]
