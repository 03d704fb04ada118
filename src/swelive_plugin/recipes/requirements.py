"""Requirement lines in all the shapes that repositories write them, as plain PEP 508 strings."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from swelive_plugin.recipes.listing import RepoFiles

__all__ = [
    "LocalPath", "Wanted", "from_line", "from_poetry", "is_name", "loosened", "merged", "name_of", "poetry_specifier",
    "read_requirement_file", "split_command", "unpinned",
]  # fmt: skip

_OPTION = re.compile(r"\s+(--hash|--global-option|--install-option|--config-settings?)[=\s]\S+")
_COMMENT = re.compile(r"(^|\s)#.*$")
_VCS = re.compile(r"^(git|hg|svn|bzr)\+|^https?://|^ssh:|^git@")
# what stands for the project's root in a path: variables of pip and pdm, hatch's and tox's own
_ROOT = re.compile(r"^/?(?:\$\{?\w+\}?|\{(?:root(?::uri)?|toxinidir|tox_root)\})(?=/|$)")
_PATH_START = re.compile(r"\.{1,2}(?:/|\[|$)|/|\$\{?\w+\}?(?:/|\[|$)|\{(?:root|toxinidir|tox_root)|file:")
_INNER_PATH = re.compile(r"[\w.+-]+(?:/[\w.+-]+)+/?(?:\[[^\]]*\])?|[\w.+-]+\.whl")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


@dataclass(frozen=True)
class LocalPath:
    """A project or archive that is named by its path: the path as written, the name and extras where they are told."""

    path: str
    name: str = ""
    extras: tuple[str, ...] = ()


@dataclass
class Wanted:
    """What some file or command wants installed.

    ``requirements`` and ``constraints`` are PEP 508 strings; ``extras`` and ``groups`` are the project's own;
    ``files`` are requirement files to read; ``local`` are paths of the checkout, as seen from the folder where the
    command runs; ``dropped`` says what can't be had and why.
    """

    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    local: list[LocalPath] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    all_extras: bool = False

    def add(self, other: Wanted) -> None:
        """Take over what ``other`` wants."""
        for name in ("requirements", "constraints", "extras", "groups", "files", "local", "dropped"):
            mine: list[Any] = getattr(self, name)
            mine.extend(item for item in getattr(other, name) if item not in mine)
        self.all_extras = self.all_extras or other.all_extras


def is_name(text: str) -> bool:
    """Whether a text can be the name of a distribution."""
    return bool(_NAME.match(text))


def name_of(requirement: str) -> str:
    """Return the canonical name that a PEP 508 string asks for, or an empty string."""
    try:
        return canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement:
        return ""


def loosened(requirement: str) -> str:
    """Return the requirement without what pins it: ``==``, ``===`` and ``~=`` go, bounds and markers stay."""
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return requirement
    kept = [str(spec) for spec in parsed.specifier if spec.operator not in ("==", "===", "~=")]
    parsed.specifier = type(parsed.specifier)(",".join(kept))
    return str(parsed)


def unpinned(requirement: str) -> str:
    """Return the requirement without any version: the name, its extras and its marker stay."""
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return requirement
    parsed.specifier = type(parsed.specifier)()
    return str(parsed)


def from_line(line: str) -> Wanted:
    """Return what one line of a requirement file, or one argument of ``pip install``, asks for.

    The project itself (``-e .[test]``) becomes its extras, other paths become ``local``, and their name is asked for
    where they tell one; addresses become the plain name where they tell one, since no registry's cut-off holds for
    them.
    """
    wanted = Wanted()
    text = _OPTION.sub("", _COMMENT.sub("", line)).strip().rstrip("\\").strip()
    bare = re.sub(r"^(-e|--editable)[\s=]*", "", text).strip()
    editable, text = bare != text, bare
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1].strip()
    if not text or text.startswith("-"):
        return wanted
    local = _local_path(text, editable=editable)
    if local is not None:
        extras = f"[{','.join(local.extras)}]" if local.extras else ""
        if posixpath.normpath(local.path) in (".", ".."):
            wanted.extras.extend(local.extras)
        else:
            wanted.local.append(local)
            if local.name:
                wanted.requirements.append(f"{local.name}{extras}")
        return wanted
    head, _, address = (
        text.partition("@") if " @ " in text or re.match(r"^[\w.\[\],-]+@\s*\w+[+:]", text) else ("", "", "")
    )
    if _VCS.match(text) or (address and _VCS.match(address.strip())):
        egg = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", text)
        name = head.strip() or (egg.group(1) if egg else "") or _name_in_address(text)
        if name:
            wanted.requirements.append(name)
        wanted.dropped.append(f"{text}: an address" + (f"; the registry's {name} instead" if name else ""))
        return wanted
    try:
        wanted.requirements.append(str(Requirement(text)))
    except InvalidRequirement:
        fixed = re.sub(r"(?<=[\w\]])\s*=\s*(?=\d)", "==", text)  # conda writes one equals sign
        try:
            wanted.requirements.append(str(Requirement(fixed)))
        except InvalidRequirement:
            wanted.dropped.append(f"{text}: not a requirement")
    return wanted


def _local_path(text: str, *, editable: bool) -> LocalPath | None:
    """Return the path of the checkout that a requirement means; ``None`` where it means something else."""
    text = re.split(r"\s+;|;\s", text)[0].strip()
    named = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?\s*@\s*(.+)$", text)
    if named and (_PATH_START.match(named.group(3)) is None or _VCS.match(text)):
        return None
    name, extras, path = named.groups() if named else ("", "", text)
    if _VCS.match(path) or not (named or editable or _PATH_START.match(path) or _INNER_PATH.fullmatch(path)):
        return None
    path, _, fragment = path.partition("#")
    egg = re.search(r"egg=([A-Za-z0-9][\w.-]*)", fragment)
    below = re.search(r"subdirectory=([^&\s]+)", fragment)
    ending = re.search(r"\[([^\]]*)\]/?$", path)
    if ending:
        path, extras = path[: ending.start()], ending.group(1)
    path = re.sub(r"^file:(?://)?(?:localhost(?=/))?", "", path)
    path = _ROOT.sub(".", path)
    path = f"{path}/{below.group(1)}" if below else path
    listed = tuple(part.strip() for part in (extras or "").split(",") if part.strip())
    return LocalPath(path.rstrip("/") or path, name or (egg.group(1) if egg else ""), listed)


def _name_in_address(address: str) -> str:
    wheel = re.search(r"/([A-Za-z0-9._]+)-\d[^/]*\.(?:whl|tar\.gz|zip)", address)
    if wheel:
        return wheel.group(1)
    repo = re.search(r"/([A-Za-z0-9._-]+?)(?:\.git)?(?:@[^/]*)?(?:#.*)?/?$", address)
    return repo.group(1) if repo and address.startswith("git+") and _NAME.match(repo.group(1)) else ""


def read_requirement_file(files: RepoFiles, path: str, *, seen: set[str] | None = None) -> Wanted:
    """Return what a requirement file and those that it includes ask for; private indexes are left out and named."""
    seen = set() if seen is None else seen
    wanted = Wanted()
    if path in seen:
        return wanted
    seen.add(path)
    text = files.read(path)
    if text is None:
        wanted.dropped.append(f"{path}: absent, too large, or no text")
        return wanted
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        bare = _COMMENT.sub("", line).strip()
        if not bare:
            continue
        option = re.match(r"^(-r|--requirement|-c|--constraint)[\s=]*(\S+)", bare)
        if option:
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), option.group(2).strip("'\"")))
            inside = read_requirement_file(files, inner, seen=seen)
            if option.group(1) in ("-c", "--constraint"):
                inside = Wanted(constraints=inside.requirements + inside.constraints, dropped=inside.dropped)
            wanted.add(inside)
        elif re.match(r"^(-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host)\b", bare):
            wanted.dropped.append(f"{path}: an index of its own is not used")
        else:
            wanted.add(from_line(bare))
    return wanted


def from_poetry(name: str, value: Any) -> list[str]:
    """Return the PEP 508 strings of one entry of a poetry (or Pipfile) dependency table.

    Caret and tilde follow poetry's document on dependency specification.
    """
    if name.lower() == "python":
        return []
    if isinstance(value, list):
        return [line for item in value for line in from_poetry(name, item)]
    table: Mapping[str, Any] = value if isinstance(value, dict) else {"version": value}
    extras = table.get("extras")
    suffix = f"[{','.join(map(str, extras))}]" if isinstance(extras, list) and extras else ""
    version = table.get("version", "*")
    spec = poetry_specifier(str(version)) if not ({"git", "path", "url", "file"} & set(table)) else ""
    marker = str(table.get("markers") or "")
    python = table.get("python")
    if python:
        bounds = " and ".join(
            f"python_version {part.strip()[:2] if part.strip()[1:2] == '=' else part.strip()[:1]} "
            f"'{part.strip().lstrip('<>=!~ ').removesuffix('.*')}'"
            for part in poetry_specifier(str(python)).split(",")
            if part.strip()
        )
        marker = f"({marker}) and {bounds}" if marker and bounds else marker or bounds
    line = f"{name}{suffix}{spec}" + (f"; {marker}" if marker else "")
    return from_line(line).requirements or from_line(f"{name}{suffix}{spec}").requirements or [name]


def poetry_specifier(text: str) -> str:
    """Return poetry's version constraint as a PEP 440 specifier; the first alternative of ``||`` counts."""
    parts = []
    for raw in text.split("||")[0].replace(" ", ",").split(","):
        part = raw.strip()
        if part in ("", "*", "latest"):
            continue
        if part[0] == "^":
            parts.append(f">={part[1:]},<{_caret(part[1:])}")
        elif part[0] == "~" and not part.startswith("~="):
            numbers = part[1:].split(".")
            upper = (
                [*numbers[:1], str(_leading_int(numbers[1]) + 1)]
                if len(numbers) > 1
                else [str(_leading_int(numbers[0]) + 1)]
            )
            parts.append(f">={part[1:]},<{'.'.join(upper)}")
        elif part[0].isdigit():
            parts.append(f"=={part}")
        else:
            parts.append(part)
    joined = ",".join(parts)
    return re.sub(r"([<>=!~]),", r"\1", joined)


def _leading_int(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits.group()) if digits else 0


def _caret(version: str) -> str:
    numbers = [_leading_int(part) for part in version.split(".")]
    for index, number in enumerate(numbers):
        if number or index == len(numbers) - 1:
            return ".".join(map(str, [*numbers[:index], number + 1]))
    return "1"


def split_command(text: str) -> list[str]:
    """Return the words of one shell command, forgiving what is not quite shell (templates, unbalanced quotes)."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return [word.strip("'\"") for word in text.split()]


def merged(lines: Iterable[str], *, without: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the lines once each, in order, without those that ask for a name in ``without``."""
    unwanted = {canonicalize_name(name) for name in without if name}
    return tuple(dict.fromkeys(line for line in lines if name_of(line) not in unwanted))
