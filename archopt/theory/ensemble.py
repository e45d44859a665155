"""Theorem 3.1: what the error of an ensemble of heads consists of.

Symbols: H heads; m(.) the regression function (the truth), m_h(x) head h's estimate of it at one of m query points x;
b_h, V_h, C_hg the estimates' bias, variance and covariance there; alpha_h (``weights[h]``), m^ = sum_h alpha_h m_h; S_h
(``smoothers[h]``, m x n, row S_h(x)) where m_h = S_h y with y_i = m(x_i) + noise of variance sigma^2
(``noise_variance``), i = 1..n; R draws of the training noise.

Stated (arXiv:2605.20271, Theorem 3.1): (3.1).

Ours: how its terms are had. Exactly (3.1a-d), for fixed design and fixed projections, where each head is linear in y;
else, as with learned projections, debiased from draws (3.1e-g). The error is against m(x), never against noisy y.

(3.1)   MSE = (sum_h alpha_h b_h)^2 + sum_h alpha_h^2 V_h + sum_{h != g} alpha_h alpha_g C_hg     pointwise in x
(3.1a)  b_h = S_h m - m
(3.1b)  C_hg = sigma^2 S_h(x).S_g(x),  V_h = C_hh
(3.1c)  sum_{h != g} alpha_h alpha_g C_hg = sigma^2 ||sum_h alpha_h S_h(x)||^2 - sum_h alpha_h^2 V_h
(3.1d)  Sigma_hg = mean_x [b_h b_g + C_hg],  alpha' Sigma alpha = mean_x MSE
(3.1e)  bias^2 = (mean_r m^_r - m)^2 - s^2 / R           s^2 the variance of m^ over draws, with R - 1
(3.1f)  variance = sum_h alpha_h^2 s_h^2,  covariance = s^2 - variance
(3.1g)  se^2 = (R - 1)/R sum_r (t_(-r) - mean_r t_(-r))^2      jackknife, t_(-r) the estimate without draw r
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from archopt.errors import OptionError
from archopt.theory.arrays import Array, finite_array, real_array, refuse_non_finite
from archopt.theory.checks import finite_number
from archopt.theory.nadaraya_watson import smoother_array


@dataclass(frozen=True)
class IntegratedMSE:
    """The terms of (3.1) averaged over the query points, in squared units of the target.

    Attributes:
        bias_squared: of the weighted mean of the heads.
        variance: the heads' own, each with the square of its weight.
        covariance: between heads.
        mse: the sum of the three.
    """

    bias_squared: float
    variance: float
    covariance: float
    mse: float


@dataclass(frozen=True, eq=False)
class EnsembleMSE:
    """The terms of (3.1) at each query point: arrays of shape (m,), in squared units of the target.

    Attributes:
        bias_squared, variance, covariance: as `IntegratedMSE` has them.
    """

    bias_squared: Array
    variance: Array
    covariance: Array

    @property
    def mse(self) -> Array:
        """Mean squared error against the truth, shape (m,)."""
        return self.bias_squared + self.variance + self.covariance  # (3.1)

    @property
    def integrated(self) -> IntegratedMSE:
        """Means over the query points."""
        terms = (self.bias_squared, self.variance, self.covariance, self.mse)
        return IntegratedMSE(*(float(term.mean()) for term in terms))


@dataclass(frozen=True)
class Estimate:
    """A value estimated from draws, and its ``standard_error`` over draws."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class EstimatedMSE:
    """The integrated terms of (3.1) estimated from draws; ``pointwise`` holds them per query point.

    ``mse`` is the sum of ``bias_squared``, ``variance`` and ``covariance``. Debiased: ``bias_squared`` may be negative
    by chance.
    """

    bias_squared: Estimate
    variance: Estimate
    covariance: Estimate
    mse: Estimate
    pointwise: EnsembleMSE


