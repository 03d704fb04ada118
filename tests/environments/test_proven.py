"""A validated row brings its own recipe and lock: they come before what the repository says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.instance import instance_from_row
from swelive_plugin.environments import Environment
from swelive_plugin.environments.provider import UvProvider
from swelive_plugin.errors import EnvironmentBuildError, NoInterpreter
from swelive_plugin.recipes.recipe import Recipe, recipe_to_toml
from swelive_plugin.sandbox.plain import Plain

RECIPE = Recipe(name="tests", python="3.9", requirements=("attrs",))


def provide(provider: UvProvider, **validation: object) -> Environment:
    row = {"instance_id": "o__p-1", "repo": "o/p", "base_commit": "1" * 40, "validation": validation}
    return provider.provide(instance_from_row(row), mirror=Path("mirror"), sandbox=Plain())


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UvProvider:
    """A provider that says what it would look for, instead of reading a repository."""

    def candidates(*_: Any, **__: Any) -> list[Recipe]:
        raise NoInterpreter("the repository was read")

    made = UvProvider(tmp_path)
    monkeypatch.setattr(made, "candidates", candidates)
    return made


def test_the_recipe_and_lock_of_the_row_are_built(
    provider: UvProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = Environment("key", tmp_path, "python", (3, 9, 0), (), tmp_path, (), recipe=RECIPE, lock_text="attrs==1")
    asked: list[tuple[str, tuple[str, ...], str]] = []

    def build(_: object, recipe: Recipe, *, lock: str, **__: object) -> Environment:
        asked.append((recipe.python, recipe.requirements, lock))
        return built

    monkeypatch.setattr(provider, "build", build)
    assert provide(provider, recipe=recipe_to_toml(RECIPE), lock="attrs==1") is built
    assert asked == [("3.9", ("attrs",), "attrs==1")]


@pytest.mark.parametrize("recipe", [recipe_to_toml(RECIPE), "python = ", "colour = 'red'"])
def test_where_it_does_not_build_here_the_repository_is_read(
    provider: UvProvider, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    def build(*_: object, **__: object) -> Environment:
        raise EnvironmentBuildError("no wheel for this machine")

    monkeypatch.setattr(provider, "build", build)
    with pytest.raises(NoInterpreter, match="the repository was read"):
        provide(provider, recipe=recipe, lock="attrs==1")


def test_a_row_that_was_not_validated_has_none(provider: UvProvider) -> None:
    for told in ({}, {"recipe": recipe_to_toml(RECIPE)}, {"recipe": 3, "lock": "x"}):
        with pytest.raises(NoInterpreter, match="the repository was read"):
            provide(provider, **told)
