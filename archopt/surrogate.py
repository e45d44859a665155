"""Posterior over configurations from noisy, replicated observations: plain arrays in, plain arrays out.

The model (ours) is a Gaussian process over enumerated configurations whose covariance is a sum of named parts:

    f = level + curvature * (u - u*)^2 + smooth(u) + sum_j [effect_j + effect_j x smooth(u)] + own,   u = log2 head_dim
    y = f + replicate + noise                                                                             (eq. S1)

``u*`` is where the prior expects the optimum; it is integrated over a grid, so that data can move it. ``replicate``
is shared by all observations with the same replicate number: they had the same initialisation and batches (common
random numbers), so what they share says nothing about which configuration is better. The variances of the
parts are found by maximising the marginal likelihood times log-normal priors.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

Array = npt.NDArray[np.float64]

SMOOTH_OCTAVES = 1.0  # length scale of smooth(u)
SLOW_OCTAVES = 2.0  # over which other effects change with u
ORDERED_LENGTH = 0.5  # of an ordered parameter scaled to [0, 1]
CURVATURE_MEAN, CURVATURE_SD = 0.05, 0.1  # per octave^2, in units of the observations' spread
OPTIMUM_NODES = 7  # of u*, spread over +- 2 prior standard deviations
VARIANCE_PRIOR_SD = 1.2  # of every log variance
JITTER = 1e-8
KNEE = 4.0  # spreads above the centre, from where values are compressed
MAX_EXCESS = 50.0  # e^50 spreads: what a draw far from all data may be said to be


@dataclass(frozen=True)
class OptimumPrior:
    """Where the optimum of log2 head_dim is expected: normal with this mean and standard deviation (octaves)."""

    log2_head_dim: float
    sd_octaves: float


@dataclass(frozen=True)
class Observations:
    """N observed values.

    Attributes:
        index: (N,) which of the M configurations.
        value: (N,) lower is better.
        replicate: (N,) replicate numbers.
        extra_variance: (N,) known variance beyond the common noise (0 for a finished trial).
    """

    index: npt.NDArray[np.int64]
    value: Array
    replicate: npt.NDArray[np.int64]
    extra_variance: Array

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True)
class Variances:
    """The fitted variance of every part of eq. S1, in units of the observations' spread squared."""

    smooth: float
    effects: tuple[float, ...]
    interactions: tuple[float, ...]
    own: float
    replicate: float
    noise: float

    def to_array(self) -> Array:
        """In the order of `_parts`."""
        return np.array([self.smooth, *self.effects, *self.interactions, self.own, self.replicate, self.noise])

    @classmethod
    def from_array(cls, values: Array, n_factors: int) -> "Variances":
        """Inverse of `to_array`."""
        v = [float(value) for value in values]
        return cls(v[0], tuple(v[1 : 1 + n_factors]), tuple(v[1 + n_factors : 1 + 2 * n_factors]), *v[-3:])


