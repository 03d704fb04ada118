"""Interval, pass@k and McNemar's test against published values and laws."""

from __future__ import annotations

from itertools import combinations

import pytest

from swelive_plugin.core.statistics import mcnemar_exact, pass_at_k, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3 (score without continuity correction)
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    assert list(wilson_interval(successes, trials)) == pytest.approx([low, high], abs=5e-5)


def test_the_interval_is_symmetric_and_holds_its_rate() -> None:
    for trials in range(1, 40):
        for successes in range(trials + 1):
            low, high = wilson_interval(successes, trials)
            assert 0.0 <= low <= successes / trials <= high <= 1.0
            mirrored = wilson_interval(trials - successes, trials)
            assert list(mirrored) == pytest.approx([1 - high, 1 - low])


def test_nothing_tried_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="3 of 2"):
        wilson_interval(3, 2)


def test_pass_at_k_is_the_share_of_subsets_with_a_success() -> None:
    for trials in range(1, 8):
        for successes in range(trials + 1):
            marks = [True] * successes + [False] * (trials - successes)
            for k in range(1, trials + 1):
                subsets = list(combinations(marks, k))
                assert pass_at_k(trials, successes, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_k_needs_k_attempts() -> None:
    assert pass_at_k(2, 1, 3) is None
    with pytest.raises(ValueError, match="k=0"):
        pass_at_k(2, 1, 0)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p_value"),
    [(0, 0, 1.0), (5, 5, 1.0), (0, 5, 0.0625), (1, 9, 22 / 1024), (10, 1, 24 / 2048), (0, 1, 1.0)],
)
def test_mcnemar_is_the_exact_binomial_test(only_first: int, only_second: int, p_value: float) -> None:
    assert mcnemar_exact(only_first, only_second) == pytest.approx(p_value)
    assert mcnemar_exact(only_second, only_first) == mcnemar_exact(only_first, only_second)
