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


def _find_pytest():  # type: () -> bool
    """Return whether pytest is there without the tree: where the project is pytest or pluggy itself, it is not."""
    try:
        __import__("pytest")
    except ImportError:
        import site

        site.main()
        return False
    return True


_CONFIG = _read_config() if __name__ == "__main__" else {}
_ISOLATED = _find_pytest() if __name__ == "__main__" else None

import time
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
_TRIES = 1000
_SKIPS = (_skip.Exception, unittest.SkipTest)
_XFAIL = _xfail.Exception
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_OWN_FOLDERS = tuple(
    os.path.dirname(os.path.abspath(module.__file__ or "")) + os.sep for module in (_pytest, pluggy, unittest)
)
_OWN_FILES = (os.path.abspath(__file__), os.path.abspath(pytest.__file__), os.path.join(_FOLDER, "swelive_canaries.py"))


def _new_style_wrappers():  # type: () -> bool
    try:
        pytest.hookimpl(wrapper=True)
    except TypeError:
        return False
    return int(pytest.__version__.split(".")[0]) >= 8


_NEW_STYLE = _new_style_wrappers()


_STATE = (
    "failed guard _write _silent _id _head _quoted _notes _rootdir _strict _collected _controller _worker _ended "
    "_made _pending __weakref__"
)

_SEALED = ("_note", "_emit_phase", "_enter", "_put", "emit", "end")


