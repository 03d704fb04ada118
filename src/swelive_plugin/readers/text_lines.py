"""The grammar of single lines that pytest prints: pure functions, no state.

What pytest prints of one test, in all versions since 3.6:

- the short summary (``-r``): ``PASSED id``, ``FAILED id - message``, ``XFAIL id - reason``, older ``XPASS id reason``,
  ``SUBFAILED[msg] (params) id - message``, and folded skips without ids: ``SKIPPED [2] file:line: reason``;
- ``-v``: ``id PASSED [ 50%]``, ``id SKIPPED (reason) [ 50%]``; under xdist ``[gw0] [ 50%] PASSED id``.

An id may hold spaces, `` - ``, status words, brackets and line breaks. What is known of it: the part in brackets is
last, so an id with ``[`` ends in ``]``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from swelive_plugin.core.outcome import Outcome

__all__ = ["FoldedSkip", "Shown", "clean", "is_complete", "leading_id", "progress_line", "summary_line", "whole_id"]

OUTCOME_OF = {
    "PASSED": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
    "ERROR": Outcome.ERROR,
    "SKIPPED": Outcome.SKIPPED,
    "XFAIL": Outcome.XFAILED,
    "xfail": Outcome.XFAILED,  # before pytest 6
    "XPASS": Outcome.XPASSED,
    "SUBFAILED": Outcome.FAILED,  # a failed subtest fails its test
    "SUBFAIL": Outcome.FAILED,
}
RERUN = "RERUN"
_GOOD = ("PASSED", "XFAIL", "xfail", "XPASS")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_CODE = re.compile(r"\[\d{1,2}(?:;\d{1,2})*m")
_LOST_ESCAPE = re.compile(
    r"(?:^|\s)(?:\[\d{1,2}(?:;\d{1,2})*m)+(?:= |=={1,200} |PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
)
_SUMMARY = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN) (?=\S)(.*)", re.DOTALL)
_AT_PHASE = re.compile(r"at (?:setup|call|teardown) of (?=\S+::)")  # pytest 9.2 and newer
# a failed subtest: ``SUBFAILED[message] (k=v) id``, or before pytest 9 ``[message] (k=v) SUBFAIL id``
_SUBTEST = re.compile(r"(?:^|(?<=[\])] ))(SUBFAILED|SUBFAIL)(?=[\s\[(])")
_FOLDED = re.compile(r"(?:SUB)?SKIP(?:PED)? \[(\d+)\] (.*?)(?::(\d{1,9}))?: (.*)")
_PERCENT = re.compile(r"\[\s*\d+(?:%|/\d+)\]")
_DURATION = re.compile(r"[\d.]+(?:us|ms|s|m|h)(?: .*)?")
_WORDS = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|xfail|XPASS|RERUN|SUBFAILED|SUBFAIL"
_XDIST = re.compile(rf"\[gw\d+\]\s+(?:\[\s*\d+(?:%|/\d+)\]\s+)?(?:({_WORDS})\S*\s+|(?=[\[(]))")
_WORD = re.compile(rf"\s({_WORDS})(?=[\s\[(]|$)")
_AFTER_BRACKET = re.compile(r"[\])]\s+")
_BEHIND_BRACKET = re.compile(r"\]\s{0,4}\(")
_ID = re.compile(r"[^\s:\"'=<>()|]\S*::\S")  # how a test id begins: a file, two colons, a name
_TRIES = 32  # places in one line at which an id may end
_SUBTEST_TRIES = 8
_GROUP_CHARS = 100
_SPACE = re.compile(r"\s")


@dataclass(frozen=True)
class Shown:
    """One result as one line shows it. ``message`` is what stands behind the id; ``word`` is the status word."""

    id: str
    word: str
    message: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome that the status word names."""
        return OUTCOME_OF[self.word]

    @property
    def outcome_is_good(self) -> bool:
        """Whether policies may count the result as a pass."""
        return self.word in _GOOD


@dataclass(frozen=True)
class FoldedSkip:
    """A line that counts skipped tests by place and reason and does not name them."""

    count: int
    file: str
    line: int
    reason: str


