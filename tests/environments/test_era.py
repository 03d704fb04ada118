"""Which interpreter and which cut-off a commit's day gives."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from swelive_plugin.recipes.era import cutoff_for, parse_minor, rank_minors, visible_exceptions

HERE = [(3, minor) for minor in range(6, 14)]


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def best(date: str, **more: object) -> tuple[int, int]:
    return rank_minors(day(date), HERE, **more)[0][0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("date", "minor"),
    [
        ("2018-03-28", (3, 6)),
        ("2019-05-15", (3, 6)),
        ("2020-07-01", (3, 7)),
        ("2022-06-01", (3, 9)),
        ("2024-10-18", (3, 11)),
        ("2025-06-01", (3, 12)),
    ],
)
def test_the_newest_settled_release_of_the_day_is_taken(date: str, minor: tuple[int, int]) -> None:
    assert best(date) == minor


def test_a_commit_older_than_every_interpreter_gets_the_nearest_one() -> None:
    ranked = rank_minors(day("2013-01-25"), HERE)
    assert [minor for minor, _ in ranked[:2]] == [(3, 6), (3, 7)]
    assert "younger than the commit" in ranked[0][1]


def test_requires_python_is_kept_and_a_broken_one_allows_everything() -> None:
    assert best("2024-10-18", requires=">=3.9,<3.11") == (3, 10)
    assert best("2024-10-18", requires="~=3.8.0") == (3, 8)
    assert best("2024-10-18", requires="three or so") == (3, 11)
    assert rank_minors(day("2024-10-18"), HERE, requires="<3.6") == []


def test_what_the_project_tested_comes_before_what_is_newer() -> None:
    assert best("2024-10-18", tested=[(3, 8), (3, 9)]) == (3, 9)
    assert best("2024-10-18", tested=[(2, 7)]) == (3, 11)  # nothing of it is here: it can't decide


def test_a_release_that_was_not_settled_comes_after_one_that_was() -> None:
    order = [minor for minor, _ in rank_minors(day("2024-10-18"), HERE)]
    assert order.index((3, 11)) < order.index((3, 12)) < order.index((3, 7))  # 3.7 was out of support


def test_the_cutoff_is_the_commits_date_in_utc() -> None:
    said = datetime.fromisoformat("2024-10-18T23:38:38-07:00")
    assert cutoff_for(said, (3, 11)) == datetime(2024, 10, 19, 6, 38, 38, tzinfo=timezone.utc)


def test_the_cutoff_is_late_enough_for_the_interpreter_and_for_the_probe() -> None:
    assert cutoff_for(day("2013-01-25"), (3, 6)) == day("2018-07-01")  # pytest 3.6 was out
    assert cutoff_for(day("2018-07-20"), (3, 8)) > day("2021-01-01")


def test_packages_that_the_date_hides_get_their_own_date() -> None:
    assert visible_exceptions(day("2019-01-01"))["atomicwrites"] == "2022-07-10T00:00:00Z"
    assert visible_exceptions(day("2024-01-01")) == {}


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("3.11", (3, 11)),
        ("3.11.4", (3, 11)),
        ("py39", (3, 9)),
        ("python3.8", (3, 8)),
        ("3.12-dev", (3, 12)),
        ("pypy3", None),
        ("2.7", None),
        ("", None),
    ],
)
def test_versions_as_people_write_them(text: str, minor: tuple[int, int] | None) -> None:
    assert parse_minor(text) == minor
