"""The seams for others, as pluggy hooks (entry-point group ``swelive``).

A plugin is any module or object with functions of these names marked by `hookimpl`. The built-in readers, sandboxes,
environments, executors and policies register in the same way (`swelive_plugin.builtin`). A plugin's wins over a
built-in one of the same name; two plugins can't have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from swelive_plugin.core.policy import Policy
    from swelive_plugin.environments import EnvironmentProvider
    from swelive_plugin.grading.settings import Settings
    from swelive_plugin.readers import Reader
    from swelive_plugin.sandbox import Sandbox

__all__ = ["hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("swelive")
hookimpl = pluggy.HookimplMarker("swelive")


@hookspec
def swelive_log_readers() -> Sequence[Reader]:  # type: ignore[empty-body]  # a specification has no body
    """Return readers of finished runs, see `swelive_plugin.readers.Reader`."""


@hookspec
def swelive_sandboxes(require: bool) -> Mapping[str, Callable[[], Sandbox]]:  # type: ignore[empty-body]
    """Return sandboxes by name, each as a function that makes one or raises `SandboxError`."""


@hookspec
def swelive_environments(settings: Settings) -> Mapping[str, Callable[[], EnvironmentProvider]]:  # type: ignore[empty-body]
    """Return providers of environments by name, each as a function that makes one; ``uv`` is built in."""


@hookspec
def swelive_executors(workers: int) -> Mapping[str, Callable[[], Executor]]:  # type: ignore[empty-body]
    """Return executors by name, each as a function that makes a `concurrent.futures.Executor`."""


@hookspec
def swelive_policies() -> Sequence[Policy]:  # type: ignore[empty-body]
    """Return scoring policies, see `swelive_plugin.core.policy.Policy`."""
