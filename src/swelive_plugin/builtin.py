"""The built-in readers, sandboxes, environments, executors and policies, registered as any other plugin's would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

from swelive_plugin.hookspecs import hookimpl

if TYPE_CHECKING:
    from swelive_plugin.core.policy import Policy
    from swelive_plugin.environments import EnvironmentProvider
    from swelive_plugin.grading.settings import Settings
    from swelive_plugin.readers import Reader
    from swelive_plugin.sandbox import Sandbox


@hookimpl
def swelive_log_readers() -> Sequence[Reader]:
    """Return the readers that ship with the package."""
    from swelive_plugin.readers import built_in_readers

    return built_in_readers()


@hookimpl
def swelive_sandboxes(require: bool) -> Mapping[str, Callable[[], Sandbox]]:
    """Return ``auto``, ``bwrap`` and ``none``."""

    def one(name: Literal["auto", "bwrap", "none"]) -> Callable[[], Sandbox]:
        def sandbox() -> Sandbox:
            from swelive_plugin.sandbox.find import find_sandbox

            return find_sandbox(name, require=require)

        return sandbox

    return {"auto": one("auto"), "bwrap": one("bwrap"), "none": one("none")}


@hookimpl
def swelive_environments(settings: Settings) -> Mapping[str, Callable[[], EnvironmentProvider]]:
    """Return ``uv``: environments of the commit's day."""

    def uv() -> EnvironmentProvider:
        from swelive_plugin.environments.provider import UvProvider

        return UvProvider(settings.cache, recipes=settings.recipes)

    return {"uv": uv}


@hookimpl
def swelive_executors(workers: int) -> Mapping[str, Callable[[], Executor]]:
    """Return ``threads``: grades wait for subprocesses, so threads are enough."""
    return {"threads": lambda: ThreadPoolExecutor(workers, thread_name_prefix="grade")}


@hookimpl
def swelive_policies() -> Sequence[Policy]:
    """Return the default policy and those that reproduce upstream graders."""
    from swelive_plugin.core.policies import UPSTREAM
    from swelive_plugin.core.policy import SWELIVE

    return [SWELIVE, *UPSTREAM]
