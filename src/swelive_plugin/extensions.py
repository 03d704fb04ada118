"""The one plugin manager: built-in and foreign readers, sandboxes, environments, executors and policies by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from swelive_plugin import hookspecs
from swelive_plugin.core.policy import Policy
from swelive_plugin.errors import SweliveError, UsageError

if TYPE_CHECKING:
    from swelive_plugin.environments import EnvironmentProvider
    from swelive_plugin.grading.settings import Settings
    from swelive_plugin.readers import Reader
    from swelive_plugin.sandbox import Sandbox

__all__ = [
    "check_names",
    "environment_provider",
    "executor_named",
    "log_readers",
    "plugin_manager",
    "policies",
    "policy_named",
    "sandbox_named",
]

T = TypeVar("T")
_BUILT_IN = "swelive-builtin"


@cache
def plugin_manager() -> pluggy.PluginManager:
    """Return the process's plugin manager, with the built-in plugin and those of the ``swelive`` entry-point group.

    Raises `UsageError` for a plugin that can't be loaded: it names the plugin and the package that brought it.
    """
    from swelive_plugin import builtin

    manager = pluggy.PluginManager("swelive")
    manager.add_hookspecs(hookspecs)
    manager.register(builtin, _BUILT_IN)
    loaded: dict[str, str] = {}
    for distribution in metadata.distributions():
        for entry in distribution.entry_points:
            if entry.group != "swelive" or loaded.get(entry.name) == entry.value:  # a package may be found twice
                continue
            package = str(distribution.metadata["Name"])
            if entry.name in loaded:
                raise _broken(entry.name, f"{package} brings a second plugin of that name", package)
            loaded[entry.name] = entry.value
            try:
                manager.register(entry.load(), entry.name)
                manager.check_pending()
            except Exception as error:  # whatever a foreign module raises
                raise _broken(entry.name, f"it can't be loaded: {_one_line(error)}", package) from error
    return manager


def _broken(plugin: str, why: str, package: str = "") -> UsageError:
    hint = f"mend or uninstall the package {package}" if package else "mend or uninstall the plugin"
    return UsageError(f"plugin {plugin!r}: {why}", hint=hint)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def _each(hook: str, **arguments: object) -> Iterator[tuple[str, Any]]:
    """Yield (plugin, what its hook returned) of each plugin that has the hook, the last registered first.

    Raises `UsageError` where a hook raises; errors of our own tree pass.
    """
    manager = plugin_manager()
    for plugin in reversed(getattr(manager.hook, hook).get_hookimpls()):
        try:
            result = plugin.function(*(arguments[name] for name in plugin.argnames))
        except SweliveError:
            raise
        except Exception as error:  # whatever a foreign hook raises
            raise _broken(plugin.plugin_name, f"its {hook} raised {_one_line(error)}") from error
        if result is not None:
            yield plugin.plugin_name, result


def _in_list(hook: str, expected: str, is_one: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yield (plugin, item) of the lists that a hook's implementations return; all else is refused."""
    for plugin, items in _each(hook):
        if not isinstance(items, (list, tuple)):
            raise _broken(plugin, f"its {hook} returned {type(items).__name__}, not a list of {expected}")
        for item in items:
            if not is_one(item):
                raise _broken(plugin, f"its {hook} returned {item!r:.80}, which is not one of {expected}")
            yield plugin, item


def _in_mappings(hook: str, **arguments: object) -> Iterator[tuple[str, str, Any]]:
    """Yield (plugin, name, value) of the mappings that a hook's implementations return; all else is refused."""
    for plugin, found in _each(hook, **arguments):
        if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
            raise _broken(plugin, f"its {hook} returned {type(found).__name__}, not a mapping by name")
        for name, value in found.items():
            yield plugin, name, value


def _first_of_each(kind: str, found: Iterable[tuple[str, str, T]]) -> dict[str, T]:
    """Return values by name. A plugin's wins over the built-in one; two plugins can't have the same."""
    owners: dict[str, str] = {}
    values: dict[str, T] = {}
    for plugin, name, value in found:
        owner = owners.setdefault(name, plugin)
        if name not in values:
            values[name] = value
        elif plugin != _BUILT_IN or owner == _BUILT_IN:
            both = f"{owner!r} has one too" if owner != plugin else "it has two"
            raise _broken(plugin, f"the {kind} {name!r}: {both}")
    return values


def check_names(settings: Settings) -> None:
    """Raise `UsageError` where the settings name a policy, sandbox or environment provider that is not there."""
    policy_named(settings.policy)
    _named("sandbox", _sandboxes(require=settings.require_sandbox), settings.sandbox)
    _named("environment provider", _providers(settings), settings.environment)


def _named(kind: str, values: Mapping[str, T], name: str) -> T:
    if name in values:
        return values[name]
    near = difflib.get_close_matches(name, values, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(values))}"
    raise UsageError(f"no {kind} is called {name!r}", hint=hint)


def policies() -> dict[str, Policy]:
    """Return every scoring policy by name."""
    found = _in_list("swelive_policies", "policies", lambda item: isinstance(item, Policy))
    return _first_of_each("policy", ((plugin, policy.name, policy) for plugin, policy in found))


def policy_named(name: str) -> Policy:
    """Return the policy of that name. Raises `UsageError` with the nearest names."""
    return _named("policy", policies(), name)


def log_readers() -> list[Reader]:
    """Return every reader of finished runs, foreign ones first."""
    found = _in_list("swelive_log_readers", "readers (objects with name, recognises and read)", _is_reader)
    return list(_first_of_each("reader", ((plugin, reader.name, reader) for plugin, reader in found)).values())


def _is_reader(item: object) -> bool:
    named = isinstance(getattr(item, "name", None), str) and not isinstance(item, type)
    return named and callable(getattr(item, "recognises", None)) and callable(getattr(item, "read", None))


def _sandboxes(*, require: bool) -> dict[str, Callable[[], Sandbox]]:
    return _first_of_each("sandbox", _in_mappings("swelive_sandboxes", require=require))


def sandbox_named(name: str, *, require: bool = False) -> Sandbox:
    """Return the sandbox of that name, ready to run.

    Raises `UsageError` for an unknown name, `SandboxError` where it can't run here, or where ``require`` is set and it
    hides nothing.
    """
    return _named("sandbox", _sandboxes(require=require), name)()


def environment_provider(settings: Settings) -> EnvironmentProvider:
    """Return the provider of environments that the settings name. Raises `UsageError` for an unknown name."""
    return _named("environment provider", _providers(settings), settings.environment)()


def _providers(settings: Settings) -> dict[str, Callable[[], EnvironmentProvider]]:
    return _first_of_each("environment provider", _in_mappings("swelive_environments", settings=settings))


def executor_named(name: str, workers: int) -> Executor:
    """Return a new executor with so many workers; the caller shuts it down."""
    found: dict[str, Callable[[], Executor]] = _first_of_each(
        "executor", _in_mappings("swelive_executors", workers=workers)
    )
    return _named("executor", found, name)()
