"""How a project runs its own tests: the install steps and interpreters of CI, tox, nox, Makefiles and Dockerfiles.

Workflow files are read as text, line by line: what is looked for are commands, not structure.
"""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from swelive_plugin.recipes.era import Minor, parse_minor
from swelive_plugin.recipes.listing import RepoFiles
from swelive_plugin.recipes.requirements import Wanted, from_line, split_command

__all__ = ["Hints", "read_hints"]

_CI_FILES = re.compile(
    r"^(\.github/workflows/[^/]+\.ya?ml|\.github/actions/.+\.ya?ml|\.travis\.yml|\.gitlab-ci\.yml|\.circleci/config\.yml"
    r"|azure-pipelines\.yml|\.azure[^/]*/.+\.yml|appveyor\.yml|\.appveyor\.yml|\.cirrus\.yml|noxfile\.py|Makefile|makefile"
    r"|justfile|Dockerfile[^/]*|\.devcontainer/.*|\.gitpod\.yml|scripts?/(?:install|test|setup|bootstrap|ci)[^/]*|(?:\.ci|ci)/[^/]+\.(?:sh|ya?ml))$"
)
_RUNS_TESTS = re.compile(
    r"pytest|py\.test|\btox\b|\bnox\b|unittest|make test|(?:setup|manage)\.py test|runtests", re.IGNORECASE
)
_OTHER_JOB = re.compile(
    r"(^|[/_.-])(docs?|lint|linting|format|typing|types?|mypy|publish|release|deploy|pre-?commit|benchmarks?|codeql|"
    r"wheels?|docker|stale|labeler|pypi)([/_.-]|$)",
    re.IGNORECASE,
)
_INSTALL = re.compile(
    r"\bpip3?(?:\.\d+)?\s+install\s|\b(?:uv|pdm|poetry|pipenv|hatch)\s+(?:sync|install|add|run|env)\b|\bsession\.(?:run_)?install\(|"
    r"\bconda\s+install\s|\bmamba\s+install\s|\bapt(?:-get)?\s+(?:-\S+\s+)*install\s|\bbrew\s+install\s"
)
_APT = re.compile(r"\bapt(?:-get)?\s+(?:-\S+\s+)*install\s+([^&|;]+)")
_VALUE_OPTIONS = frozenset(
    {
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "--trusted-host",
        "-t",
        "--target",
        "--python",
        "-p",
        "--only-binary",
        "--no-binary",
        "--prefix",
        "--root",
        "--progress-bar",
        "--timeout",
        "--retries",
        "--upgrade-strategy",
        "--config-settings",
        "-C",
        "--cache-dir",
        "--directory",
        "--project",
    }
)


@dataclass
class Hints:
    """What the project's own test jobs install, on which interpreters, with which system packages, in which folders."""

    wanted: Wanted = field(default_factory=Wanted)
    tested: set[Minor] = field(default_factory=set)
    system: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


def read_hints(files: RepoFiles, folder: str = "") -> Hints:
    """Return what the repository's test jobs say; jobs that only lint, publish or build documents are left out."""
    hints = Hints()
    prefix = f"{folder}/" if folder else ""
    for path in files.paths:
        local = path.removeprefix(prefix) if prefix else path
        if not _CI_FILES.match(local) and not _CI_FILES.match(path):
            continue
        text = files.read(path)
        if (
            text is None
            or not _RUNS_TESTS.search(text)
            or _OTHER_JOB.search(posixpath.basename(path).rsplit(".", 1)[0])
        ):
            continue
        before = _size(hints.wanted)
        for line in _commands(text, path):
            _read_command(line, hints, posixpath.dirname(path) if "/" in path and not path.startswith(".") else "")
        hints.tested |= _matrix(text)
        hints.folders += [name for name in _made_folders(text) if name not in hints.folders]
        if _size(hints.wanted) > before:
            hints.sources.append(path)
    _tox(files, prefix, hints)
    version = files.read(f"{prefix}.python-version")
    if version:
        hints.tested |= {minor for line in version.split() if (minor := parse_minor(line))}
    return hints


def _size(wanted: Wanted) -> int:
    lists = (wanted.requirements, wanted.extras, wanted.files, wanted.groups)
    return sum(len(each) for each in lists) + len(wanted.local)