def clean(line: str) -> str:
    """Return the line without colour codes and other terminal escapes, also where their escape character was lost."""
    if "\x1b" in line:
        return _ANSI.sub("", line)
    return _CODE.sub("", line) if "m" in line and _LOST_ESCAPE.search(line) else line


def is_complete(test_id: str) -> bool:
    """Return whether an id that pytest printed can end here: one with parameters ends in ``]``."""
    return "[" not in test_id or _closes(test_id, len(test_id))


def _closes(text: str, end: int) -> bool:
    """Return whether parameters close before ``end``: by ``]``, or by ``]@group`` (xdist's loadgroup)."""
    if text[end - 1 : end] == "]":
        return True
    group = text.rfind("]@", max(0, end - _GROUP_CHARS), end)
    return group >= 0 and not _SPACE.search(text, group, end)


def leading_id(text: str) -> str:
    """Return the id at the start of a text where nothing but whitespace parts it from what follows."""
    bracket = text.find("[")
    for found in _SPACE.finditer(text):
        if not 0 <= bracket < found.start() or _closes(text, found.start()):
            return text[: found.start()]
    return text


def whole_id(text: str) -> str:
    """Return the id that a text begins with or is, where something else may follow: output, a place, a reason.

    Names of Python tests hold no whitespace before their parameters; those of other items may.
    """
    defined_in = text.rfind(" <- ")  # the verbose progress names the file that an inherited test stands in
    if defined_in >= 0 and text[defined_in + 4 :] and not _SPACE.search(text, defined_in + 4):
        text = text[:defined_in]
    name, bracket, _ = text.partition("[")
    if ".py::" in name and len(parts := name.split(maxsplit=1)) > 1:
        return parts[0]
    if _closes(text, len(text)) if bracket else ".py::" not in name:
        return text
    return leading_id(text)


def looks_like_id(text: str) -> bool:
    """Return whether the text begins as test ids do."""
    return _ID.match(text) is not None


def summary_line(line: str, headings: Collection[str] = ()) -> Shown | FoldedSkip | None:
    """Return what a line of the short summary says, or ``None`` where it is no result.

    ``headings`` are the names over the tracebacks; they decide where an id with `` - `` in it ends. An id that is still
    open at the end of the line comes back incomplete: the caller joins the next line.
    """
    found = _SUMMARY.fullmatch(line)
    if found is None or found[1] == "SKIPPED":
        if "SUBFAIL" in line and found is None:
            return _failed_subtest(line, headings)
        if folded := _FOLDED.fullmatch(line, max(0, line.find("SUBSKIP"))):
            return FoldedSkip(int(folded[1]), folded[2], int(folded[3] or 0), folded[4])
    if found is None:
        return None
    rest = found[2].rstrip()
    phase = _AT_PHASE.match(rest)
    word, rest = found[1], _without_percent(rest[phase.end() :] if phase else rest)
    if word in ("PASSED", "RERUN"):  # pytest prints nothing behind these ids
        test_id, message = whole_id(rest), ""
    else:
        test_id, message = _split_message(rest, headings)
    if not _names_something(word, test_id):
        return None
    return Shown(test_id, word, message)


def _failed_subtest(line: str, headings: Collection[str]) -> Shown | None:
    """Return the failed subtest that a line shows; its message and parameters may stand on either side of the word."""
    for found in islice(_SUBTEST.finditer(line), _SUBTEST_TRIES):
        for rest in _after_brackets(line, found.end()):
            if looks_like_id(rest):
                test_id, message = _split_message(rest, headings)
                return Shown(test_id, found[1], message)
    return None


def _after_brackets(line: str, start: int) -> Iterator[str]:
    """Yield what may follow the ``[message] (k=v)`` that may stand at ``start``: behind each closing bracket."""
    rest = line[start : start + 1]
    if rest.isspace():
        yield line[start:].lstrip()
    if rest in ("[", "(") or line[start : start + 2] == " (":
        for found in islice(_AFTER_BRACKET.finditer(line, start), _SUBTEST_TRIES):
            yield line[found.end() :]


