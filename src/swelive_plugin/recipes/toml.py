"""TOML of a repository, within limits: whatever is wrong with a file, it is that file's fault and one kind of error."""

from __future__ import annotations

import sys
from typing import Any

from swelive_plugin.recipes.listing import RepoFiles

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["parse_toml", "read_toml", "table"]

_MOST_CHARACTERS = 1_000_000


def parse_toml(text: str) -> dict[str, Any]:
    """Return what TOML text holds. Raises `ValueError` whatever is wrong with it: the syntax, its depth, its size."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"longer than {_MOST_CHARACTERS} characters")
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except (RecursionError, MemoryError) as error:
        raise ValueError("nested too deeply") from error
    return data


def read_toml(files: RepoFiles, path: str) -> tuple[dict[str, Any], str]:
    """Return what a repository's TOML file holds, and why it can't be read; a file that is absent is empty."""
    text = files.read(path)
    if text is None:
        return {}, f"{path}: too large, or not a file" if path in files.paths else ""
    try:
        return parse_toml(text), ""
    except ValueError as error:
        return {}, f"{path}: {error}"


def table(value: Any, *keys: str) -> dict[str, Any]:
    """Return the table below ``keys``; empty where anything on the way is absent or no table."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
