"""The regression functions against their formulas and against integrals taken another way."""

import numpy as np
import pytest
from scipy.stats import qmc

from archopt.laboratory.functions import FUNCTIONS, regression_values


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_has_mean_zero_and_variance_one(name):
    d = FUNCTIONS[name].min_dim + 1
    points = 2.0 * qmc.Sobol(d, seed=1).random(2**13) - 1.0
    values = regression_values(name, points)
    # Scaled by 20,000 random rows: the mean is off by 1/sqrt(20,000) = 0.7 %, the variance by sqrt(2) of that or so.
    assert values.mean() == pytest.approx(0.0, abs=0.03)
    assert values.var() == pytest.approx(1.0, abs=0.05)


def test_friedman_is_friedmans():
    u = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0, -1.0]])  # x = (u + 1) / 2
    # 10 sin(pi/4) + 0 + 5 + 2.5 and 10 sin(pi/2) + 20/4 + 10 + 0, Friedman (1991), equation 56
    expected = 25.0 - (10.0 * np.sin(np.pi / 4) + 7.5)
    sd = 4.88  # published: the standard deviation of Friedman-1 without noise is about 4.9
    assert np.diff(regression_values("friedman", u))[0] == pytest.approx(expected / sd, rel=0.02)


def test_coordinates_that_do_nothing_do_nothing():
    u = np.random.default_rng(0).uniform(-1, 1, (50, 8))
    for name, used in (("friedman", 5), ("sparse", 1)):
        moved = u.copy()
        moved[:, used:] = 0.3
        assert np.array_equal(regression_values(name, u), regression_values(name, moved))


@pytest.mark.parametrize(("name", "beta"), [("additive", 2.0), ("radial", 2.0), ("rough", 1.0)])
def test_squared_bias_falls_like_the_bandwidth_to_twice_the_smoothness(name, beta):
    # d = 1, averages over a window of half-width h instead of a kernel, on a grid a thousand times finer than h
    grid = np.linspace(-1, 1, 400_001)[:, np.newaxis]
    m = regression_values(name, grid)
    cumulative = np.concatenate([[0.0], np.cumsum(m)])
    interior = np.arange(50_000, 350_001)  # [-3/4, 3/4]

    def squared_bias(half):
        smoothed = (cumulative[interior + half + 1] - cumulative[interior - half]) / (2 * half + 1)
        return ((smoothed - m[interior]) ** 2).mean()

    slope = np.log(squared_bias(2000) / squared_bias(500)) / np.log(4.0)
    assert FUNCTIONS[name].smoothness == beta
    # |u|^(1/2) has 2 beta = 2 up to a logarithm, which is worth about 0.15 here
    assert slope == pytest.approx(2 * beta, abs=0.2 if name == "rough" else 0.01)
