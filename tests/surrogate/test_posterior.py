"""The posterior against closed forms and against data drawn from the model itself."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chi2, multivariate_normal

from archopt.surrogate import Inputs, Observations, OptimumPrior, Posterior, Variances, fit_posterior, fit_variances
from archopt.surrogate.covariance import CURVATURE_MEAN, CURVATURE_SD, NARROW_POWER, NARROW_VARIANCE
from archopt.surrogate.observations import JITTER, KNEE, scale_of

PRIOR = OptimumPrior(3.0, 1.5)
U = np.log2(np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 48], dtype=float))


def _observations(index: list[int], value: list[float], replicate: list[int] | None = None) -> Observations:
    return Observations(
        np.array(index, dtype=np.int64),
        np.array(value, dtype=np.float64),
        np.array(replicate if replicate is not None else [0] * len(index), dtype=np.int64),
        np.zeros(len(index)),
    )


def _space() -> Inputs:
    grid = list(itertools.product(U, range(3), (0.0, 0.5, 1.0)))
    return Inputs(np.array([g[0] for g in grid]), np.array([g[1:] for g in grid], dtype=float), (False, True))


ALONE = Inputs(U, np.empty((len(U), 0)), ())  # head_dim alone


def _fit(observed: Observations, prior: OptimumPrior = PRIOR, noise_sd: float | None = None) -> Posterior:
    return fit_posterior(ALONE, observed, prior, fit_variances(ALONE, observed, prior, noise_sd=noise_sd))


def test_without_data_the_prior_mean_is_lowest_where_the_closed_form_expects_it() -> None:
    nothing = _observations([], [])
    posterior = _fit(nothing)
    # E[(u - u*)^2] = (u - 3)^2 + var(u*) is least at u = 3: head_dim 8
    assert U[np.argmin(posterior.mean)] == 3.0
    assert posterior.weights.sum() == pytest.approx(1.0)


def test_one_configuration_alone_gives_the_conjugate_answer() -> None:
    # with the curvature off (u = u*), one point and no shared replicates, eq. S1 is a normal mean with known variances
    u = np.array([3.0])
    prior = OptimumPrior(3.0, 1e-9)
    variances = Variances(expected=(0.1, 0.01), shared=(0.15, 0.05), noise=0.05)  # each alone: 0.25 of noise
    value = [1.0, 2.0, 4.0]
    inputs = Inputs(u, np.empty((1, 0)), ())
    posterior = fit_posterior(inputs, _observations([0, 0, 0], value, [0, 1, 2]), prior, variances)
    centre, scale = np.mean(value), np.std(value)
    scaled = (np.array(value) - centre) / scale
    prior_variance = 1.0 + 9.0 * 8.0 ** (-2 * 1.5) + 0.1 + 0.01  # level, narrow heads at head_dim 8, smooth, own
    precision = 1 / prior_variance + 3 / (0.25 + JITTER)
    mean = (scaled.sum() / (0.25 + JITTER)) / precision
    assert posterior.mean[0] == pytest.approx(centre + scale * mean, rel=1e-6)
    assert posterior.sd[0] == pytest.approx(scale / math.sqrt(precision), rel=1e-6)


def test_the_posterior_is_that_of_a_dense_gaussian_at_every_node() -> None:
    inputs = _space()
    u = inputs.log2_head_dim
    rng = np.random.default_rng(5)
    index, replicate = np.divmod(rng.choice(5 * len(u), size=30, replace=False), 5)
    replicate, value = replicate - 1, rng.normal(size=30)  # -1: not known
    observed = Observations(index, value, replicate, rng.uniform(0.0, 0.2, 30))
    variances = Variances(expected=(0.2, 0.1, 0.1, 0.05, 0.05, 0.02), shared=(0.1, 0.05, 0.03, 0.02), noise=0.3)
    found = fit_posterior(inputs, observed, PRIOR, variances)

    scaling = scale_of(observed)
    scaled, scale, centre = scaling.apply(value), scaling.spread, scaling.centre
    narrow = NARROW_VARIANCE * np.outer(2.0 ** (-NARROW_POWER * u), 2.0 ** (-NARROW_POWER * u))
    shared = 1.0 + narrow + np.tensordot(variances.expected, inputs.parts(), axes=1) + JITTER * np.eye(len(u))
    compressed = 1.0 + np.maximum((value - centre) / scale - KNEE, 0.0)  # the slope's inverse
    own_noise = 0.3 + observed.extra_variance / (scale * compressed) ** 2 + JITTER
    together = (replicate[:, None] == replicate[None, :]) & (replicate[:, None] >= 0) | np.eye(30, dtype=bool)
    of_replicate = np.tensordot(variances.shared, inputs.shared_parts(), axes=1)[np.ix_(index, index)]
    noise = together * of_replicate + np.diag(own_noise)
    nodes, log_prior = PRIOR.nodes()
    dense_variance = 0.0
    log_weights = []
    for k, node in enumerate(nodes):
        bowl = (u - node) ** 2
        prior = shared + CURVATURE_SD**2 * np.outer(bowl, bowl)
        prior_mean = CURVATURE_MEAN * bowl
        seen = prior[np.ix_(index, index)] + noise
        gain = np.linalg.solve(seen, prior[index]).T
        log_weights.append(log_prior[k] + multivariate_normal(prior_mean[index], seen).logpdf(scaled))
        mean, covariance = prior_mean + gain @ (scaled - prior_mean[index]), prior - gain @ prior[index]
        np.testing.assert_allclose(found.means[k], centre + scale * mean, rtol=1e-8, atol=1e-10)
        within = np.diagonal(covariance) * scale**2 + (centre + scale * mean - found.mean) ** 2
        dense_variance = dense_variance + found.weights[k] * within
    np.testing.assert_allclose(found.weights, softmax(log_weights), rtol=1e-8)
    np.testing.assert_allclose(found.sd, np.sqrt(dense_variance), rtol=1e-8)
    draws = found.sample(np.random.default_rng(0), 40_000)
    np.testing.assert_allclose(draws.mean(axis=0), found.mean, atol=5 * found.sd.max() / 200)  # five standard errors
    np.testing.assert_allclose(draws.std(axis=0), found.sd, rtol=0.03)
    # jointly too: of a mixture with one node, whose covariance is the last one above
    alone = replace(found, weights=np.eye(len(nodes))[-1])
    drawn = alone.sample(np.random.default_rng(1), 40_000)
    bound = 5 * np.sqrt(2 / 40_000) * scale**2 * np.diagonal(covariance).max()  # five standard errors of a covariance
    np.testing.assert_allclose(np.cov(drawn.T), scale**2 * covariance, atol=bound)


def test_it_finds_the_noise_and_the_best_configuration() -> None:
    inputs = _space()
    u, levels = inputs.log2_head_dim, inputs.levels
    rng = np.random.default_rng(2)
    truth = 0.02 * (u - 4.0) ** 2 + 0.05 * (levels[:, 0] == 1) + 0.1 * (levels[:, 1] - 0.5) ** 2
    shared = rng.normal(0, 0.05, 8)
    regrets, ratios = [], []
    for _ in range(8):
        index, replicate = np.divmod(rng.choice(8 * len(u), size=120, replace=False), 8)
        value = truth[index] + shared[replicate] + rng.normal(0, 0.03, 120)
        observed = Observations(index, value, replicate, np.zeros(120))
        variances = fit_variances(inputs, observed, PRIOR)
        posterior = fit_posterior(inputs, observed, PRIOR, variances)
        regrets.append((truth[np.argmin(posterior.mean)] - truth.min()) / 0.03)
        ratios.append(posterior.noise_sd / np.hypot(0.05, 0.03))
    # 120 noisy runs, 8 data sets; the lowest single value would miss by about one noise sd
    assert np.mean(regrets) < 0.5
    assert 0.7 < np.mean(ratios) < 1.3


def test_a_shared_replicate_effect_does_not_count_as_a_difference() -> None:
    # two configurations, each observed in three replicates whose shared shift is far larger than their difference
    inputs = Inputs(np.array([3.0, 3.0]), np.array([[0.0], [1.0]]), (False,))
    shifts = [0.0, 1.0, -1.0, 0.5, -0.5, 0.8]
    value = [*shifts, *[shift + 0.1 for shift in shifts]]
    chances = []
    for replicate in ([*range(6), *range(6)], list(range(12))):
        observed = _observations([0] * 6 + [1] * 6, value, replicate)
        variances = fit_variances(inputs, observed, PRIOR)
        draws = fit_posterior(inputs, observed, PRIOR, variances).sample(np.random.default_rng(0), 4000)
        chances.append(np.mean(draws[:, 0] < draws[:, 1]))
    paired, unpaired = chances
    assert paired > 0.75  # twelve values, variances unknown: sure, but not certain
    assert unpaired < 0.65  # the same values without pairs are nearly a coin toss


def test_data_overrule_a_prior_that_is_wrong_by_a_factor_of_16() -> None:
    rng = np.random.default_rng(3)
    index = np.repeat(np.arange(10), 4)
    value = 0.05 * (U[index] - 5.0) ** 2 + rng.normal(0, 0.02, 40)
    observed = Observations(index, value, np.tile(np.arange(4), 10), np.zeros(40))
    wrong = OptimumPrior(1.0, 1.5)
    posterior = _fit(observed, wrong)
    assert abs(U[np.argmin(posterior.mean)] - 5.0) < 0.7


def test_draws_have_the_posterior_s_moments() -> None:
    observed = _observations([1, 4, 8], [0.3, 0.1, 0.4])
    posterior = _fit(observed)
    draws = posterior.sample(np.random.default_rng(0), 20_000)
    assert draws.shape == (20_000, 10)
    # means: 10 z-scores, their squares sum to a chi^2 with at most 10 degrees
    z = (draws.mean(axis=0) - posterior.mean) / (posterior.sd / math.sqrt(len(draws)))
    assert (z**2).max() < chi2.ppf(0.9999, 1)
    assert draws.std(axis=0) == pytest.approx(posterior.sd, rel=0.05)


def test_a_known_noise_is_used() -> None:
    observed = _observations([0, 3, 5, 7], [1.0, 0.5, 0.4, 0.6])
    posterior = _fit(observed, noise_sd=0.2)
    assert posterior.noise_sd == pytest.approx(0.2, rel=1e-3)


def test_one_diverged_value_does_not_flatten_the_rest() -> None:
    rng = np.random.default_rng(4)
    index = np.tile(np.arange(10), 3)
    value = 0.05 * (U[index] - 3.0) ** 2 + rng.normal(0, 0.01, 30)
    value[5] = 1e9
    observed = Observations(index, value, np.repeat(np.arange(3), 10), np.zeros(30))
    posterior = _fit(observed)
    # the hurt configuration is index 5 (head_dim 8, the optimum): its neighbours, at 6 and 12, must still look good
    assert 4 <= int(np.argmin(posterior.mean)) <= 6


@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [0.0, 0.0], [5.0]])
def test_constant_values_are_no_accident(values: list[float]) -> None:
    observed = _observations(list(range(len(values))), values)
    posterior = _fit(observed)
    assert np.isfinite(posterior.mean).all()
    assert posterior.mean[: len(values)] == pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize("recorded", [True, False])
def test_what_another_observation_would_tell_is_that_of_a_dense_gaussian(recorded: bool) -> None:
    inputs = _space()
    u = inputs.log2_head_dim
    rng = np.random.default_rng(6)
    index, replicate = np.divmod(rng.choice(4 * len(u), size=25, replace=False), 4)
    replicate = replicate if recorded else np.full(25, -1)
    observed = Observations(index, rng.normal(size=25), replicate, np.zeros(25))
    variances = Variances(expected=(0.2, 0.1, 0.1, 0.05, 0.05, 0.02), shared=(0.1, 0.05, 0.03, 0.02), noise=0.3)
    prior = OptimumPrior(3.0, 1e-7)  # every node of the grid is the same: the mixture is one Gaussian
    contenders, numbers = np.array([0, 40, 41, 89]), np.array([0, 1, 3, 7]) if recorded else np.full(4, -1)
    covariance, variance = fit_posterior(inputs, observed, prior, variances).next_observation(contenders, numbers)

    narrow = 2.0 ** (-NARROW_POWER * u)
    bowl = (u - 3.0) ** 2
    expected = 1.0 + NARROW_VARIANCE * np.outer(narrow, narrow) + CURVATURE_SD**2 * np.outer(bowl, bowl)
    expected += np.tensordot(variances.expected, inputs.parts(), axes=1)
    shared = np.tensordot(variances.shared, inputs.shared_parts(), axes=1)
    # all of them together: what was observed, then what would be
    at, of = np.concatenate([index, contenders]), np.concatenate([replicate, numbers])
    together = (of[:, None] == of) & (of[:, None] >= 0) | np.eye(29, dtype=bool)
    joint = expected[np.ix_(at, at)] + together * shared[np.ix_(at, at)] + (0.3 + JITTER) * np.eye(29)
    with_values = expected[np.ix_(contenders, at)]
    gain = np.linalg.solve(joint[:25, :25], joint[:25, 25:])
    scale = scale_of(observed).spread ** 2
    np.testing.assert_allclose(variance, scale * np.diagonal(joint[25:, 25:] - joint[25:, :25] @ gain), rtol=1e-5)
    dense = with_values[:, 25:] - with_values[:, :25] @ gain  # (expected values, observations)
    np.testing.assert_allclose(covariance.T, scale * dense, rtol=1e-4, atol=1e-6 * scale)
