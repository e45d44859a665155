"""The evidence and its gradient against dense linear algebra, and what the fit finds in data drawn from the model."""

import itertools

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal

from archopt.surrogate import Inputs, Observations, OptimumPrior, fit_variances
from archopt.surrogate.covariance import CURVATURE_MEAN, CURVATURE_SD, NARROW_POWER, NARROW_VARIANCE
from archopt.surrogate.observations import KNEE, Grouped, scale_of
from archopt.surrogate.variances import VARIANCE_PRIOR_SD, _Objective, prior_medians

PRIOR = OptimumPrior(3.0, 1.5)
U = np.log2(np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 48], dtype=float))
GRID = list(itertools.product(U, range(3), (0.0, 0.5, 1.0)))
INPUTS = Inputs(np.array([g[0] for g in GRID]), np.array([g[1:] for g in GRID], dtype=float), (False, True))
N_EXPECTED = 6


def _observed(n: int, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    index, replicate = np.divmod(rng.choice(6 * len(INPUTS), size=n, replace=False), 6)
    return Observations(index, rng.normal(size=n), replicate - 1, rng.uniform(0.0, 0.2, n))  # -1: not known


def _objective(observed: Observations) -> tuple[_Objective, np.ndarray]:
    medians = prior_medians(2).to_array()
    grouped = Grouped(observed, scale_of(observed))
    return _Objective(INPUTS, grouped, PRIOR, medians, N_EXPECTED), np.log(medians)


def test_the_evidence_is_that_of_a_dense_gaussian() -> None:
    observed = _observed(40)
    objective, medians = _objective(observed)
    point = medians + 0.3
    expected, shared, noise = np.split(np.exp(point), [N_EXPECTED, len(point) - 1])
    at, scale = observed.index, scale_of(observed)
    bowl = (INPUTS.log2_head_dim[at] - PRIOR.log2_head_dim) ** 2
    narrow = 2.0 ** (-NARROW_POWER * INPUTS.log2_head_dim[at])
    together = (observed.replicate[:, None] == observed.replicate) & (observed.replicate[:, None] >= 0)
    compressed = 1.0 + np.maximum((observed.value - scale.centre) / scale.spread - KNEE, 0.0)  # the slope's inverse
    covariance = (
        1.0
        + NARROW_VARIANCE * np.outer(narrow, narrow)
        + CURVATURE_SD**2 * np.outer(bowl, bowl)
        + np.tensordot(expected, INPUTS.parts(), axes=1)[np.ix_(at, at)]
        + (together | np.eye(40, dtype=bool)) * np.tensordot(shared, INPUTS.shared_parts(), axes=1)[np.ix_(at, at)]
        + np.diag(noise[0] + observed.extra_variance / (scale.spread * compressed) ** 2)
    )
    dense = -multivariate_normal(CURVATURE_MEAN * bowl, covariance).logpdf(scale.apply(observed.value))
    prior = 0.5 * len(point) * (0.3 / VARIANCE_PRIOR_SD) ** 2
    assert objective(point)[0] == pytest.approx(dense - 20 * np.log(2 * np.pi) + prior, rel=1e-6)  # up to JITTER


@pytest.mark.parametrize("seed", range(3))
def test_its_gradient_against_finite_differences(seed: int) -> None:
    objective, medians = _objective(_observed(30, seed))
    error = check_grad(lambda x: objective(x)[0], lambda x: objective(x)[1], medians + 0.3)
    assert error < 1e-4  # forward differences of a smooth function: about sqrt(eps) times its curvature


def test_it_tells_shared_noise_from_own_noise() -> None:
    # every configuration in six replicates: what a replicate shares is 0.3, what a run has of its own 0.1
    rng = np.random.default_rng(1)
    inputs = Inputs(U, np.empty((len(U), 0)), ())
    index, replicate = np.repeat(np.arange(10), 6), np.tile(np.arange(6), 10)
    ratios = []
    for _ in range(10):
        value = 0.05 * (U[index] - 3) ** 2 + rng.normal(0, 0.3, 6)[replicate] + rng.normal(0, 0.1, 60)
        observed = Observations(index, value, replicate, np.zeros(60))
        fitted = fit_variances(inputs, observed, PRIOR)
        ratios.append(np.sqrt(fitted.noise) * scale_of(observed).spread / 0.1)
    assert 0.75 < np.mean(ratios) < 1.25  # 45 degrees of freedom each, but some noise looks like a smooth difference


def test_without_observations_it_is_the_prior() -> None:
    nothing = Observations(*(np.empty(0, dtype=kind) for kind in (np.int64, np.float64, np.int64, np.float64)))
    assert fit_variances(INPUTS, nothing, PRIOR) == prior_medians(2)


def test_a_known_noise_is_kept() -> None:
    observed = _observed(12)
    fitted = fit_variances(INPUTS, observed, PRIOR, noise_sd=0.2)
    total = np.sqrt(sum(fitted.shared) + fitted.noise) * scale_of(observed).spread
    assert total == pytest.approx(0.2, rel=1e-4)
