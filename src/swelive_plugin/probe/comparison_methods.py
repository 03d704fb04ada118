"""Walks all classes for Python code that decides how objects compare, and tells from which file it is.

A part of the probe: it rides beside it, needs the standard library, and runs on Python 3.6. However a class was made
and whatever its methods were called in the source, it hangs below `object` as long as it lives.
"""

import os
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

__all__ = ["ComparisonMethods"]

_DECIDE = tuple(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __bool__ __len__ __contains__ __instancecheck__ __subclasscheck__ "
    "__getattribute__ __getattr__ __hash__".split()
)
_OBJECT = "<object>"
_NAMES_A_LINE = 100
# of C, taken over from another class, or said not to be there
_PLAIN = (type(None), type(object.__eq__), type(list.append))

# What a metaclass says of its classes is not asked: it may be anybody's.
_space_of = vars(type)["__dict__"].__get__  # type: Callable[[Any], Any]
_name_of = vars(type)["__qualname__"].__get__  # type: Callable[[Any], str]
_module_space = vars(types.ModuleType)["__dict__"].__get__  # type: Callable[[Any], Dict[str, Any]]
_subclasses = type.__subclasses__
_identity = object.__hash__  # id() is announced, so it is not free


class ComparisonMethods(object):
    """What has been seen so far: for each file of the tree, or made up, the methods and how many codes each had."""

    __slots__ = ("_cwd", "_found", "_origin")

    def __init__(self, origin: Any) -> None:
        self._cwd = os.getcwd()
        self._origin = origin
        self._found = {}  # type: Dict[str, Dict[str, int]]

    def look(self) -> None:
        """Walk all classes that live now."""
        codes = {}  # type: Dict[Tuple[str, str], Set[int]]
        for cls, name, value in _deciding():
            file, code = self._file(value)
            if file:
                space = _space_of(cls)
                module = space.get("__module__")
                words = (module if type(module) is str else "", str.__str__(_name_of(cls)), name)
                # a class that is made anew with each call has the same code each time
                codes.setdefault((file, ".".join(words)), set()).add(_identity(code))
        for (file, name), different in codes.items():
            known = self._found.setdefault(file, {})
            known[name] = max(known.get(name, 0), len(different))

    def events(self) -> Iterator[Dict[str, Any]]:
        """Yield the events that tell what was seen."""
        for file, names in sorted(self._found.items()):
            ordered = sorted(names.items())
            for start in range(0, len(ordered), _NAMES_A_LINE):
                yield {"e": "comparison_methods", "file": file, "names": dict(ordered[start : start + _NAMES_A_LINE])}

    def _file(self, value: Any) -> Tuple[str, Any]:
        """Return (file, code) of a method, an empty file where it is an installed one's."""
        value = getattr(value, "__func__", value) if isinstance(value, (classmethod, staticmethod)) else value
        if not isinstance(value, types.FunctionType):
            owner = _space_of(type(value))
            value = owner.get("__call__") or owner.get("__get__")
            if not isinstance(value, types.FunctionType):
                return _OBJECT, type(value)
        code = value.__code__
        file = str(code.co_filename)
        if file and not file.startswith("<"):
            file = os.path.join(self._cwd, file)  # a loader may say it from the working directory
        relative = self._origin.relative(file)
        if relative != file or file.startswith("<"):
            return relative, code
        space = value.__globals__
        module = sys.modules.get(str(space.get("__name__")))
        if (
            isinstance(module, types.ModuleType)
            and _module_space(module) is space
            and space.get("__file__") == code.co_filename
        ):
            return "", code
        file = self._origin.file_of(code)  # reads the file: only where its name alone speaks for it
        return (file if file.startswith("<") else ""), code


def _deciding() -> Iterator[Tuple[type, str, Any]]:
    seen = set()  # type: Set[int]
    waiting = [object]  # type: List[Any]
    while waiting:
        cls = waiting.pop()
        key = _identity(cls)
        if key in seen:
            continue
        seen.add(key)
        waiting.extend(_subclasses(cls))
        space = _space_of(cls)
        for name in _DECIDE:
            if name in space:
                value = space[name]
                if not isinstance(value, _PLAIN):
                    yield cls, name, value
