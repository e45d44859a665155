"""The posterior of the expected values at given variances, and joint draws from it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular

from archopt.surrogate.covariance import (
    CURVATURE_MEAN,
    CURVATURE_SD,
    Inputs,
    OptimumPrior,
    PriorCovariance,
    Variances,
    prior_covariance,
)
from archopt.surrogate.observations import KNEE, Grouped, Information, Observations, Scale, inverse_of, scale_of

Array = npt.NDArray[np.float64]

MAX_EXCESS = 50.0  # e^50 spreads: what a draw far from all data may be said to be


@dataclass(frozen=True, eq=False)
class Posterior:
    """A mixture of Gaussians over the M configurations' expected values, one for each u* on the grid.

    What was observed enters as one reading of each configuration that was seen: another trial of it costs nothing.

    Attributes:
        weights: (K,) of the mixture, sum 1.
        means: (K, M), in the observations' own units below the knee.
        optimum_nodes: (K,) the grid of u* in log2 head_dim.
        noise_sd: of one observation around its configuration's expected value.
        variances: the fitted parts.
        scale: between the model's units and the observations'.
    """

    weights: Array
    means: Array
    optimum_nodes: Array
    noise_sd: float
    variances: Variances
    scale: Scale
    _prior: PriorCovariance
    _seen: npt.NDArray[np.int64]  # (m,)
    _readings: Array  # (m,)
    _reading_noise: "_ReadingNoise"
    _cross: Array  # (m, M) prior covariance of the readings with the expected values
    _slopes: Array  # (K, m) the readings of each bowl, whitened
    _factor: Array  # (m, m) lower Cholesky factor of the readings' covariance
    _grouped: Grouped
    _said: Information
    _bowls: Array  # (K, M)
    _curvature: tuple[Array, Array]  # (K,) mean and variance of the bowl's coefficient

    @property
    def knee(self) -> float:
        """Above it values are compressed, as they went into the model; `in_units` undoes that."""
        return self.scale.centre + KNEE * self.scale.spread

    def in_units(self, values: Array) -> Array:
        """The model's values (means, quantiles, draws) in the observations' units; the same below the knee."""
        excess = np.clip((values - self.knee) / self.scale.spread, 0.0, MAX_EXCESS)
        return np.where(values > self.knee, self.knee + self.scale.spread * np.expm1(excess), values)

    @cached_property
    def mean(self) -> Array:
        """(M,)"""
        return np.asarray(self.weights @ self.means)

    @cached_property
    def sd(self) -> Array:
        """(M,) of the expected value, noise apart."""
        half, spread = self._known(self._cross, self._bowls, self.means - self.mean)
        variance = np.diagonal(self._prior.matrix) - (half**2).sum(axis=0) + (spread**2).sum(axis=0)
        return np.asarray(self.scale.spread * np.sqrt(np.maximum(variance, 0.0)))

    def covariance(self, index: npt.NDArray[np.int64]) -> Array:
        """(C, C) of the expected values of some configurations, the mixture over u* taken for one Gaussian."""
        half, spread = self._known(self._cross[:, index], self._bowls[:, index], (self.means - self.mean)[:, index])
        covariance = self._prior.matrix[np.ix_(index, index)] - half.T @ half + spread.T @ spread
        return np.asarray(self.scale.spread**2 * covariance)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size, M) joint draws of the expected values.

        Drawn from the prior, then moved by what the readings say of the difference (Matheron's rule), so that no
        posterior covariance has to be formed or factored.
        """
        node = rng.choice(len(self.weights), size=size, p=self.weights)
        mean, variance = (each[node] for each in self._curvature)
        bowl = (mean + np.sqrt(variance) * rng.standard_normal(size))[:, None] * self._bowls[node]
        prior = rng.standard_normal((size, len(self._prior.matrix))) @ self._prior.root.T
        missing = self._readings - (prior + bowl)[:, self._seen] - self._reading_noise.draw(rng, size)
        moved = prior + cho_solve((self._factor, True), missing.T, check_finite=False).T @ self._cross
        return np.asarray(self.scale.centre + self.scale.spread * (moved + bowl))

    def next_observation(self, index: npt.NDArray[np.int64], replicate: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """What another observation of some configurations would tell of them.

        Args:
            index: (C,) which of the M configurations.
            replicate: (C,) in which replicate; -1 where not known.

        Returns:
            (C, C) covariances of the observations with the expected values, and (C,) variances of the observations; the
            mixture over u* is taken for one Gaussian with its moments.
        """
        shared, noise = self._prior.shared, self.variances.noise
        known = self._grouped.known_noise(self._said, shared[np.ix_(self._seen, self._seen)], noise)
        # an observation's expectation, in terms of the expected values of those seen, and of the configuration itself
        combine = np.zeros((len(index), len(self._seen)))
        own = shared[index, index] + noise
        for row, (at, number) in enumerate(zip(index, replicate, strict=True)):
            if number in known:
                seen, inverse = known[number]
                places = self._seen[seen]
                combine[row, seen] = -inverse @ shared[places, at]  # what the replicate's other runs say of its noise
                own[row] += shared[at, places] @ combine[row, seen]
        involved = combine.any(axis=0)
        places = np.concatenate([index, self._seen[involved]])  # the only ones that matter
        combine = np.hstack([np.eye(len(index)), combine[:, involved]])
        prior, centred = self._prior.matrix[np.ix_(places, places)], (self.means - self.mean)[:, places]
        n = len(index)
        half, spread = self._known(
            self._cross[:, places] @ combine.T, self._bowls[:, places] @ combine.T, centred @ combine.T
        )
        half_at, spread_at = self._known(self._cross[:, index], self._bowls[:, index], centred[:, :n])
        covariance = combine @ prior[:, :n] - half.T @ half_at + spread.T @ spread_at
        variance = ((combine @ prior) * combine).sum(axis=1) - (half**2).sum(axis=0) + (spread**2).sum(axis=0) + own
        return self.scale.spread**2 * covariance, self.scale.spread**2 * variance

    def _known(self, cross: Array, bowls: Array, means: Array) -> tuple[Array, Array]:
        """Of k combinations of expected values what their posterior covariance is made of.

        Args:
            cross: (m, k) prior covariance with the readings.
            bowls, means: (K, k) the bowls, and the components' means about the mixture's.

        Returns:
            (m, k), whose square is to be taken off the prior covariance, and (2K, k), whose square is to be added: that
            of the bowl's coefficient, and that of its place.
        """
        half = solve_triangular(self._factor, cross, lower=True, check_finite=False)
        within = np.sqrt(self.weights * self._curvature[1])[:, None] * (bowls - self._slopes @ half)
        between = np.sqrt(self.weights)[:, None] * means / self.scale.spread
        return half, np.vstack([within, between])


def fit_posterior(inputs: Inputs, observed: Observations, prior: OptimumPrior, variances: Variances) -> Posterior:
    """The posterior of eq. S1 at given variances; arguments as for `fit_variances`."""
    scale = scale_of(observed)
    grouped = Grouped(observed, scale)
    seen = grouped.seen
    covariance = prior_covariance(inputs, variances)
    square_of = np.ix_(seen, seen)
    said = grouped.information(covariance.shared[square_of], variances.noise)
    noise = _ReadingNoise(said, coupled=grouped.coupled)
    readings = noise.times(said.vector)
    cross = covariance.matrix[seen]
    factor = cholesky(noise.added_to(cross[:, seen]), lower=True, check_finite=False)
    nodes, log_prior = prior.nodes()
    bowls = (inputs.log2_head_dim[None, :] - nodes[:, None]) ** 2  # (K, M)
    # Given its coefficient the bowl is a known curve, so that one factor of everything else serves all nodes: the
    # coefficient is CURVATURE_MEAN + delta with delta | y normal.
    known = np.column_stack([bowls[:, seen].T, readings])
    solved = solve_triangular(factor, known, lower=True, check_finite=False)
    slopes, residuals = solved[:, :-1].T, solved[:, -1] - CURVATURE_MEAN * solved[:, :-1].T  # (K, m)
    variance = 1.0 / (1.0 / CURVATURE_SD**2 + (slopes**2).sum(axis=1))
    delta = variance * (slopes * residuals).sum(axis=1)
    log_weights = log_prior - 0.5 * ((residuals**2).sum(axis=1) - delta**2 / variance) + 0.5 * np.log(variance)
    weights = np.exp(log_weights - log_weights.max())
    left = solve_triangular(factor, (residuals - delta[:, None] * slopes).T, lower=True, trans=1, check_finite=False)
    means = left.T @ cross + (CURVATURE_MEAN + delta[:, None]) * bowls
    return Posterior(
        weights=weights / weights.sum(),
        means=scale.centre + scale.spread * means,
        optimum_nodes=nodes,
        noise_sd=float(scale.spread * np.sqrt(sum(variances.shared) + variances.noise)),
        variances=variances,
        scale=scale,
        _prior=covariance,
        _seen=seen,
        _readings=readings,
        _reading_noise=noise,
        _cross=cross,
        _slopes=slopes,
        _grouped=grouped,
        _said=said,
        _factor=factor,
        _bowls=bowls,
        _curvature=(CURVATURE_MEAN + delta, variance),
    )


class _ReadingNoise:
    """The noise of m readings, given by its precision, which is diagonal where no replicate has two observations."""

    def __init__(self, said: Information, *, coupled: bool) -> None:
        self._variance = 1.0 / np.diagonal(said.precision)
        self._root = cholesky(said.precision, lower=True, check_finite=False) if coupled else None
        self._covariance = None if self._root is None else inverse_of(self._root)

    def times(self, vector: Array) -> Array:
        return np.asarray(self._variance * vector if self._covariance is None else self._covariance @ vector)

    def added_to(self, matrix: Array) -> Array:
        """A copy of ``matrix`` with the noise's covariance added."""
        if self._covariance is not None:
            return np.asarray(matrix + self._covariance)
        found = matrix.copy()
        found[np.diag_indices_from(found)] += self._variance
        return found

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """(size, m)"""
        normal = rng.standard_normal((len(self._variance), size))
        if self._root is None:
            return np.asarray((np.sqrt(self._variance)[:, None] * normal).T)
        return np.asarray(solve_triangular(self._root, normal, lower=True, trans=1, check_finite=False).T)
