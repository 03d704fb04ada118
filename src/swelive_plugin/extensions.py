"""The one plugin manager: built-in and foreign readers, sandboxes, environments, executors and policies by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import pluggy

from swelive_plugin import hookspecs
from swelive_plugin.core.policy import Policy
from swelive_plugin.errors import UsageError

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


@cache
def plugin_manager() -> pluggy.PluginManager:
    """Return the process's plugin manager, with the built-in plugin and those of the ``swelive`` entry-point group."""
    from swelive_plugin import builtin

    manager = pluggy.PluginManager("swelive")
    manager.add_hookspecs(hookspecs)
    manager.register(builtin, "swelive-builtin")
    manager.load_setuptools_entrypoints("swelive")
    return manager


def check_names(settings: Settings) -> None:
    """Raise `UsageError` where the settings name a policy, sandbox or environment provider that is not there."""
    hook = plugin_manager().hook
    policy_named(settings.policy)
    _by_name("sandbox", hook.swelive_sandboxes(require=settings.require_sandbox), settings.sandbox)
    environment_provider(settings)


def _by_name(kind: str, found: Iterable[Mapping[str, T]], name: str) -> T:
    # pluggy calls the last registered first, so the built-in ones come last and must not win
    merged: dict[str, T] = {}
    for mapping in found:
        for key, value in mapping.items():
            merged.setdefault(key, value)
    if name in merged:
        return merged[name]
    near = difflib.get_close_matches(name, merged, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(merged))}"
    raise UsageError(f"no {kind} is called {name!r}", hint=meant)


def policies() -> dict[str, Policy]:
    """Return every scoring policy by name."""
    found: dict[str, Policy] = {}
    for group in plugin_manager().hook.swelive_policies():
        for policy in group:
            found.setdefault(policy.name, policy)
    return found


def policy_named(name: str) -> Policy:
    """Return the policy of that name. Raises `UsageError` with the nearest names."""
    return _by_name("policy", [policies()], name)


def log_readers() -> list[Reader]:
    """Return every reader of finished runs, foreign ones first."""
    return [reader for group in plugin_manager().hook.swelive_log_readers() for reader in group]


def sandbox_named(name: str, *, require: bool = False) -> Sandbox:
    """Return the sandbox of that name, ready to run.

    Raises `UsageError` for an unknown name, `SandboxError` where it can't run here, or where ``require`` is set and it
    hides nothing.
    """
    factories: list[Mapping[str, Callable[[], Sandbox]]] = plugin_manager().hook.swelive_sandboxes(require=require)
    return _by_name("sandbox", factories, name)()


def environment_provider(settings: Settings) -> EnvironmentProvider:
    """Return the provider of environments that the settings name. Raises `UsageError` for an unknown name."""
    found: list[Mapping[str, EnvironmentProvider]] = plugin_manager().hook.swelive_environments(settings=settings)
    return _by_name("environment provider", found, settings.environment)


def executor_named(name: str, workers: int) -> Executor:
    """Return a new executor with so many workers; the caller shuts it down."""
    found: list[Mapping[str, Callable[[], Executor]]] = plugin_manager().hook.swelive_executors(workers=workers)
    return _by_name("executor", found, name)()
