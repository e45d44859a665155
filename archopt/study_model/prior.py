"""Where the best head_dim is expected before any trial."""

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from archopt.search_space import SearchSpace, recorded_optimum
from archopt.surrogate import OptimumPrior
from archopt.theory import family_default, optimal_allocation

if TYPE_CHECKING:
    import optuna

FLAT_SD_OCTAVES = 3.0  # prior on log2 d_k where there is no theory to ask: spans the divisors of any practical width
UNKNOWN_N_SAMPLES = 1e5  # the log-law moves by a fifth from 1e3 to 1e9, far less than its constant's spread


def closed_form_prior(
    d_model: int,
    *,
    n_samples: float | None = None,
    intrinsic_dim: float | None = None,
    smoothness: float = 2.0,
    family: str | None = None,
    constant: float | None = None,
) -> OptimumPrior:
    """Where the log-law (Thm 6.1) expects the best log2 head_dim, and how surely (theory.md, section 5).

    Args:
        d_model: D; the expectation is kept within [1, D].
        n_samples: training rows or tokens; 1e5 where not known.
        intrinsic_dim: of the inputs; the family's where not known.
        smoothness: beta.
        family: "table" or "text", for the constant; "table" where not given.
        constant: in place of the family's.
    """
    default = family_default(family or "table")
    law = optimal_allocation(
        d_model,
        UNKNOWN_N_SAMPLES if n_samples is None else n_samples,
        default.intrinsic_dim if intrinsic_dim is None else intrinsic_dim,
        smoothness,
        default.constant if constant is None else constant,
    )
    return OptimumPrior(math.log2(min(max(law.head_dim, 1.0), d_model)), default.sd_octaves)


def recorded_prior(study: "optuna.Study", space: SearchSpace) -> OptimumPrior:
    """What the study's sampler expected; flat where it left no note."""
    recorded = recorded_optimum(study)
    return flat_prior(space.log2_head_dim) if recorded is None else OptimumPrior(*recorded)


def flat_prior(log2_head_dim: npt.NDArray[np.float64]) -> OptimumPrior:
    """No opinion: centred on the space, far wider than it."""
    return OptimumPrior(float(np.mean(log2_head_dim)), FLAT_SD_OCTAVES)
