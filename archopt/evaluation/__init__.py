"""Train one allocation on one data set and report at rungs.

Importing this package loads no torch: ``archopt.evaluation.training`` and the worker processes do.
"""

from archopt.evaluation.recipe import default_recipe
from archopt.evaluation.trial import METRICS, WEIGHTINGS, Recipe, RungReport, TrialOutcome, TrialSpec

__all__ = [
    "METRICS",
    "WEIGHTINGS",
    "Recipe",
    "RungReport",
    "TrialOutcome",
    "TrialSpec",
    "default_recipe",
]
