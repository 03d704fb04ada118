"""What a person may choose about a grade, in one value."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from swelive_plugin.core.policy import Scope
from swelive_plugin.errors import InfraError, UsageError

__all__ = ["DEFAULT_REPO_URL", "Progress", "Settings", "default_cache", "scratch"]

DEFAULT_REPO_URL = "https://github.com/{repo}.git"

_STALE_S = 86_400

Progress = Callable[[str], None]
ControlsUse = Literal["auto", "off"]
MutateUse = Literal["auto", "always", "off"]

_CHOICES: dict[str, tuple[Any, ...]] = {
    "scope": (*get_args(Scope), None),
    "controls": get_args(ControlsUse),
    "mutate": get_args(MutateUse),
}


def default_cache() -> Path:
    """Return the cache folder: ``$SWELIVE_CACHE_DIR``, else the platform's own place for caches."""
    chosen = os.environ.get("SWELIVE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().resolve()
    import platformdirs  # kept out of a bare import of the package

    return Path(platformdirs.user_cache_dir("swelive"))


def default_repo_url() -> str:
    """Return where repositories are cloned from: ``$SWELIVE_REPO_URL``, else GitHub."""
    return os.environ.get("SWELIVE_REPO_URL") or DEFAULT_REPO_URL


@contextmanager
def scratch(cache: Path) -> Iterator[Path]:
    """Give a folder beside the store (so that trees can share files with it) and take it away again."""
    from swelive_plugin.workspace.checkout import remove_tree

    parent = cache / "work"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        work = Path(tempfile.mkdtemp(dir=parent))
    except OSError as error:
        raise InfraError(
            f"the cache folder {cache} can't be written: {error.strerror or error}",
            hint="give another one with --cache or SWELIVE_CACHE_DIR",
        ) from error
    try:
        yield work
    finally:
        remove_tree(work)


def _sweep(parent: Path) -> None:
    """Take away what killed grades left a day ago or earlier."""
    from swelive_plugin.workspace.checkout import remove_tree

    for folder in parent.iterdir():
        with suppress(OSError, InfraError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                remove_tree(folder)


@dataclass(frozen=True)
class Settings:
    """Options of a grade. Times are seconds, sizes MiB.

    ``controls``: ``auto`` runs the base and gold sessions once per environment and uses them, ``off`` does without.
    ``sandbox``: ``auto`` takes bubblewrap where it runs, else none and says so; ``require_sandbox`` refuses instead.
    ``environment`` names who builds environments: ``uv``, or a plugin's provider.
    ``mutate``: ``auto`` runs the mutation control when a flag was raised or the patch's words give cause to look.
    ``recipes``: a folder of recipes that you decided, ``<instance_id>/recipe.toml``, with an ``environment.lock``
    beside it if the same bytes are wanted: they come before what is found.
    """

    policy: str = "swelive"
    scope: Scope | None = None
    timeout_s: float = 1800.0
    memory_mib: int | None = 8192
    processes: int | None = 512
    controls: ControlsUse = "auto"
    sandbox: str = "auto"
    environment: str = "uv"
    require_sandbox: bool = False
    network: bool = False
    mutate: MutateUse = "auto"
    repo_url: str = field(default_factory=default_repo_url)
    cache: Path = field(default_factory=default_cache)
    offline: bool = False
    recipes: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what no session can be held to: a word that is none of a field's would count as another one.

        Names of policies, sandboxes and environment providers may be a plugin's. ``cache`` may be text.
        Raises `UsageError`.
        """
        for name, allowed in _CHOICES.items():
            if not any(getattr(self, name) == word for word in allowed):
                raise _wrong(self, name, "use " + " or ".join(map(_shown, allowed)))
        for name in ("policy", "sandbox", "environment", "repo_url"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise _wrong(self, name, "give its name as text")
        for name in ("require_sandbox", "network", "offline"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(self, name, "use True or False")
        if not _is_number(self.timeout_s, int, float) or not 0 < self.timeout_s < math.inf:
            raise _wrong(self, "timeout_s", "give a positive number of seconds")
        for name in ("memory_mib", "processes"):
            value = getattr(self, name)
            if value is not None and (not _is_number(value, int) or value <= 0):
                raise _wrong(self, name, "give a positive whole number, or None for no limit")
        cache: object = self.cache
        if not isinstance(cache, str | Path) or cache == "":
            raise _wrong(self, "cache", "give a folder's path")
        object.__setattr__(self, "cache", Path(cache))
        from swelive_plugin.extensions import check_names  # kept out of a bare import of the package

        check_names(self)

    @property
    def key(self) -> str:
        """A short hash of the options that can change a verdict: what a resumed run compares."""
        options = (
            self.policy,
            self.scope,
            self.timeout_s,
            self.memory_mib,
            self.processes,
            self.controls,
            self.sandbox,
            *((self.environment,) if self.environment != "uv" else ()),
            self.require_sandbox,
            self.network,
            self.mutate,
            *((str(self.recipes),) if self.recipes else ()),
        )
        return hashlib.sha256(repr(options).encode()).hexdigest()[:16]


def _wrong(settings: Settings, name: str, hint: str) -> UsageError:
    return UsageError(f"{name} can't be {getattr(settings, name)!r}", hint=hint)


def _shown(word: str | None) -> str:
    return "None" if word is None else repr(word)


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
