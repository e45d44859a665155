"""Kendall's rank correlation within groups: diversity against loss can be compared at equal numbers of heads only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MIN_PAIRS = 10


@dataclass(frozen=True)
class RankCorrelation:
    """Kendall's tau over pairs of one group.

    Attributes:
        tau: (concordant - discordant) / pairs without ties in either; None below `MIN_PAIRS` of them.
        error: standard error that it would have if the two had nothing to do with each other.
        n_pairs: pairs without ties in either.
    """

    tau: float | None
    error: float | None
    n_pairs: int


def tau_within(points: Sequence[tuple[int, float, float]]) -> RankCorrelation:
    """Kendall's tau between the second and the third entry, over pairs whose first entry is equal.

    The score of n points without association has variance n (n - 1) (2 n + 5) / 18 (Kendall 1938); ties, which lower
    it, are not allowed for. Points that are not finite are left out.
    """
    groups: dict[int, list[tuple[float, float]]] = {}
    for group, x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            groups.setdefault(group, []).append((x, y))
    score, n_pairs, variance = 0, 0, 0.0
    for members in groups.values():
        x, y = np.array(members, dtype=np.float64).T
        n = len(members)
        for k in range(1, n):  # a row at a time: all pairs of thousands of trials would fill the memory
            signs = np.sign(x[k] - x[:k]) * np.sign(y[k] - y[:k])
            score += int(signs.sum())
            n_pairs += int(np.count_nonzero(signs))
        variance += n * (n - 1) * (2 * n + 5) / 18
    if n_pairs < MIN_PAIRS:
        return RankCorrelation(None, None, n_pairs)
    return RankCorrelation(score / n_pairs, math.sqrt(variance) / n_pairs, n_pairs)
