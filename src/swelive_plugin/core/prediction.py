"""A prediction: one model's patch for one instance."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

__all__ = ["Prediction"]


@dataclass(frozen=True)
class Prediction:
    """One patch to judge.

    ``attempt`` counts from 1 where several different patches were submitted for one instance; ``source`` says where it
    was read (``file:line``). ``duplicates`` names the sources of exact duplicates, which are graded once.

    Half a surrogate pair, which JSON may hold and no file can, is kept as the bytes that it would be encoded as
    (``surrogateescape``), so that every prediction can be hashed and written; applying such a patch fails.
    """

    instance_id: str
    patch: str = field(repr=False)
    model: str = ""
    attempt: int = 1
    source: str = ""
    duplicates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make every text one that can be encoded."""
        object.__setattr__(self, "patch", _encodable(self.patch))
        object.__setattr__(self, "model", self.model.encode("utf-8", "backslashreplace").decode("utf-8"))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to grade: whitespace only counts as empty."""
        return not self.patch.strip()

    @property
    def sha256(self) -> str:
        """The patch's own hash: what a resumed run compares."""
        return hashlib.sha256(self.patch.encode("utf-8", "surrogateescape")).hexdigest()


def _encodable(text: str) -> str:
    """Return the text with each surrogate that stands for no byte as the three bytes of its own encoding."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _HALF_A_PAIR.sub(_as_bytes, text)
    return text


# All surrogates but those that stand for a byte (U+DC80 to U+DCFF, PEP 383).
_HALF_A_PAIR = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def _as_bytes(match: re.Match[str]) -> str:
    return match[0].encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