def _commands(text: str, path: str) -> Iterator[str]:
    if path.endswith(".py"):
        yield from _session_installs(text)
        return
    for raw in re.sub(r"\\\s*\n\s*", " ", re.sub(r"\$\{\{.*?\}\}", "$X", text)).splitlines():
        line = re.sub(r"^\s*-?\s*(?:run|script|install|before_install|RUN)\s*:?\s*[|>]?-?\s*", "", raw).strip()
        if not line.startswith("#") and _INSTALL.search(line):
            for part in re.split(r"&&|;|\|\|", line):
                yield part.strip()


def _made_folders(text: str) -> Iterator[str]:
    """Yield the folders inside the repository that a job makes: git keeps no empty ones, and tests may write there."""
    for words in re.findall(r"(?:^|[\s;&|])mkdir((?:[ \t]+[^\s;&|]+)+)", text):
        for word in words.split():
            if re.fullmatch(r"[A-Za-z0-9_][\w./-]*", word) and ".." not in word.split("/"):
                yield word.rstrip("/")


def _session_installs(text: str) -> Iterator[str]:
    """Yield nox's ``session.install(...)`` calls as pip commands: only their literal arguments can be known."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.Module)) or isinstance(function, ast.Module):
            continue
        if _OTHER_JOB.search(function.name):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("install", "run_install", "run"):
                words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if getattr(node.func, "attr", "") == "install":
                    yield "pip install " + " ".join(f"'{word}'" for word in words)
                elif words[:1] and words[0] in ("uv", "pdm", "poetry", "pip"):
                    yield " ".join(f"'{word}'" for word in words)


def _read_command(line: str, hints: Hints, cwd: str) -> None:
    apt = _APT.search(line)
    if apt:
        hints.system.extend(
            word for word in split_command(apt.group(1)) if not word.startswith(("-", "$")) and word not in hints.system
        )
        return
    words = split_command(line)
    for index, word in enumerate(words):
        name = posixpath.basename(word)
        following = words[index + 1 : index + 2]
        if re.fullmatch(r"pip3?(\.\d+)?", name) and following == ["install"]:
            hints.wanted.add(_pip_arguments(words[index + 2 :], cwd))
            return
        if name in ("uv", "pdm", "poetry") and following and following[0] in ("sync", "install", "run"):
            _tool_arguments(words[index + 2 :], hints.wanted)
            return


def _pip_arguments(words: list[str], cwd: str) -> Wanted:
    wanted = Wanted()
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
            continue
        if word in ("-r", "--requirement", "-c", "--constraint"):
            if word in ("-r", "--requirement") and index + 1 < len(words):
                wanted.files.append(posixpath.normpath(posixpath.join(cwd, words[index + 1])))
            skip = True
        elif word.startswith(("-r", "--requirement=")) and len(word) > 2:
            wanted.files.append(
                posixpath.normpath(posixpath.join(cwd, word.removeprefix("--requirement=").removeprefix("-r")))
            )
        elif word in ("-e", "--editable"):
            if index + 1 < len(words) and "://" not in words[index + 1]:
                wanted.add(from_line(f"-e {words[index + 1]}"))
                skip = True
        elif word == "--group" and index + 1 < len(words):
            wanted.groups.append(words[index + 1].rsplit(":", 1)[-1])
            skip = True
        elif word in _VALUE_OPTIONS:
            skip = True
        elif word in (">", "2>", "|", "&&", "||", "&"):
            break
        elif not word.startswith("-") and not re.search(
            r"[$<{}*%]\s*\(?|\$\{", word.split("[")[0].replace("<", "", 1) if "<" in word else word
        ):
            wanted.add(from_line(word))
    wanted.dropped.clear()
    return wanted


def _tool_arguments(words: list[str], wanted: Wanted) -> None:
    """Read the options that uv, pdm and poetry share: which extras and groups to install."""
    for index, word in enumerate(words):
        name, _, value = word.partition("=")
        values = value or (words[index + 1] if index + 1 < len(words) else "")
        names = [
            part
            for part in re.split(r"[\s,]+", values)
            if re.fullmatch(r"[A-Za-z0-9._-]+", part) and not part.startswith("-")
        ]
        if name in ("--all-extras", "--all-groups"):
            wanted.all_extras = True
        elif name in ("--extra", "--extras", "-E"):
            wanted.extras.extend(names)
        elif name in ("--group", "-G", "--with", "--only", "--only-group"):
            wanted.groups.extend(names)
            wanted.extras.extend(names if name == "-G" else ())


def _matrix(text: str) -> set[Minor]:
    """Return the interpreters that a workflow names: matrices, ``python-version``, ``python:`` lists, ``py311``
    names."""
    found: set[Minor] = set()
    for match in re.finditer(
        r"(?:python(?:[-_]?versions?)?|py(?:thon)?)['\"]?\s*[:=]\s*(\[[^\]]*\]|['\"]?3\.\d+[^\n]*|\n(?:\s*-\s*[^\n]+\n?)+)",
        text,
        re.IGNORECASE,
    ):
        for version in re.findall(r"(?<![\d.])3\.(\d{1,2})(?![\d])", match.group(1)):
            found.add((3, int(version)))
    found |= {(3, int(version)) for version in re.findall(r"\bpy(?:thon)?-?3\.?(\d{1,2})\b", text)}
    return {minor for minor in found if minor[1] < 40}


def _tox(files: RepoFiles, prefix: str, hints: Hints) -> None:
    text = files.read(f"{prefix}tox.ini")
    if text is None:
        cfg = files.read(f"{prefix}setup.cfg") or ""
        text = re.sub(r"^\[tox:", "[", cfg, flags=re.MULTILINE) if "[tox:" in cfg else None
        if text is None:
            match = re.search(
                r'legacy_tox_ini\s*=\s*(?:"""|\'\'\')(.*?)(?:"""|\'\'\')',
                files.read(f"{prefix}pyproject.toml") or "",
                re.DOTALL,
            )
            text = match.group(1) if match else None
    if text is None:
        return
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    envlist = parser.get("tox", "envlist", fallback=parser.get("tox", "env_list", fallback=""))
    hints.tested |= {
        (3, int(version)) for version in re.findall(r"(?<!\d)3\.?(\d{1,2})(?!\d)", envlist) if int(version) < 40
    }
    before = len(hints.wanted.requirements)
    for section in parser.sections():
        if section == "testenv" or (section.startswith("testenv:") and _is_test_env(section[8:], parser, section)):
            hints.wanted.add(_tox_wanted(parser, section))
    if len(hints.wanted.requirements) > before or parser.has_section("testenv"):
        hints.sources.append(f"{prefix}tox.ini")


