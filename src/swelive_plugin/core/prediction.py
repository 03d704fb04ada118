"""A prediction: one model's patch for one instance."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

__all__ = ["Prediction"]


@dataclass(frozen=True)
class Prediction:
    """One patch to judge.

    ``attempt`` counts from 1 where several different patches were submitted for one instance; ``source`` says where it
    was read (``file:line``). ``duplicates`` names the sources of exact duplicates, which are graded once.
    """

    instance_id: str
    patch: str = field(repr=False)
    model: str = ""
    attempt: int = 1
    source: str = ""
    duplicates: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to grade: whitespace only counts as empty."""
        return not self.patch.strip()

    @property
    def sha256(self) -> str:
        """The patch's own hash: what a resumed run compares."""
        return hashlib.sha256(self.patch.encode("utf-8", "surrogateescape")).hexdigest()
