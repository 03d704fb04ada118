"""Compares what runs the tests with what it was before any graded code could be imported, and reports differences.

A part of the probe: it rides beside it, needs pytest and the standard library, and runs on Python 3.6. It
judges nothing: whether a difference is tampering is decided outside, against sessions whose code is trusted. It shares
the process with the graded code, so it raises the price of a lie and proves nothing by itself.
"""

import builtins
import inspect
import os
import sys
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

import pytest

__all__ = ["Guard"]

_OWN = ("pytest", "_pytest", "pluggy", "unittest", "builtins")
_HOOKS = tuple(
    "pytest_runtest_protocol pytest_runtest_setup pytest_runtest_call pytest_pyfunc_call pytest_runtest_makereport "
    "pytest_runtest_logreport pytest_collection_modifyitems".split()
)
# What stands between a test's exception and its report: looked at for every test, not only at the end.
_CRITICAL = (
    "_pytest.reports.TestReport.from_item_and_call",
    "_pytest.runner.TestReport",
    "_pytest.runner.CallInfo.from_call",
    "_pytest.runner.CallInfo.__init__",
    "_pytest.runner.call_and_report",
    "_pytest.runner.call_runtest_hook",
    "_pytest.runner.pytest_runtest_makereport",
    "_pytest.runner.pytest_runtest_call",
    "_pytest.python.Function.runtest",
    "_pytest.python.pytest_pyfunc_call",
    "_pytest.unittest.TestCaseFunction.runtest",
    "_pytest.unittest.TestCaseFunction._addexcinfo",
    "_pytest._code.code.ExceptionInfo.from_current",
    "unittest.case.TestCase.run",
    "unittest.case.TestCase.failureException",
    "builtins.AssertionError",
    "_pytest.python_api.RaisesContext.__exit__",
    "_pytest.raises.RaisesExc.__exit__",
    "unittest.case._AssertRaisesContext.__exit__",
) + tuple(
    "unittest.case.TestCase." + name
    for name in "_getAssertEqualityFunc _baseAssertEqual assertEqual assertNotEqual assertTrue assertFalse assertIn "
    "assertIs assertRaises assertSequenceEqual assertDictEqual assertMultiLineEqual assertAlmostEqual fail".split()
)
_WATCHED_CALLS = frozenset(
    "gc.get_objects gc.get_referrers gc.get_referents sys.settrace sys.setprofile sys.addaudithook ctypes.dlsym "
    "ctypes.dlopen ctypes.cdata ctypes.string_at _thread.start_new_thread".split()
)
_FRAME_CALLS = ("sys._getframe", "sys._current_frames")
_FRAMES_OF = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
_READERS_FOR_PEOPLE = ("linecache.py", "tokenize.py", "traceback.py", "warnings.py")


