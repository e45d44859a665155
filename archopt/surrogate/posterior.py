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
    _precision_root: Array  # (m, m) lower Cholesky factor of the precision of the readings' noise
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
        common = np.diagonal(self._prior.matrix) - (self._half**2).sum(axis=0)
        return np.asarray(self.scale.spread * np.sqrt(np.maximum(common + (self._mixture**2).sum(axis=0), 0.0)))

    @cached_property
    def _half(self) -> Array:
        """(m, M); prior less its square is the covariance of all but the bowl."""
        return np.asarray(
            solve_triangular(self._factor, self._prior.matrix[self._seen], lower=True, check_finite=False)
        )

    @cached_property
    def _mixture(self) -> Array:
        """(2K, M) whose square is the covariance due to the bowl: its coefficient's, and that of its place."""
        slopes = solve_triangular(self._factor, self._bowls[:, self._seen].T, lower=True, check_finite=False)
        unexplained = self._bowls - slopes.T @ self._half
        within = np.sqrt(self.weights * self._curvature[1])[:, None] * unexplained
        between = np.sqrt(self.weights)[:, None] * (self.means - self.mean) / self.scale.spread
        return np.vstack([within, between])

    def next_observation(self, index: npt.NDArray[np.int64], replicate: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """What another observation of some configurations would tell.

        Args:
            index: (C,) which of the M configurations.
            replicate: (C,) in which replicate; -1 where not known.

        Returns:
            (C, M) covariances of the observations with the expected values, and (C,) variances of the observations; the
            mixture over u* is taken for one Gaussian with its moments.
        """
        shared, noise = self._prior.shared, self.variances.noise
        known = self._grouped.known_noise(self._said, shared[np.ix_(self._seen, self._seen)], noise)
        combine = np.zeros((len(index), len(shared)))  # an observation's expectation, in terms of expected values
        own = shared[index, index] + noise
        for row, (at, number) in enumerate(zip(index, replicate, strict=True)):
            if number in known:
                seen, inverse = known[number]
                places = self._seen[seen]
                pull = inverse @ shared[places, at]  # what the replicate's other runs say of the noise of this one
                combine[row, places] -= pull
                own[row] -= shared[at, places] @ pull
        combine[np.arange(len(index)), index] += 1.0
        covariance = combine @ self._prior.matrix
        half = solve_triangular(self._factor, covariance[:, self._seen].T, lower=True, check_finite=False)
        covariance += (combine @ self._mixture.T) @ self._mixture - half.T @ self._half
        variance = np.einsum("ij,ij->i", covariance, combine) + own
        return self.scale.spread**2 * covariance, self.scale.spread**2 * variance

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size, M) joint draws of the expected values.

        Drawn from the prior, then moved by what the readings say of the difference (Matheron's rule), so that no
        posterior covariance has to be formed or factored.
        """
        node = rng.choice(len(self.weights), size=size, p=self.weights)
        mean, variance = (each[node] for each in self._curvature)
        bowl = (mean + np.sqrt(variance) * rng.standard_normal(size))[:, None] * self._bowls[node]
        prior = rng.standard_normal((size, len(self._prior.matrix))) @ self._prior.root.T
        noise = rng.standard_normal((len(self._seen), size))
        noise = solve_triangular(self._precision_root, noise, lower=True, trans=1, check_finite=False).T
        missing = self._readings - (prior + bowl)[:, self._seen] - noise
        moved = (
            prior + cho_solve((self._factor, True), missing.T, check_finite=False).T @ self._prior.matrix[self._seen]
        )
        return np.asarray(self.scale.centre + self.scale.spread * (moved + bowl))


def fit_posterior(inputs: Inputs, observed: Observations, prior: OptimumPrior, variances: Variances) -> Posterior:
    """The posterior of eq. S1 at given variances; arguments as for `fit_variances`."""
    scale = scale_of(observed.value)
    grouped = Grouped(observed, scale)
    seen = grouped.seen
    covariance = prior_covariance(inputs, variances)
    square_of = np.ix_(seen, seen)
    said = grouped.information(covariance.shared[square_of], variances.noise)
    precision_root = cholesky(said.precision, lower=True, check_finite=False)
    noise = inverse_of(precision_root)
    readings = noise @ said.vector
    factor = cholesky(covariance.matrix[square_of] + noise, lower=True, check_finite=False)
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
    means = left.T @ covariance.matrix[seen] + (CURVATURE_MEAN + delta[:, None]) * bowls
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
        _precision_root=precision_root,
        _grouped=grouped,
        _said=said,
        _factor=factor,
        _bowls=bowls,
        _curvature=(CURVATURE_MEAN + delta, variance),
    )
