"""Recipes: how to build an environment, found from what a repository says about itself.

Pure: a file listing, a date and the interpreters that are there come in; ranked candidates come out. Nothing is run.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from typing import Any

from packaging.utils import canonicalize_name

from swelive_plugin.errors import UsageError
from swelive_plugin.recipes.declared import Declared, read_declared
from swelive_plugin.recipes.era import (
    FIRST_PYTEST,
    PROBED_PYTEST,
    Minor,
    cutoff_for,
    parse_minor,
    rank_minors,
    visible_exceptions,
)
from swelive_plugin.recipes.hints import Hints, read_hints
from swelive_plugin.recipes.listing import RepoFiles
from swelive_plugin.recipes.pytest_needs import needs_of_configuration, needs_of_tests, own_names
from swelive_plugin.recipes.requirements import Wanted, loosened, merged, name_of, read_requirement_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Recipe", "discover", "recipe_from_toml", "recipe_to_toml", "test_texts"]

_TESTY = re.compile(r"test|^ci$|^ci[-_]|[-_]ci$|coverage|^cov$|^qa$", re.IGNORECASE)
_DEVY = re.compile(r"^(hatch-)?(dev|devel|develop|development|default)\b|[-_]dev$", re.IGNORECASE)
_OTHER = re.compile(
    r"docs?\b|docs?[-_]|lint|typ(es?|ing)|format|release|publish|deploy|build|bench|pre-?commit|style|mypy|"
    r"notebook|example|tutorial|windows|win32|gpu|cuda|minimal|min[-_.]|oldest|upstream|nightly|binder|rtd",
    re.IGNORECASE,
)
_REQUIREMENTS = re.compile(
    r"(^|/)[^/]*(requirements?|reqs?|deps)[^/]*\.(txt|in|pip)$|(^|/)(requirements|reqs)/[^/]+\.(txt|in|pip)$",
    re.IGNORECASE,
)
_PACKAGING = ("setup.py", "pyproject.toml", "setup.cfg")
_COLLECTED = re.compile(r"test_.*\.py$|.*_test\.py$|tests?\.py$|conftest\.py$")
_DATA = re.compile(
    r"(.*[_-])?(data|fixtures?|samples?|examples?|resources?|assets|snapshots?|inputs?|outputs?|expected|functional|"
    r"cases|corpus|templates?|roots|files)",
    re.IGNORECASE,
)
# What a project needs to make itself, never to test itself, unless its tests import it.
_DEV_TOOLS = re.compile(
    r"^(black|ruff|isort|flake8.*|pycodestyle|pre-commit.*|tox.*|nox.*|twine|bump.*|commitizen|mkdocs.*|mkdocstrings.*|.*-theme|furo|codecov|"
    r"coveralls|ipdb|pdbpp|pyright|mypy|types-.*|jupyterlab.*|notebook|poetry|pdm|hatch|uv|pipenv|towncrier|cibuildwheel|interrogate|"
    r"autoflake|autopep8|pyupgrade|docformatter|bandit|safety|pip-tools|check-manifest|zest-releaser.*|rstcheck.*|doc8|codespell|myst-nb|"
    r"nbsphinx|sphinx-autobuild|sphinx-gallery|readme-renderer|python-semantic-release|git-changelog|typos|radon|mutmut|yamllint)$"
)
# An image of the day had these at hand, and tests of older projects import pkg_resources or run pip.
_SEED = ("pip", "setuptools", "wheel")
_CANDIDATES_OF_INTERPRETERS = 3


@dataclass(frozen=True)
class Recipe:
    """How to build one environment. Readable and writable as ``recipe.toml``, which a person may edit and share.

    ``cutoff`` is UTC: no upload after it counts, except for the packages in ``exceptions`` (name to their own date).
    ``subdir`` is where the packaging files are, ``beside`` names folders of further packages whose tests are asked for.
    ``install`` is ``editable``, ``develop`` (by ``setup.py develop``), or ``path`` where nothing can be installed and
    the tree itself is put on the import path. ``system`` names Debian packages that the project's own CI installs.
    ``overrides`` replace what anybody, the project's own extras too, asks of a package. ``released_files`` takes
    generated files from the project's last release. ``folders`` are made empty, as the
    project's own test job makes them.
    """

    name: str = "full"
    python: str = "3.11"
    cutoff: str = ""
    project: str = ""
    install: str = "editable"
    subdir: str = ""
    beside: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    build_requires: tuple[str, ...] = ()
    build_backend: str = ""
    exceptions: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    system: tuple[str, ...] = ()
    scm_version: bool = False
    needs_git: bool = False
    released_files: bool = False
    folders: tuple[str, ...] = ()
    reasons: tuple[str, ...] = field(default=(), compare=False)

    def with_requirements(self, added: Iterable[str], reason: str) -> Recipe:
        """Return this recipe with more requirements, and why."""
        lines = merged([*self.requirements, *added], without=[self.project])
        return replace(self, requirements=lines, reasons=(*self.reasons, reason))


def discover(
    files: RepoFiles,
    *,
    commit_date: datetime,
    minors: Sequence[Minor],
    test_paths: Sequence[str] = (),
    added_tests: Mapping[str, str] | None = None,
) -> list[Recipe]:
    """Return ranked candidate recipes for a repository as it was at ``commit_date``; empty if no interpreter fits.

    ``minors`` are the interpreters that are there. ``test_paths`` are the files of the hidden tests and
    ``added_tests`` the
    lines that they add: what those import is needed. ``reasons`` of each recipe say where each choice comes from.
    """
    folder = _project_folder(files, test_paths)
    declared = read_declared(files, folder)
    hints = read_hints(files, folder)
    ranked = rank_minors(
        commit_date,
        minors,
        requires=declared.requires_python,
        tested=declared.classifiers & hints.tested or hints.tested or declared.classifiers,
    )
    if not ranked:
        return []
    need = {
        **needs_of_configuration(files, folder),
        **needs_of_tests(test_texts(files, test_paths, added_tests or {}), own_names(files.paths, folder)),
    }
    if folder:
        need = {**needs_of_configuration(files, ""), **need}
    plan = _Plan(files, declared, hints, need)
    found: list[Recipe] = []
    for position, (minor, reason) in enumerate(ranked[:_CANDIDATES_OF_INTERPRETERS]):
        recipes = plan.recipes(minor, commit_date, reason)
        found.extend(recipes if position == 0 else recipes[:1])
    beside = _further_projects(files, folder, test_paths) if declared.packaged else ()
    if beside:
        why = f"the tests lie in a package of their own: {', '.join(beside)}"
        found = [replace(each, beside=beside, reasons=(*each.reasons, why)) for each in found] + found[:1]
    unique: dict[tuple[Any, ...], Recipe] = {}
    for recipe in found:
        unique.setdefault(
            (recipe.python, recipe.install, recipe.beside, recipe.extras, recipe.requirements, recipe.constraints),
            recipe,
        )
    return list(unique.values())


def test_texts(files: RepoFiles, test_paths: Sequence[str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the test files that matter: every conftest, the hidden tests' files, their neighbours, the added lines."""
    folders = {posixpath.dirname(path) for path in test_paths}
    wanted = [
        path
        for path in files.paths
        if posixpath.basename(path) == "conftest.py" or (path in test_paths and _is_imported(path))
    ]
    near = (path for path in files.paths if posixpath.dirname(path) in folders and _is_imported(path))
    # where tests lie among the sources, their neighbours need what the project itself declares
    wanted += [
        path for path in near if re.search(r"(^|/)tests?(ing)?/", path) or _TESTY.search(posixpath.basename(path))
    ][:150]
    texts = {path: text for path in dict.fromkeys(wanted) if (text := files.read(path)) is not None}
    for path, text in added.items():
        if _is_imported(path):
            texts[f"{path} (added)"] = text
    return texts


