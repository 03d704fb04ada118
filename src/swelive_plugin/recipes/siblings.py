"""Other projects of the same checkout that a project depends on, and the names that no registry may be asked for.

A name that a repository gives to a folder of its own is often free on the registry, or taken by a stranger. So such a
name is installed from the checkout or not at all. Sources: uv's documents on workspaces and dependency sources,
poetry's on path dependencies, pdm's on local dependencies, hatch's on workspaces, pip's on requirement files.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from packaging.utils import canonicalize_name

from swelive_plugin.recipes.declared import Declared, read_declared
from swelive_plugin.recipes.listing import RepoFiles
from swelive_plugin.recipes.requirements import LocalPath
from swelive_plugin.recipes.toml import read_toml, table

__all__ = ["LocalProjects", "Places", "find_place", "local_projects", "places_of", "workspace_root"]

_PACKAGING = ("pyproject.toml", "setup.py", "setup.cfg")
_ARCHIVES = (".whl", ".tar.gz", ".zip")
_LONGEST_PATTERN = 200


@dataclass(frozen=True)
class LocalProjects:
    """The names that belong to the checkout.

    ``places`` maps a canonical name to the folder (or archive) that provides it, relative to the checkout's root.
    ``refused`` maps a name to the reason why the checkout can't provide it. ``scm_version``: the version of at least
    one is made from the git history.
    """

    places: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    scm_version: bool = False


def local_projects(files: RepoFiles, starts: Iterable[str]) -> LocalProjects:
    """Return the names that the projects in ``starts`` take from the checkout, followed through all that they name."""
    there = frozenset(files.paths)
    places: dict[str, str] = {}
    refused: dict[str, str] = {}
    scm_version = False
    queue = list(starts)
    queue += [root for start in starts if (root := workspace_root(files, start)) is not None]
    seen: set[str] = set()
    while queue:
        folder = queue.pop(0)
        if folder in seen:
            continue
        seen.add(folder)
        declared = read_declared(files, folder)
        scm_version = scm_version or declared.scm_version
        if declared.name and declared.packaged:
            places.setdefault(canonicalize_name(declared.name), folder)
        queue += _members(files, folder, declared)
        for local in declared.local:
            place, why = find_place(there, local.path, (folder,))
            name = canonicalize_name(local.name) if local.name else ""
            if place is None:
                refused.setdefault(name, why)
                continue
            if name:
                places.setdefault(name, place)
            if not place.endswith(_ARCHIVES):
                queue.append(place)
    refused = {name: why for name, why in refused.items() if name and name not in places}
    return LocalProjects(places, refused, scm_version)


def find_place(there: frozenset[str] | set[str], path: str, bases: Sequence[str]) -> tuple[str | None, str]:
    """Return the project or archive in the checkout that a path means, seen from the first of ``bases`` that has it.

    ``None`` where there is none, with the reason. ``there`` holds the paths of the checkout's files.
    """
    why = f"there is no project in {path}"
    for base in bases:
        place = posixpath.normpath(posixpath.join(base, path))
        if place.startswith("/") or place.split("/")[0] == "..":
            why = f"{path} lies outside the checkout"
            continue
        place = "" if place == "." else place
        prefix = f"{place}/" if place else ""
        if any(f"{prefix}{name}" in there for name in _PACKAGING) or (place in there and place.endswith(_ARCHIVES)):
            return place, ""
    return None, why


def workspace_root(files: RepoFiles, folder: str) -> str | None:
    """Return the nearest folder, from ``folder`` upwards, whose workspace the project in ``folder`` belongs to."""
    current = folder
    while True:
        data, _ = read_toml(files, f"{current}/pyproject.toml".lstrip("/"))
        if spaces := [space for space in _workspaces(data) if space]:
            member = current == folder or any(_is_member(space, current, folder) for space in spaces)
            return current if member else None
        if not current:
            return None
        current = posixpath.dirname(current)


def _workspaces(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield table(data, "tool", "uv", "workspace")
    yield table(data, "tool", "rye", "workspace")
    for env in table(data, "tool", "hatch", "envs").values():
        members = table(env, "workspace").get("members")
        if isinstance(members, list):
            yield {"members": [item.get("path") if isinstance(item, dict) else item for item in members]}


def _members(files: RepoFiles, folder: str, declared: Declared) -> list[str]:
    """Return the folders of a workspace's members, in order."""
    spaces = [space for space in _workspaces(declared.pyproject) if space]
    if not spaces:
        return []
    folders = [posixpath.dirname(path) for path in files.paths if posixpath.basename(path) == "pyproject.toml"]
    return [other for other in folders if any(_is_member(space, folder, other) for space in spaces)]


def _is_member(workspace: Mapping[str, Any], root: str, folder: str) -> bool:
    """Whether a folder matches one of a workspace's ``members`` and none of its ``exclude``."""
    if root and not folder.startswith(f"{root}/"):
        return False
    parts = (folder.removeprefix(f"{root}/") if root else folder).split("/")
    members, excluded = (_patterns(workspace.get(key)) for key in ("members", "exclude"))
    return any(_matches(one, parts) for one in members) and not any(_matches(one, parts) for one in excluded)


def _patterns(value: Any) -> list[list[str]]:
    items = value if isinstance(value, list) else ()
    texts = [item for item in items if isinstance(item, str) and len(item) <= _LONGEST_PATTERN]
    return [[part for part in text.split("/") if part not in ("", ".")] for text in texts]


def _matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a path fits a pattern, both in parts: ``*`` stays within one part, ``**`` stands for any number."""

    @functools.cache
    def fits(here: int, there: int) -> bool:
        if here == len(pattern):
            return there == len(path)
        if pattern[here] == "**":
            return any(fits(here + 1, end) for end in range(there, len(path) + 1))
        return there < len(path) and fnmatchcase(path[there], pattern[here]) and fits(here + 1, there + 1)

    return fits(0, 0)


@dataclass(frozen=True)
class Places:
    """Where local paths lead: ``install`` (with extras: ``libs/core[test]``), names to places, and what has none."""

    install: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def places_of(there: frozenset[str], wanted: Iterable[LocalPath], bases: Sequence[str]) -> Places:
    """Return where the paths in a requirement file or a command lead; ``refused`` maps names or paths to reasons."""
    install: list[str] = []
    named: dict[str, str] = {}
    refused: dict[str, str] = {}
    for local in wanted:
        name = canonicalize_name(local.name) if local.name else ""
        place, why = find_place(there, local.path, bases)
        if place is None:
            refused.setdefault(name or local.path, why)
            continue
        install.append(f"{place}[{','.join(local.extras)}]" if local.extras else place)
        if name:
            named.setdefault(name, place)
    return Places(tuple(dict.fromkeys(install)), named, refused)
