"""Posterior over configurations from noisy, replicated observations: plain arrays in, plain arrays out.

The model (ours) is a Gaussian process over enumerated configurations whose covariance is a sum of named parts:

    f   = level + curvature * (u - u*)^2 + smooth(u) + sum_j [effect_j + effect_j x smooth(u)] + own,  u = log2 head_dim
    g_r = common + smooth(u) + sum_j effect_j x smooth(u)
    y   = f + g_r + noise                                                                                 (eq. S1)

``u*`` is where the prior expects the optimum; it is integrated over a grid, so that data can move it. ``g_r`` is
what observations of replicate r share: they had the same initialisation and batches (common random numbers), so that
configurations that are alike err alike. On our own grids nine tenths of the noise of two weightings of one split are
the same noise: without ``g_r`` every weighting would count as new evidence about the split. The variances of the parts
are found by maximising the marginal likelihood times log-normal priors.
"""

from archopt.surrogate.covariance import Inputs, OptimumPrior, Variances
from archopt.surrogate.observations import Observations
from archopt.surrogate.posterior import Posterior, fit_posterior
from archopt.surrogate.variances import fit_variances

__all__ = ["Inputs", "Observations", "OptimumPrior", "Posterior", "Variances", "fit_posterior", "fit_variances"]