@dataclass(frozen=True)
class Posterior:
    """A mixture of Gaussians over the M configurations' expected values, one for each u* on the grid.

    Attributes:
        weights: (K,) of the mixture, sum 1.
        means: (K, M), in the observations' own units below the knee.
        common_covariance: (M, M), of all that does not depend on u*.
        node_spread: (K, M); component k has covariance common_covariance + node_spread[k] node_spread[k]^T.
        optimum_nodes: (K,) the grid of u* in log2 head_dim.
        noise_sd: of one observation, beyond what observations of the same replicate share.
        variances: the fitted parts.
        knee: above it values are compressed, as they went into the model; `in_units` undoes that.
        scale: of the observations.
    """

    weights: Array
    means: Array
    common_covariance: Array
    node_spread: Array
    optimum_nodes: Array
    noise_sd: float
    variances: Variances
    knee: float
    scale: float

    def in_units(self, values: Array) -> Array:
        """The model's values (means, quantiles, draws) in the observations' units; the same below the knee."""
        excess = np.clip((values - self.knee) / self.scale, 0.0, MAX_EXCESS)
        return np.where(values > self.knee, self.knee + self.scale * np.expm1(excess), values)

    @cached_property
    def mean(self) -> Array:
        """(M,)"""
        return np.asarray(self.weights @ self.means)

    @cached_property
    def sd(self) -> Array:
        """(M,) of the expected value, noise apart."""
        within = np.diagonal(self.common_covariance) + self.weights @ self.node_spread**2
        between = self.weights @ (self.means - self.mean) ** 2
        return np.asarray(np.sqrt(np.maximum(within + between, 0.0)))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size, M) joint draws of the expected values."""
        node = rng.choice(len(self.weights), size=size, p=self.weights)
        common = rng.standard_normal((size, self.means.shape[1])) @ _root(self.common_covariance).T
        return np.asarray(self.means[node] + common + rng.standard_normal((size, 1)) * self.node_spread[node])


def fit_variances(
    log2_head_dim: Array,
    levels: Array,
    ordered: tuple[bool, ...],
    observed: Observations,
    prior: OptimumPrior,
    *,
    noise_sd: float | None = None,
) -> Variances:
    """Maximum a posteriori variances of the parts of eq. S1; the prior's medians where nothing is observed.

    Args:
        log2_head_dim: (M,).
        levels: (M, F).
        ordered: (F,).
        observed: N observations of the M configurations.
        prior: of the optimum.
        noise_sd: of one observation in its own units, where it is known.
    """
    n_factors = len(ordered)
    medians = _prior_medians(n_factors)
    if len(observed) == 0:
        return Variances.from_array(medians, n_factors)
    value, scale, _ = _standardise(observed.value)
    base, parts, mean = _observed_parts(log2_head_dim, levels, ordered, observed, prior, scale)
    centred = value - mean
    fixed_noise = None if noise_sd is None else float(np.log((noise_sd / scale) ** 2 + JITTER))

    def objective(log_variances: Array) -> tuple[float, Array]:
        if fixed_noise is not None:
            log_variances = np.append(log_variances[:-1], fixed_noise)
        variances = np.exp(log_variances)
        covariance = base + np.tensordot(variances, parts, axes=1)
        factor = cho_factor(covariance, lower=True, check_finite=False)
        inverse = cho_solve(factor, np.eye(len(value)), check_finite=False)
        alpha = inverse @ centred
        log_det = 2.0 * np.log(np.diagonal(factor[0])).sum()
        deviation = (log_variances - np.log(medians)) / VARIANCE_PRIOR_SD
        loss = 0.5 * (centred @ alpha + log_det) + 0.5 * deviation @ deviation
        # d/d log v_j of the log marginal likelihood is v_j / 2 * tr((alpha alpha^T - K^-1) K_j)
        inner = inverse - np.outer(alpha, alpha)
        gradient = 0.5 * variances * np.einsum("ij,kij->k", inner, parts) + deviation / VARIANCE_PRIOR_SD
        if fixed_noise is not None:
            gradient[-1] = 0.0
        return float(loss), gradient

    bounds = [(np.log(1e-6), np.log(30.0))] * len(medians)
    found = minimize(objective, np.log(medians), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
    best = found.x if fixed_noise is None else np.append(found.x[:-1], fixed_noise)
    return Variances.from_array(np.exp(best), n_factors)


def fit_posterior(
    log2_head_dim: Array,
    levels: Array,
    ordered: tuple[bool, ...],
    observed: Observations,
    prior: OptimumPrior,
    variances: Variances,
) -> Posterior:
    """The posterior of eq. S1 at given variances; arguments as for `fit_variances`."""
    value, scale, centre = _standardise(observed.value)
    smooth, *rest = _shared_parts(log2_head_dim, levels, ordered)
    n_configurations = len(log2_head_dim)
    own = np.eye(n_configurations)
    weights_of_parts = variances.to_array()
    shared = 1.0 + np.tensordot(weights_of_parts[:-2], np.stack([smooth, *rest, own]), axes=1)
    at = observed.index
    same_replicate = (observed.replicate[:, None] == observed.replicate[None, :]).astype(float)
    noise = weights_of_parts[-2] * same_replicate + np.diag(
        weights_of_parts[-1] + observed.extra_variance / scale**2 + JITTER
    )
    nodes, log_prior = _optimum_grid(prior)
    bowls = (log2_head_dim[None, :] - nodes[:, None]) ** 2  # (K, M)
    # Given its coefficient the bowl is a known curve, so that one factor of everything else serves all nodes: the
    # coefficient is CURVATURE_MEAN + delta with delta | y normal.
    factor = cholesky(shared[np.ix_(at, at)] + noise, lower=True, check_finite=False)
    seen = solve_triangular(
        factor, np.column_stack([shared[at], bowls[:, at].T, value]), lower=True, check_finite=False
    )
    half, slopes, target = seen[:, :n_configurations], seen[:, n_configurations:-1].T, seen[:, -1]
    residuals = target - CURVATURE_MEAN * slopes  # (K, N)
    variance = 1.0 / (1.0 / CURVATURE_SD**2 + (slopes**2).sum(axis=1))
    delta = variance * (slopes * residuals).sum(axis=1)
    log_weights = log_prior - 0.5 * ((residuals**2).sum(axis=1) - delta**2 / variance) + 0.5 * np.log(variance)
    weights = np.exp(log_weights - log_weights.max())
    means = (residuals - delta[:, None] * slopes) @ half + (CURVATURE_MEAN + delta[:, None]) * bowls
    unexplained = bowls - slopes @ half
    return Posterior(
        weights=weights / weights.sum(),
        means=centre + scale * means,
        common_covariance=scale**2 * (shared - half.T @ half),
        node_spread=scale * np.sqrt(variance)[:, None] * unexplained,
        optimum_nodes=nodes,
        noise_sd=float(scale * np.sqrt(variances.noise)),
        variances=variances,
        knee=float(centre + KNEE * scale),
        scale=scale,
    )


def _prior_medians(n_factors: int) -> Array:
    return np.array([0.1, *[0.1] * n_factors, *[0.03] * n_factors, 0.01, 0.05, 0.1])


def _standardise(value: Array) -> tuple[Array, float, float]:
    """Centre and scale by the spread of the better half, so that a few diverged runs do not flatten the rest.

    Far above, logarithms: a run a thousand spreads away is bad, and must not stretch a model of the good ones.
    """
    if len(value) == 0:
        return value, 1.0, 0.0
    low, middle = np.min(value), np.median(value)
    better = value[value <= middle + 3.0 * (middle - low)]
    centre, scale = float(np.mean(better)), float(np.std(better)) or float(np.std(value))
    if not scale > 0.0:
        scale = 1e-6 * max(abs(centre), 1.0)
    scaled = (value - centre) / scale
    return np.where(scaled > KNEE, KNEE + np.log1p(np.maximum(scaled - KNEE, 0.0)), scaled), scale, centre


def _optimum_grid(prior: OptimumPrior) -> tuple[Array, Array]:
    steps = np.linspace(-2.0, 2.0, OPTIMUM_NODES)
    return prior.log2_head_dim + prior.sd_octaves * steps, -0.5 * steps**2


def _shared_parts(log2_head_dim: Array, levels: Array, ordered: tuple[bool, ...]) -> list[Array]:
    """(M, M) covariances of unit variance: smooth(u), then effects, then their interactions with u."""
    gap = log2_head_dim[:, None] - log2_head_dim[None, :]
    smooth = np.exp(-0.5 * (gap / SMOOTH_OCTAVES) ** 2)
    slow = np.exp(-0.5 * (gap / SLOW_OCTAVES) ** 2)
    effects = []
    for column, has_order in zip(levels.T, ordered, strict=True):
        distance = column[:, None] - column[None, :]
        effects.append(np.exp(-0.5 * (distance / ORDERED_LENGTH) ** 2) if has_order else (distance == 0).astype(float))
    return [smooth, *effects, *[effect * slow for effect in effects]]


def _observed_parts(
    log2_head_dim: Array,
    levels: Array,
    ordered: tuple[bool, ...],
    observed: Observations,
    prior: OptimumPrior,
    scale: float,
) -> tuple[Array, Array, Array]:
    """Fixed covariance (N, N), the parts (P, N, N) whose variances are fitted, and the prior mean (N,)."""
    at = observed.index
    parts = [part[np.ix_(at, at)] for part in _shared_parts(log2_head_dim, levels, ordered)]
    parts.append((at[:, None] == at[None, :]).astype(float))
    parts.append((observed.replicate[:, None] == observed.replicate[None, :]).astype(float))
    parts.append(np.eye(len(at)))
    bowl = (log2_head_dim[at] - prior.log2_head_dim) ** 2
    base = 1.0 + CURVATURE_SD**2 * np.outer(bowl, bowl) + np.diag(observed.extra_variance / scale**2 + JITTER)
    return base, np.stack(parts), CURVATURE_MEAN * bowl


def _root(covariance: Array) -> Array:
    """A square root of a positive semi-definite matrix, for drawing; rounding below zero is cut off."""
    jitter = JITTER * float(np.diagonal(covariance).max())
    try:
        return np.asarray(cholesky(covariance + jitter * np.eye(len(covariance)), lower=True, check_finite=False))
    except LinAlgError:  # many times slower, and never fails
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