class Guard(object):
    """One session's guard: `take` before the tree is importable, then a plugin, `check` from the recorder, `finish`."""

    # no room for an attribute beside these: a method can't be shadowed on the object
    __slots__ = tuple(
        "results call_monitor comparison_methods _emit _origin _relative _test_files _said _kept _names _critical "
        "_impls _fast_impls _items _manager _shapes _callers _recorder _write _looking _test _codes_may_differ _bait "
        "_bait_cells _test_names".split()
    )

    def __init__(self, emit: Callable[[Dict[str, Any]], None], origin: Any, test_files: Iterable[str]) -> None:
        """``test_files`` are absolute paths."""
        self.results = {}  # type: Dict[str, str]
        self.call_monitor = self.comparison_methods = None  # type: Any
        self._emit = emit
        self._origin = origin
        self._relative = origin.relative  # type: Callable[[str], str]
        self._test_files = set(test_files)
        self._test_names = {os.path.basename(file) for file in self._test_files}
        self._said = set()  # type: Set[Tuple[Any, ...]]
        self._kept = []  # type: List[Tuple[str, Any, str, Any, Any]]
        self._names = []  # type: List[Tuple[Any, Set[str]]]
        self._critical = ()  # type: Tuple[Tuple[Any, str, Any, Any, Any], ...]
        self._impls = {}  # type: Dict[int, Tuple[Any, Any, Any, str]]
        self._fast_impls = []  # type: List[Tuple[Any, Any, str]]
        self._items = {}  # type: Dict[str, Tuple[Any, ...]]
        self._manager = None  # type: Any
        self._shapes = {}  # type: Dict[str, Tuple[Any, type, Dict[str, Any]]]
        self._callers = []  # type: List[Tuple[Any, ...]]
        self._recorder = getattr(emit, "__self__", None)
        self._write = getattr(self._recorder, "_write", None)
        self._looking = False
        self._test = ""
        # reading __code__ is announced, so it is not free: without cause only where setting it is not announced
        self._codes_may_differ = not hasattr(sys, "addaudithook")
        self._bait = _bait()
        self._bait_cells = _cells(self._bait)

    # Before the tree is importable

    def take(self, own_modules: Iterable[Any] = ()) -> None:
        """Remember every function and class of pytest, pluggy, unittest, builtins and the probe."""
        modules = [m for name, m in sorted(sys.modules.items()) if name.split(".")[0] in _OWN and _is_module(m)]
        self._kept = [entry for module in modules + list(own_modules) for entry in _callables(module)]
        self._names = [(vars(module), set(vars(module))) for module in modules if module.__name__ != "builtins"]
        for _key, _owner, _name, _value, code in self._kept:
            if code is not None:
                self._origin.know(code)
        wanted = set(_CRITICAL)
        self._critical = tuple(
            (vars(owner).get, name, value, _function(value) or _code, code or _code.__code__)
            for key, owner, name, value, code in self._kept
            if key in wanted
        )

    def watch_calls(self) -> None:
        """Listen to what the interpreter announces (Python 3.8): who looks for our objects, who reads test files."""
        if hasattr(sys, "addaudithook"):
            sys.addaudithook(self._audit)

    def _audit(self, event: str, args: Tuple[Any, ...]) -> None:
        if event == "open":
            path = os.fsdecode(args[0]) if type(args[0]) is bytes else args[0]
            if type(path) is not str:
                return
            if os.path.basename(path) in self._test_names:
                path = os.path.abspath(path)  # it may be said from the working directory
            if path in self._test_files or path.startswith("/proc/"):
                self._saw("open", self._relative(path))
        elif event in _WATCHED_CALLS:
            self._saw(event, "")
        elif event in _FRAME_CALLS or (event == "object.__getattr__" and args[1] in _FRAMES_OF):
            self._saw_frame(event if event in _FRAME_CALLS else args[1])
        elif event == "object.__setattr__" and args[1] == "__code__":
            self._codes_may_differ = True
            self._saw("__code__", str(getattr(args[0], "__name__", "")))
        elif event == "object.__setattr__" and args[1] == "__class__":
            self._saw("__class__", "")

    def _saw_frame(self, what: str) -> None:
        """Say that code of the tree itself takes a frame: its callers' lead to the test and to the recorder."""
        if self._looking:
            return  # our own look below is announced, too
        self._looking = True
        try:
            frame = sys._getframe(2)  # type: Any
            while frame is not None and _hands_out_frames(frame.f_code):
                frame = frame.f_back
            file = frame.f_code.co_filename if frame is not None else ""
            if self._relative(file) != file:
                event = {"e": "saw", "what": "frame", "name": what}
                self.say(("saw", "frame", file), event, (file, frame.f_lineno))
        finally:
            self._looking = False

    def _saw(self, what: str, name: str) -> None:
        frame = sys._getframe(2)  # type: Any
        for _ in range(40):
            if frame is None:
                return
            file = frame.f_code.co_filename
            if os.path.basename(file) in _READERS_FOR_PEOPLE:
                return  # a traceback or a warning is being shown
            relative = self._relative(file)
            if relative != file:
                self.say(
                    ("saw", what, name, relative), {"e": "saw", "what": what, "name": name}, (file, frame.f_lineno)
                )
                return
            if what == "open" and "_pytest" in file:
                return  # pytest reads the tests that it collects
            frame = frame.f_back

    # While pytest starts and collects

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: Any) -> Iterator[None]:
        # installed plugins are loaded now, conftest.py files are not: what plugins changed is the environment's own
        self._manager = early_config.pluginmanager
        self.compare("plugins")
        self.take()
        for hook, impl in _implementations(self._manager):
            self._impls[id(impl)] = (impl, impl.function, _code(impl.function), hook)
            if hook in _HOOKS:
                self._fast_impls.append((impl, impl.function, hook))
        self._seal()
        yield

    def _seal(self) -> None:
        """Have the sender itself look at us: we are the first that a liar would change."""
        if self._recorder is not None:
            methods = [(Guard, name) for name in ("check", "compare", "finish", "say")] + [
                (type(self.call_monitor), "check")
            ]
            methods += [(type(self.comparison_methods), name) for name in ("look", "events")]
            held = [(vars(kind).get, name, vars(kind)[name]) for kind, name in methods]  # type: List[Any]
            held += [(type, self, Guard), (type, self.call_monitor, type(self.call_monitor))]
            held += [
                (vars(Guard)[name].__get__, self, getattr(self, name))
                for name in ("call_monitor", "comparison_methods", "_critical")
            ]
            self._recorder.seal(tuple(held))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_finish(self, session: Any) -> Iterator[None]:
        yield
        for item in session.items:
            self.results[item.nodeid] = "collected"
            try:
                self._add_item(item)
            except Exception as error:  # an item of a kind that we don't know is left unwatched
                self.say(("unwatched", type(item)), {"e": "unwatched", "msg": repr(error)[:200]}, type(item))
            self._shapes[item.nodeid] = (item, type(item), dict(_params(item)))
        relay = vars(self._manager.hook) if self._manager is not None else {}
        self._callers = [(relay, name, relay[name], *_caller(relay[name])) for name in _HOOKS if name in relay]
        self.compare("collection")

    def _add_item(self, item: Any) -> None:
        """Remember the code of one test, and say so if it is not what was compiled from the test's own file."""
        holder, name, function = _test_function(item)
        if function is None:
            return
        code = function.__code__
        file = code.co_filename
        compiled = self._origin.compiled(code)
        if compiled is False or (compiled is None and self._relative(file) != file):  # another loader brought it
            event = {"e": "changed", "what": "test code", "test": item.nodeid, "when": "collected"}
            self.say(("item", item.nodeid), event, code)
        for wrapper in self._origin.wrappers(_get(holder, name) or item.__dict__.get("_obj")):
            file = self._origin.file_of(wrapper)
            if not self._origin.compiled(wrapper) and (self._relative(file) != file or file.startswith("<")):
                event = {"e": "changed", "what": "test wrapper", "test": item.nodeid, "when": "collected"}
                self.say(("wrapper", item.nodeid, file), event, (file, wrapper.co_firstlineno))
        self._items[item.nodeid] = (item, function, code, item.__dict__.get("_obj"), holder, name, _get(holder, name))

    # For every test: hot

    def check(self, item: Any, call: Any) -> None:
        """Compare what this test depends on, and let the call monitor look."""
        if self.call_monitor is not None:
            self._looking = True
            self.call_monitor.check(item, call)
            self._looking = False
        codes_may_differ = self._codes_may_differ
        for get, name, value, function, code in self._critical:
            if get(name) is not value or (codes_may_differ and function.__code__ is not code):
                self._test = item.nodeid
                self.compare("test")
                break
        for impl, function, hook in self._fast_impls:
            if impl.function is not function:
                self._hook_changed(impl, hook, item.nodeid)
        if self._recorder is not None and self._recorder._write is not self._write:
            sender, self._recorder._write = self._recorder._write, self._write
            self.say(("recorder",), {"e": "changed", "what": "recorder", "test": item.nodeid}, _code(sender) or sender)
        for relay, name, caller, kind, execute, impls in self._callers:
            if relay.get(name) is not caller or _caller(caller) != (kind, execute, impls):
                self._caller_changed(relay.get(name), name, impls, item.nodeid)
        shape = self._shapes.get(item.nodeid)  # calls of id() are announced, so they are not free
        if shape is not None and shape[0] is item:
            params = _params(item)
            if type(item) is not shape[1] or any(params.get(name) is not was for name, was in shape[2].items()):
                self._shape_changed(item, shape)
        saved = self._items.get(item.nodeid)
        if (
            saved is not None
            and saved[0] is item
            and (
                (codes_may_differ and saved[1].__code__ is not saved[2])
                or "runtest" in item.__dict__
                or item.__dict__.get("_obj") is not saved[3]
                or (saved[4] is not None and saved[4].__dict__.get(saved[5]) is not saved[6])
            )
        ):
            self._item_changed(item, saved)

    def _shape_changed(self, item: Any, shape: Tuple[Any, type, Dict[str, Any]]) -> None:
        # whose class it is now tells nothing: a class names any module as its own
        what = "test values" if type(item) is shape[1] else "test runner"
        event = {"e": "changed", "what": what, "test": item.nodeid, "when": "test"}
        self.say((what, item.nodeid), event, ("", 0))

    def _caller_changed(self, caller: Any, hook: str, impls: Tuple[Any, ...], test: str) -> None:
        new = [impl for impl in _caller(caller)[2] if impl not in impls]
        event = {"e": "changed", "what": "hook calls of %s" % hook, "when": "test", "test": test}
        self.say(("caller", hook), event, _code(new[0].function) if new else ("", 0))

    def _item_changed(self, item: Any, saved: Tuple[Any, ...]) -> None:
        event = {"e": "changed", "what": "test code", "test": item.nodeid, "when": "test"}
        if saved[1].__code__ is not saved[2]:
            self.say(("code", item.nodeid), event, saved[1].__code__)
        if "runtest" in item.__dict__:
            event["what"] = "test runner"
            self.say(("runtest", item.nodeid), event, _code(item.__dict__["runtest"]))
        for now, before in (
            (item.__dict__.get("_obj"), saved[3]),
            (_get(saved[4], saved[5]), saved[6]),
        ):
            code = _code(now)
            # asyncio plugins and their like wrap the function: what matters is who did
            if now is not before and now is not None and code is not None and code is not saved[2]:
                file = self._origin.file_of(code)
                if (self._relative(file) == file and os.path.exists(file)) or code.co_filename == saved[2].co_filename:
                    continue
                event["what"] = "test function"
                self.say(("function", item.nodeid), event, code)

    def _hook_changed(self, impl: Any, hook: str, test: str) -> None:
        event = {"e": "changed", "what": "hook %s of %s" % (hook, impl.plugin_name), "test": test}
        self.say(("impl", id(impl), id(impl.function)), event, _code(impl.function))

    # Once in a while

    def compare(self, when: str) -> None:
        """Report what is not what it was; each difference once."""
        if when in ("canary", "end") and self.comparison_methods is not None:
            self.comparison_methods.look()  # a class may be gone at the end
        codes = self._codes_may_differ or when == "end"
        for key, owner, name, value, code in self._kept:
            now = owner.__dict__.get(name)
            if now is not value or (codes and code is not None and _code(now) is not code):
                event = {"e": "changed", "what": key, "when": when, "test": self._test}  # type: Dict[str, Any]
                if key in _CRITICAL:
                    event["critical"] = True
                self.say((key, id(now)), event, _code(now) or now)

        for namespace, names in self._names:
            for name in set(namespace) - names:
                if name in vars(builtins):  # the module means another thing by it now
                    key = "%s.%s" % (namespace.get("__name__"), name)
                    event = {"e": "changed", "what": key, "when": when, "test": self._test, "critical": True}
                    self.say((key,), event, _code(namespace[name]) or namespace[name])

    def finish(self) -> None:
        """Report what the session left behind, just before its end is written."""
        self.compare("end")
        for impl, function, _code_then, hook in list(self._impls.values()):
            if impl.function is not function or _code(impl.function) is not _code_then:
                self._hook_changed(impl, hook, "")
        if self._manager is not None:
            self._late_hooks()
            self._plugins()
        for what, function in (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile())):
            code = _code(function) or _code(vars(type(function)).get("__call__"))
            if code is not None and self._relative(code.co_filename) != code.co_filename:
                self.say((what,), {"e": "changed", "what": what}, code)
        if _cells(self._bait) != self._bait_cells or set(self.results.values()) - {"collected"}:
            self._emit({"e": "changed", "what": "bait", "when": "end"})
        for event in self.comparison_methods.events() if self.comparison_methods is not None else ():
            self._emit(event)
        self._modules()

    def _late_hooks(self) -> None:
        """Name every hook from the tree, and those that have no file."""
        for hook, impl in _implementations(self._manager):
            code = _code(impl.function)
            known = id(impl) in self._impls
            file = "" if code is None else code.co_filename if known else self._origin.file_of(code)
            relative = self._relative(file)
            if known and relative == file:
                continue
            if relative == file and os.path.exists(file):
                continue  # an installed plugin, loaded late
            event = {"e": "hook", "hook": hook, "plugin": str(impl.plugin_name), "late": not known}
            self.say(("hook", hook, impl.plugin_name, file), event, code)

    def _plugins(self) -> None:
        """Name the plugins that are registered and not the tree's own."""
        names = set()
        for plugin in self._manager.get_plugins():
            owner = plugin if _is_module(plugin) else plugin if isinstance(plugin, type) else type(plugin)
            module = owner if _is_module(owner) else sys.modules.get(str(owner.__module__))
            file = str(_namespace(module).get("__file__") or "") if module is not None else ""
            if self._relative(file) == file:
                names.add(owner.__name__ if _is_module(owner) else "%s.%s" % (owner.__module__, owner.__name__))
        self._emit({"e": "plugins", "names": sorted(names)})

    def _modules(self) -> None:
        found = {}
        for name, module in sorted(sys.modules.items()):
            if "." in name or not _is_module(module):
                continue
            file = _namespace(module).get("__file__")
            if isinstance(file, str):
                relative = self._relative(file)
                if relative != file:
                    found[name] = relative
        watched = {"runner": len(self._critical), "callables": len(self._kept), "hooks": len(self._callers)}
        self._emit({"e": "modules", "tree": found, "watched": watched})

    def say(self, key: Tuple[Any, ...], event: Dict[str, Any], where: Any) -> None:
        """Report ``event`` once for each ``key``, with the place of ``where``: code, a class, or (file, line)."""
        if key in self._said:
            return
        self._said.add(key)
        file, line = self._origin.where(where)
        self._emit(dict(event, file=self._relative(file), line=line))