def _names_something(word: str, text: str) -> bool:
    """A result names a test; ``ERROR file`` names a file that could not be collected."""
    if looks_like_id(text):
        return True
    return word == "ERROR" and bool(re.fullmatch(r"[\w./\\-]*\w", text)) and not text.isupper()


def _split_message(text: str, headings: Collection[str]) -> tuple[str, str]:
    ends = list(_ends(text))
    if len(ends) > 1 and headings:
        for end in ends:
            if heading_of(text[:end]) in headings:
                return text[:end], text[end + 3 :]
    if ends and ends[0] < len(text):
        return whole_id(text[: ends[0]]), text[ends[0] + 3 :]
    test_id = whole_id(text)
    return test_id, text[len(test_id) :].strip()


def _ends(text: str) -> Iterator[int]:
    """Yield where the id may end: before a dash, or at the end of the text."""
    bracket = text.find("[")
    position, tries = text.find(" - "), 0
    while position >= 0 and tries < _TRIES:
        if not 0 <= bracket < position or _closes(text, position):
            yield position
            tries += 1
        position = text.find(" - ", position + 1)
    if is_complete(text):
        yield len(text)


def heading_of(test_id: str) -> str:
    """Return the name that pytest prints over a test's traceback: the id without its file, parts joined by dots."""
    name, bracket, parameters = test_id.partition("[")
    return name.partition("::")[2].replace("::", ".") + bracket + parameters


def _without_percent(text: str) -> str:
    stripped = text.rstrip()
    start = stripped.rfind("[")
    if start <= 0 or not stripped[start - 1].isspace() or not _PERCENT.fullmatch(stripped, start):
        return text
    stripped = stripped[:start].rstrip()
    return stripped if is_complete(stripped) else text


def progress_line(line: str) -> Shown | None:
    """Return the result that a line of the verbose progress shows, or ``None``."""
    if line.startswith("[gw"):
        return _workers_line(line)
    if not looks_like_id(line):
        return None
    end = _end_of_result(line)
    last_char = line[end - 1 : end]
    both = 0  # where the last ``[message] (parameters)`` behind a word could be
    if last_char == ")":
        for found in _BEHIND_BRACKET.finditer(line):
            both = found.start()
    tries = 0
    for found in _WORD.finditer(line):
        follows = line[found.end() : found.end() + 1]
        after = _NOT_SPACE.search(line, found.end(), end)
        if not (
            after is None
            or (last_char == ")" and (line[after.start()] == "(" or (follows == "[" and both > found.end())))
            or (last_char == "]" and follows == "[")
        ):
            continue
        stop = found.start()
        tries += 1
        if tries > _TRIES:
            return None
        before = line[:stop].rstrip()
        before = leading_id(before) if found[1].startswith("SUB") else whole_id(before)
        if is_complete(before):
            return Shown(before, found[1], line[found.end() : end].strip())
    return None


_NOT_SPACE = re.compile(r"\S")


def _end_of_result(line: str) -> int:
    """Return where a line ends without the percentage or the duration that may stand last."""
    text = line.rstrip()
    start = text.rfind("[")
    if start > 0 and _PERCENT.fullmatch(text, start):
        return len(text[:start].rstrip())
    words = text.rsplit(maxsplit=2)
    for count in (1, 2):  # ``12.3s``, or with a word behind it
        tail = " ".join(words[-count:])
        if len(words) > count and _DURATION.fullmatch(tail):
            return len(text[: len(text) - len(tail)].rstrip()) if text.endswith(tail) else len(text)
    return len(text)


def _workers_line(line: str) -> Shown | None:
    """Return the result that a line of an xdist worker shows: ``[gw0] [ 50%] PASSED id``."""
    found = _XDIST.match(line)
    if found is None:
        return None
    word = found[1]
    if word is None or word.startswith("SUB"):
        start = found.start(1) if word else found.end()
        subtest = _failed_subtest(line[start:], ())
        return None if subtest is None else Shown(whole_id(subtest.id), subtest.word)
    rest = line[found.end() :].rstrip()
    if rest.startswith("("):  # a reason
        close = re.search(r"\)\s+(?=\S+::)", rest)
        rest = rest[close.end() :] if close else ""
    return Shown(whole_id(rest), word) if looks_like_id(rest) else None
