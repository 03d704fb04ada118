"""What a project declares about itself in its packaging files, read without running any of them."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import canonicalize_name

from swelive_plugin.recipes.era import Minor, parse_minor
from swelive_plugin.recipes.listing import RepoFiles
from swelive_plugin.recipes.requirements import LocalPath, from_line, from_poetry, poetry_specifier
from swelive_plugin.recipes.toml import read_toml, table

__all__ = ["Declared", "read_declared"]


@dataclass
class Declared:
    """What packaging files say: name, interpreter range, extras, groups, build system.

    An extra whose content can't be known without running ``setup.py`` has the value ``None``. ``packaged``: there is
    something to install. ``dependencies`` are those of a project that its tool never installs (a uv workspace's root).
    ``local`` are the paths that dependencies are taken from, as seen from ``folder``.
    """

    folder: str = ""
    name: str = ""
    packaged: bool = False
    requires_python: str = ""
    classifiers: set[Minor] = field(default_factory=set)
    extras: dict[str, list[str] | None] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    tests_require: list[str] = field(default_factory=list)
    build_requires: list[str] = field(default_factory=lambda: ["setuptools", "wheel"])
    build_backend: str = "setuptools.build_meta:__legacy__"
    dependencies: list[str] = field(default_factory=list)
    local: list[LocalPath] = field(default_factory=list)
    scm_version: bool = False
    broken: list[str] = field(default_factory=list)
    pyproject: Mapping[str, Any] = field(default_factory=dict)


def read_declared(files: RepoFiles, folder: str = "") -> Declared:
    """Return what the packaging files in ``folder`` declare; broken ones are named in ``broken`` and passed over."""
    prefix = f"{folder}/" if folder else ""
    declared = Declared(folder=folder)
    text = files.read(f"{prefix}pyproject.toml")
    declared.pyproject, problem = read_toml(files, f"{prefix}pyproject.toml")
    if problem:
        declared.broken.append(problem)
    _pyproject(declared, declared.pyproject)
    setup_cfg = files.read(f"{prefix}setup.cfg")
    if setup_cfg is not None:
        _setup_cfg(declared, setup_cfg, f"{prefix}setup.cfg")
    setup_py = files.read(f"{prefix}setup.py")
    if setup_py is not None:
        declared.packaged = True
        _setup_py(declared, setup_py, f"{prefix}setup.py")
    # setuptools also keeps "name:marker" and ":marker" among the extras: what is no name can't be asked for
    declared.extras = {name: lines for name, lines in declared.extras.items() if re.fullmatch(r"[\w.-]+", name)}
    mentions = (text or "") + (setup_cfg or "") + (setup_py or "")
    declared.scm_version = bool(
        re.search(
            r"setuptools[_-]scm|use_scm_version|versioneer|hatch-vcs|versioningit|dynamic-versioning|pbr\b|miniver|"
            r"source\s*=\s*.(?:vcs|scm)|setuptools-git",
            mentions,
        )
    )
    return declared


def _lines(declared: Declared, value: Any) -> list[str]:
    """Return the requirements among a list's items; the paths among them are added to what is ``local``."""
    items = value if isinstance(value, (list, tuple)) else [value] if isinstance(value, str) else []
    lines: list[str] = []
    for item in items:
        wanted = from_line(item) if isinstance(item, str) else None
        if wanted is not None:
            lines += wanted.requirements
            declared.local += wanted.local
    return lines


def _pyproject(declared: Declared, data: Mapping[str, Any]) -> None:
    build = table(data, "build-system")
    if build:
        requires = build.get("requires")
        declared.build_requires = [str(item) for item in requires] if isinstance(requires, list) else []
        declared.build_backend = str(build.get("build-backend") or "setuptools.build_meta:__legacy__")
    project, tool = table(data, "project"), table(data, "tool")
    if project.get("name"):
        declared.name, declared.packaged = str(project["name"]), _is_installed(data)
        declared.requires_python = str(project.get("requires-python") or "")
        declared.dependencies = _lines(declared, project.get("dependencies"))
        _classifiers(declared, project.get("classifiers"))
        for extra, lines in table(project, "optional-dependencies").items():
            declared.extras[extra] = _lines(declared, lines)
        if "optional-dependencies" in _items(project.get("dynamic")):
            for extra in table(tool, "setuptools", "dynamic", "optional-dependencies"):
                declared.extras.setdefault(extra, None)
    _poetry(declared, table(tool, "poetry"))
    flit = table(tool, "flit", "metadata")
    if flit and not declared.name:
        declared.name, declared.packaged = str(flit.get("dist-name") or flit.get("module") or ""), True
        declared.requires_python = str(flit.get("requires-python") or "")
        for extra, lines in table(flit, "requires-extra").items():
            declared.extras[extra] = _lines(declared, lines)
    _groups(declared, data, tool)
    for name, source in table(tool, "uv", "sources").items():
        for item in source if isinstance(source, list) else [source]:
            _add_path(declared, name, item)


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple, set)) else ()


