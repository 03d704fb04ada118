"""What a failed build's log teaches: the next recipe to try, without any guess that the log does not name."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from packaging.utils import canonicalize_name

from swelive_plugin.recipes.pytest_needs import distribution_of
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.recipes.requirements import loosened, merged, name_of

__all__ = ["repaired"]

_MOST_DAYS_LATER = 1300  # how far a package's own cut-off may move
_INSTEAD = re.compile(r"an address; the registry's (\S+) instead")


def repaired(recipe: Recipe, log: str) -> Recipe | None:
    """Return the recipe changed by what ``log`` says went wrong, or ``None`` where it does not tell. The last reason
    says what."""
    for attempt in (_odd_version, _guessed, _missing_at_build, _hidden_by_date, _unknown, _conflict, _unbuildable):
        better = attempt(recipe, log)
        if better is not None and better != recipe:
            return better
    return None


def _odd_version(recipe: Recipe, log: str) -> Recipe | None:
    """Take a later setuptools where that day's names the project's own wheel by a version that no standard knows."""
    if not re.search(r"Failed to parse metadata from built wheel\s+(?:cause: |Caused by: )?Invalid version", log):
        return None
    later = _later(recipe, "setuptools", days=400)
    if later is None:
        return None
    why = "that day's setuptools makes a version that no standard knows: a later one"
    return replace(recipe, exceptions={**recipe.exceptions, "setuptools": later}, reasons=(*recipe.reasons, why))


def _later(recipe: Recipe, package: str, *, days: int) -> str | None:
    """Return the next cut-off of a package on its own, ``days`` later than now, or ``None`` at the end of patience."""
    now = datetime.fromisoformat(recipe.exceptions.get(package, recipe.cutoff).replace("Z", "+00:00"))
    later = now + timedelta(days=days)
    if (later - datetime.fromisoformat(recipe.cutoff.replace("Z", "+00:00"))).days > _MOST_DAYS_LATER:
        return None
    return later.strftime("%Y-%m-%dT00:00:00Z")


def _guessed(recipe: Recipe, log: str) -> Recipe | None:
    """Leave out what only an import or an address speaks for and can't be built: the registry's is something else."""
    guesses = {
        name_of(why.split(":")[0]) for why in recipe.reasons if re.match(r"[\w.-]+: \S+( \(added\))? imports ", why)
    }
    guesses |= {canonicalize_name(name) for why in recipe.reasons for name in _INSTEAD.findall(why)}
    return _without(recipe, _not_built(log) & guesses, "no more than a name speaks for it, and it does not build")


def _unbuildable(recipe: Recipe, log: str) -> Recipe | None:
    """Leave out, when nothing else helps, a declared package that does not build here: the controls judge the rest."""
    return _without(recipe, _not_built(log) - {canonicalize_name(recipe.project)}, "does not build here, left out")


def _not_built(log: str) -> set[str]:
    failed = r"(?:Failed to (?:download and )?build|Failed to read) `([A-Za-z0-9._-]+?)(?:==| @|`)"
    return {str(canonicalize_name(name)) for name in re.findall(failed, log)}


def _without(recipe: Recipe, names: set[str], why: str) -> Recipe | None:
    kept = tuple(line for line in recipe.requirements if name_of(line) not in names)
    if kept == recipe.requirements:
        return None
    gone = sorted({name_of(line) for line in recipe.requirements} & names)
    return replace(recipe, requirements=kept, reasons=(*recipe.reasons, f"{why}: {', '.join(gone)}"))


def _missing_at_build(recipe: Recipe, log: str) -> Recipe | None:
    found = re.search(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?", log)
    if not found or recipe.install == "path":
        return None
    distribution = distribution_of(found.group(1))
    if not distribution or any(name_of(line) == canonicalize_name(distribution) for line in recipe.build_requires):
        return None
    requires = (*recipe.build_requires, distribution)
    return replace(
        recipe,
        build_requires=requires,
        reasons=(*recipe.reasons, f"building imports {found.group(1)}: {distribution} added to what builds"),
    )


def _hidden_by_date(recipe: Recipe, log: str) -> Recipe | None:
    """Move a package's own cut-off where no upload of that day can be used: hidden, or named as files no longer are."""
    unnamed = r"all versions of ([A-Za-z0-9._-]+) have a non-PEP 625-compliant source distribution"
    found = re.search(r"`([A-Za-z0-9._-]+)` was filtered by `exclude-newer`", log) or re.search(
        unnamed, " ".join(log.split())
    )
    if not found:
        return None
    package = canonicalize_name(found.group(1))
    if any(canonicalize_name(name) == package for why in recipe.reasons for name in _INSTEAD.findall(why)):
        # the project never meant the registry's: a later upload of that name is somebody else's
        kept = tuple(line for line in recipe.requirements if name_of(line) != package)
        return replace(
            recipe, requirements=kept, reasons=(*recipe.reasons, f"{package} was not in the registry then: left out")
        )
    date = _later(recipe, package, days=400)
    if date is None:
        return None
    return replace(
        recipe, exceptions={**recipe.exceptions, package: date},
        reasons=(*recipe.reasons, f"no upload of {package} before the cut-off can be used: its own is {date[:10]}"),
    )  # fmt: skip


