"""The probe: rides inside the graded pytest and reports what pytest's own hooks say, one JSON line per event.

It needs pytest and the standard library and nothing else, runs on Python 3.6 and pytest 3.6 as on the newest, and is
copied, not imported, into the graded side. Form of the events: docs/reference/events.md.

Two ways in. `main` (``python -S probe.py CONFIG.json``) starts pytest with nothing of the graded tree importable until
pytest and this recorder are there. `Recorder` alone is registered by our plugin in a person's own pytest.
Only the session that it is registered with records: sessions inside that session (a project that tests pytest), in the
same process or in a child, have plugin managers of their own and stay silent.
"""

import sys

if __name__ == "__main__":
    # The script's folder and PYTHONPATH come before the standard library: away with them before the first import.
    sys.path[:] = [
        p for p in sys.path[1:] if p.startswith((sys.base_prefix, sys.base_exec_prefix)) and p not in ("", sys.argv[0])
    ]

import json
import os


def _read_config():  # type: () -> dict[str, object]
    with open(sys.argv[1], encoding="utf-8") as stream:
        config = json.load(stream)
    sys.path.extend(folder for folder in config["site_folders"] if folder not in sys.path)
    return dict(config)


_CONFIG = _read_config() if __name__ == "__main__" else {}

import unittest
import weakref
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import _pytest
import pluggy
import pytest
from _pytest.outcomes import skip as _skip
from _pytest.outcomes import xfail as _xfail

try:
    from _pytest.reports import TestReport
except ImportError:  # pytest 3.6
    from _pytest.runner import TestReport  # type: ignore[attr-defined]

__all__ = ["PROTOCOL", "Recorder", "main"]

PROTOCOL = 1
_NOTE = "_swelive"  # what makereport saw, carried on the report: xdist and forked send a report's __dict__ as JSON
_MESSAGE_CHARS = 300
_IDS_PER_LINE = 500
_SKIPS = (_skip.Exception, unittest.SkipTest)
_XFAIL = _xfail.Exception
_OWN_FOLDERS = tuple(
    os.path.dirname(os.path.abspath(module.__file__ or "")) + os.sep for module in (_pytest, pluggy, unittest)
)
_OWN_FILES = (os.path.abspath(__file__), os.path.abspath(pytest.__file__))


def _new_style_wrappers():  # type: () -> bool
    try:
        pytest.hookimpl(wrapper=True)
    except TypeError:
        return False
    return int(pytest.__version__.split(".")[0]) >= 8


_NEW_STYLE = _new_style_wrappers()


