"""The text of a lock, ``environment.lock``: requirement files with hashes, and folders that the checkout provides."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from packaging.utils import canonicalize_name

from swelive_plugin.recipes.recipe import Recipe

__all__ = ["Lock", "era_options", "lock_text", "locked_versions", "split_lock", "without_packages"]

_BUILD_MARK = "# --- build requirements ---"
_RELEASE_MARK = "# --- the project's last release, for its generated files ---"
_CHECKOUT_MARK = "# --- from the checkout ---"


class Lock(NamedTuple):
    """The parts of a lock: three requirement files, and the checkout's own folders that the packages asked for."""

    packages: str
    build: str
    release: str
    checkout: tuple[str, ...]


def lock_text(recipe: Recipe, packages: str, build: str, release: str = "", checkout: Sequence[str] = ()) -> str:
    """Return the text of ``environment.lock``: requirement files with hashes in one."""
    head = (
        f"# environment.lock 1: Python {recipe.python}, packages as of {recipe.cutoff}\n"
        f"# The project itself is installed from its commit, without dependencies.\n"
    )
    last = f"{_RELEASE_MARK}\n{release.rstrip()}\n" if release else ""
    own = "\n".join((_CHECKOUT_MARK, *checkout, "")) if checkout else ""
    return f"{head}{packages.rstrip()}\n{_BUILD_MARK}\n{build.rstrip()}\n{last}{own}"


def split_lock(text: str) -> Lock:
    """Return the parts of a lock."""
    rest, _, checkout = text.partition(_CHECKOUT_MARK)
    rest, _, release = rest.partition(_RELEASE_MARK)
    packages, _, build = rest.partition(_BUILD_MARK)
    return Lock(packages, build, release, tuple(line for line in checkout.splitlines() if line))


def without_packages(resolved: str, names: Collection[str]) -> str:
    """Return a requirement file with hashes without the packages in ``names``, which are canonical."""
    entries = re.split(r"^(?=\S)", resolved, flags=re.MULTILINE)
    return "".join(entry for entry in entries if canonicalize_name(_name(entry)) not in names)


def _name(entry: str) -> str:
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", entry)
    return found.group() if found else ""


def locked_versions(text: str) -> dict[str, str]:
    """Return what a lock holds: canonical names and their versions."""
    pinned = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pinned.findall(split_lock(text).packages)}


def era_options(recipe: Recipe) -> list[str]:
    """Return uv's options that make every package, build isolation included, that day's."""
    options = ["--exclude-newer", recipe.cutoff] if recipe.cutoff else []
    for name, date in sorted(recipe.exceptions.items()):
        options += ["--exclude-newer-package", f"{name}={date}"]
    return options