def _is_test_env(name: str, parser: configparser.ConfigParser, section: str) -> bool:
    commands = parser.get(section, "commands", fallback="")
    return (
        bool(re.search(r"test|^py|unit", name))
        and (not commands or bool(_RUNS_TESTS.search(commands)))
        and not _OTHER_JOB.search(name)
    )


def _tox_wanted(parser: configparser.ConfigParser, section: str) -> Wanted:
    """Return a tox environment's dependencies; those of a factor (``py36: …``) count when they name no other world."""
    wanted = Wanted()
    for raw in _following(parser, section, "deps", 0):
        line = raw.strip()
        factor = re.match(r"^([A-Za-z0-9_!,.{}-]+):\s+(.*)$", line)
        if factor:
            if re.search(r"dev|old|min|pypy|py2|!|nightly|latest|main|master|lowest|pre", factor.group(1)):
                continue
            line = factor.group(2)
        option = re.match(r"^(-r|--requirement)[\s=]*(\S+)", line)
        if option:
            wanted.files.append(posixpath.normpath(re.sub(r"\{(?:toxinidir|tox_root)\}/?", "", option.group(2))))
        elif "{" not in re.sub(r"\{(?:toxinidir|tox_root)\}", "", line.split(";")[0]):
            one = from_line(line)
            wanted.add(Wanted(requirements=one.requirements, extras=one.extras, local=one.local))
    for key, target in (("extras", wanted.extras), ("dependency_groups", wanted.groups)):
        for word in re.split(r"[\s,]+", parser.get(section, key, fallback="")):
            if re.fullmatch(r"[A-Za-z0-9._-]+", word) and word not in target:
                target.append(word)
    for line in (
        parser.get(section, "commands_pre", fallback="").splitlines()
        + parser.get(section, "commands", fallback="").splitlines()
    ):
        if _INSTALL.search(line):
            words = split_command(re.sub(r"\{[^}]*\}/?", "", line))
            if "install" in words:
                wanted.add(_pip_arguments(words[words.index("install") + 1 :], ""))
    return wanted


def _following(parser: configparser.ConfigParser, section: str, key: str, depth: int) -> Iterable[str]:
    for line in parser.get(section, key, fallback="").splitlines():
        reference = re.fullmatch(r"\s*\{\[([^\]]+)\](\w+)\}\s*", line)
        if reference and depth < 5 and parser.has_section(reference.group(1)):
            yield from _following(parser, reference.group(1), reference.group(2), depth + 1)
        else:
            yield line