# modules that load their content lazily do so when their attributes or __dict__ are asked for
_namespace = vars(types.ModuleType)["__dict__"].__get__  # type: Callable[[Any], Dict[str, Any]]


def _hands_out_frames(code: Any) -> bool:
    """Return whether code takes frames for its caller: ``exec``, inspect, and of traceback what shows none itself."""
    name = os.path.basename(code.co_filename)
    walks = name == "traceback.py" and code.co_name in ("walk_stack", "walk_tb")
    return walks or name == "inspect.py" or code.co_filename.startswith("<")


def _is_module(module: Any) -> bool:
    return isinstance(module, types.ModuleType)


def _callables(module: Any) -> Iterator[Tuple[str, Any, str, Any, Any]]:
    """Yield (name, owner, attribute, value, code) of a module's functions and classes, and of its classes' own."""
    for name, value in list(vars(module).items()):
        if not callable(value):
            continue
        key = "%s.%s" % (module.__name__, name)
        yield key, module, name, value, _code(value)
        if isinstance(value, type) and value.__module__ == module.__name__ and module.__name__ != "builtins":
            for attribute, inner in list(vars(value).items()):
                if isinstance(inner, (types.FunctionType, classmethod, staticmethod, property, type)):
                    yield "%s.%s" % (key, attribute), value, attribute, inner, _code(inner)