def _is_installed(data: Mapping[str, Any]) -> bool:
    """Whether the project's own tool installs it: uv, poetry and pdm each have a way to say that it is no package."""
    tool = table(data, "tool")
    package = table(tool, "uv").get("package")
    if package is False or table(tool, "poetry").get("package-mode") is False:
        return False
    if table(tool, "pdm").get("distribution") is False:
        return False
    return bool(package) or "build-system" in data or not table(tool, "uv", "workspace")


def _add_path(declared: Declared, name: str, value: Any) -> None:
    """Add the path that an entry of a dependency table (poetry, Pipfile, uv's sources) takes a package from."""
    for item in value if isinstance(value, list) else [value]:
        path = item.get("path", item.get("file")) if isinstance(item, dict) else None
        if isinstance(path, str):
            below = item.get("subdirectory")
            declared.local.append(LocalPath(f"{path}/{below}" if isinstance(below, str) else path, name))


def _groups(declared: Declared, data: Mapping[str, Any], tool: Mapping[str, Any]) -> None:
    groups = table(data, "dependency-groups")
    for name in groups:
        declared.groups[name] = _lines(declared, _pep735(groups, name, ()))
    for name, lines in table(tool, "pdm", "dev-dependencies").items():
        declared.groups.setdefault(name, []).extend(_lines(declared, lines))
    if "dev-dependencies" in table(tool, "uv"):
        declared.groups.setdefault("dev", []).extend(_lines(declared, tool["uv"]["dev-dependencies"]))
    for name, env in table(tool, "hatch", "envs").items():
        if isinstance(env, dict):
            lines = _lines(declared, env.get("dependencies")) + _lines(declared, env.get("extra-dependencies"))
            for feature in _items(env.get("features")):
                lines += declared.extras.get(str(feature)) or []
            if lines:
                declared.groups.setdefault(f"hatch-{name}", []).extend(lines)


def _pep735(groups: Mapping[str, Any], name: str, trail: tuple[str, ...]) -> list[str]:
    """Return a dependency group's items with its includes (PEP 735); a cycle ends where it closes."""
    wanted = canonicalize_name(name)
    real = next((key for key in groups if canonicalize_name(key) == wanted), None)
    if real is None or wanted in trail:
        return []
    lines: list[str] = []
    for item in groups[real] if isinstance(groups[real], list) else ():
        if isinstance(item, str):
            lines.append(item)
        elif isinstance(item, dict) and isinstance(item.get("include-group"), str):
            lines += _pep735(groups, item["include-group"], (*trail, wanted))
    return lines


def _poetry(declared: Declared, poetry: Mapping[str, Any]) -> None:
    if not poetry:
        return
    main = table(poetry, "dependencies")
    for name, value in main.items():
        _add_path(declared, name, value)
    if not declared.name and poetry.get("name"):
        declared.name, declared.packaged = str(poetry["name"]), poetry.get("package-mode") is not False
        declared.requires_python = _python_range(main.get("python"))
        _classifiers(declared, poetry.get("classifiers"))
        declared.dependencies = [
            line
            for name, value in main.items()
            if not (isinstance(value, dict) and value.get("optional"))
            for line in from_poetry(name, value)
        ]
        for extra, names in table(poetry, "extras").items():
            lines = [line for name in _items(names) for line in from_poetry(str(name), main.get(str(name), "*"))]
            declared.extras.setdefault(extra, lines)
    old = {"dev": {"dependencies": table(poetry, "dev-dependencies")}} if "dev-dependencies" in poetry else {}
    for group, body in [*table(poetry, "group").items(), *old.items()]:
        lines = []
        for name, value in table(body, "dependencies").items():
            lines += from_poetry(name, value)
            _add_path(declared, name, value)
        declared.groups.setdefault(group, []).extend(lines)


