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

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_CODE = re.compile(r"\[\d{1,2}(?:;\d{1,2})*m")
_LOST_ESCAPE = re.compile(r"(?:^|\s)(?:\[\d{1,2}(?:;\d{1,2})*m)+(?:=+ |PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)")
_DEFINED_IN = re.compile(r" <- \S+$")  # the verbose progress names the file that an inherited test stands in
_SUMMARY = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN) (?=\S)(.*)", re.DOTALL)
_AT_PHASE = re.compile(r"at (?:setup|call|teardown) of (?=\S+::)")  # pytest 9.2 and newer
_SUBTEST = re.compile(r"(SUBFAILED|SUBFAIL)(?:\[.*?\])?\s*(?:\(.*?\))?\s+(\S+::.*)", re.DOTALL)
_FOLDED = re.compile(r"(?:SKIPPED|SKIP) \[(\d+)\] (.*?)(?::(\d+))?: (.*)")
_PERCENT = re.compile(r"\s+\[(?:\s*\d+%|\s*\d+/\d+)\]\s*$")
_XDIST = re.compile(
    r"\[gw\d+\]\s+(?:\[\s*\d+(?:%|/\d+)\]\s+)?"
    r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|xfail|XPASS|RERUN|SUBFAILED|SUBFAIL)\S*\s+(?:\(.*?\)\s+)?(\S+::.*?|\S+)\s*"
)
_WORD = re.compile(r"\s(PASSED|FAILED|ERROR|SKIPPED|XFAIL|xfail|XPASS|RERUN|SUBFAILED|SUBFAIL)(?=[\s\[(]|$)")
_TAIL = re.compile(r"(?:\[.*?\])?\s*(?:\(.*\))?\s*(?:\[\s*\d+(?:%|/\d+)\]|[\d.]+(?:us|ms|s|m|h)(?: .*)?)?\s*")
_ID = re.compile(r"[^\s:\"'=<>()|]\S*::\S")  # how a test id begins: a file, two colons, a name


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
    return "[" not in test_id or test_id.endswith("]")


def leading_id(text: str) -> str:
    """Return the id at the start of a text where nothing but whitespace parts it from what follows."""
    for position, character in enumerate(text):
        if character.isspace() and is_complete(text[:position]):
            return text[:position]
    return text


def whole_id(text: str) -> str:
    """Return the id that a text begins with or is, where something else may follow: output, a place, a reason.

    Names of Python tests hold no whitespace before their parameters; those of other items may.
    """
    text = _DEFINED_IN.sub("", text)
    name, bracket, _ = text.partition("[")
    if ".py::" in name and len(name.split(maxsplit=1)) > 1:
        return name.split(maxsplit=1)[0]
    if text.endswith("]") if bracket else ".py::" not in name:
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
    if folded := _FOLDED.fullmatch(line):
        return FoldedSkip(int(folded[1]), folded[2], int(folded[3] or 0), folded[4])
    if subtest := _SUBTEST.fullmatch(line):
        test_id, message = _split_message(subtest[2], headings)
        return Shown(test_id, subtest[1], message)
    found = _SUMMARY.fullmatch(line)
    if found is None:
        return None
    word, rest = found[1], _without_percent(_AT_PHASE.sub("", found[2].rstrip(), count=1))
    if word in ("PASSED", "RERUN"):  # pytest prints nothing behind these ids
        test_id, message = whole_id(rest), ""
    else:
        test_id, message = _split_message(rest, headings)
    if not _names_something(word, test_id):
        return None
    return Shown(test_id, word, message)


def _names_something(word: str, text: str) -> bool:
    """A result names a test; ``ERROR file`` names a file that could not be collected."""
    if looks_like_id(text):
        return True
    return word == "ERROR" and bool(re.fullmatch(r"[\w./\\-]*\w", text)) and not text.isupper()


def _split_message(text: str, headings: Collection[str]) -> tuple[str, str]:
    candidates = list(_splits(text))
    if len(candidates) > 1:
        for test_id, message in candidates:
            if heading_of(test_id) in headings:
                return test_id, message
    if candidates and candidates[0][1]:
        return whole_id(candidates[0][0]), candidates[0][1]
    test_id = whole_id(text)
    return test_id, text[len(test_id) :].strip()


def _splits(text: str) -> Iterator[tuple[str, str]]:
    start = 0
    while (position := text.find(" - ", start)) >= 0:
        if is_complete(text[:position]):
            yield text[:position], text[position + 3 :]
        start = position + 1
    if is_complete(text):
        yield text, ""


def heading_of(test_id: str) -> str:
    """Return the name that pytest prints over a test's traceback: the id without its file, parts joined by dots."""
    name, bracket, parameters = test_id.partition("[")
    return name.partition("::")[2].replace("::", ".") + bracket + parameters


def _without_percent(text: str) -> str:
    stripped = _PERCENT.sub("", text)
    return stripped if is_complete(stripped) else text


def progress_line(line: str) -> Shown | None:
    """Return the result that a line of the verbose progress shows, or ``None``."""
    if line.startswith("[gw"):
        found = _XDIST.fullmatch(line)
        if found is None or not looks_like_id(found[2]):
            return None
        return Shown(whole_id(found[2].rstrip()), found[1])
    if not looks_like_id(line):
        return None
    for found in _WORD.finditer(line):
        before = line[: found.start()].rstrip()
        before = leading_id(before) if found[1].startswith("SUB") else whole_id(before)
        if is_complete(before) and _TAIL.fullmatch(line, found.end()):
            return Shown(before, found[1], _PERCENT.sub("", line[found.end() :]).strip())
    return None
