"""Empirical scaling laws of the best head_dim in n and D, and recommendations for sizes that cannot be tried."""

from archopt.laws.law import CellSummary, LawFit, Prediction, ScalingLaw
from archopt.laws.scaling import fit_scaling_law

__all__ = ["CellSummary", "LawFit", "Prediction", "ScalingLaw", "fit_scaling_law"]