def _python_range(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("version")
    return poetry_specifier(value) if isinstance(value, str) else ""


def _classifiers(declared: Declared, value: Any) -> None:
    for item in _items(value):
        found = re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", str(item).strip())
        minor = parse_minor(found.group(1)) if found else None
        if minor:
            declared.classifiers.add(minor)


def _setup_cfg(declared: Declared, text: str, where: str) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        declared.broken.append(f"{where}: {str(error).splitlines()[0]}")
        return
    if parser.has_option("metadata", "name"):
        declared.packaged = True
        declared.name = declared.name or parser.get("metadata", "name").strip()
        _classifiers(
            declared,
            parser.get(
                "metadata", "classifiers", fallback=parser.get("metadata", "classifier", fallback="")
            ).splitlines(),
        )
    declared.requires_python = declared.requires_python or parser.get("options", "python_requires", fallback="").strip()
    declared.dependencies += _cfg_lines(declared, parser.get("options", "install_requires", fallback=""))
    declared.tests_require += _cfg_lines(declared, parser.get("options", "tests_require", fallback=""))
    if parser.has_section("options.extras_require"):
        for extra, lines in parser.items("options.extras_require"):
            declared.extras.setdefault(extra, _cfg_lines(declared, lines))
    if parser.has_section("extras"):  # pbr
        for extra, lines in parser.items("extras"):
            declared.extras.setdefault(extra, _cfg_lines(declared, lines))


def _cfg_lines(declared: Declared, text: str) -> list[str]:
    return _lines(declared, text.replace(";\n", "\n").splitlines())


def _setup_py(declared: Declared, text: str, where: str) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        declared.broken.append(f"{where}: {error or 'nested too deeply'}")
        return
    names: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, node.value)
    added = _subscripts(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", getattr(node.func, "id", "")) != "setup":
            continue
        for keyword in node.keywords:
            if keyword.arg is None:  # setup(**config)
                for key, value in _dict_items(keyword.value, names):
                    _setup_keyword(declared, key, value, names, added)
            else:
                _setup_keyword(declared, keyword.arg, keyword.value, names, added)


def _subscripts(tree: ast.AST) -> dict[str, dict[str, ast.expr]]:
    """Return ``name["key"] = value`` assignments: extras are often put together that way."""
    found: dict[str, dict[str, ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            if isinstance(target.value, ast.Name) and isinstance(target.slice, ast.Constant):
                found.setdefault(target.value.id, {})[str(target.slice.value)] = node.value
    return found


def _setup_keyword(
    declared: Declared, key: str, node: ast.expr, names: dict[str, ast.expr], added: dict[str, dict[str, ast.expr]]
) -> None:
    if key == "extras_require":
        items = _dict_items(node, names)
        if isinstance(node, ast.Name):
            items += list(added.get(node.id, {}).items())
        for extra, lines in items:
            value = _value(lines, names)
            declared.extras.setdefault(extra, None if value is None else _lines(declared, value))
        return
    value = _value(node, names)
    if value is None:
        return
    if key == "name" and isinstance(value, str):
        declared.name = declared.name or value
    elif key == "python_requires" and isinstance(value, str):
        declared.requires_python = declared.requires_python or value
    elif key == "classifiers":
        _classifiers(declared, value.splitlines() if isinstance(value, str) else value)
    elif key == "tests_require":
        declared.tests_require += _lines(declared, value)
    elif key == "install_requires":
        declared.dependencies += _lines(declared, value)
    elif key == "setup_requires":
        declared.build_requires += [line for line in _lines(declared, value) if line not in declared.build_requires]


def _dict_items(node: ast.expr, names: dict[str, ast.expr]) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.Name):
        inner = names.get(node.id)
        return _dict_items(inner, names) if inner is not None and not isinstance(inner, ast.Name) else []
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
        return [(word.arg, word.value) for word in node.keywords if word.arg]
    if not isinstance(node, ast.Dict):
        return []
    return [
        (str(key.value), value)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    ]


def _value(node: ast.expr, names: dict[str, ast.expr], depth: int = 0) -> Any:
    """Return a literal's value, following names and sums of lists; ``None`` where it can't be known."""
    if depth > 20:
        return None
    if isinstance(node, ast.Name):
        inner = names.get(node.id)
        return _value(inner, names, depth + 1) if inner is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _value(node.left, names, depth + 1), _value(node.right, names, depth + 1)
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        return left if right is None else right if left is None else None
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [value for item in node.elts if (value := _value(item, names, depth + 1)) is not None]
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
