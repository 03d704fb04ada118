"""pytest's own sections of files that other tools share: taken out of one text and put into another, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import iniconfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["SHARED_NAMES", "has_pytest_section", "with_pytest_section"]

SHARED_NAMES = frozenset({"pyproject.toml", "setup.cfg", "tox.ini"})
"""Files in which pytest looks for a section of its own (docs.pytest.org, "Configuration file formats")."""

# Nothing here trusts a text: nesting ends the parser's recursion, and its time grows with the square of a dotted key.
_UNREADABLE = (ValueError, RecursionError, MemoryError)
_MAX_CHARACTERS = 2**20
_MAX_STEPS = 10**7

_INI_SECTIONS = ("pytest", "tool:pytest")


def has_pytest_section(name: str, text: str) -> bool:
    """Return whether ``text``, a file called ``name``, configures pytest; also when nobody can read it."""
    try:
        return bool(_read(name, text)[0])
    except _UNREADABLE:
        return True


def with_pytest_section(name: str, text: str, source: str) -> str | None:
    """Return ``text`` with the pytest sections of ``source`` in place of its own; the rest stays to the letter.

    Returns ``None`` where that can't be done safely: a text that can't be read, or one in which the edit would change
    anything else (tables written inline, headers inside strings). The result is read again to be sure.
    """
    try:
        wanted, _ = _read(name, source)
        present, rest = _read(name, text)
        if present == wanted:
            return text
        edited = _edit(name, text, source)
        return edited if _read(name, edited) == (wanted, rest) else None
    except _UNREADABLE:
        return None


def _read(name: str, text: str) -> tuple[Any, Any]:
    """Return (what pytest reads, everything else). Raises one of `_UNREADABLE`."""
    if len(text) > _MAX_CHARACTERS or _steps_of_keys(text) > _MAX_STEPS:
        raise ValueError("too large, or keys too long, to be read in reasonable time")
    return _read_toml(text) if name.endswith(".toml") else _read_ini(name, text)


def _steps_of_keys(text: str) -> int:
    """Return how many steps the TOML parser may take over dotted keys: each line walks its table's whole name."""
    lines = text.split("\n")
    dots = max(line.count(".") for line in lines)
    return dots * (len(lines) + text.count("."))


def _read_ini(name: str, text: str) -> tuple[Any, Any]:
    try:
        parsed = iniconfig.IniConfig(name, data=text)
    except iniconfig.ParseError as error:
        raise ValueError(str(error)) from error
    sections = {section: dict(items) for section, items in parsed.sections.items()}
    own = {section: sections.pop(section) for section in _INI_SECTIONS if section in sections}
    return own, sections


def _read_toml(text: str) -> tuple[Any, Any]:
    rest = tomllib.loads(text)
    tool = rest.get("tool")
    own = tool.pop("pytest", None) if isinstance(tool, dict) else None
    if tool == {}:
        del rest["tool"]
    return own, rest


def _edit(name: str, text: str, source: str) -> str:
    is_own = _is_toml_header if name.endswith(".toml") else _is_ini_header
    _, insert = _cut(source, is_own)
    kept, cut = _cut(text, is_own)
    place = next((index for index, line in enumerate(kept) if line is None), len(kept))
    before = [line for line in kept[:place] if line is not None]
    after = [line for line in kept[place:] if line is not None]
    ending = "\r\n" if "\r\n" in text else "\n"
    new = [line.rstrip("\r\n") + ending for line in insert]
    if new and before and not before[-1].endswith("\n"):
        before[-1] += ending
    if new and not cut and before and before[-1].strip():
        new.insert(0, ending)
    if new and after and new[-1].strip():
        new.append(ending)
    return "".join([*before, *new, *after])


def _cut(text: str, is_own: Callable[[str], bool | None]) -> tuple[list[str | None], list[str]]:
    """Return the lines that stay, with ``None`` where something was cut, and the lines that were cut."""
    kept: list[str | None] = []
    cut: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        verdict = is_own(line)
        if verdict is not None:
            if verdict and not inside:
                kept.append(None)
            inside = verdict
        if inside:
            cut.append(line)
        else:
            kept.append(line)
    while cut and not cut[-1].strip():
        cut.pop()
    return kept, cut


def _is_ini_header(line: str) -> bool | None:
    """Whether the line starts a pytest section; ``None`` where it starts no section."""
    if not line.startswith("["):
        return None
    return line[1:].partition("]")[0] in _INI_SECTIONS


def _is_toml_header(line: str) -> bool | None:
    if not line.lstrip().startswith("["):
        return None
    try:
        parsed = tomllib.loads(line)
    except _UNREADABLE:
        return None  # a line of an array or of a string
    tool = parsed.get("tool")
    return isinstance(tool, dict) and "pytest" in tool