def _function(value: Any) -> Any:
    """Return the function behind a method, property or wrapper, ``None`` where there is none."""
    if isinstance(value, (classmethod, staticmethod, types.MethodType)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, types.FunctionType) else None


def _code(value: Any) -> Any:
    function = _function(value)
    return function.__code__ if function is not None else None


def _implementations(manager: Any) -> Iterator[Tuple[str, Any]]:
    for name, caller in sorted(vars(manager.hook).items()):
        if hasattr(caller, "get_hookimpls"):
            for impl in caller.get_hookimpls():
                yield name, impl


def _caller(caller: Any) -> Tuple[Any, ...]:
    """Return what decides what a call of a hook does."""
    execute = getattr(caller, "_hookexec", None)
    manager = getattr(execute, "__self__", None)
    listed = getattr(caller, "get_hookimpls", tuple)
    return type(caller), (execute, getattr(manager, "_inner_hookexec", None)), tuple(listed())


def _params(item: Any) -> Dict[str, Any]:
    found = getattr(getattr(item, "callspec", None), "params", None)
    return found if isinstance(found, dict) else {}


def _get(holder: Any, name: str) -> Any:
    return holder.__dict__.get(name) if holder is not None else None


def _test_function(item: Any) -> Tuple[Any, str, Optional[Any]]:
    """Return (class that holds it or ``None``, name, function) of a test, without making an instance of its class."""
    name = getattr(item, "originalname", None) or str(item.name).split("[")[0]
    cls = getattr(item, "cls", None)
    holder, value = None, None  # type: Any, Any
    if isinstance(cls, type):
        for base in cls.__mro__:
            if name in base.__dict__:
                holder, value = base, base.__dict__[name]
                break
    else:
        value = item.__dict__.get("_obj")
    if isinstance(value, (classmethod, staticmethod, types.MethodType)):
        value = value.__func__
    try:
        value = inspect.unwrap(value) if value is not None else None
    except ValueError:
        value = None
    value = getattr(getattr(value, "hypothesis", None), "inner_test", value)  # its wrapper's code is made up
    return holder, name, value if isinstance(value, types.FunctionType) else None


def _bait() -> Callable[[Dict[str, Any]], None]:
    """Return something that looks like the recorder's sender to whoever searches memory for it. Nothing calls it."""
    sent = []  # type: List[bytes]

    def _encode(record: Dict[str, Any]) -> bytes:
        return repr(sorted(record.items())).encode("utf-8")

    def _send(record: Dict[str, Any]) -> None:
        sent.append(_encode(record))

    return _send


def _cells(function: Any) -> Tuple[Any, ...]:
    return (function.__code__, *[cell.cell_contents for cell in function.__closure__])
