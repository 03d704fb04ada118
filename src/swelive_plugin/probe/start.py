"""How the probe starts pytest: nothing of the graded tree is importable until pytest and the recorder are there.

A part of the probe: it rides beside it, needs pytest and the standard library, and runs on Python 3.6.
"""

import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

__all__ = ["Starter", "hear_signals", "import_pytest_whole", "only_hooks", "open_site", "stand_in_main"]

_KEPT = []  # type: List[Any]


def only_hooks(part: Any) -> Any:
    """Return a plugin with the hooks of ``part`` and nothing else: a list of the plugins leads nowhere."""
    names = [name for name in dir(part) if name.startswith("pytest_")]
    hooks = {name: staticmethod(getattr(part, name)) for name in names}  # type: Dict[str, Any]
    return type("Hooks", (object,), dict(hooks, __slots__=()))()


class Starter(object):
    """Registered beside the recorder: settles options and entry points while pytest starts."""

    def __init__(self, recorder: Any, config: Dict[str, Any]) -> None:
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
                worker_path.append(os.path.dirname(self.config["probe"]))
                name = os.path.splitext(os.path.basename(self.config["probe"]))[0]
                config.option.plugins.append(name)  # one or the other reaches the workers, as xdist's age goes
                object.__setattr__(config.invocation_params, "args", args + ["-p", name])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self) -> Iterator[None]:
        outcome = yield
        excinfo = outcome.excinfo  # type: ignore[attr-defined]
        if excinfo is not None:
            cause = getattr(excinfo[1], "__cause__", None) or excinfo[1]
            self.recorder.broken("conftest: %s: %s" % (type(cause).__name__, str(cause)[:300]))


class _only_installed(object):  # noqa: N801
    """While it holds, entry points come only from what is installed in the site folders, not from the graded tree.

    A ``*.dist-info`` folder in a tree that is on ``sys.path`` is all that it takes to register a plugin. What an
    ``.egg-link`` in a site folder names is installed too (the old way of ``pip install -e``).
    """

    def __init__(self, site_folders: List[str], names: Optional[List[str]]) -> None:
        self.site_folders = site_folders
        self.names = None if names is None else {_normal(name) for name in names}
        module = _metadata_of_pluggy()
        self.module = module  # None: pluggy asks pkg_resources, which looked at sys.path before the tree was on it
        self.real = getattr(module, "distributions", None)
        self.old = None if module is not None else sys.modules.get("pkg_resources")  # type: Any
        self.old_real = getattr(self.old, "iter_entry_points", None)

    def __enter__(self) -> None:
        if self.real is not None:
            self.module.distributions = self._distributions
        if self.old_real is not None:
            self.old.iter_entry_points = self._entry_points

    def __exit__(self, *_exc: object) -> None:
        if self.real is not None:
            self.module.distributions = self.real
        if self.old_real is not None:
            self.old.iter_entry_points = self.old_real

    def _entry_points(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        assert self.old_real is not None
        for entry in self.old_real(*args, **kwargs):
            if self.names is None or _normal(entry.dist.project_name) in self.names:
                yield entry

    def _distributions(self, **_kwargs: Any) -> List[Any]:
        found = self._in(list(self.site_folders))
        for name, folder in _egg_links(self.site_folders):
            found += [dist for dist in self._in([folder]) if _normal(dist.metadata["Name"]) == name]
        if self.names is not None:
            found = [dist for dist in found if _normal(dist.metadata["Name"]) in self.names]
        return found

    def _in(self, folders: List[str]) -> List[Any]:
        """Return what is installed in ``folders``; importlib-metadata before 0.19 looks at sys.path alone."""
        assert self.real is not None
        try:
            return list(self.real(path=folders))
        except TypeError:
            before = sys.path[:]
            sys.path[:] = folders
            try:
                return list(self.real())
            finally:
                sys.path[:] = before


def _normal(name: Optional[str]) -> str:
    return (name or "").lower().replace("_", "-").replace(".", "-")


def _egg_links(site_folders: List[str]) -> Iterator[Tuple[str, str]]:
    for folder in site_folders:
        for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if entry.endswith(".egg-link"):
                with open(os.path.join(folder, entry), encoding="utf-8") as stream:
                    yield _normal(entry[: -len(".egg-link")]), stream.readline().strip()


def import_pytest_whole() -> None:
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
    if _metadata_of_pluggy() is None:
        try:
            importlib.import_module("pkg_resources")
        except ImportError:
            pass


def _metadata_of_pluggy() -> Any:
    """Return the module that this pluggy asks for entry points, ``None`` where that is pkg_resources (before 0.13)."""
    if "pluggy._manager" in sys.modules:  # 1.0
        own = getattr(sys.modules["pluggy._manager"], "importlib_metadata", None)
        if own is not None:
            return own
        import importlib

        return importlib.import_module("importlib.metadata")
    return getattr(sys.modules.get("pluggy.manager"), "importlib_metadata", None)


def disguise() -> None:
    """Keep pytest from telling the code that it is under test: PYTEST_CURRENT_TEST and PYTEST_VERSION stay unset."""
    import _pytest.runner

    if hasattr(_pytest.runner, "_update_current_test_var"):
        setattr(_pytest.runner, "_update_current_test_var", _say_nothing)  # noqa: B010


def _say_nothing(_item: Any, _when: Optional[str]) -> None:
    os.environ.pop("PYTEST_VERSION", None)


def open_site(config: Dict[str, Any]) -> None:
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
    done = [os.path.realpath(folder) for folder in site.getsitepackages()] if hasattr(site, "getsitepackages") else []
    for folder in config["site_folders"]:
        if os.path.realpath(folder) not in done:
            site.addsitedir(folder)  # known to the driver alone: the interpreter did not read its .pth files
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
    for name, value in zip(names, values):
        setattr(ordinary, name, value)
    sys.flags = ordinary  # type: ignore[assignment]


def hear_signals() -> None:
    """Take back what a driver in the background ignores (nohup, ``&``): the ignoring is inherited, and tests notice."""
    import signal

    for name, usual in (
        ("SIGINT", signal.default_int_handler),
        ("SIGHUP", signal.SIG_DFL),
        ("SIGQUIT", signal.SIG_DFL),
    ):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def stand_in_main(args: List[str]) -> None:
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
