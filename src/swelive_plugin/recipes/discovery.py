"""Recipes found from what a repository says about itself.

Pure: a file listing, a date and the interpreters that are there come in; ranked candidates come out. Nothing is run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from packaging.utils import canonicalize_name

from swelive_plugin.recipes.declared import Declared, read_declared
from swelive_plugin.recipes.era import (
    FIRST_PYTEST,
    PROBED_PYTEST,
    Minor,
    cutoff_for,
    rank_minors,
    visible_exceptions,
)
from swelive_plugin.recipes.hints import Hints, read_hints
from swelive_plugin.recipes.listing import RepoFiles
from swelive_plugin.recipes.pytest_needs import needs_of_configuration, needs_of_tests, own_names
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.recipes.requirements import (
    Wanted,
    from_line,
    from_poetry,
    is_name,
    loosened,
    merged,
    name_of,
    read_requirement_file,
    unpinned,
)
from swelive_plugin.recipes.siblings import Places, local_projects, places_of, workspace_root
from swelive_plugin.recipes.toml import read_toml, table

__all__ = ["discover", "test_texts"]

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
    root = workspace_root(files, folder)
    if root is not None and root != folder:
        # the tools that test all members are declared once, in the workspace's root
        for group, lines in read_declared(files, root).groups.items():
            declared.groups.setdefault(group, []).extend(lines)
    beside = _further_projects(files, folder, test_paths) if declared.packaged or root == folder else ()
    plan = _Plan(files, declared, hints, need, beside)
    found: list[Recipe] = []
    for position, (minor, reason) in enumerate(ranked[:_CANDIDATES_OF_INTERPRETERS]):
        recipes = plan.recipes(minor, commit_date, reason)
        found.extend(recipes if position == 0 else recipes[:1])
    if beside:
        why = f"the tests lie in a package of their own: {', '.join(beside)}"
        alone = [replace(found[0], beside=tuple(other for other in found[0].beside if other not in beside))]
        found = [replace(each, reasons=(*each.reasons, why)) for each in found] + alone
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

    def __init__(
        self, files: RepoFiles, declared: Declared, hints: Hints, need: Mapping[str, str], beside: Sequence[str]
    ) -> None:
        self.files, self.declared, self.hints, self.need, self.beside = files, declared, hints, need, tuple(beside)
        self.there = frozenset(files.paths)
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
            beside=self.beside,
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
        minimal = self._with_local(
            replace(
                base,
                name="minimal",
                requirements=self._finish([]),
                reasons=(*reasons, *self._why_needed(), "only what the tests name"),
            )
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

    def _with_local(self, recipe: Recipe, found: Sequence[Places] = ()) -> Recipe:
        """Return the recipe with the names that belong to the checkout: never pinned, never the registry's."""
        starts = [recipe.subdir, *(place.partition("[")[0] for place in recipe.beside)]
        local = local_projects(self.files, starts)
        places = {**{name: place for each in found for name, place in each.named.items()}, **local.places}
        siblings = {name: place for name, place in sorted(places.items()) if name != self.own}
        refused = {**{name: why for each in found for name, why in each.refused.items()}, **local.refused}
        refused = {name: why for name, why in refused.items() if is_name(name) and name not in places}
        return replace(
            recipe,
            requirements=merged(
                [unpinned(line) if name_of(line) in siblings else line for line in recipe.requirements],
                without=[*refused],
            ),
            constraints=merged(recipe.constraints, without=[*siblings, *refused]),
            siblings=siblings,
            excluded=tuple(sorted(refused)),
            scm_version=recipe.scm_version or local.scm_version,
            reasons=(
                *recipe.reasons,
                *(f"{name} is the checkout's own {place or 'root'}" for name, place in siblings.items()),
                *(f"{name}: {why}; not installed, and no registry is asked for it"
                  for name, why in sorted(refused.items())),
            ),
        )  # fmt: skip

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
        if not self.declared.packaged:
            wanted.add(Wanted(requirements=self.declared.dependencies))
            for extra in extras:
                wanted.add(Wanted(requirements=list(self.declared.extras.get(extra) or ())))
            extras = []
        # the folder in which a test job runs is not known
        found = [places_of(self.there, self.hints.wanted.local if dev else (), (self.declared.folder, ""))]
        for path in self._requirement_files(dev):
            asked = read_requirement_file(self.files, path)
            found.append(places_of(self.there, asked.local, ("", posixpath.dirname(path))))
            said += [f"{name}: {why}; not installed" for name, why in found[-1].refused.items()]
            wanted.add(asked)
            said.append(f"requirement file {path}")
        beside, own_extras = self._without_own([*self.beside, *(place for each in found for place in each.install)])
        extras += [extra for extra in (*wanted.extras, *own_extras) if extra not in extras]
        wanted.add(Wanted(requirements=[loosened(line) for line in self.hints.wanted.requirements]))
        for other in (self._pipfile(), self._conda() if not wanted.requirements and not extras else Wanted()):
            wanted.add(other)
        said += self._why_needed() + wanted.dropped
        return self._with_local(
            replace(
                base,
                name=name,
                extras=tuple(dict.fromkeys(extras)),
                beside=tuple(dict.fromkeys(beside)),
                requirements=self._finish(wanted.requirements),
                constraints=merged(wanted.constraints, without=[self.own]),
                reasons=tuple(said),
            ),
            found,
        )

    def _without_own(self, places: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the places without the project's own folder, and the extras that were asked for there."""
        others, extras = [], []
        for place in places:
            folder, _, listed = place.partition("[")
            if folder != self.declared.folder:
                others.append(place)
            elif listed:
                extras += listed.rstrip("]").split(",")
        return others, extras

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
        prefix = f"{self.declared.folder}/" if self.declared.folder else ""
        data, problem = read_toml(self.files, f"{prefix}Pipfile")
        entries = [item for key in ("packages", "dev-packages") for item in table(data, key).items()]
        return Wanted(
            requirements=[line for name, value in entries for line in from_poetry(name, value)],
            dropped=[problem] if problem else [],
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