test_texts.__test__ = False  # type: ignore[attr-defined]  # pytest must not take it for a test


def _is_imported(path: str) -> bool:
    """Whether a file of the tests runs, so that what it imports is needed: a data file may import what nobody has."""
    folder, name = posixpath.split(path)
    if not name.endswith(".py"):
        return False
    return bool(_COLLECTED.match(name)) or not any(_DATA.fullmatch(part) for part in folder.split("/"))


def _project_folder(files: RepoFiles, test_paths: Sequence[str]) -> str:
    """Return the folder whose packaging files count: the root, else the nearest one above the tests, else the first."""
    packaged = {posixpath.dirname(path) for path in files.paths if posixpath.basename(path) in _PACKAGING}
    if "" in packaged and read_declared(files).packaged:
        return ""
    for path in test_paths:
        folder = posixpath.dirname(path)
        while folder:
            if folder in packaged and read_declared(files, folder).packaged:
                return folder
            folder = posixpath.dirname(folder)
    for folder in sorted(packaged, key=lambda name: (name.count("/"), name)):
        if folder.count("/") == 0 and folder and not _TESTY.search(folder) and read_declared(files, folder).packaged:
            return folder
    return ""


def _further_projects(files: RepoFiles, chosen: str, test_paths: Sequence[str]) -> tuple[str, ...]:
    """Return the folders, other than the chosen one, whose packages the hidden tests belong to: plugins, say."""
    packaged = {posixpath.dirname(path) for path in files.paths if posixpath.basename(path) in _PACKAGING}
    found: list[str] = []
    for path in test_paths:
        folder = posixpath.dirname(path)
        while folder and folder != chosen:
            inside = any(_DATA.fullmatch(part) or _TESTY.search(part) for part in folder.split("/"))
            if folder in packaged and not inside and read_declared(files, folder).packaged:
                found.append(folder)
                break
            folder = posixpath.dirname(folder)
    return tuple(dict.fromkeys(found))