def ensemble_mse(
    smoothers: ArrayLike,
    truth_at_inputs: ArrayLike,
    truth_at_queries: ArrayLike,
    noise_variance: float,
    weights: ArrayLike | None = None,
) -> EnsembleMSE:
    """Exact terms of (3.1) over the training noise, for a fixed design and any fixed linear smoothers.

    Args:
        smoothers: shape (H, m, n); time and memory are O(H m n).
        truth_at_inputs, truth_at_queries: m(.) without noise, shapes (n,) and (m,).
        noise_variance: sigma^2 >= 0, of independent noise with one variance.
        weights: alpha, shape (H,), of either sign, sum 1 to 1e-6 (the rest is divided out); uniform if None.

    Raises:
        DegenerateHeadError: a smoother is not finite; ``.head`` is its index.
        OptionError: other shapes, not real or not finite, squares beyond the floats, a negative variance, weights with
            another sum.

    Source: arXiv:2605.20271, Theorem 3.1; exact values for linear smoothers: ours.
    """
    S, at_inputs, at_queries, sigma2 = _fixed_design(smoothers, truth_at_inputs, truth_at_queries, noise_variance)
    alpha = _weights(weights, len(S))
    mixed, own = np.zeros(S.shape[1:]), np.zeros(S.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        for a, S_h in zip(alpha, S, strict=True):
            share = a * S_h
            mixed += share
            own += _row_norms(share)
        bias = mixed @ at_inputs - at_queries  # sum_h alpha_h b_h, (3.1a), since the weights sum to 1
        terms = bias**2, sigma2 * own, sigma2 * (_row_norms(mixed) - own)  # (3.1b), (3.1c)
    return _within_floats(EnsembleMSE(*terms))


def head_error_covariance(
    smoothers: ArrayLike, truth_at_inputs: ArrayLike, truth_at_queries: ArrayLike, noise_variance: float
) -> Array:
    """Exact second moments of the heads' errors, (3.1d): alpha' Sigma alpha is the integrated MSE if sum alpha = 1.

    Args, Raises: as for :func:`ensemble_mse`.

    Returns:
        Sigma, shape (H, H), symmetric, positive semi-definite, in squared units of the target.

    Source: ours, from arXiv:2605.20271, Theorem 3.1.
    """
    S, at_inputs, at_queries, sigma2 = _fixed_design(smoothers, truth_at_inputs, truth_at_queries, noise_variance)
    flat = S.reshape(len(S), -1)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        bias = S @ at_inputs - at_queries  # (3.1a)
        Sigma: Array = (bias @ bias.T + sigma2 * (flat @ flat.T)) / S.shape[1]  # (3.1d)
    if not np.isfinite(Sigma).all():
        raise OptionError(_BEYOND)
    return Sigma


def ensemble_mse_from_draws(estimates: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> EstimatedMSE:
    """Terms of (3.1) for any estimators, linear or not, from independent draws of the training noise; debiased.

    From one set of draws the three terms sum to ``mse`` by algebra, whatever the numbers: compare them with exact
    values or with other draws. The plain (mean - m)^2 would be too large by the ensemble's variance over R.

    Args:
        estimates: shape (R, H, m), R >= 3 draws of the heads' estimates at m fixed query points.
        truth: m(.) at the query points, without noise, shape (m,).
        weights: alpha, as for :func:`ensemble_mse`.

    Returns:
        Means over the query points with jackknife standard errors over the draws only: the query points are fixed.

    Raises:
        DegenerateHeadError: a head's estimate is not finite; ``.head`` is its index.
        OptionError: other shapes, R < 3, not real or not finite, squares beyond the floats, weights with another sum.

    Source: arXiv:2605.20271, Theorem 3.1; debiasing: ours; jackknife: B. Efron and C. Stein, Ann. Statist. 9 (1981).
    """
    drawn, _ = real_array("estimates", estimates, (3,), "(R, H, m)")
    R = len(drawn)
    if R < 3:
        raise OptionError(f"estimates must hold at least 3 draws, shape (R, H, m), but got shape {drawn.shape}")
    heads = drawn.transpose(1, 0, 2)
    refuse_non_finite(heads, "drawn estimate")
    error = -finite_array("truth", truth, drawn.shape[2:], "(m,)")  # becomes mean_r m_r - m
    deviation, own, own_by_draw = np.zeros((R, drawn.shape[2])), np.zeros(drawn.shape[2]), np.zeros(R)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        for a, m_h in zip(_weights(weights, len(heads)), heads, strict=True):
            mean = m_h.mean(axis=0)
            share = a * (m_h - mean)
            error += a * mean
            deviation += share
            own += np.einsum("rm,rm->m", share, share)
            own_by_draw += _row_norms(share) / share.shape[1]
        s2, variance = np.einsum("rm,rm->m", deviation, deviation) / (R - 1), own / (R - 1)
        pointwise = _within_floats(EnsembleMSE(error**2 - s2 / R, variance, s2 - variance))  # (3.1e), (3.1f)

    # The same without draw r, integrated: a mean moves by -d_r/(R-1), a sum of squares by -d_r^2 R/(R-1).
    squares = _row_norms(deviation) / deviation.shape[1]
    s2_without = ((R - 1) * s2.mean() - squares * R / (R - 1)) / (R - 2)
    variance_without = (own.mean() - own_by_draw * R / (R - 1)) / (R - 2)
    square_without = (error**2).mean() - 2.0 * (deviation @ error) / len(error) / (R - 1) + squares / (R - 1) ** 2
    bias_without = square_without - s2_without / (R - 1)
    means = pointwise.integrated
    return EstimatedMSE(
        bias_squared=_estimate(means.bias_squared, bias_without),
        variance=_estimate(means.variance, variance_without),
        covariance=_estimate(means.covariance, s2_without - variance_without),
        mse=_estimate(means.mse, bias_without + s2_without),
        pointwise=pointwise,
    )


_BEYOND = "the squared errors leave the floats: truth, noise_variance and estimates must stay below about 1e150"


def _within_floats(terms: EnsembleMSE) -> EnsembleMSE:
    if not np.isfinite(terms.mse).all():
        raise OptionError(_BEYOND)
    return terms


def _estimate(value: float, without: Array) -> Estimate:
    return Estimate(value, sqrt((len(without) - 1) * float(without.var())))  # (3.1g)


def _fixed_design(
    smoothers: ArrayLike, truth_at_inputs: ArrayLike, truth_at_queries: ArrayLike, noise_variance: float
) -> tuple[Array, Array, Array, float]:
    S = smoother_array(smoothers)
    at_inputs = finite_array("truth_at_inputs", truth_at_inputs, S.shape[2:], "(n,)")
    at_queries = finite_array("truth_at_queries", truth_at_queries, S.shape[1:2], "(m,)")
    allowed = "a finite number, 0 or above"
    sigma2 = finite_number("noise_variance", noise_variance, allowed)
    if sigma2 < 0:
        raise OptionError(f"noise_variance must be {allowed} but got {sigma2:g}")
    return S, at_inputs, at_queries, sigma2


def _weights(weights: ArrayLike | None, n_heads: int) -> Array:
    if weights is None:
        return np.full(n_heads, 1.0 / n_heads)
    alpha = finite_array("weights", weights, (n_heads,), "(H,)")
    total = float(alpha.sum())
    if not abs(total - 1.0) <= 1e-6:
        raise OptionError(f"weights must sum to 1 (to 1e-6) but got sum {total:.9g}")
    return alpha / total


def _row_norms(matrix: Array) -> Array:
    """Squared Euclidean norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", matrix, matrix))
