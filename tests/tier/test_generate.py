"""Which instances a tier gets: drawn in order, proven, replaced when they drop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from swelive_plugin.core.instance import Instance, instance_from_row
from swelive_plugin.errors import UsageError
from swelive_plugin.grading.settings import Settings
from swelive_plugin.tier import generate as module
from swelive_plugin.tier.generate import Selection, generate
from swelive_plugin.tier.layout import read_tier, write_task
from swelive_plugin.validation.derive import Derived, DropReason
from swelive_plugin.validation.validate import Options, Validation
from tests.host import Project


def instance(repo: str, number: int, **more: object) -> Instance:
    row = {
        "instance_id": f"{repo.replace('/', '__')}-{number}",
        "repo": repo,
        "base_commit": f"{number:040x}",
        "patch": f"patch {number}",
        "test_patch": "tests",
        "problem_statement": "It is broken.",
        **more,
    }
    return instance_from_row(row)


@pytest.fixture
def drops(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let validation drop these ids and keep all others; return the list that tells who was asked for, in order."""

    def install(*ids: str) -> list[str]:
        asked: list[str] = []

        def validate_all(instances: Sequence[Instance], *_: object, **more: object) -> list[Validation]:
            asked.extend(one.instance_id for one in instances if one.instance_id not in asked)
            return [
                Validation(one.instance_id, "k", reason=DropReason.NO_FAIL_TO_PASS, message="nothing turns")
                if one.instance_id in ids
                else Validation(one.instance_id, "k", lists=Derived(("t.py::a",), ("t.py::b",)))
                for one in instances
            ]

        monkeypatch.setattr(module, "validate_all", validate_all)
        return asked

    return install


def ids(out: Path) -> list[str]:
    return [task.id for task in read_tier(out).tasks]


def test_further_candidates_are_drawn_for_those_that_drop(
    drops: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    asked = drops("a__x-1", "a__x-3")
    some = [instance("a/x", number) for number in range(1, 8)]
    made = generate(some, settings, Selection(limit=3, per_repo=None), out=tmp_path / "tier")
    assert ids(tmp_path / "tier") == ["a__x-2", "a__x-4", "a__x-5"]
    assert asked == [f"a__x-{number}" for number in range(1, 6)]
    assert set(made.left_out) == {"a__x-1", "a__x-3"}
    key = made.tier.tasks[0].instance()
    assert (key.fail_to_pass, key.pass_to_pass) == (("t.py::a",), ("t.py::b",))


def test_no_repository_gets_more_than_its_share_and_drops_give_it_back(
    drops: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    drops("a__x-2")
    some = [*(instance("a/x", number) for number in range(1, 6)), instance("b/y", 8), instance("b/y", 9)]
    generate(some, settings, Selection(limit=10, per_repo=3), out=tmp_path / "tier")
    assert ids(tmp_path / "tier") == ["a__x-1", "a__x-3", "b__y-8", "b__y-9", "a__x-4"]


def test_repositories_are_chosen_by_full_name_or_name(
    drops: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    drops()
    some = [instance("a/x", 1), instance("b/y", 2), instance("c/z", 3)]
    generate(some, settings, Selection(repos=("a/x", "z")), out=tmp_path / "tier")
    assert ids(tmp_path / "tier") == ["a__x-1", "c__z-3"]
    with pytest.raises(UsageError, match="no instance is of q"):
        generate(some, settings, Selection(repos=("q",)), out=tmp_path / "other")


def test_a_row_without_a_statement_asks_for_nothing(
    drops: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    drops()
    some = [instance("a/x", 1, problem_statement=" "), instance("a/x", 2)]
    made = generate(some, settings, Selection(limit=1), out=tmp_path / "tier")
    assert ids(tmp_path / "tier") == ["a__x-2"]
    assert made.left_out["a__x-1"].startswith("no_statement")


def test_rows_that_are_proven_already_are_taken_as_they_are(
    drops: Callable[..., list[str]], settings: Settings, tmp_path: Path
) -> None:
    asked = drops("a__x-1")
    proven = instance("a/x", 1, FAIL_TO_PASS=["t.py::q"], validation={"python": "3.9.1", "recipe": "python = '3.9'"})
    made = generate([proven], settings, out=tmp_path / "tier")
    assert asked == []
    assert made.tier.tasks[0].python == "3.9.1"
    assert (made.tier.tasks[0].oracle / "recipe.toml").read_text() == "python = '3.9'"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("15 min - 1 hour", "15 min - 1 hour"),
        ({"files": 1, "hunks": 2, "lines": 9}, "1 file"),
        ({"files": 3}, "2 to 3 files"),
        ({"files": 12}, "4 files or more"),
        ({"hunks": 2}, ""),
        (None, ""),
    ],
)
def test_the_difficulty_is_what_the_row_says(settings: Settings, tmp_path: Path, value: object, told: str) -> None:
    one = instance("a/x", 1, FAIL_TO_PASS=["t.py::q"], difficulty=value)
    made = generate([one], settings, out=tmp_path / "tier", prove=False)
    assert made.tier.tasks[0].difficulty == told


def test_without_proof_rows_need_their_lists(settings: Settings, tmp_path: Path) -> None:
    some = [instance("a/x", 1), instance("a/x", 2, FAIL_TO_PASS='["t.py::q"]')]
    made = generate(some, settings, out=tmp_path / "tier", prove=False)
    assert [task.id for task in made.tier.tasks] == ["a__x-2"]
    assert made.left_out["a__x-1"].startswith("no_fail_to_pass")


def test_a_tier_that_was_begun_goes_on_and_another_is_refused(
    drops: Callable[..., list[str]], settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drops()
    out, some = tmp_path / "tier", [instance("a/x", number) for number in (1, 2)]
    real = write_task
    written: list[object] = []

    def write_one_then_die(*args: object, **more: object) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(args)
        real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "write_task", write_one_then_die)
    with pytest.raises(KeyboardInterrupt):
        generate(some, settings, out=out)
    with pytest.raises(UsageError, match="not finished"):
        read_tier(out)
    monkeypatch.setattr(module, "write_task", real)
    generate(some, settings, out=out)
    generate(some, settings, out=tmp_path / "whole")
    assert files(out) == files(tmp_path / "whole")
    with pytest.raises(UsageError, match="holds another tier"):
        generate([replace(some[0], patch="other")], settings, out=out)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_tier_is_proven_end_to_end(project: Project, settings: Settings, tmp_path: Path) -> None:
    """Nothing is faked here: the row loses its lists, and the tier's answer key has them again."""
    row = {key: value for key, value in project.instance.row.items() if not key.endswith("_TO_PASS")}
    once = Options(gold_runs=1, base_runs=1)
    made = generate([instance_from_row(row)], settings, out=tmp_path / "tier", options=once)
    assert made.tier.tasks[0].instance().fail_to_pass == project.instance.fail_to_pass
    assert (tmp_path / "tier" / "oracle" / ".validation" / "validated.jsonl").exists()
