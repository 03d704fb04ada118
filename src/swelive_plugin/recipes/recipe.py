"""The recipe of an environment: a value, readable and writable as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from swelive_plugin.errors import UsageError
from swelive_plugin.recipes.era import parse_minor
from swelive_plugin.recipes.requirements import merged
from swelive_plugin.recipes.toml import parse_toml

__all__ = ["Recipe", "recipe_from_toml", "recipe_to_toml"]


@dataclass(frozen=True)
class Recipe:
    """How to build one environment. Readable and writable as ``recipe.toml``, which a person may edit and share.

    ``cutoff`` is UTC: no upload after it counts, except for the packages in ``exceptions`` (name to their own date).
    ``subdir`` is where the packaging files are, ``beside`` names folders (or archives) of the checkout that are
    installed, too, each with its extras: ``libs/core[test]``. ``siblings`` maps names to the folders of the checkout
    that provide them: they are installed from there as soon as anything asks for the name. ``excluded`` names belong
    to the project, too, but the checkout does not have them; no registry is asked for any of these.
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
    siblings: Mapping[str, str] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
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
        lines = merged([*self.requirements, *added], without=[self.project, *self.excluded])
        return replace(self, requirements=lines, reasons=(*self.reasons, reason))


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
        data = parse_toml(text)
    except ValueError as error:
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
