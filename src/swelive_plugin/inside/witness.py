"""Looks at how a test's report comes about: whose code is on the way, and whether an exception got lost on it.

A part of the probe: it rides beside it, needs pytest and the standard library, and runs on Python 3.6. The guard
compares what lies around; whoever changes it, acts, and puts it back leaves nothing to compare, but was on the way.
"""

import sys
from typing import Any, Callable, Dict, List, Set, Tuple

import pytest

__all__ = ["Witness"]

_NEW_STYLE = int(pytest.__version__.split(".")[0]) >= 8
_WAYS = 500  # more different ones than any project has


class Witness(object):
    """A plugin around each test's call; the recorder asks it to `check` when the report is about to be made."""

    __slots__ = ("_codes", "_origin", "_raised", "_say", "_ways")

    def __init__(self, origin: Any, say: Callable[[Tuple[Any, ...], Dict[str, Any], Any], None]) -> None:
        self._origin = origin
        self._say = say
        self._ways = set()  # type: Set[Tuple[int, ...]]
        self._codes = []  # type: List[Any]
        self._raised = None  # type: Any

    # innermost: nothing of pluggy's that could be swapped lies between the test's function and us
    if _NEW_STYLE:

        @pytest.hookimpl(wrapper=True, trylast=True)
        def pytest_pyfunc_call(self, pyfuncitem: Any) -> Any:
            self._raised = None
            try:
                return (yield)
            except BaseException:
                self._raised = pyfuncitem
                raise

    else:

        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_pyfunc_call(self, pyfuncitem: Any) -> Any:
            self._raised = None
            outcome = yield
            if outcome.excinfo is not None:
                self._raised = pyfuncitem

    def check(self, item: Any, call: Any) -> None:
        """Say which code of the tree is on the stack, and if the exception of this test's call is gone."""
        if self._raised is not None:
            if self._raised is item and call.excinfo is None:
                event = {"e": "changed", "what": "test exception", "test": item.nodeid, "when": "test"}
                self._say(("exception", item.nodeid), event, ("", 0))
            self._raised = None
        frame = sys._getframe(1)  # type: Any
        codes = []  # type: List[Any]
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        way = tuple(map(id, codes))
        if way not in self._ways and len(self._ways) < _WAYS:
            self._ways.add(way)
            self._codes.append(codes)  # ids stay true while they live
            for code in codes:
                file = self._origin.file_of(code)
                if self._origin.relative(file) != file or file.startswith("<"):
                    what = "way of a report through %s" % self._origin.relative(file)
                    event = {"e": "changed", "what": what, "test": item.nodeid, "when": "test"}
                    self._say((what,), event, (file, code.co_firstlineno))