def _unknown(recipe: Recipe, log: str) -> Recipe | None:
    """Leave out what the registry does not have here: a private package, another system's, a word that is none."""
    flat = " ".join(log.split())
    absent = r"([A-Za-z0-9._-]+) was not found in the package registry"
    elsewhere = r"([A-Za-z0-9._-]+?)(?:[<>=!~]=?[^ ]*)? has no wheels with a matching platform tag"
    names = {canonicalize_name(name) for pattern in (absent, elsewhere) for name in re.findall(pattern, flat)}
    kept = tuple(line for line in recipe.requirements if name_of(line) not in names)
    if kept == recipe.requirements:
        return None
    return replace(
        recipe,
        requirements=kept,
        reasons=(*recipe.reasons, f"not in the registry for this platform, left out: {', '.join(sorted(names))}"),
    )


def _conflict(recipe: Recipe, log: str) -> Recipe | None:
    """Take the pin off what the resolver says can't be had together, one step at a time; then drop it."""
    if "No solution found" not in log and "unsatisfiable" not in log and "conflict" not in log.lower():
        return None
    explanation = log[log.find("No solution found") :]
    if overridden := _own_pins(recipe, explanation):
        return overridden
    named = {
        canonicalize_name(name)
        for name in re.findall(r"\b([A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9])(?:\[[^\]]*\])?(?=[<>=!~{ ])", explanation)
    }
    pinned = [line for line in recipe.requirements if name_of(line) in named and loosened(line) != line]
    if pinned:
        lines = merged(loosened(line) if line in pinned else line for line in recipe.requirements)
        return replace(
            recipe, requirements=lines,
            constraints=tuple(line for line in recipe.constraints if name_of(line) not in named),
            reasons=(*recipe.reasons, f"can't be had together, so not pinned: {', '.join(map(name_of, pinned))}"),
        )  # fmt: skip
    constrained = tuple(line for line in recipe.constraints if name_of(line) not in named)
    if constrained != recipe.constraints:
        return replace(
            recipe, constraints=constrained, reasons=(*recipe.reasons, "conflicting constraints are left out")
        )
    return None


def _own_pins(recipe: Recipe, explanation: str) -> Recipe | None:
    """Take off pins of the project's own extras: what nobody installs by hand may ask for what never fitted."""
    own = re.sub(r"[-_.]+", "[-_.]+", re.escape(canonicalize_name(recipe.project))) if recipe.project else "(?!)"
    asked = re.findall(
        rf"\b{own}\[[\w, -]+\](?:[<>=!~]=?\S+)?\s+depends\s+on\s+([A-Za-z0-9._-]+)[<>=!~]", explanation, re.IGNORECASE
    )
    lines = {name_of(line): line for line in recipe.requirements}
    there = {name_of(line) for line in recipe.overrides}
    new = {name: lines.get(name, name) for name in map(canonicalize_name, asked) if name not in there}
    if not new:
        return None
    return replace(
        recipe, overrides=(*recipe.overrides, *new.values()),
        reasons=(*recipe.reasons, f"an extra's own pins can't be kept: {', '.join(sorted(new))}"),
    )  # fmt: skip
