"""Train one allocation on one data set and report at rungs.

Importing this package loads no torch: ``archopt.evaluation.training`` and the worker processes do.
"""

from archopt.evaluation.recipe import default_recipe
from archopt.evaluation.trial import (
    ATTENTION_KERNELS,
    METRICS,
    PRECISIONS,
    WEIGHTINGS,
    Recipe,
    RungReport,
    TrialOutcome,
    TrialSpec,
    check_learning_rate,
    check_warmup,
    check_weight_decay,
)

__all__ = [
    "ATTENTION_KERNELS",
    "METRICS",
    "PRECISIONS",
    "WEIGHTINGS",
    "Recipe",
    "RungReport",
    "TrialOutcome",
    "TrialSpec",
    "check_learning_rate",
    "check_warmup",
    "check_weight_decay",
    "default_recipe",
]