class Recorder(object):
    """Writes one JSON line per event through ``write``, which is called once per line with the bytes of it.

    ``write`` may be ``None`` on an xdist worker: then nothing is written, but reports carry what the controller needs.
    """

    def __init__(self, write: Optional[Callable[[bytes], object]]) -> None:
        self._write = write or _nothing
        self._silent = write is None
        self._id = None  # type: Optional[str]
        self._head = ""
        self._quoted = ""
        self._notes = {}  # type: Dict[Tuple[str, str], Dict[str, Any]]
        self._rootdir = ""
        self._strict = False
        self._collected = 0
        self._failed = 0
        self._controller = False
        self._worker = False
        self._ended = False
        _mute_in_children(self)

    # What happens once per session

    def pytest_sessionstart(self, session: Any) -> None:
        config = session.config
        self._rootdir = str(getattr(config, "rootpath", None) or config.rootdir)
        self._strict = bool(config.getini("xfail_strict"))
        self._worker = hasattr(config, "workerinput") or hasattr(config, "slaveinput")
        self._controller = not self._worker and config.pluginmanager.hasplugin("dsession")
        if self._worker:
            self._write, self._silent = _nothing, True
        self._emit(
            {
                "e": "session",
                "v": PROTOCOL,
                "pytest": pytest.__version__,
                "python": "%d.%d.%d" % sys.version_info[:3],
                "platform": sys.platform,
                "rootdir": self._rootdir,
                "cwd": os.getcwd(),
                "args": [str(arg) for arg in config.args],
                "uid": os.getuid() if hasattr(os, "getuid") else None,
                "plugins": _plugins(config),
                "xdist": self._controller,
            }
        )

    def pytest_collection_finish(self, session: Any) -> None:
        if not self._controller:
            self._emit_ids("collected", [item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Iterable[str]) -> None:
        if not self._collected:  # every worker collects the same
            self._emit_ids("collected", list(ids))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker that it belongs to a recorded session (the other end: `pytest_configure` below)."""
        node.workerinput[_NOTE] = True

    def pytest_deselected(self, items: Iterable[Any]) -> None:
        ids = [item.nodeid for item in items]
        if ids:
            self._emit_ids("deselected", ids)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()  # type: ignore[attr-defined]
        if report.outcome != "passed":
            excinfo = getattr(getattr(report, "call", None), "excinfo", None)
            if excinfo is not None:
                # pytest wraps an import error in one of its own: the cause tells what happened
                cause = getattr(excinfo.value, "__cause__", None) or excinfo.value
                setattr(report, _NOTE, {"r": self._raised(cause, cause.__traceback__, "")})

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome == "passed":
            return
        raised = _note_on(report).get("r") or _raised_in_longrepr(report)
        event = {"e": "collect_skip" if report.outcome == "skipped" else "collect_error", "id": report.nodeid}
        event.update(raised)
        self._emit(event)

    def pytest_internalerror(self, excrepr: Any) -> None:
        self._emit({"e": "internal_error", "msg": _short(excrepr, last=True)})

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        event = {"e": "interrupted"}  # Ctrl-C, or pytest.exit()
        event.update(self._raised(excinfo.value, excinfo.value.__traceback__, ""))
        self._emit(event)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: Any) -> Iterator[None]:
        yield
        self.end(getattr(session, "exitstatus", exitstatus))

    def end(self, exitstatus: Any) -> None:
        """Write the session's end, once."""
        if not self._ended:
            self._ended = True
            self._emit(
                {"e": "end", "exitstatus": int(exitstatus), "collected": self._collected, "failed": self._failed}
            )

    def broken(self, message: str) -> None:
        """Write that pytest gave up before a session began (a conftest.py that can't be imported, unknown options)."""
        self._emit({"e": "internal_error", "msg": message})

    # What happens for each test: hot, so written by hand

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._enter(nodeid)
        self._write(('{"e":"start","id":' + self._quoted + "}\n").encode("ascii"))

    if _NEW_STYLE:

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            before = call.excinfo or _unittest_excinfo(item)
            report = yield
            # looked at twice: unittest's exception is moved into the call by an inner hook
            if before is not None or call.excinfo is not None or report.outcome != "passed" or self._notes:
                self._note(item, call, before, report)
            return report

    else:

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            before = call.excinfo or _unittest_excinfo(item)
            outcome = yield
            report = outcome.get_result()
            if before is not None or call.excinfo is not None or report.outcome != "passed" or self._notes:
                self._note(item, call, before, report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.nodeid != self._id:
            self._enter(report.nodeid)
        data = report.__dict__
        if (
            report.outcome == "passed"
            and type(report) is TestReport
            and not self._notes
            and not self._controller
            and _NOTE not in data
            and "wasxfail" not in data
            and "rerun" not in data
        ):
            self._write(
                ('%s%s","outcome":"passed","d":%.6f}\n' % (self._head, report.when, report.duration)).encode("ascii")
            )
        else:
            self._emit_phase(report)

    # The rest is rare

    def _enter(self, nodeid: str) -> None:
        self._id = nodeid
        self._quoted = _quote(nodeid)
        self._head = '{"e":"phase","id":' + self._quoted + ',"when":"'
        if self._notes:
            self._notes = {key: note for key, note in self._notes.items() if key[0] == nodeid}

    def _note(self, item: Any, call: Any, before: Any, report: Any) -> None:
        """Keep what was raised, on the report and beside it: an outer hook may still change or replace the report."""
        self._notes.pop((item.nodeid, call.when), None)
        excinfos = [info for info in (before, call.excinfo) if info is not None]
        if not excinfos and report.outcome == "passed" and not hasattr(report, "wasxfail"):
            return
        marks = list(item.iter_markers(name="xfail"))
        note = {"s": _status(info.value for info in excinfos), "x": bool(marks)}  # type: Dict[str, Any]
        if marks:
            note["xfail"] = {
                "run": all(mark.kwargs.get("run", True) for mark in marks),
                "strict": any(mark.kwargs.get("strict", self._strict) for mark in marks),
            }
        if excinfos:
            value = excinfos[0].value
            if isinstance(value, _SKIPS) and isinstance(value.__context__, unittest.SkipTest):
                value = value.__context__  # pytest's skip for a SkipTest that unittest caught
            note["r"] = self._raised(value, value.__traceback__, str(item.location[0]))
        setattr(report, _NOTE, note)
        self._notes[(item.nodeid, call.when)] = note

    def _emit_phase(self, report: Any) -> None:
        subtest = _subtest(report)
        note = _note_on(report)
        if not note and subtest is None:
            note = self._notes.get((report.nodeid, report.when), {})
        if subtest is None or note:
            self._notes.pop((report.nodeid, report.when), None)
        outcome = str(report.outcome)
        # xdist reports a dead worker's test as "???"
        when = report.when if report.when in ("setup", "call", "teardown") else "call"
        event = {"e": "phase", "id": report.nodeid, "when": when, "outcome": outcome}  # type: Dict[str, Any]
        event["d"] = round(float(getattr(report, "duration", 0.0) or 0.0), 6)
        wasxfail = getattr(report, "wasxfail", None)
        if wasxfail is not None:
            event["wasxfail"] = str(wasxfail)[:_MESSAGE_CHARS]
            event["xfail"] = note.get("xfail", {"run": "[NOTRUN]" not in str(wasxfail), "strict": False})
        raised = note.get("r") or _raised_in_longrepr(report)
        if raised:
            event["raised"] = raised
        if hasattr(report, "rerun"):
            event["attempt"] = int(report.rerun) + 1
        if subtest is not None:
            event["subtest"] = subtest
        worker = getattr(report, "worker_id", None) or _gateway(report)
        if worker:
            event["worker"] = str(worker)
        if _forged(outcome, wasxfail is not None, note):
            event["forged"] = True
        if outcome not in ("passed", "skipped", "rerun"):
            self._failed += 1
        self._emit(event)

    def _emit(self, event: Dict[str, Any]) -> None:
        if not self._silent:
            self._write((json.dumps(event, separators=(",", ":")) + "\n").encode("ascii"))

    def _emit_ids(self, kind: str, ids: List[str]) -> None:
        if kind == "collected":
            self._collected += len(ids)
        for start in range(0, len(ids) or 1, _IDS_PER_LINE):
            self._emit({"e": kind, "ids": ids[start : start + _IDS_PER_LINE]})

    def _raised(self, value: Any, traceback: Any, test_file: str) -> Dict[str, Any]:
        """Return type, message and place of an exception: the deepest frame of the project's own, else of others.

        ``via`` lists the project's files on the way for skips and xfails, which a library may raise for the project.
        """
        file, line, inside = "", 0, False
        via = []  # type: List[str]
        while traceback is not None:
            name = traceback.tb_frame.f_code.co_filename
            if not (name.startswith(_OWN_FOLDERS) or name in _OWN_FILES or name.startswith("<")):
                relative = self._relative(name)
                mine = relative != name
                if mine and relative not in via:
                    via.append(relative)
                if mine or not inside:
                    file, line, inside = relative, traceback.tb_lineno, mine
            traceback = traceback.tb_next
        found = {"type": type(value).__name__, "msg": _short(value), "file": file or test_file, "line": line}
        if isinstance(value, _SKIPS + (_XFAIL,)):
            found["via"] = via
        return found

    def _relative(self, name: str) -> str:
        """Return ``name`` relative to rootdir if it lies inside and is not an installed package, else as it is."""
        if not os.path.isabs(name):
            name = os.path.join(os.getcwd(), name)
        root = self._rootdir.rstrip(os.sep) + os.sep
        if name.startswith(root) and "site-packages" not in name[len(root) :].split(os.sep):
            return name[len(root) :].replace(os.sep, "/")
        return name

    def mute(self) -> None:
        """Never write again: what runs after a fork is not the session."""
        self._write, self._silent = _nothing, True


def _unittest_excinfo(item: Any) -> Any:
    """Return what unittest collected so far: an inner hook moves it into the call and turns its SkipTest into ours."""
    found = item.__dict__.get("_excinfo")
    return found[0] if found else None


def _nothing(_line: bytes) -> None:
    return None


def _mute_in_children(recorder: Recorder) -> None:
    if hasattr(os, "register_at_fork"):  # 3.7
        reference = weakref.ref(recorder)

        def mute() -> None:
            living = reference()
            if living is not None:
                living.mute()

        os.register_at_fork(after_in_child=mute)


def _status(values: Iterable[BaseException]) -> str:
    """Return what the exceptions of one phase mean to pytest: the worst counts."""
    found = "passed"
    for value in values:
        if isinstance(value, _XFAIL):
            found = "xfailed" if found == "passed" else found
        elif isinstance(value, _SKIPS):
            found = "skipped" if found == "passed" else found
        else:
            return "failed"
    return found


def _forged(outcome: str, wasxfail: bool, note: Dict[str, Any]) -> bool:
    """Return whether a report claims more than the exception as raised allows."""
    raised = note.get("s", "passed")
    if outcome == "passed":
        return bool(raised == "failed")
    if outcome == "skipped":
        if wasxfail:
            return bool(raised != "xfailed" and not note.get("x", raised == "passed"))
        return bool(raised == "failed")
    return False


def _note_on(report: Any) -> Dict[str, Any]:
    note = getattr(report, _NOTE, None)
    return note if isinstance(note, dict) else {}


def _raised_in_longrepr(report: Any) -> Dict[str, Any]:
    """Return what a report without a note shows of its exception (made on an xdist worker or by another plugin)."""
    if report.outcome == "passed":
        return {}
    longrepr = getattr(report, "longrepr", None)
    if isinstance(longrepr, (tuple, list)) and len(longrepr) == 3:
        file, line, reason = longrepr
        return {"type": "Skipped", "msg": _short(reason), "file": str(file), "line": line or 0}
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        kind, _, message = str(crash.message).partition(": ")
        if not kind.replace(".", "").isidentifier():  # an assertion's message stands alone
            kind, message = "AssertionError", str(crash.message)
        return {"type": kind, "msg": _short(message), "file": str(crash.path), "line": crash.lineno or 0}
    return {"type": "", "msg": _short(longrepr, last=True), "file": "", "line": 0} if longrepr else {}


def _subtest(report: Any) -> Optional[str]:
    """Return what a subtest calls itself (pytest 9's own, or the plugin before it), ``None`` for a test."""
    context = getattr(report, "context", None)
    if context is None or type(report) is TestReport:
        return None
    message = getattr(context, "msg", None)
    kwargs = getattr(context, "kwargs", None) or {}
    parts = ["[%s]" % message] if message else []
    try:
        parts += ["(%s)" % ", ".join("%s=%r" % pair for pair in sorted(kwargs.items()))] if kwargs else []
    except Exception:
        pass
    return _short(" ".join(parts)) or "(<subtest>)"


def _gateway(report: Any) -> str:
    return str(getattr(getattr(getattr(report, "node", None), "gateway", None), "id", "") or "")


def _short(value: Any, last: bool = False) -> str:
    """Return the first characters (or the last line) of a value's text; what can't be printed is no reason to die."""
    try:
        text = str(value).strip()
    except Exception:
        return ""
    if last:
        text = text.rsplit("\n", 1)[-1]
    return text[:_MESSAGE_CHARS]


def _plugins(config: Any) -> List[str]:
    try:
        found = config.pluginmanager.list_plugin_distinfo()
        return sorted({"%s-%s" % (dist.project_name, dist.version) for _plugin, dist in found})
    except Exception:
        return []


def pytest_configure(config: Any) -> None:
    """Join in on an xdist worker of a recorded session, where this file was loaded by name."""
    inputs = getattr(config, "workerinput", None) or getattr(config, "slaveinput", None) or {}
    if inputs.get(_NOTE) and not config.pluginmanager.hasplugin("swelive-recorder"):
        config.pluginmanager.register(Recorder(None), "swelive-recorder")


# The launch: what `main` does before pytest runs


class _Starter(object):
    """Registered beside the recorder: settles options and entry points while pytest starts."""

    def __init__(self, recorder: Recorder, config: Dict[str, Any]) -> None:
        self.recorder = recorder
        self.config = config

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_parse(self, pluginmanager: Any, args: Any) -> Iterator[None]:
        load = pluginmanager.load_setuptools_entrypoints

        def load_installed(*names: Any, **kwargs: Any) -> Any:
            with _only_installed(self.config["site_folders"], self.config.get("plugins")):
                return load(*names, **kwargs)

        pluginmanager.load_setuptools_entrypoints = load_installed
        outcome = yield
        del pluginmanager.load_setuptools_entrypoints
        if outcome.excinfo is None:  # type: ignore[attr-defined]
            config = outcome.get_result()  # type: ignore[attr-defined]
            for name, value in self.config.get("options", {}).items():
                if hasattr(config.option, name):
                    setattr(config.option, name, value)
            worker_path = getattr(sys.modules.get("xdist.plugin"), "_sys_path", None)  # xdist >= 1.34
            if getattr(config.option, "numprocesses", None) and worker_path is not None:
                worker_path.append(os.path.dirname(os.path.abspath(__file__)))
                name = os.path.splitext(os.path.basename(__file__))[0]
                config.option.plugins.append(name)  # one or the other reaches the workers, as xdist's age goes
                object.__setattr__(config.invocation_params, "args", args + ["-p", name])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self) -> Iterator[None]:
        outcome = yield
        excinfo = outcome.excinfo  # type: ignore[attr-defined]
        if excinfo is not None:
            cause = getattr(excinfo[1], "__cause__", None) or excinfo[1]
            self.recorder.broken("conftest: %s: %s" % (type(cause).__name__, _short(cause)))


class _only_installed(object):  # noqa: N801
    """While it holds, entry points come only from what is installed in the site folders, not from the graded tree.

    A ``*.dist-info`` folder in a tree that is on ``sys.path`` is all that it takes to register a plugin. What an
    ``.egg-link`` in a site folder names is installed too (the old way of ``pip install -e``).
    """

    def __init__(self, site_folders: List[str], names: Optional[List[str]]) -> None:
        self.site_folders = site_folders
        self.names = None if names is None else {_normal(name) for name in names}
        manager = sys.modules.get("pluggy._manager") or sys.modules.get("pluggy.manager")
        module = getattr(manager, "importlib_metadata", None)
        if module is None and hasattr(manager, "importlib"):
            module = sys.modules.get("importlib.metadata")
        self.module = module  # None: pluggy asks pkg_resources, which looked at sys.path before the tree was on it
        self.real = getattr(module, "distributions", None)

    def __enter__(self) -> None:
        if self.real is not None:
            self.module.distributions = self._distributions  # type: ignore[union-attr]

    def __exit__(self, *_exc: object) -> None:
        if self.real is not None:
            self.module.distributions = self.real  # type: ignore[union-attr]

    def _distributions(self, **_kwargs: Any) -> List[Any]:
        found = list(self.real(path=list(self.site_folders)))  # type: ignore[misc]
        for name, folder in _egg_links(self.site_folders):
            found += [d for d in self.real(path=[folder]) if _normal(d.metadata["Name"]) == name]  # type: ignore[misc]
        if self.names is not None:
            found = [dist for dist in found if _normal(dist.metadata["Name"]) in self.names]
        return found


def _normal(name: Optional[str]) -> str:
    return (name or "").lower().replace("_", "-").replace(".", "-")


def _egg_links(site_folders: List[str]) -> Iterator[Tuple[str, str]]:
    for folder in site_folders:
        for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if entry.endswith(".egg-link"):
                with open(os.path.join(folder, entry), encoding="utf-8") as stream:
                    yield _normal(entry[: -len(".egg-link")]), stream.readline().strip()


def _import_pytest_whole() -> None:
    """Import all of pytest's own plugins and what they need while the tree can't shadow any of it."""
    import importlib

    try:
        from _pytest.config import default_plugins
    except ImportError:
        default_plugins = ()  # type: ignore[assignment]
    needed = ["doctest", "unittest.mock", "shlex", "importlib.util"]
    for name in needed + ["_pytest." + plugin for plugin in default_plugins]:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    try:
        importlib.import_module("importlib.metadata")
    except ImportError:
        manager = sys.modules.get("pluggy._manager") or sys.modules.get("pluggy.manager")
        if getattr(manager, "importlib_metadata", None) is None:
            try:
                importlib.import_module("pkg_resources")
            except ImportError:
                pass


def _open_site(config: Dict[str, Any]) -> None:
    """Do what the interpreter does at an ordinary start, only later, and with no start-up file of the tree."""
    import importlib
    import importlib.machinery
    import site

    trusted = sys.path[:]
    hooks = {name: getattr(site, name) for name in ("execsitecustomize", "execusercustomize")}
    for name in hooks:
        setattr(site, name, _no_customize)
    try:
        site.main()
    finally:
        for name, function in hooks.items():
            setattr(site, name, function)
    _move(config.get("path_map", []))
    if importlib.machinery.PathFinder.find_spec("sitecustomize", trusted) is not None:
        whole, sys.path[:] = sys.path[:], trusted
        try:
            importlib.import_module("sitecustomize")
        finally:
            sys.path[:] = whole + [entry for entry in sys.path if entry not in whole]
    _ordinary_flags()


def _no_customize() -> None:
    return None


def _move(path_map: List[List[str]]) -> None:
    """Point what an editable install left at this grade's tree, where nothing is mounted at the recorded place."""

    def moved(path: Any) -> Any:
        for old, new in path_map:
            if isinstance(path, str) and (path == old or path.startswith(old.rstrip("/") + "/")):
                return new.rstrip("/") + path[len(old.rstrip("/")) :]
        return path

    if not path_map:
        return
    sys.path[:] = [moved(entry) for entry in sys.path]
    tables = [
        getattr(module, name, None)
        for key, module in list(sys.modules.items())
        if key.startswith("__editable__")
        for name in ("MAPPING", "NAMESPACES")
    ]  # setuptools
    tables += [getattr(finder, "known_source_files", None) for finder in sys.meta_path]  # scikit-build-core
    for table in tables:
        if isinstance(table, dict):
            for key, value in list(table.items()):
                table[key] = [moved(item) for item in value] if isinstance(value, list) else moved(value)


def _ordinary_flags() -> None:
    """Hide ``-S`` from what copies this interpreter's flags to children (multiprocessing): they need site."""

    class flags(tuple):  # type: ignore[type-arg]  # noqa: N801
        def __repr__(self) -> str:
            return "sys.flags(%s)" % ", ".join("%s=%r" % pair for pair in vars(self).items())

    real = sys.flags
    names = [part.split("=")[0] for part in repr(real)[len("sys.flags(") : -1].split(", ")]
    values = [0 if name == "no_site" else getattr(real, name) for name in names]
    ordinary = flags(values)
    for name, value in zip(names, values):  # noqa: B905
        setattr(ordinary, name, value)
    sys.flags = ordinary  # type: ignore[assignment]


def _stand_in_main(args: List[str]) -> None:
    """Make ``__main__`` and ``sys.argv`` what ``python -m pytest`` has: multiprocessing reads them for its children."""
    import importlib.util
    import types

    spec = importlib.util.find_spec("pytest.__main__" if hasattr(pytest, "__path__") else "pytest")
    module = types.ModuleType("__main__")
    module.__spec__ = spec
    module.__file__ = str(spec.origin if spec else pytest.__file__)
    _KEPT.append(sys.modules["__main__"])
    sys.modules["__main__"] = module
    sys.argv[:] = [module.__file__] + args


_KEPT = []  # type: List[Any]


def _pipe_writer(channel: int) -> Callable[[bytes], object]:
    """Return a function that writes one line to the channel at once, also when the pipe takes only a part of it."""
    os.set_inheritable(channel, False)
    owner = os.getpid()
    write = os.write
    checked = not hasattr(os, "register_at_fork")  # 3.6: a forked child is known only by its pid

    def send(line: bytes) -> None:
        if checked and os.getpid() != owner:
            return
        sent = write(channel, line)
        while sent < len(line):
            line = line[sent:]
            sent = write(channel, line)

    def close_in_child() -> None:
        try:
            os.close(channel)
        except OSError:
            pass

    if not checked:
        os.register_at_fork(after_in_child=close_in_child)
    return send


def main() -> None:
    """Run pytest as the config file says, and leave at once: what the graded code wanted to do at exit is not asked."""
    import tempfile

    config = dict(_CONFIG)  # type: Dict[str, Any]
    recorder = Recorder(_pipe_writer(config["channel_fd"]))
    _import_pytest_whole()
    _open_site(config)
    os.environ.update(config.get("env", {}))
    sys.path[0:0] = [folder for folder in config.get("extra_path", []) if folder not in sys.path]
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: projects that need it find themselves, but shadow nothing
    cache = os.path.join(tempfile.gettempdir(), "pytest-cache-%d" % os.getpid())
    args = ["-o", "cache_dir=" + cache] + list(config["pytest_args"])
    _stand_in_main(args)
    status = pytest.main(args, plugins=[recorder, _Starter(recorder, config)])
    recorder.end(status)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(int(status))


if __name__ == "__main__":
    main()
