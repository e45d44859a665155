"""How sure a law's parameters are: draws from their posterior.

The likelihood is (L9), the prior flat in theta, as far down as it changes anything, and half-Cauchy in tau:

(L10)  p(theta, tau | cells) ~ prod_c M_c(law_c(theta); tau) / (1 + (tau / tau0)^2)

Drawn by importance sampling from a Student's t about the maximum at each tau, twice as wide as the information there
says. Refits of resampled runs (a bootstrap) are no substitute where optima are censored: there their intervals held the
truth in 50 to 90 % of simulations instead of 90 %, these in 80 to 100 % (studies/2026-12-03_scaling_law).
"""

import numpy as np
import numpy.typing as npt

from archopt.laws.families import Curve
from archopt.laws.fit import Tables, climb, log_density

Array = npt.NDArray[np.float64]

TYPICAL_SCATTER = 0.5  # tau0, octaves: on our grids the best head_dim moved by 0.4 and 0.7 between sizes
PER_SCATTER = 500  # proposals a tau
_DEGREES = 4.0  # of the proposals' Student's t
_WIDER = 2.0  # their variance over the information's inverse
_LEAST_INFORMATION = 1e-4  # per squared unit of a parameter: flat directions are looked at as far as 100 units


def posterior_draws(by_scatter: list[Tables], law: Curve, starts: Array, rng: np.random.Generator, count: int) -> Array:
    """(count, p + 1) draws of theta and tau.

    Args:
        by_scatter: tables (1, C, grid) of one set of cells, one a tau; the taus about evenly spaced in their logarithm.
        starts: (S, 1, p), as for `fit_law`.
    """
    drawn, weight = [], []
    for tables in by_scatter:
        found = [climb(tables, law, start) for start in starts]
        theta, _, _ = max(found, key=lambda item: float(item[1][0]))
        size = theta.shape[1]
        _, information = log_density(tables, law, theta)
        covariance = _WIDER * np.linalg.inv(information[0] + _LEAST_INFORMATION * np.eye(size))
        root = np.linalg.cholesky(covariance)
        normal = rng.standard_normal((PER_SCATTER, size))
        stretch = np.sqrt(_DEGREES / rng.chisquare(_DEGREES, PER_SCATTER))[:, None]
        proposed = theta + (normal * stretch) @ root.T
        distance = ((normal * stretch) ** 2).sum(axis=1)
        proposal = -0.5 * (_DEGREES + size) * np.log1p(distance / _DEGREES) - np.log(np.diag(root)).sum()
        prior = np.log(tables.scatter) - np.log1p((tables.scatter / TYPICAL_SCATTER) ** 2)  # taus are spaced in log
        density = np.where(proposed[:, 0] >= law.least, log_density(tables, law, proposed)[0], -np.inf)
        weight.append(density + prior - proposal)
        drawn.append(np.column_stack([proposed, np.full(PER_SCATTER, tables.scatter)]))
    log_weight = np.concatenate(weight)
    probability = np.exp(log_weight - log_weight.max())
    picked = rng.choice(len(log_weight), count, p=probability / probability.sum())
    return np.asarray(np.concatenate(drawn)[picked])
