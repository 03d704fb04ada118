"""Looks at how a test's report comes about: whose code is on the way, and whether an exception got lost on it.

A part of the probe: it rides beside it, needs pytest and the standard library, and runs on Python 3.6. The guard
compares what lies around; whoever changes it, acts, and puts it back leaves nothing to compare, but was on the way.
"""

import sys
from operator import is_
from typing import Any, Callable, Dict, List, Tuple

import pytest

__all__ = ["CallMonitor"]

_NEW_STYLE = int(pytest.__version__.split(".")[0]) >= 8
_WAYS = 100  # more different ones than any project has


class CallMonitor(object):
    """A plugin around each test's call; the recorder asks it to `check` when the report is about to be made."""

    __slots__ = ("_origin", "_raised", "_say", "_ways")

    def __init__(self, origin: Any, say: Callable[[Tuple[Any, ...], Dict[str, Any], Any], None]) -> None:
        self._origin = origin
        self._say = say
        self._ways = []  # type: List[Tuple[List[Dict[str, Any]], List[int]]]
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
        # asking a frame for its code is announced, so it is not free: a way that was taken before is known by less
        spaces, places = [], []  # type: List[Dict[str, Any]], List[int]
        frame = innermost = sys._getframe(1)  # type: Any
        while frame is not None:
            spaces.append(frame.f_globals)
            places.append(frame.f_lasti)
            frame = frame.f_back
        for known_spaces, known_places in self._ways:
            if places == known_places and all(map(is_, spaces, known_spaces)):
                return
        if len(self._ways) < _WAYS:
            self._ways.append((spaces, places))
            self._look(innermost, item)

    def _look(self, frame: Any, item: Any) -> None:
        while frame is not None:
            code = frame.f_code
            file = self._origin.file_of(code)
            if self._origin.relative(file) != file or file.startswith("<"):
                what = "way of a report through %s" % self._origin.relative(file)
                event = {"e": "changed", "what": what, "test": item.nodeid, "when": "test"}
                self._say((what,), event, (file, code.co_firstlineno))
            frame = frame.f_back