class Recorder(object):
    """Writes one JSON line per event through ``write``, which is called once per line with the bytes of it.

    ``write`` may be ``None`` on an xdist worker: then nothing is written, but reports carry what the controller needs.
    """

    # no room for an attribute beside these: a method can't be shadowed on the object
    __slots__ = tuple(_STATE.split())

    def __init__(self, write: Optional[Callable[[Any], object]]) -> None:
        self._write = write or _nothing  # type: Callable[[Any], object]
        self._silent = write is None
        self._id = None  # type: Optional[str]
        self._head = ""
        self._quoted = ""
        self._notes = {}  # type: Dict[Tuple[str, str], Dict[str, Any]]
        self._rootdir = ""
        self._strict = False
        self._collected = 0
        self.failed = 0
        self._controller = False
        self._worker = False
        self._ended = False
        self._made = []  # type: List[Any]
        self._pending = []  # type: List[bytes]
        self.guard = None  # type: Any
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
        self.emit(
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
                "plugins": _plugins(config, "%s-%s"),
                "plugin_names": _plugins(config, "%s"),
                "xdist": self._controller,
                "isolated": _ISOLATED,
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
        self.emit(event)

    def pytest_internalerror(self, excrepr: Any) -> None:
        self.emit({"e": "internal_error", "msg": _short(excrepr, last=True)})

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        event = {"e": "interrupted"}  # Ctrl-C, or pytest.exit()
        event.update(self._raised(excinfo.value, excinfo.value.__traceback__, ""))
        self.emit(event)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: Any) -> Iterator[None]:
        yield
        self.end(getattr(session, "exitstatus", exitstatus))

    def end(self, exitstatus: Any) -> None:
        """Write the session's end, once."""
        if not self._ended:
            self._ended = True
            if self.guard is not None:
                try:
                    self.guard.finish()
                except Exception as error:  # what the guard can't look at must not cost the session its end
                    self.emit({"e": "unwatched", "msg": _short(error)})
            for line in [self._pending.pop(0) for _ in list(self._pending)]:
                self._write(line)
            self.emit({"e": "end", "exitstatus": int(exitstatus), "collected": self._collected, "failed": self.failed})

    def seal(self, held: Tuple[Any, ...]) -> None:
        """Hand the sender what must hold from now on, see `swelive_channel.signed`."""
        own = [(vars(Recorder).get, name, vars(Recorder)[name]) for name in _SEALED]  # type: List[Any]
        own += [(type, self, Recorder), (vars(Recorder)["guard"].__get__, self, self.guard)]
        self._write(tuple(own) + held)

    def broken(self, message: str) -> None:
        """Write that pytest gave up before a session began (a conftest.py that can't be imported, unknown options)."""
        self.emit({"e": "internal_error", "msg": message})

    # What happens for each test: hot, so written by hand

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._enter(nodeid)
        self._put(('{"e":"start","id":' + self._quoted + "}\n").encode("ascii"))

    if _NEW_STYLE:

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            before = call.excinfo or _unittest_excinfo(item)
            if self.guard is not None and call.when != "teardown":
                self.guard.check(item, call)
            report = yield
            self._made.append(report)
            # looked at twice: unittest's exception is moved into the call by an inner hook
            if before is not None or call.excinfo is not None or report.outcome != "passed" or self._notes:
                self._note(item, call, before, report)
            return report

    else:

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            before = call.excinfo or _unittest_excinfo(item)
            if self.guard is not None and call.when != "teardown":
                self.guard.check(item, call)
            outcome = yield
            report = outcome.get_result()
            self._made.append(report)
            if before is not None or call.excinfo is not None or report.outcome != "passed" or self._notes:
                self._note(item, call, before, report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.nodeid != self._id:
            self._enter(report.nodeid)
        data = report.__dict__
        made = self._made
        if (
            report.outcome == "passed"
            and made
            and made[-1] is report
            and type(report) is TestReport
            and not self._notes
            and not self._controller
            and _NOTE not in data
            and "wasxfail" not in data
            and "rerun" not in data
        ):
            self._put(
                ('%s%s","outcome":"passed","d":%.6f}\n' % (self._head, report.when, report.duration)).encode("ascii")
            )
        else:
            self._emit_phase(report)

    # The rest is rare

    def _enter(self, nodeid: str) -> None:
        self._id = nodeid
        self._quoted = _quote(nodeid)
        self._head = '{"e":"phase","id":' + self._quoted + ',"when":"'
        del self._made[:]
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
        if subtest is None and not self._controller and not any(report is made for made in self._made):
            event["unmade"] = True  # no makereport hook of this process saw it
        if outcome not in ("passed", "skipped", "rerun"):
            self.failed += 1
        self.emit(event)

    def emit(self, event: Dict[str, Any]) -> None:
        """Write one event."""
        if not self._silent:
            self._put((json.dumps(event, separators=(",", ":")) + "\n").encode("ascii"))

    def _put(self, line: bytes) -> None:
        if self._pending:
            self._pending.append(line)
            line = self._pending.pop(0)
        for _ in range(_TRIES):
            try:
                self._write(line)
                break
            except ValueError:  # the sender is at work: in another thread, or below us, where graded code cut in
                time.sleep(0)
        else:
            self._pending.insert(0, line)

    def _emit_ids(self, kind: str, ids: List[str]) -> None:
        if kind == "collected":
            self._collected += len(ids)
        for start in range(0, len(ids) or 1, _IDS_PER_LINE):
            self.emit({"e": kind, "ids": ids[start : start + _IDS_PER_LINE]})

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


def _plugins(config: Any, form: str) -> List[str]:
    """Return the distributions whose plugins were loaded by their entry points."""
    try:
        found = config.pluginmanager.list_plugin_distinfo()
        return sorted({form % (dist.project_name, dist.version)[: form.count("%")] for _plugin, dist in found})
    except Exception:
        return []


def pytest_configure(config: Any) -> None:
    """Join in on an xdist worker of a recorded session, where this file was loaded by name."""
    inputs = getattr(config, "workerinput", None) or getattr(config, "slaveinput", None) or {}
    if inputs.get(_NOTE) and not config.pluginmanager.hasplugin("swelive-recorder"):
        config.pluginmanager.register(Recorder(None), "swelive-recorder")


def _part(name: str) -> Any:
    """Return a part of the probe, from the folder that it rides in and from nowhere else."""
    import importlib.util

    path = os.path.join(_FOLDER, "swelive_%s.py" % name)
    spec = importlib.util.spec_from_file_location("swelive_" + name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["swelive_" + name] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def main() -> None:
    """Run pytest as the config file says, and leave at once: what the graded code wanted to do at exit is not asked."""
    import tempfile

    config = dict(_CONFIG, probe=os.path.abspath(__file__))  # type: Dict[str, Any]
    parts = {
        name: _part(name)
        for name in ("channel", "start", "origin", "comparison_methods", "guard", "call_monitor", "canaries")
    }
    start = parts["start"]
    recorder = Recorder(parts["channel"].signed(parts["channel"].pipe_writer(config["channel_fd"])))
    plugins = [recorder, start.Starter(recorder, config)]  # type: List[Any]
    start.import_pytest_whole()
    if config.get("disguise"):
        start.disguise()
    if config.get("guard", True):
        origin = parts["origin"].Origin(config["tree"])
        origin.know(sys._getframe(1).f_code)  # this file's own, below each report
        origin.watch_compiler()
        test_files = [os.path.join(os.path.abspath(config["tree"]), name) for name in config.get("test_files", [])]
        guard = parts["guard"].Guard(recorder.emit, origin, test_files)
        guard.take([sys.modules[__name__]] + list(parts.values()))
        guard.watch_calls()
        guard.comparison_methods = parts["comparison_methods"].ComparisonMethods(origin)
        guard.call_monitor = parts["call_monitor"].CallMonitor(origin, guard.say)
        recorder.guard = guard
        plugins += [guard, guard.call_monitor]
    if config.get("canaries", True):
        plugins.append(parts["canaries"].Canaries(recorder, config["tree"]))
    start.open_site(config)
    os.environ.update(config.get("env", {}))
    extra = list(config.get("extra_path", [])) + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[0:0] = [folder for folder in extra if folder and folder not in sys.path]
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: projects that need it find themselves, but shadow nothing
    cache = os.path.join(tempfile.gettempdir(), "pytest-cache-%d" % os.getpid())
    args = ["-o", "cache_dir=" + cache] + list(config["pytest_args"])
    start.stand_in_main(args)
    start.hear_signals()
    leave = os._exit
    status = pytest.main(args, plugins=[start.only_hooks(plugin) for plugin in plugins])
    recorder.end(status)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    leave(int(status))


if __name__ == "__main__":
    main()
