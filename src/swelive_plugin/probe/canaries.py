"""Hidden tests whose outcome is known before they run: where one comes out better than it must, the session lies.

A part of the probe: it rides beside it, needs pytest and the standard library, and runs on Python 3.6. They run
between the project's own test files, through the same hooks, but are not logged: no count, summary or exit status shows
them.
"""

import ast
import linecache
import os
import random
import re
import sys
import types
from typing import Any, Dict, Iterator, List, Set, Tuple

import pytest
from _pytest.runner import runtestprotocol

__all__ = ["Canaries"]

_PLACES = 4  # first, last, and at most two in between
_FEW = 3  # kinds of canary in each place but the first
_VERBS = "keeps handles returns rejects accepts ignores reads finds counts joins splits merges drops adds sorts".split()
_KINDS = "empty nested single double missing plain mixed short long first last unknown known repeated default".split()
_THINGS = "values names items entries lines words keys parts fields groups paths pairs options results rows".split()

# {name} are names, {n…} numbers; each function's comment says how it must end
_SOURCE = """
import unittest

import pytest


def test_{a}():  # failed
    values = [{n1}, {n2}]
    assert sum(values) == {n1} + {n2} + {n3}


def test_{b}():  # failed
    with pytest.raises(KeyError):
        {{"{word}": {n1}}}["{word}"]


def test_{c}():  # passed
    assert sorted([{n1} + {n2}, {n1}]) == [{n1}, {n1} + {n2}]


@pytest.mark.parametrize("left, right", [({n1}, {n1}), ({n1}, {n1} + {n3})])
def test_{d}(left, right):  # passed, failed
    assert left == right


class Test{Class}(unittest.TestCase):
    def test_{e}(self):  # failed
        self.assertEqual("{word}".upper(), "{word}")

    def test_{f}(self):  # passed
        self.assertIn("{word}", ["{word}"])

    def test_{g}(self):  # failed
        with self.assertRaises(ZeroDivisionError):
            {n1} // {n2}


def test_{h}():  # skipped
    pytest.skip("{word}")


@pytest.fixture
def {word}_source():
    raise RuntimeError("{word}")

def test_{i}({word}_source):  # error
    assert {word}_source


def test_{j}():  # failed
    raise ValueError("{word}")
"""
_WITH_PROJECT = """

def test_{k}():  # failed
    import {project}

    assert {project}.__name__ == "{word}"
"""


