"""What the tests themselves need: plugins that the configuration, fixtures and markers name, and imported modules."""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from swelive_plugin.recipes.known_names import FIXTURES, INI_KEYS, MARKERS, MODULES, NAMESPACES, OPTIONS
from swelive_plugin.recipes.listing import RepoFiles
from swelive_plugin.recipes.requirements import from_line
from swelive_plugin.recipes.toml import read_toml, table

__all__ = ["distribution_of", "imports_of", "needs_of_configuration", "needs_of_tests", "own_names"]


def distribution_of(module: str) -> str:
    """Return the distribution that provides an import name, as far as names tell; empty where none does."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        known = MODULES.get(".".join(parts[:end]))
        if known is not None:
            return known
    top = parts[0]
    if top in NAMESPACES:
        return "-".join(parts[: NAMESPACES[top]]).replace("_", "-") if len(parts) >= NAMESPACES[top] else ""
    return "" if top in sys.stdlib_module_names or top.startswith("_") else top.replace("_", "-")


def needs_of_configuration(files: RepoFiles, folder: str = "") -> dict[str, str]:
    """Return the plugins that pytest's configuration in ``folder`` names, each with the reason."""
    found: dict[str, str] = {}
    for where, settings in _configurations(files, f"{folder}/" if folder else ""):
        for key, value in settings.items():
            plugin = INI_KEYS.get(key.lower(), "")
            if plugin:
                found.setdefault(plugin, f"{where}: {key}")
            if key == "required_plugins":
                for line in value.split():
                    for requirement in from_line(line).requirements:
                        found.setdefault(requirement, f"{where}: required_plugins")
        for plugin, option in _option_plugins(settings.get("addopts", "").split()):
            found.setdefault(plugin, f"{where}: addopts has {option}")
    return found


def _option_plugins(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(words):
        name = word.split("=")[0]
        if name == "-p" and index + 1 < len(words) and not words[index + 1].startswith("no:"):
            plugin = words[index + 1]
            known = MODULES.get(plugin.split(".")[0], "")
            if known.startswith("pytest-") or plugin.startswith("pytest_"):
                yield known or plugin.split(".")[0].replace("_", "-"), f"-p {plugin}"
        elif name == "-n" or re.fullmatch(r"-n\d+|-nauto", name):
            yield "pytest-xdist", word
        elif name.startswith("--"):
            best = max(
                (option for option in OPTIONS if name == option or name.startswith(f"{option}-")), key=len, default=""
            )
            if best:
                yield OPTIONS[best], name


def _configurations(files: RepoFiles, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        text = files.read(prefix + name)
        if text is None:
            continue
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(text)
        except configparser.Error:
            continue
        if parser.has_section(section):
            yield prefix + name, dict(parser.items(section))
    for name in ("pyproject.toml", "pytest.toml"):
        data, _ = read_toml(files, prefix + name)
        tool = table(data, "pytest") if name == "pytest.toml" else table(data, "tool", "pytest")
        options = tool.get("ini_options", tool)
        if isinstance(options, dict) and options:
            flat = {k: " ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in options.items()}
            yield prefix + name, flat


def needs_of_tests(texts: Mapping[str, str], own: Iterable[str]) -> dict[str, str]:
    """Return what test files need beyond the standard library and the project, each with the reason.

    ``texts`` holds the test files that matter (conftest files, the hidden tests' files and their neighbours); ``own``
    the
    project's importable names. Imports inside ``try`` or behind ``importorskip`` are not needs.
    """
    found: dict[str, str] = {}
    mine = {name.split(".")[0] for name in own}
    defined = {
        name for text in texts.values() for name in re.findall(r"^\s*(?:async\s+)?def\s+(\w+)\s*\(", text, re.MULTILINE)
    }
    defined |= {name for text in texts.values() for name in re.findall(r"fixture\([^)]*name\s*=\s*['\"](\w+)", text)}
    for path, text in texts.items():
        for module in imports_of(text):
            if module.split(".")[0] not in mine and (distribution := distribution_of(module)):
                found.setdefault(distribution, f"{path} imports {module}")
        for fixture, plugin in FIXTURES.items():
            if (
                plugin
                and fixture in text
                and fixture not in defined
                and re.search(rf"def test\w*\([^)]*\b{fixture}\b", text)
            ):
                found.setdefault(plugin, f"{path} asks for the fixture {fixture}")
        for marker in set(re.findall(r"(?:pytest\.)?mark\.(\w+)", text)):
            if MARKERS.get(marker):
                found.setdefault(MARKERS[marker], f"{path} uses the marker {marker}")
    return found


def imports_of(text: str) -> list[str]:
    """Return the modules that a file imports at module level, unconditionally, or in part (an added hunk): by lines."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pattern = r"^(?:from\s+([A-Za-z_][\w.]*)\s+import|import\s+([A-Za-z_][\w.]*))"
        return [left or right for left, right in re.findall(pattern, text, re.MULTILINE)]
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    return list(dict.fromkeys(found))


def own_names(paths: Iterable[str], folder: str = "") -> set[str]:
    """Return the names that may be imported from the repository itself: packages, modules, test folders and helpers."""
    prefix = f"{folder}/" if folder else ""
    names: set[str] = set()
    for path in paths:
        if path.endswith((".py", ".pyx", ".pyi")):
            names.add(posixpath.basename(path).split(".")[0])
            names.update(path.removeprefix(prefix).split("/")[:-1])
    return names
