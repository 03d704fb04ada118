"""The era of a commit: which interpreter and which packages a careful engineer of that day would have had.

Pure: dates and tables in, choices out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from packaging.specifiers import InvalidSpecifier, SpecifierSet

__all__ = [
    "CPYTHON",
    "FIRST_PYTEST",
    "PROBED_PYTEST",
    "Era",
    "Minor",
    "cutoff_for",
    "parse_minor",
    "rank_minors",
    "visible_exceptions",
]

Minor = tuple[int, int]


@dataclass(frozen=True)
class Era:
    """When a minor release of CPython came out, and until when it got fixes."""

    released: datetime
    end_of_life: datetime


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


# Source: the status page of the Python developer's guide (devguide.python.org/versions). 3.5 and older can't be had:
# uv makes no environments for them.
CPYTHON: Mapping[Minor, Era] = {
    (3, 6): Era(_day("2016-12-23"), _day("2021-12-23")),
    (3, 7): Era(_day("2018-06-27"), _day("2023-06-27")),
    (3, 8): Era(_day("2019-10-14"), _day("2024-10-07")),
    (3, 9): Era(_day("2020-10-05"), _day("2025-10-31")),
    (3, 10): Era(_day("2021-10-04"), _day("2026-10-31")),
    (3, 11): Era(_day("2022-10-24"), _day("2027-10-31")),
    (3, 12): Era(_day("2023-10-02"), _day("2028-10-31")),
    (3, 13): Era(_day("2024-10-07"), _day("2029-10-31")),
    (3, 14): Era(_day("2025-10-07"), _day("2030-10-31")),
}

# The first pytest that runs on an interpreter, where older ones install and then break (its changelog): their
# assertion rewriting makes trees that the interpreter refuses.
FIRST_PYTEST: Mapping[Minor, str] = {
    (3, 10): "6.2.5",
    (3, 11): "7.0",
    (3, 12): "7.4",
    (3, 13): "8.2",
    (3, 14): "8.4",
}

# The oldest that the probe speaks to.
PROBED_PYTEST = "3.6"

# A minor release is "settled" once most projects shipped wheels for it and tested on it.
_SETTLED = timedelta(days=540)

# The oldest pytest that the probe speaks to is 3.6 (23 May 2018): an older cut-off would hide it.
_FIRST_CUTOFF = _day("2018-07-01")

# Packages whose files the index dates later than their release, so that a cut-off hides them: (name, the first date
# that shows what is needed, why). The date counts only where the cut-off is earlier.
_HIDDEN: tuple[tuple[str, str, str], ...] = (
    ("atomicwrites", "2022-07-10", "uploaded again on 2022-07-08; pytest before 7.2 needs it"),
    ("setuptools", "2019-03-10", "40.8.0 is the first that serves a build front end without pyproject.toml"),
    ("wheel", "2019-03-10", "bdist_wheel of older releases does not serve build front ends"),
    ("poetry-core", "2022-03-01", "1.0.8 is the first that makes editable installs"),
    ("flit-core", "2021-12-01", "3.4 is the first that makes editable installs"),
    ("ptyprocess", "2020-12-29", "0.7.0 replaced releases that no build front end installs"),
    ("hatchling", "2022-01-10", "the first releases date from then"),
    ("editables", "2022-01-10", "editable installs of hatchling and poetry need it"),
)


def parse_minor(text: str) -> Minor | None:
    """Return ``(3, 11)`` for ``3.11``, ``3.11.4``, ``py311`` or ``python3.11``; ``None`` for anything else."""
    text = text.strip().lower().removeprefix("python").removeprefix("cpython").removeprefix("py").strip("-= ")
    parts = text.split(".")
    if len(parts) == 1 and parts[0].isdigit() and len(parts[0]) in (2, 3) and parts[0][0] == "3":
        return 3, int(parts[0][1:])
    if len(parts) >= 2 and parts[0] == "3":
        digits = parts[1].split("-")[0].split("a")[0].split("b")[0].split("r")[0]
        if digits.isdigit():
            return 3, int(digits)
    return None


def cutoff_for(commit_date: datetime, minor: Minor) -> datetime:
    """Return the moment after which no upload counts: the commit's, or later where the interpreter needs it.

    An interpreter that is younger than the commit (nothing older can be had) needs packages that know it: then the
    cut-off is the day on which that interpreter had settled.
    """
    date = max(commit_date.astimezone(timezone.utc), _FIRST_CUTOFF)
    era = CPYTHON.get(minor)
    if era is not None and era.released > commit_date:
        date = max(date, era.released + _SETTLED)
    return date


def visible_exceptions(cutoff: datetime) -> dict[str, str]:
    """Return the packages that need a later cut-off than ``cutoff``, each with its date (``YYYY-MM-DDT00:00:00Z``)."""
    return {name: f"{date}T00:00:00Z" for name, date, _ in _HIDDEN if cutoff < _day(date)}


def rank_minors(
    commit_date: datetime, available: Iterable[Minor], *, requires: str = "", tested: Iterable[Minor] = ()
) -> list[tuple[Minor, str]]:
    """Return the minor releases among ``available`` that fit, the best first, each with the reason.

    Rules, in this order: inside ``requires`` (requires-python); released and supported at ``commit_date``; tested by
    the project; settled (18 months old); then the newest. Releases that were not yet out or no longer supported come
    last, the nearest first: they are used only where nothing else is there.
    """
    fitting = [minor for minor in sorted(set(available)) if minor in CPYTHON and _allows(requires, minor)]
    wanted = set(tested)
    if not wanted.intersection(fitting):
        wanted = set()

    def rank(minor: Minor) -> tuple[int, ...]:
        era = CPYTHON[minor]
        alive = era.released <= commit_date < era.end_of_life
        settled = era.released + _SETTLED <= commit_date
        if alive:
            newness = minor[1] if not settled else -minor[1]
            return (0, 0 if not wanted or minor in wanted else 1, 0 if settled else 1, newness)
        unborn = era.released > commit_date
        return (1, 0 if not wanted or minor in wanted else 1, 0 if unborn else 1, minor[1] if unborn else -minor[1])

    ranked = sorted(fitting, key=rank)
    return [(minor, _reason(minor, commit_date, requires, wanted)) for minor in ranked]


def _allows(requires: str, minor: Minor) -> bool:
    """Whether any plausible patch release of ``minor`` is inside ``requires``; a broken specifier allows everything."""
    if not requires.strip():
        return True
    try:
        spec = SpecifierSet(requires)
    except InvalidSpecifier:
        return True
    return any(spec.contains(f"{minor[0]}.{minor[1]}.{patch}", prereleases=True) for patch in (0, 1, 3, 7, 10, 15, 20))


def _reason(minor: Minor, commit_date: datetime, requires: str, wanted: Sequence[Minor] | set[Minor]) -> str:
    era, name = CPYTHON[minor], f"Python {minor[0]}.{minor[1]}"
    if era.released > commit_date:
        said = "is younger than the commit; no older one that fits is here"
    elif era.end_of_life <= commit_date:
        said = "was out of support at the commit's date"
    elif era.released + _SETTLED <= commit_date:
        said = "was settled and supported at the commit's date"
    else:
        said = "was out and supported at the commit's date"
    parts = [f"{name} {said}"]
    if minor in wanted:
        parts.append("the project tested on it")
    if requires:
        parts.append(f"requires-python is {requires}")
    return "; ".join(parts)
