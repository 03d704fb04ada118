"""A language model's advice on a recipe whose controls do not hold: optional, bounded, and never believed unchecked.

Behind any OpenAI-compatible endpoint. The model sees the recipe and the end of what pytest printed, and may propose
edits of a closed kind; whatever it proposes is built and judged by the controls like any other candidate.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from swelive_plugin.recipes.era import parse_minor
from swelive_plugin.recipes.recipe import Recipe, recipe_to_toml
from swelive_plugin.recipes.requirements import merged, name_of

__all__ = ["Advisor", "advisor_from_environment"]

_TASK = """You repair the environment in which a Python project's tests run. The recipe below was built; then the tests
printed the log below. Answer with one JSON object and nothing else. Its keys, all optional:
"add": PEP 508 requirements to install, "remove": names to leave out, "constraints": PEP 508 constraints,
"extras": the project's extras to install, "python": a version like "3.9", "env": variables for the tests,
"needs_git": true if the tests need a .git, "why": one sentence. An empty object means that no edit can help."""
_LOG_CHARACTERS = 6000
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_NEVER = frozenset(
    {"PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
)


class Advisor:
    """Asks ``model`` at ``url`` (the part before ``/chat/completions``) at most ``max_calls`` times.

    ``calls``, ``tokens_in`` and ``tokens_out`` tell what was spent; ``say`` is told after each call.
    """

    def __init__(
        self, url: str, model: str, *, key: str = "", max_calls: int = 3, timeout_s: float = 120.0,
        say: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.url, self.model = url.rstrip("/"), model
        self.max_calls, self.timeout_s = max_calls, timeout_s
        self.calls = self.tokens_in = self.tokens_out = 0
        self._key = key
        self._say = say or (lambda _: None)

    def __call__(self, recipe: Recipe, output: str) -> Recipe | None:
        """Return the recipe as the model would have it, or ``None`` where it has no advice that can be read."""
        if self.calls >= self.max_calls:
            return None
        self.calls += 1
        try:
            answer = self._ask(f"# recipe.toml\n{recipe_to_toml(recipe)}\n# log\n{output[-_LOG_CHARACTERS:]}")
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            self._say(f"{self.model} gave no advice: {type(error).__name__}: {error}")
            return None
        spent = f"{self.tokens_in} tokens in, {self.tokens_out} out, call {self.calls} of {self.max_calls}"
        better = edited(recipe, answer, by=self.model)
        self._say(f"{self.model} {'proposes: ' + better.reasons[-1] if better else 'has no advice'} ({spent})")
        return better

    def _ask(self, text: str) -> Mapping[str, Any]:
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": _TASK}, {"role": "user", "content": text}],
        }
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url} is no http address")
        request = urllib.request.Request(  # noqa: S310  checked above
            f"{self.url}/chat/completions", data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:  # noqa: S310
            said = json.loads(reply.read(1 << 20))
        usage = said.get("usage") or {}
        self.tokens_in += int(usage.get("prompt_tokens") or 0)
        self.tokens_out += int(usage.get("completion_tokens") or 0)
        content = str(said["choices"][0]["message"]["content"])
        found = re.search(r"\{.*\}", content, re.DOTALL)
        answer = json.loads(found.group()) if found else {}
        return answer if isinstance(answer, dict) else {}


def edited(recipe: Recipe, answer: Mapping[str, Any], *, by: str) -> Recipe | None:
    """Return the recipe with the edits of ``answer`` that are of the allowed kind; ``None`` if nothing changes."""
    added, removed = _requirements(answer.get("add")), {name_of(line) for line in _requirements(answer.get("remove"))}
    lines = [line for line in recipe.requirements if name_of(line) not in removed | {name_of(one) for one in added}]
    python = answer.get("python")
    env = {
        name: str(value)
        for name, value in (answer.get("env") or {}).items()
        if isinstance(name, str) and _VARIABLE.fullmatch(name) and name not in _NEVER
    } if isinstance(answer.get("env"), dict) else {}  # fmt: skip
    extras = [name for name in _strings(answer.get("extras")) if re.fullmatch(r"[\w.-]+", name)]
    better = replace(
        recipe,
        requirements=merged([*lines, *added], without=[recipe.project]),
        constraints=merged([*recipe.constraints, *_requirements(answer.get("constraints"))]),
        extras=tuple(dict.fromkeys(extras)) or recipe.extras,
        python=python if isinstance(python, str) and parse_minor(python) else recipe.python,
        env={**recipe.env, **env},
        needs_git=recipe.needs_git or answer.get("needs_git") is True,
    )
    if better == recipe:
        return None
    why = " ".join(str(answer.get("why") or "no reason given").split())[:200]
    return replace(better, name="advised", reasons=(*recipe.reasons, f"{by}: {why}"))


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _requirements(value: Any) -> list[str]:
    found = []
    for item in _strings(value):
        try:
            parsed = Requirement(item)
        except InvalidRequirement:
            continue
        if parsed.url is None:  # only what the registry has, as of the cut-off
            found.append(str(parsed))
    return found


def advisor_from_environment(
    environ: Mapping[str, str] | None = None, *, say: Callable[[str], None] | None = None
) -> Advisor | None:
    """Return the advisor that ``SWELIVE_ADVISOR_URL``, ``_MODEL``, ``_KEY`` and ``_CALLS`` describe, if they do."""
    env = os.environ if environ is None else environ
    url, model = env.get("SWELIVE_ADVISOR_URL", ""), env.get("SWELIVE_ADVISOR_MODEL", "")
    if not url or not model:
        return None
    calls = env.get("SWELIVE_ADVISOR_CALLS", "")
    return Advisor(
        url, model, key=env.get("SWELIVE_ADVISOR_KEY", ""), max_calls=int(calls) if calls.isdigit() else 3, say=say
    )
