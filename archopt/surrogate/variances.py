"""The variances of the model's parts, from the values: marginal likelihood times log-normal priors."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from archopt.surrogate.covariance import CURVATURE_MEAN, CURVATURE_SD, Inputs, OptimumPrior, Variances
from archopt.surrogate.observations import JITTER, Grouped, Observations, scale_of

Array = npt.NDArray[np.float64]

VARIANCE_PRIOR_SD = 1.2  # of every log variance
LOWEST, HIGHEST = 1e-6, 30.0
MAX_ITERATIONS = 60
_MOST_NOISE = 1e100  # in spreads: its square is a float


def prior_medians(n_factors: int) -> Variances:
    """Of every variance."""
    return Variances(
        expected=(0.4, *[0.1] * n_factors, *[0.03] * n_factors, 0.01),
        shared=(0.1, 0.5, *[0.05] * n_factors),
        noise=0.15,
    )


def fit_variances(
    inputs: Inputs, observed: Observations, prior: OptimumPrior, *, noise_sd: float | None = None
) -> Variances:
    """Maximum a posteriori variances of the parts of eq. S1; the prior's medians where nothing is observed.

    Args:
        inputs: M configurations.
        observed: N observations of them.
        prior: of the optimum.
        noise_sd: of one observation around its configuration's expected value, in its own units, where it is known; how
            much of it a replicate's runs share is then taken from the prior.
    """
    prior_variances = prior_medians(len(inputs.ordered))
    if len(observed) == 0:
        return prior_variances
    medians, n_expected = prior_variances.to_array(), len(prior_variances.expected)
    scale = scale_of(observed)
    objective = _Objective(inputs, Grouped(observed, scale), prior, medians, n_expected)
    bounds = [(np.log(LOWEST), np.log(HIGHEST))] * len(medians)
    if noise_sd is not None:
        shares = medians[n_expected:] / medians[n_expected:].sum()
        known = np.log(shares * min(noise_sd / scale.spread, _MOST_NOISE) ** 2 + JITTER)
        bounds[n_expected:] = [(value, value) for value in known]
    start = np.clip(np.log(medians), *np.array(bounds).T)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": MAX_ITERATIONS})
    return Variances.from_array(np.exp(found.x), n_expected)


class _Objective:
    """Minus the log of the posterior of the log variances, and its gradient; m^3 an evaluation."""

    def __init__(self, inputs: Inputs, grouped: Grouped, prior: OptimumPrior, medians: Array, n_expected: int) -> None:
        bowl = (inputs.log2_head_dim[grouped.seen] - prior.log2_head_dim) ** 2
        self._parts = inputs.parts(grouped.seen)
        self._shared_parts = inputs.shared_parts(grouped.seen)
        self._n_expected = n_expected
        self._fixed = inputs.fixed(grouped.seen) + CURVATURE_SD**2 * np.outer(bowl, bowl) + JITTER * np.eye(len(bowl))
        self._grouped = grouped.minus(CURVATURE_MEAN * bowl)
        self._log_medians = np.log(medians)

    def __call__(self, log_variances: Array) -> tuple[float, Array]:
        variances = np.exp(log_variances)
        expected, shared_variances, noise = np.split(variances, [self._n_expected, len(variances) - 1])
        shared = np.tensordot(shared_variances, self._shared_parts, axes=1)
        said = self._grouped.information(shared, noise[0])
        covariance = self._fixed + np.tensordot(expected, self._parts, axes=1)
        root = cholesky(covariance, lower=True, check_finite=False)
        inner = np.eye(len(root)) + root.T @ said.precision @ root
        factor = cholesky(inner, lower=True, check_finite=False)
        half = solve_triangular(factor, root.T, lower=True, check_finite=False)
        posterior = half.T @ half  # covariance of f given y
        mean = posterior @ said.vector
        deviation = (log_variances - self._log_medians) / VARIANCE_PRIOR_SD
        loss = 0.5 * (said.log_det + said.square - said.vector @ mean) + np.log(np.diagonal(factor)).sum()
        loss += 0.5 * deviation @ deviation
        # d/d log v_j of the log marginal likelihood is v_j / 2 * tr((alpha alpha^T - K^-1) K_j), K^-1 and alpha in
        # terms of the precision
        alpha = said.vector - said.precision @ mean
        inverse = said.precision - said.precision @ posterior @ said.precision
        by_shared, by_noise = self._grouped.slope(said, shared, noise[0], mean, posterior)
        slopes = [
            np.tensordot(self._parts, inverse - np.outer(alpha, alpha), axes=2),
            np.tensordot(self._shared_parts, by_shared, axes=2),
            np.array([by_noise]),
        ]
        return float(loss), 0.5 * variances * np.concatenate(slopes) + deviation / VARIANCE_PRIOR_SD
