"""Whose code something is: which file it truly came from, as far as the interpreter can show it.

A part of the probe: it rides beside it, needs pytest and the standard library, and runs on Python 3.6.
"""

import os
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

__all__ = ["MADE_UP", "Origin", "nested"]

MADE_UP = "<made up>"


class Origin(object):
    """Knows which code objects were made from which file; ``compile()`` takes any file name that it is given."""

    __slots__ = ("_codes", "_compiled", "_disk", "_own", "_root")

    def __init__(self, tree: str) -> None:
        self._root = os.path.join(os.path.abspath(tree), "")
        self._compiled = {}  # type: Dict[str, Set[int]]
        self._codes = []  # type: List[Any]
        self._own = set()  # type: Set[int]
        self._disk = {}  # type: Dict[str, Set[Any]]

    def watch_compiler(self) -> None:
        """Remember which code objects the assertion rewriter made from each file, as they pass."""
        try:
            import _pytest.assertion.rewrite as rewrite
        except ImportError:
            return
        for name in ("_rewrite_test", "_read_pyc"):
            real = getattr(rewrite, name, None)
            if real is not None:
                setattr(rewrite, name, self._watched(real))

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            made = real(*args, **kwargs)
            for code in made if isinstance(made, tuple) else (made,):
                if isinstance(code, types.CodeType):
                    self._codes.append(code)  # ids stay true while it lives
                    self._compiled.setdefault(code.co_filename, set()).update(nested(code))
            return made

        return watched

    def know(self, code: Any) -> None:
        """Take a code object for what it says that it is: it was there before any graded code could be imported."""
        if id(code) not in self._own:
            self._codes.append(code)  # ids stay true while it lives
            self._own.update(nested(code))

    def relative(self, file: str) -> str:
        """Return ``file`` relative to the tree if it lies there and is not an installed package, else as it is."""
        if file.startswith(self._root):
            inside = file[len(self._root) :]
            if "site-packages" not in inside:
                return inside
        return file

    def compiled(self, code: Any) -> Optional[bool]:
        """Return whether the rewriter made this code object, ``None`` where it made nothing from that file."""
        known = self._compiled.get(code.co_filename)
        return None if known is None else id(code) in known

    def file_of(self, code: Any) -> str:
        """Return the file of a code object, `MADE_UP` where a file outside the tree holds no such code."""
        file = str(code.co_filename)
        if id(code) in self._own or self.relative(file) != file or file.startswith("<"):
            return file
        return file if self.compiled(code) or code in self._on_disk(file) else MADE_UP

    def _on_disk(self, file: str) -> Set[Any]:
        found = self._disk.get(file)
        if found is None:
            found = self._disk[file] = set()
            try:
                with open(file, "rb") as stream:
                    code = compile(stream.read(), file, "exec", dont_inherit=True)
            except Exception:
                return found
            found.update(_with_nested(code))
        return found

    def where(self, value: Any) -> Tuple[str, int]:
        """Return file and line of code, or of a class; of anything else those of its class."""
        if isinstance(value, tuple):
            return value
        if isinstance(value, types.CodeType):
            return self.file_of(value), value.co_firstlineno
        owner = value if isinstance(value, type) else type(value)
        for inner in list(vars(owner).values()):  # a class names any module as its own
            inner = getattr(inner, "__func__", inner)
            if isinstance(inner, types.FunctionType) and not inner.__code__.co_filename.startswith("<"):
                return self.file_of(inner.__code__), inner.__code__.co_firstlineno
        module = sys.modules.get(str(getattr(owner, "__module__", "")))
        return str(getattr(module, "__file__", None) or ""), 0

    @staticmethod
    def wrappers(value: Any) -> Iterator[Any]:
        """Yield the code of each function that stands before the one that it says to wrap."""
        for _ in range(20):
            value = getattr(value, "__func__", value)
            inner = getattr(value, "__dict__", {}).get("__wrapped__")
            if inner is None:
                return
            if isinstance(value, types.FunctionType):
                yield value.__code__
            value = inner


def nested(code: Any) -> Iterator[int]:
    """Yield the ids of a code object and of those inside it."""
    for inner in _with_nested(code):
        yield id(inner)


def _with_nested(code: Any) -> Iterator[Any]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for inner in _with_nested(constant):
                yield inner
