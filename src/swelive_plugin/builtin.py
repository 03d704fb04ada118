"""The built-in readers, sandboxes, environments, executors and policies, registered as any other plugin's would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING

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
    from swelive_plugin.sandbox.find import find_sandbox

    return {
        "auto": lambda: find_sandbox("auto", require=require),
        "bwrap": lambda: find_sandbox("bwrap", require=require),
        "none": lambda: find_sandbox("none", require=require),
    }


@hookimpl
def swelive_environments(settings: Settings) -> Mapping[str, EnvironmentProvider]:
    """Return ``uv``: environments of the commit's day."""
    from swelive_plugin.environments.provider import UvProvider

    return {"uv": UvProvider(settings.cache, recipes=settings.recipes)}


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
