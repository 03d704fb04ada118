"""The search for the recipe that validates: build a candidate, let the controls judge it, learn from what failed.

The controls come in as a callable, so that this room knows nothing of grading. No language model: each lesson is a
pattern in what pytest printed, and names what it takes from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from swelive_plugin._version import __version__
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.environments.build import BuildStopped
from swelive_plugin.environments.lock import locked_versions
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.recipes.era import parse_minor
from swelive_plugin.recipes.known_names import FIXTURES, INI_KEYS, MARKERS, OPTIONS
from swelive_plugin.recipes.pytest_needs import distribution_of
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.recipes.requirements import name_of

__all__ = ["SEARCHED_BY", "Attempt", "Found", "cause_of", "lesson", "search", "words_of_lacks"]

_TRIES = 8

SEARCHED_BY = f"{__version__}/1"
"""Which search this is: the version, and a number to be raised when recipes are found or judged in another way. What
another search could not prove is searched again."""


@dataclass(frozen=True)
class Attempt:
    """One candidate and what became of it; ``learnt`` is what made the next one."""

    recipe: Recipe
    outcome: str
    reason: str = ""
    key: str = ""
    good: int = 0
    evidence: str = field(default="", repr=False)


@dataclass(frozen=True)
class Found:
    """How a search ended: the best environment (``None`` if nothing could be built), whether its controls hold, and
    why."""

    environment: Environment | None
    holds: bool
    attempts: tuple[Attempt, ...]
    cause: str = ""


def search(
    candidates: Sequence[Recipe],
    *,
    build: Callable[[Recipe], Environment],
    check: Callable[[Environment], Trial],
    tries: int = _TRIES,
    advise: Callable[[Recipe, str], Recipe | None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Found:
    """Return the first environment whose controls hold, else the best of at most ``tries`` candidates.

    What a failed control teaches is tried before the next candidate. ``advise`` is asked, with the best recipe and what
    its controls printed, only when nothing else is left to try; its answer is judged like any other candidate.
    ``cause`` says why the best one does not hold.
    """
    say = progress or (lambda _: None)
    queue = list(candidates)
    seen_recipes: set[tuple[object, ...]] = set()
    seen_keys: set[str] = set()
    attempts: list[Attempt] = []
    best: tuple[int, Environment, Trial] | None = None
    while len(attempts) < tries:
        if not queue and advise is not None and best is not None:
            advised = advise(best[1].recipe, best[2].output)
            queue += [advised] if advised is not None and _identity(advised) not in seen_recipes else []
        if not queue:
            break
        recipe = queue.pop(0)
        if (identity := _identity(recipe)) in seen_recipes:
            continue
        seen_recipes.add(identity)
        say(f"trying recipe {recipe.name} on Python {recipe.python}")
        try:
            environment = build(recipe)
        except EnvironmentBuildError as error:
            attempts.append(Attempt(recipe, "not built", error.message, evidence=error.evidence))
            say(error.message)
            queue = [] if isinstance(error, BuildStopped) else queue
            continue
        if environment.key in seen_keys:
            continue
        seen_keys.add(environment.key)
        trial = check(environment)
        if trial.holds:
            attempts.append(Attempt(recipe, "holds", trial.note, environment.key, trial.good))
            return Found(environment, True, tuple(attempts))
        why = trial.note or cause_of(trial.output)
        attempts.append(Attempt(recipe, "does not hold", why, environment.key, trial.good))
        say(f"its controls do not hold: {why or 'no reason is known'}")
        if best is None or trial.good > best[0]:
            best = (trial.good, environment, trial)
        queue = _after(queue, environment, trial, say)
    if best is None:
        return Found(None, False, tuple(attempts), attempts[0].reason if attempts else "no candidate")
    cause = cause_of(best[2].output) or best[2].note
    return Found(best[1], False, tuple(attempts), f"{cause}{words_of_lacks(best[1])}")


def words_of_lacks(environment: Environment) -> str:
    """Return a sentence on what of the commit could not be had; empty where all is there."""
    lacks = environment.lacks
    more = f" and {len(lacks) - 2} more" if lacks[2:] else ""
    return f" (the mirror does not have {', '.join(lacks[:2])}{more})" if lacks else ""


def _after(queue: list[Recipe], environment: Environment, trial: Trial, say: Callable[[str], None]) -> list[Recipe]:
    """Return what to try next, given what the controls of ``environment`` printed."""
    have = parse_minor(environment.recipe.python) or (3, 0)
    if _TOO_NEW.search(trial.output):
        queue = sorted(queue, key=lambda other: not _older(other, environment.recipe))
    elif trial.pass_at_base:
        queue = sorted(queue, key=lambda other: (parse_minor(other.python) or have) <= have)
    elif wanted := {(3, int(minor)) for minor in _TOO_OLD.findall(trial.output) if (3, int(minor)) > have}:
        queue = sorted(queue, key=lambda other: (parse_minor(other.python) or have) < min(wanted))
    better = lesson(environment.recipe, trial.output, locked_versions(environment.lock_text))
    if better is None:
        return queue
    say(better.reasons[-1])
    return [better, *queue]


def _identity(recipe: Recipe) -> tuple[object, ...]:
    return (
        recipe.python, recipe.install, recipe.beside, recipe.cutoff, recipe.extras, frozenset(recipe.requirements),
        frozenset(recipe.constraints), recipe.overrides,
        tuple(sorted(recipe.env.items())), recipe.needs_git, recipe.released_files,
        tuple(sorted(recipe.exceptions.items())),
    )  # fmt: skip


def _older(recipe: Recipe, than: Recipe) -> bool:
    mine, other = parse_minor(recipe.python), parse_minor(than.python)
    return mine is not None and other is not None and mine < other


def lesson(recipe: Recipe, output: str, locked: Mapping[str, str]) -> Recipe | None:
    """Return the recipe with all that ``output`` names as missing, or ``None`` if it teaches nothing.

    ``locked`` holds what the environment has: names and versions.
    """
    wanted: dict[str, str] = {}
    for pattern, table, what in _MISSING:
        for name in re.findall(pattern, output):
            distribution = table(name)
            if distribution and canonicalize_name(re.split(r"[\[<>=]", distribution)[0]) not in locked:
                wanted.setdefault(distribution, f"{what} {name}")
    own = canonicalize_name(recipe.project) if recipe.project else ""
    wanted = {name: why for name, why in wanted.items() if canonicalize_name(name) != own}
    better = recipe
    if wanted:
        said = "; ".join(f"{name} ({why})" for name, why in wanted.items())
        better = recipe.with_requirements(wanted, f"the tests miss {said}")
    if not better.needs_git and _NEEDS_GIT.search(output):
        better = replace(
            better, needs_git=True, reasons=(*better.reasons, "the tests look at the repository's own .git")
        )
    broken = _breaks_the_session(output, locked)
    kept = tuple(line for line in better.requirements if name_of(line) not in broken)
    if kept != better.requirements:
        why = f"plugins that break the session are left out: {', '.join(sorted(broken))}"
        better = replace(better, requirements=kept, reasons=(*better.reasons, why))
    older = _below(better, output, locked)
    if older is not None:
        better = older
    if better == recipe and recipe.project and not recipe.released_files and _lacks_generated(recipe, output):
        # alone, and after all else: where there is no such release, nothing else is lost
        why = "files that git ignores are missing: those of the project's last release"
        better = replace(recipe, released_files=True, reasons=(*recipe.reasons, why))
    if better == recipe:
        return None
    return replace(better, name=f"{recipe.name.rstrip('+')}+")


def _breaks_the_session(output: str, locked: Mapping[str, str]) -> set[str]:
    """Return the pytest plugins, by distribution, in whose code pytest itself came to an end."""
    tops = re.findall(r"^INTERNALERROR> +File \"[^\"\n]*/site-packages/(pytest_\w+)", output, re.MULTILINE)
    return {str(name) for top in tops if (name := canonicalize_name(distribution_of(top))) in locked}


def _option_plugin(text: str) -> str:
    word = text.split("=")[0].strip()
    best = max((option for option in OPTIONS if word == option or word.startswith(f"{option}-")), key=len, default="")
    return OPTIONS.get(best, "pytest-xdist" if word.startswith("-n") and not word.startswith("--") else "")


_MISSING: tuple[tuple[str, Callable[[str], str], str], ...] = (
    (r"No module named '?([A-Za-z_][\w.]*)'?", distribution_of, "module"),
    (r"fixture '(\w+)' not found", lambda name: FIXTURES.get(name, ""), "fixture"),
    (r"unrecognized arguments?: (-[^\n]+?)(?:\n|$)", lambda text: _option_plugin(text.split(" -")[0]), "option"),
    (r"'(\w+)' not found in `markers`", lambda name: MARKERS.get(name, ""), "marker"),
    (r"Unknown pytest\.mark\.(\w+)", lambda name: MARKERS.get(name, ""), "marker"),
    (r"[Uu]nknown config option: ([\w-]+)", lambda name: INI_KEYS.get(name.lower(), ""), "ini key"),
    (r"Missing required plugins: ([\w-]+)", lambda name: name, "plugin"),
    (r"Error importing plugin \"([\w.]+)\"", distribution_of, "plugin"),
    (r"(async def functions are not natively supported)", lambda _: "pytest-asyncio", "plugin:"),
    (
        r"`?(?:pip3? install|conda install(?: -c \S+)?) ([A-Za-z][\w.-]+(?:\[[\w,-]+\])?)`?",
        lambda name: name,
        "package",
    ),
)
_NEEDS_GIT = re.compile(
    r"not a git repository|InvalidGitRepositoryError|unable to detect version for|LookupError: setuptools-scm|"
    r"No such file or directory: '[^']*/\.git\b|fatal: detected dubious ownership"
)
_LACKS_DATA = re.compile(
    r"FileNotFoundError: [^\n]*'/testbed/|No such file or directory: '/testbed/|"
    r"(?:files?|data|tables?|modules?|parser|extension)s? (?:is|are|was|were|has|have) not "
    r"(?:available|found|built|been built|generated|been generated|compiled)|source checkout",
    re.IGNORECASE,
)


def _lacks_generated(recipe: Recipe, output: str) -> bool:
    """Whether the tests miss something that a step of the project makes: a data file, or one of its own modules."""
    own = re.escape(re.sub(r"[-.]+", "_", recipe.project))
    module = rf"No module named '?{own}\.[\w.]+|cannot import name '\w+' from (?:partially initialized module )?'{own}"
    return bool(_LACKS_DATA.search(output) or re.search(module, output, re.IGNORECASE))


_TOO_NEW = re.compile(
    r"cannot import name '\w+' from 'collections'|module 'collections' has no attribute|"
    r"No module named '?(?:imp|distutils|asynchat|asyncore|smtpd|cgi|pipes|telnetlib|lib2to3|parser|symbol)\b|"
    r"module 'inspect' has no attribute 'getargspec'|module 'ast' has no attribute '(?:Str|Num)'|"
    r"required field \"lineno\" missing from|module 'typing' has no attribute 'io'|code\(\) takes at least|"
    r"module 'unittest' has no attribute 'makeSuite'|'re' has no attribute 'Pattern'"
)


# the interpreter that a skipped test asks for; one that it shuns can't be newer than the one that skipped it
_TOO_OLD = re.compile(r"^skipped [^\n]*?python[\s-]*(?:versions?\s*)?(?:>=?\s*)?3\.(\d+)", re.IGNORECASE | re.MULTILINE)


def _below(recipe: Recipe, output: str, locked: Mapping[str, str]) -> Recipe | None:
    """Step below the version of a package that has dropped what is still imported from it."""
    found = re.search(r"cannot import name '(\w+)' from '([\w.]+)' \(\S+site-packages\S+\)", output)
    if not found:
        return None
    distribution = canonicalize_name(distribution_of(found.group(2)) or found.group(2).split(".")[0])
    version = locked.get(distribution)
    if version is None:
        return None
    return replace(
        recipe,
        constraints=(*recipe.constraints, f"{distribution}<{version}"),
        reasons=(*recipe.reasons, f"{distribution} {version} has no {found.group(1)}: an older one"),
    )


_OFFLINE = (
    r"Temporary failure in name resolution|Name or service not known|getaddrinfo failed|NewConnectionError|"
    r"Max retries exceeded|Network is unreachable|nodename nor servname"
)
_LIBRARY = (
    r"(?:cannot load library|cannot open shared object file|error while loading shared libraries)[^\n]*?(lib[\w.+-]+)"
)
_CAUSES: tuple[tuple[str, str], ...] = (
    (_OFFLINE, "the tests need the wide network"),
    (r"No such file or directory: '([\w.+-]+)'", "a program is missing: {0} (apt-get install {0})"),
    (_LIBRARY, "a system library is missing: {0}"),
    (r"locale\.Error: unsupported locale setting", "a locale is missing (apt-get install locales-all)"),
    (r"No module named '?([\w.]+)'?", "a module is missing: {0}"),
    (r"fixture '(\w+)' not found", "a fixture is missing: {0}"),
    (r"unrecognized arguments?: ([^\n]+)", "an option is unknown: {0}"),
    (r"ImportError[^\n]*: ([^\n]+)", "an import fails: {0}"),
    (r"^E\s+(\w+(?:Error|Exception|Warning)[^\n]{0,160})", "{0}"),
)


def cause_of(output: str) -> str:
    """Return the first cause that a control's output shows, in words; empty where none is known."""
    for pattern, words in _CAUSES:
        found = re.search(pattern, output, re.MULTILINE)
        if found:
            return words.format(*found.groups())
    return ""
