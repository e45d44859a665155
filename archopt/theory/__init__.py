"""The paper's mathematics, one file per theorem, in NumPy: what is stated there and what is ours is kept apart."""

from archopt.theory.decorrelation import (
    block_orthogonal_projections,
    decorrelation_gradient,
    decorrelation_penalty,
)
from archopt.theory.diversity import (
    diversity_z_score,
    excess_diversity,
    excess_from_index,
    head_diversity_index,
    head_output_correlation,
    principal_angles,
    random_excess_sd,
    z_score_from_index,
)
from archopt.theory.scaling import (
    FAMILY_DEFAULTS,
    LAWS,
    FamilyDefault,
    TheoryAllocation,
    bound_minimiser,
    family_default,
    mse_bound,
    optimal_allocation,
)
from archopt.theory.weighting import (
    WEIGHTING_SCHEMES,
    error_covariance,
    head_weights,
    heads_by_quality,
    learned_weights,
    minimum_variance_weights,
)

__all__ = [
    "FAMILY_DEFAULTS",
    "LAWS",
    "WEIGHTING_SCHEMES",
    "FamilyDefault",
    "TheoryAllocation",
    "block_orthogonal_projections",
    "bound_minimiser",
    "decorrelation_gradient",
    "decorrelation_penalty",
    "diversity_z_score",
    "error_covariance",
    "excess_diversity",
    "excess_from_index",
    "family_default",
    "head_diversity_index",
    "head_output_correlation",
    "head_weights",
    "heads_by_quality",
    "learned_weights",
    "minimum_variance_weights",
    "mse_bound",
    "optimal_allocation",
    "principal_angles",
    "random_excess_sd",
    "z_score_from_index",
]