class Canaries(object):
    """A plugin that puts canaries into the session when its tests are about to run, and reports how they end."""

    __slots__ = ("_firsts", "_items", "_random", "_recorder", "_tree")

    def __init__(self, recorder: Any, tree: str) -> None:
        self._recorder = recorder
        self._tree = os.path.join(os.path.abspath(tree), "")
        self._random = random.SystemRandom()
        self._items = {}  # type: Dict[int, Any]
        self._firsts = set()  # type: Set[int]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> None:
        items = getattr(session, "items", None)  # an xdist controller has none
        if not items or session.config.option.collectonly:
            return
        try:
            with_canaries = self._interleave(items)
        except Exception as error:  # a project's nodes may be of a kind that we can't stand beside
            self._recorder.emit({"e": "canaries", "ids": [], "msg": "%s: %s" % (type(error).__name__, error)})
            return
        session.items[:] = with_canaries

    def _interleave(self, items: List[Any]) -> List[Any]:
        """Return the tests with canaries before, after and between files: inside one they would reset its fixtures."""
        ends = [n for n in range(1, len(items)) if _module_of(items[n]) is not _module_of(items[n - 1])]
        between = sorted(self._random.sample(ends, min(len(ends), _PLACES - 2)))
        places = {n: items[n - 1] for n in between}
        places[0] = items[0]
        places[len(items)] = items[-1]
        expect = {}  # type: Dict[str, str]
        result = []  # type: List[Any]
        for n in range(len(items) + 1):
            if n in places:
                placed = self._module(places[n])
                self._firsts.update(id(item) for item, _ending in placed[:1])
                for item, ending in placed:
                    expect[item.nodeid] = ending
                    self._items[id(item)] = item
                    result.append(item)
            if n < len(items):
                result.append(items[n])
        self._recorder.emit({"e": "canaries", "ids": sorted(expect), "expect": expect})
        return result

    def _module(self, beside: Any) -> List[Tuple[Any, str]]:
        """Return the canaries (with how they must end) of one new file beside that of ``beside``."""
        neighbour = _module_of(beside)
        path = str(getattr(neighbour, "path", None) or neighbour.fspath)
        folder, file = os.path.split(path)
        name = self._file_name(folder, file)
        path = os.path.join(folder, name)
        source = self._source(getattr(beside, "module", None))
        linecache.cache[path] = (len(source), None, source.splitlines(True), path)
        module = types.ModuleType(name[:-3])
        module.__file__ = path
        node = _module_node(neighbour.parent, path)
        tree = ast.parse(source, path)
        endings = _endings(source)
        _rewrite(tree, source, path, node.config)
        exec(compile(tree, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        node._obj = module
        found = []  # type: List[Tuple[Any, str]]
        for item in _tests_below(node):
            ending = endings[item.name.split("[")[0]]
            if ", " in ending:  # parametrized: one ending for each set
                ending = ending.split(", ")[_position(item, found)]
            _without_autouse(item)
            found.append((item, ending))
        return found

    def _file_name(self, folder: str, beside: str) -> str:
        while True:
            words = [self._random.choice(_KINDS), self._random.choice(_THINGS)]
            name = "test_%s.py" % "_".join(words) if beside.startswith("test_") else "%s_test.py" % "_".join(words)
            path = os.path.join(folder, name)
            if path not in linecache.cache and not os.path.exists(path):  # another place may have the same words
                return name

    def _source(self, module: Any) -> str:
        pick = self._random.choice
        names = set()  # type: set[str]
        while len(names) < len("abcdefghijk"):
            names.add("_".join((pick(_VERBS), pick(_KINDS), pick(_THINGS))))
        values = dict(zip("abcdefghijk", self._random.sample(sorted(names), len(names))))  # type: Dict[str, Any]
        values.update({"n%d" % n: self._random.randint(2, 99) for n in (1, 2, 3)})
        values["word"] = pick(_KINDS) + pick(_THINGS)
        values["Class"] = pick(_KINDS).title() + pick(_THINGS).title()
        values["project"] = self._project(module)
        head, *tests = _SOURCE.strip().split("\n\n\n")
        if self._items:  # all kinds in the first place, some in the others: a failure costs milliseconds
            tests = tests[:1] + self._random.sample(tests[1:], _FEW - 1)
        if values["project"]:
            tests.append(_WITH_PROJECT)
        return "\n\n\n".join([head] + tests).format(**values) + "\n"

    def _project(self, module: Any) -> str:
        """Return the top-level package of the tree that a test module uses, empty where none can be seen."""
        for value in vars(module).values() if isinstance(module, types.ModuleType) else ():
            owner = value if isinstance(value, types.ModuleType) else sys.modules.get(getattr(value, "__module__", ""))
            name = str(getattr(owner, "__name__", "")).split(".")[0]
            file = getattr(sys.modules.get(name), "__file__", None)
            if file and file.startswith(self._tree) and owner is not module and not _is_test(name):
                return name
        return ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Any:
        if id(item) not in self._items:
            return None
        recorder = self._recorder
        if id(item) in self._firsts and recorder.guard is not None:
            recorder.guard.compare("canary")  # all, not only what stands between a test and its report
        failed = recorder.failed
        recorder.pytest_runtest_logstart(item.nodeid)
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            recorder.pytest_runtest_logreport(report)
        recorder.failed = failed
        return True


def _module_of(item: Any) -> Any:
    node = item
    while node is not None and not isinstance(node, pytest.Module):
        node = node.parent
    return node if node is not None else item.parent


def _is_test(name: str) -> bool:
    return name in ("conftest", "test", "tests", "testing") or name.startswith("test_") or name.endswith("_test")


def _module_node(parent: Any, path: str) -> Any:
    """Return a new Module node, made as this pytest makes them."""
    make = getattr(pytest.Module, "from_parent", None)
    if make is not None and hasattr(parent, "path"):  # pytest 7
        from pathlib import Path

        return make(parent, path=Path(path))
    import py  # type: ignore[import-untyped]

    if make is not None:
        return make(parent, fspath=py.path.local(path))
    return pytest.Module(py.path.local(path), parent)


def _rewrite(tree: Any, source: str, path: str, config: Any) -> None:
    """Rewrite asserts as pytest does for tests, where this pytest lets us."""
    try:
        from _pytest.assertion.rewrite import rewrite_asserts
    except ImportError:
        return
    try:
        rewrite_asserts(tree, source.encode("utf-8"), path, config)
    except TypeError:  # pytest 4 and older
        import py

        rewrite_asserts(tree, py.path.local(path), config)


def _tests_below(node: Any) -> Iterator[Any]:
    for child in node.collect():
        if isinstance(child, pytest.Item):
            yield child
        else:
            for item in _tests_below(child):
                yield item


def _without_autouse(item: Any) -> None:
    """Leave an item the fixtures that it asks for: one of the project's own must not run once more because of us."""
    info = getattr(item, "_fixtureinfo", None)
    names = getattr(item, "fixturenames", None)
    if info is not None and isinstance(names, list):
        names[:] = [name for name in names if name in info.argnames]


def _endings(source: str) -> Dict[str, str]:
    return dict(re.findall(r"def (test_\w+)\(.*\):  # (.+)", source))


def _position(item: Any, found: List[Tuple[Any, str]]) -> int:
    function = item.name.split("[")[0]
    return sum(other.name.split("[")[0] == function for other, _ending in found)