class _Plan:
    """What was found, and how to put recipes together from it."""

    def __init__(self, files: RepoFiles, declared: Declared, hints: Hints, need: Mapping[str, str]) -> None:
        self.files, self.declared, self.hints, self.need = files, declared, hints, need
        self.reasons: list[str] = []
        self.own = canonicalize_name(declared.name) if declared.name else ""
        self.pytest = "pytest"

    def recipes(self, minor: Minor, commit_date: datetime, why_python: str) -> list[Recipe]:
        """Return the candidates for one interpreter, the best first."""
        declared = self.declared
        self.pytest = f"pytest>={FIRST_PYTEST.get(minor, PROBED_PYTEST)}"
        cutoff = cutoff_for(commit_date, minor)
        base = Recipe(
            python=f"{minor[0]}.{minor[1]}",
            cutoff=cutoff.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            project=declared.name,
            install="editable" if declared.packaged else "path",
            subdir=declared.folder,
            build_requires=tuple(declared.build_requires),
            build_backend=declared.build_backend,
            exceptions=visible_exceptions(cutoff),
            system=tuple(self.hints.system),
            scm_version=declared.scm_version,
            folders=tuple(self.hints.folders),
        )
        reasons = [why_python, *(f"broken, passed over: {line}" for line in declared.broken)]
        if self.hints.sources:
            reasons.append(f"the test jobs of {', '.join(self.hints.sources)} were read")
        if not declared.packaged:
            reasons.append("no packaging files: the tree itself goes on the import path")
        full = self._candidate(base, "full", reasons, dev=True)
        tests = self._candidate(base, "tests", reasons, dev=False)
        loose = replace(
            full,
            name="loose",
            requirements=merged(map(loosened, full.requirements)),
            constraints=(),
            reasons=(*full.reasons, "pins taken off"),
        )
        minimal = replace(
            base,
            name="minimal",
            requirements=self._finish([]),
            reasons=(*reasons, *self._why_needed(), "only what the tests name"),
        )
        everything = self._everything(full)
        prefix = f"{declared.folder}/" if declared.folder else ""
        in_place = []
        if declared.build_backend.startswith("mesonpy") and f"{prefix}setup.py" in self.files.paths:
            in_place = [
                replace(
                    full,
                    name="in place",
                    install="develop",
                    build_requires=(*full.build_requires, "setuptools", "wheel"),
                    reasons=(
                        *full.reasons,
                        "meson's editable installs hide what is not installed: tests among sources",
                    ),
                )
            ]
        return [full, *in_place, tests, loose, minimal, everything]

    def _candidate(self, base: Recipe, name: str, reasons: Sequence[str], *, dev: bool) -> Recipe:
        said = list(reasons)
        wanted = Wanted()
        extras = [extra for extra in self.declared.extras if self._chosen(extra, self.hints.wanted.extras, dev)]
        extras += [extra for extra in self.hints.wanted.extras if extra not in extras and not self.declared.extras]
        if self.hints.wanted.all_extras:
            extras = [extra for extra in self.declared.extras if not _OTHER.search(extra) or extra in extras]
        said += [f"extra [{extra}]" for extra in extras]
        for group, lines in self.declared.groups.items():
            if self._chosen(group.removeprefix("hatch-"), self.hints.wanted.groups, dev):
                wanted.add(Wanted(requirements=lines))
                said.append(f"dependency group {group}")
        wanted.add(Wanted(requirements=self.declared.tests_require))
        for path in self._requirement_files(dev):
            wanted.add(read_requirement_file(self.files, path))
            said.append(f"requirement file {path}")
        wanted.add(Wanted(requirements=[loosened(line) for line in self.hints.wanted.requirements]))
        for other in (self._pipfile(), self._conda() if not wanted.requirements and not extras else Wanted()):
            wanted.add(other)
        said += self._why_needed() + wanted.dropped
        return replace(
            base,
            name=name,
            extras=tuple(dict.fromkeys(extras)),
            requirements=self._finish(wanted.requirements),
            constraints=merged(wanted.constraints, without=[self.own]),
            reasons=tuple(said),
        )

    def _everything(self, full: Recipe) -> Recipe:
        lines = [line for group in self.declared.groups.values() for line in group]
        return replace(
            full,
            name="everything",
            extras=tuple(dict.fromkeys([*full.extras, *self.declared.extras])),
            requirements=self._finish([*full.requirements, *lines]),
            reasons=(*full.reasons, "every extra and every group"),
        )

    def _why_needed(self) -> list[str]:
        return [f"{name}: {reason}" for name, reason in self.need.items() if canonicalize_name(name) != self.own]

    def _finish(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the requirement lines without the project itself and tools that only make it, with seed and needs."""
        needed = {name_of(name) for name in self.need}
        kept = [line for line in lines if name_of(line) in needed or not _DEV_TOOLS.match(name_of(line))]
        there = {name_of(line) for line in kept}
        kept += [name for name in (*self.need, "pytest", *_SEED) if name_of(name) not in there]
        kept = [self.pytest if line == "pytest" else line for line in kept]
        if self.pytest not in kept:
            kept.append(self.pytest)
        return merged(kept, without=[self.own])

    def _chosen(self, name: str, hinted: Sequence[str], dev: bool) -> bool:
        if _TESTY.search(name):
            return True
        if name in hinted:
            return dev or not _OTHER.search(name)
        return dev and bool(_DEVY.search(name)) and not _OTHER.search(name)

    def _requirement_files(self, dev: bool) -> list[str]:
        prefix = f"{self.declared.folder}/" if self.declared.folder else ""
        there = set(self.files.paths)
        chosen = [
            name
            for path in self.hints.wanted.files
            for name in (prefix + path, path)
            if name in there and not _OTHER.search(_stem(path))
        ]
        for path in self.files.paths:
            if not _REQUIREMENTS.search(path) or path.count("/") > 2 or not path.startswith(prefix):
                continue
            stem, top = _stem(path), path.removeprefix(prefix).split("/")[0]
            if _OTHER.search(path.removeprefix(prefix)) or top in (
                "examples",
                "docs",
                "doc",
                "docker",
                "samples",
                "benchmarks",
            ):
                continue
            if path.endswith(".in") and path[:-3] + ".txt" in there:
                continue
            plain = stem in ("requirements", "base", "main", "common", "install", "prod", "core", "default")
            testy = bool(_TESTY.search(path.removeprefix(prefix)))
            if (plain and path.count("/") <= 1) or testy or (dev and re.search(r"dev", stem, re.IGNORECASE)):
                chosen.append(path)
        return list(dict.fromkeys(chosen))

    def _pipfile(self) -> Wanted:
        from swelive_plugin.recipes.requirements import from_poetry

        prefix = f"{self.declared.folder}/" if self.declared.folder else ""
        try:
            data = tomllib.loads(self.files.read(f"{prefix}Pipfile") or "")
        except (tomllib.TOMLDecodeError, RecursionError):
            return Wanted(dropped=[f"{prefix}Pipfile: broken"])
        tables = [data.get(key, {}) for key in ("packages", "dev-packages")]
        return Wanted(
            requirements=[
                line for table in tables for name, value in table.items() for line in from_poetry(name, value)
            ]
        )

    def _conda(self) -> Wanted:
        """Return what a conda environment file lists: its pip part, and its names, which are mostly the index's too."""
        wanted = Wanted()
        for path in self.files.paths:
            if not re.fullmatch(r"([^/]+/)?[^/]*env(ironment)?[^/]*\.ya?ml", path) or path.startswith(".github"):
                continue
            text = self.files.read(path) or ""
            if not re.search(r"^dependencies\s*:", text, re.MULTILINE) or _OTHER.search(_stem(path)):
                continue
            from swelive_plugin.recipes.requirements import from_line

            for item in re.findall(
                r"^\s*-\s+([^\s:#][^:#\n]*?)\s*(?:#.*)?$", text.split("dependencies", 1)[1], re.MULTILINE
            ):
                line = re.sub(r"(?<=\d)=[\w*]+$", "", item)
                if name_of(line.split("=")[0].split("<")[0].split(">")[0].strip()) not in (
                    "python",
                    "pip",
                    "conda",
                    "mamba",
                    "",
                ):
                    wanted.requirements.extend(map(loosened, from_line(line).requirements))
        return wanted


def _stem(path: str) -> str:
    return posixpath.basename(path).rsplit(".", 1)[0]


def recipe_to_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML: what a person reads, edits and shares as ``recipe.toml``."""
    lines = ["# How this environment is built. Edit it and pass it back: every choice below may be changed."]
    lines += [f"# - {reason}" for reason in (" ".join(text.split()) for text in recipe.reasons)]
    tables: list[str] = []
    for item in fields(recipe):
        value = getattr(recipe, item.name)
        if item.name == "reasons":
            continue
        if isinstance(value, Mapping):
            if value:
                tables += [
                    "",
                    f"[{item.name}]",
                    *(f"{json.dumps(key)} = {json.dumps(text)}" for key, text in sorted(value.items())),
                ]
        elif isinstance(value, tuple):
            lines.append(
                f"{item.name} = [" + "".join(f"\n  {json.dumps(text)}," for text in value) + ("\n]" if value else "]")
            )
        else:
            lines.append(f"{item.name} = {json.dumps(value)}")
    return "\n".join([*lines, *tables, ""])


def recipe_from_toml(text: str, *, where: str = "recipe.toml") -> Recipe:
    """Return the recipe that TOML holds. Raises `UsageError` naming the key that is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: {error}", hint="write it as `swelive env show` prints it") from error
    known = {item.name: item for item in fields(Recipe) if item.name != "reasons"}
    values: dict[str, Any] = {}
    for key, value in data.items():
        default = getattr(Recipe(), key, None) if key in known else None
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}", hint=f"known are {', '.join(known)}")
        if isinstance(default, tuple) and isinstance(value, list) and all(isinstance(item, str) for item in value):
            values[key] = tuple(value)
        elif isinstance(default, Mapping) and isinstance(value, dict):
            values[key] = {str(name): str(item) for name, item in value.items()}
        elif isinstance(value, type(default)) and not isinstance(default, tuple):
            values[key] = value
        else:
            raise UsageError(
                f"{where}: {key} is not {type(default).__name__}", hint="write it as `swelive env show` prints it"
            )
    recipe = Recipe(**values)
    if parse_minor(recipe.python) is None:
        raise UsageError(f"{where}: python {recipe.python!r} is not a version like 3.11")
    return recipe
