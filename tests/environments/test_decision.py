"""What was decided for a commit: kept where controls held, searched again where another version could not prove it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swelive_plugin.core.instance import Instance, instance_from_row
from swelive_plugin.environments import Environment, Trial
from swelive_plugin.environments.provider import UvProvider
from swelive_plugin.environments.search import SEARCHED_BY
from swelive_plugin.environments.store import Choice, Store
from swelive_plugin.errors import EnvironmentBuildError
from swelive_plugin.recipes.recipe import Recipe
from swelive_plugin.sandbox.plain import Plain

INSTANCE = instance_from_row({"instance_id": "o__p-1", "repo": "o/p", "base_commit": "1" * 40})
OLD, NEW = Recipe(name="old", python="3.9"), Recipe(name="new", python="3.10")


ASKS = "EOFError: EOF when reading a line"


class Provider(UvProvider):
    """Reads no repository and builds nothing; ``tried`` are the recipes whose controls were run."""

    def __init__(self, cache: Path) -> None:
        super().__init__(cache)
        self.store.open()
        self.holds: set[str] = set()
        self.needs_lock = False
        self.tried: list[str] = []

    def candidates(self, instance: Instance, *, mirror: Path) -> list[Recipe]:
        return [NEW]

    def build(self, instance: Instance, recipe: Recipe, *, lock: str = "", **_: Any) -> Environment:
        if self.needs_lock and not lock:
            raise EnvironmentBuildError("it does not build", evidence=ASKS)
        return self.made(recipe)

    def made(self, recipe: Recipe) -> Environment:
        return Environment(f"key-{recipe.name}", self.store.root, "python", (3, 9, 0), (), self.store.root, (),
                           recipe=recipe, lock_text="lock")  # fmt: skip

    def _load(self, key: str, sandbox: object) -> Environment | None:
        return self.made({"key-old": OLD, "key-new": NEW}[key]) if key else None

    def check(self, environment: Environment) -> Trial:
        self.tried.append(environment.recipe.name)
        return Trial(environment.recipe.name in self.holds)

    def decide(self, *, proven: bool, searched_by: str) -> None:
        self.choose(INSTANCE, self.made(OLD), Plain(), proven=proven, searched_by=searched_by)

    def grade(self, *, controls: bool = True, offline: bool = False) -> str:
        made = self.provide(
            INSTANCE, mirror=Path("mirror"), sandbox=Plain(), offline=offline, check=self.check if controls else None
        )
        return made.recipe.name


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    return Provider(tmp_path)


def standing(provider: Provider) -> str:
    choice = provider.store.chosen("o/p", "1" * 40, "host")
    assert choice is not None
    return choice.standing


def test_unproven_decision_of_another_version_is_searched_again(provider: Provider) -> None:
    """A recipe whose controls did not hold was kept for ever, whatever later versions could find."""
    provider.decide(proven=False, searched_by="0.0.1/1")
    provider.holds = {"new"}
    assert standing(provider) == "the controls of no recipe held"
    assert provider.grade() == "new"
    assert provider.tried == ["old", "new"]
    assert standing(provider) == "the controls held"
    assert provider.grade() == "new"
    assert provider.tried == ["old", "new"]


def test_unproven_decision_of_this_version_is_kept(provider: Provider) -> None:
    provider.decide(proven=False, searched_by=SEARCHED_BY)
    assert provider.grade() == "old"
    assert provider.tried == []


def test_proven_decision_of_another_version_is_kept(provider: Provider) -> None:
    provider.decide(proven=True, searched_by="0.0.1/1")
    assert provider.grade() == "old"
    assert provider.tried == []


def test_search_that_proves_nothing_either_is_not_made_twice(provider: Provider) -> None:
    provider.decide(proven=False, searched_by="0.0.1/1")
    assert provider.grade() == "old"
    assert provider.grade() == "old"
    assert provider.tried == ["old", "new"]


def test_decision_without_controls_is_searched_by_the_first_grade_with_them(provider: Provider) -> None:
    assert provider.grade(controls=False) == "new"
    assert standing(provider) == "no controls were run yet"
    assert provider.tried == []
    provider.holds = {"new"}
    assert provider.grade() == "new"
    assert provider.tried == ["new"]


@pytest.mark.parametrize("how", [{"controls": False}, {"offline": True}])
def test_without_controls_or_network_nothing_is_searched(provider: Provider, how: dict[str, bool]) -> None:
    provider.decide(proven=False, searched_by="0.0.1/1")
    assert provider.grade(**how) == "old"
    assert provider.tried == []


def test_kept_recipe_and_lock_serve_where_the_new_search_builds_nothing(provider: Provider) -> None:
    provider.decide(proven=False, searched_by="0.0.1/1")
    provider.needs_lock = True
    assert provider.grade() == "old"
    assert provider.tried == []


@pytest.mark.parametrize(
    ("outcomes", "proven"),
    [(["not built", "does not hold"], False), (["does not hold", "holds"], True), (["built"], False), (None, True)],
)
def test_decision_older_than_its_file_is_judged_by_its_attempts(
    tmp_path: Path, outcomes: list[str] | None, proven: bool
) -> None:
    store = Store(tmp_path)
    store.choose("o/p", "1" * 40, "host", Choice(OLD, "lock", "key"))
    folder = store.choice_folder("o/p", "1" * 40, "host")
    (folder / "decision.json").unlink()
    if outcomes is not None:
        (folder / "attempts.json").write_text(json.dumps([{"outcome": outcome} for outcome in outcomes]))
    assert store.chosen("o/p", "1" * 40, "host") == Choice(OLD, "lock", "key", proven)


def test_what_was_said_of_another_key_says_nothing_of_this_one(tmp_path: Path) -> None:
    """A kill between two files must not make an unproven decision a proven one."""
    store = Store(tmp_path)
    store.choose("o/p", "1" * 40, "host", Choice(OLD, "lock", "key", True, SEARCHED_BY))
    assert store.chosen("o/p", "1" * 40, "host") == Choice(OLD, "lock", "key", True, SEARCHED_BY)
    (store.choice_folder("o/p", "1" * 40, "host") / "key").write_text("other")
    assert store.chosen("o/p", "1" * 40, "host") == Choice(OLD, "lock", "other")


def test_forgetting_a_decision_leaves_those_of_other_commits(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for commit in ("1" * 40, "2" * 40):
        for layout in ("host", "fixed"):
            store.choose("o/p", commit, layout, Choice(OLD, "lock", "key"))
    store.forget("o/p", "1" * 40)
    left = [store.chosen("o/p", commit, layout) is not None for commit in ("1" * 40, "2" * 40)
            for layout in ("host", "fixed")]  # fmt: skip
    assert left == [False, False, True, True]


def test_search_that_builds_nothing_says_what_to_do(provider: Provider) -> None:
    """The hint of a failed build was lost on the way through the search."""
    provider.needs_lock = True
    with pytest.raises(EnvironmentBuildError, match="it does not build") as caught:
        provider.grade()
    assert "asks for input" in caught.value.hint
