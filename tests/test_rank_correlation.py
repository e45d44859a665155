"""Kendall's tau within groups: by hand, and against SciPy in one group."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from archopt.rank_correlation import tau_within


def test_by_hand() -> None:
    # H = 2: four points in order, 6 pairs, all concordant; H = 4: 4 points against it, 6 discordant; across H nothing.
    points = [(2, k, k) for k in range(4)] + [(4, k, 10 - k) for k in range(4)]
    found = tau_within(points)
    assert (found.tau, found.n_pairs) == (0.0, 12)
    assert tau_within([(2, k, 3 * k + 1) for k in range(5)]).tau == 1.0
    assert tau_within([(2, k, k) for k in range(4)]).tau is None  # 6 pairs
    assert tau_within([(2, 1, k) for k in range(9)]).n_pairs == 0  # ties
    assert tau_within([(2, math.nan, k) for k in range(9)]).n_pairs == 0
    assert tau_within([]).tau is None


def test_one_group_is_scipys_and_its_error_that_of_shuffled_values() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    found = tau_within([(8, a, b) for a, b in zip(x, y, strict=True)])
    assert found.tau == pytest.approx(kendalltau(x, y).statistic)
    shuffled = [tau_within([(8, a, b) for a, b in zip(x, rng.permutation(y), strict=True)]).tau for _ in range(1000)]
    assert found.error == pytest.approx(np.std([tau for tau in shuffled if tau is not None]), rel=0.1)
