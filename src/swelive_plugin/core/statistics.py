"""The statistics of a comparison: an interval for a rate, pass@k, and whether two agents differ."""

from __future__ import annotations

from math import comb, sqrt
from statistics import NormalDist

__all__ = ["mcnemar_exact", "pass_at_k", "wilson_interval"]


def wilson_interval(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval for a rate; ``(0, 1)`` where nothing was tried.

    It stays within 0 and 1 and keeps its coverage for few trials and for rates near the ends, unlike the normal
    interval (Wilson 1927; Brown, Cai and DasGupta 2001).
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is no rate")
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate, spread = successes / trials, z * z / trials
    centre = (rate + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(rate * (1 - rate) / trials + spread / (4 * trials))
    # the ends are exact where all or nothing succeeded: no rounding error beside 0 or 1
    return (
        0.0 if successes == 0 else max(0.0, centre - half),
        1.0 if successes == trials else min(1.0, centre + half),
    )


def pass_at_k(trials: int, successes: int, k: int) -> float | None:
    """Return the chance that one of ``k`` attempts succeeds, from ``trials`` attempts; ``None`` if those are fewer.

    The unbiased estimator of Chen et al. 2021: one minus the share of k-subsets without any success.
    """
    if not 0 <= successes <= trials or k < 1:
        raise ValueError(f"{successes} of {trials} attempts, k={k}")
    if trials < k:
        return None
    return 1.0 - comb(trials - successes, k) / comb(trials, k)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the two-sided exact p-value of McNemar's test: could the tasks that just one of two solved be chance?

    Tasks that both or neither solved say nothing. Without any difference it is 1.
    """
    if min(only_first, only_second) < 0:
        raise ValueError("counts can't be negative")
    different = only_first + only_second
    tail = sum(comb(different, count) for count in range(min(only_first, only_second) + 1))
    return min(1.0, tail / 2 ** (different - 1)) if different else 1.0
