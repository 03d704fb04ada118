"""Test ids: what a recorded id may be, and which reported ids it names.

Recorded lists hold ids cut at the first whitespace: the log parser behind the published data split each line at spaces
(``test_validate[Invalid Type - foo]`` became ``test_validate[Invalid``). The rules, first that finds anything:

1. exact;
2. the reported id, cut at its first whitespace, equals the recorded id;
3. either of these once both are spelled alike: newer log parsers join words by single spaces (``[in  ner]`` became
   ``[in ner]``), and non-ASCII stands raw or as pytest escapes it (``[é]`` or ``[\\xe9]``);
4. for other tools' cuts only: plain prefix, when the recorded id has an unclosed ``[``.

Never ``test_x`` for ``test_xy``. The order in which tests were reported never changes a match.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Match",
    "Matcher",
    "cut_id",
    "file_of",
    "is_test_id",
    "portable_id",
    "same_but_unstable",
    "spelled",
]

TESTBED = "/testbed"
_LAST_CODE = 0x10FFFF

_FILE = re.compile(r"\.(py|pyx|txt|rst|md|ipynb|ya?ml|json|feature)$", re.IGNORECASE)
# addresses and hashes: 0x…, hexadecimal with both a digit and a letter, decimals too long for a value someone typed
_UNSTABLE = re.compile(
    r"0x[0-9a-f]+|(?<![0-9a-z])(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{4,}(?![0-9a-z])|(?<!\d)\d{12,}(?!\d)", re.IGNORECASE
)

_ESCAPED = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U(0[0-9a-f]{7})")

How = Literal["exact", "cut", "spelling", "prefix", "none"]


def cut_id(test_id: str) -> str:
    """Return the id up to its first whitespace, as the published lists hold it."""
    parts = test_id.split(maxsplit=1)
    if not parts:
        return ""
    return parts[0] if not test_id[0].isspace() else ""


def file_of(test_id: str) -> str:
    """Return the file part of an id: what stands before the first ``::`` that comes before any ``[``."""
    return test_id.split("[", 1)[0].split("::", 1)[0]


def is_test_id(recorded: str) -> bool:
    """Return whether a recorded id can name a test at all.

    Text parsers have put progress marks and lone quotes into published lists (``[100%]``, ``"``). A pytest node id
    starts with a file: either ``file::name`` or, for tests that are files, a name with a known suffix.
    """
    name, separator, rest = recorded.split("[", 1)[0].partition("::")
    if not name or name[0] in "\"'=<>()-" or name.isspace():
        return False
    return bool(rest) if separator else bool(_FILE.search(name))


def portable_id(test_id: str, root: str) -> str:
    """Return the id with the checkout's root written as ``/testbed``, the path in the official images."""
    if not root or root in ("/", TESTBED) or root not in test_id:
        return test_id
    return re.sub(re.escape(root) + r"(?=$|[^\w.-])", TESTBED, test_id)


def same_but_unstable(recorded: str, reported: str) -> bool:
    """Return whether two ids differ only in what changes at every run, such as an object's address."""
    recorded_shape, changing = _UNSTABLE.subn("*", recorded)
    return changing > 0 and recorded_shape == _UNSTABLE.sub("*", reported)


def spelled(test_id: str) -> str:
    """Return the id in one spelling: escaped characters raw, runs of whitespace as one space."""
    raw = _ESCAPED.sub(_unescaped, test_id) if "\\" in test_id else test_id
    return " ".join(raw.split())


def _unescaped(found: re.Match[str]) -> str:
    code = int(found[1] or found[2] or found[3], 16)
    return chr(code) if code <= _LAST_CODE else found[0]


@dataclass(frozen=True)
class Match:
    """What a recorded id names: the reported ids, sorted, and the rule that found them."""

    recorded: str
    reported: tuple[str, ...]
    how: How


class Matcher:
    """Finds reported ids for recorded ones; built once per session, each look-up takes constant time.

    The prefix rule costs a binary search, and only where the recorded id has an unclosed bracket.
    """

    def __init__(self, reported: Iterable[str], *, root: str = "") -> None:
        self._exact: dict[str, list[str]] = {}
        self._cut: dict[str, list[str]] = {}
        for test_id in reported:
            portable = portable_id(test_id, root)
            self._exact.setdefault(portable, []).append(test_id)
            cut = cut_id(portable)
            if cut != portable:
                self._cut.setdefault(cut, []).append(test_id)
        self._sorted: list[tuple[str, str]] | None = None
        self._shapes: dict[str, list[str]] | None = None
        self._spelled: dict[str, set[str]] | None = None
        self._root = root

    def match(self, recorded: str) -> Match:
        """Return the reported ids that ``recorded`` names."""
        recorded_key = portable_id(recorded, self._root) if self._root else recorded
        if exact := self._exact.get(recorded_key):
            return Match(recorded, tuple(sorted(exact)), "exact")
        if cut := self._cut.get(recorded_key):
            return Match(recorded, tuple(sorted(cut)), "cut")
        if same := self._spelled_alike(recorded_key):
            return Match(recorded, tuple(sorted(same)), "spelling")
        if has_unclosed_bracket(recorded_key):
            found = self.with_prefix(recorded_key)
            if found:
                return Match(recorded, found, "prefix")
        return Match(recorded, (), "none")

    def _spelled_alike(self, recorded: str) -> set[str]:
        if self._spelled is None:
            self._spelled = {}
            for known in (self._cut, self._exact):  # whole ids come last: they win over cut ones
                index: dict[str, set[str]] = {}
                for key, ids in known.items():
                    index.setdefault(spelled(key), set()).update(ids)
                self._spelled.update(index)
        return self._spelled.get(spelled(recorded), set())

    def unstable(self, recorded: str) -> tuple[str, ...]:
        """Return the reported ids that differ from ``recorded`` only in what changes at every run, sorted."""
        shape, changing = _UNSTABLE.subn("*", recorded)
        if not changing:
            return ()
        if self._shapes is None:
            self._shapes = {}
            for reported in (test_id for ids in self._exact.values() for test_id in ids):
                self._shapes.setdefault(_UNSTABLE.sub("*", reported), []).append(reported)
            for same in self._shapes.values():
                same.sort()
        return tuple(self._shapes.get(shape, ()))

    def with_prefix(self, recorded: str) -> tuple[str, ...]:
        """Return the reported ids that begin with ``recorded``, sorted."""
        found = []
        for position in range(self._start(recorded), len(self._all())):
            portable, reported = self._all()[position]
            if not portable.startswith(recorded):
                break
            found.append(reported)
        return tuple(sorted(found))

    def _all(self) -> list[tuple[str, str]]:
        if self._sorted is None:
            self._sorted = sorted((portable, test_id) for portable, ids in self._exact.items() for test_id in ids)
        return self._sorted

    def _start(self, key: str) -> int:
        return bisect_left(self._all(), (key, ""))


def has_unclosed_bracket(recorded: str) -> bool:
    """Return whether more ``[`` than ``]`` stand in the id: it was cut inside its parameters."""
    return recorded.count("[") > recorded.count("]")
