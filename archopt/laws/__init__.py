"""Empirical scaling laws of the best head_dim in n and D, and recommendations for sizes that cannot be tried.

A law is loaded, and a size recommended, without what a fit needs: that is imported on first use.
"""

from typing import TYPE_CHECKING, Any

from archopt.laws.law import ScalingLaw
from archopt.laws.next_cell import GridCellState, next_cell
from archopt.laws.records import CellSummary, LawFit, Prediction
from archopt.laws.size import SizeRecommendation, Source, recommend_size

if TYPE_CHECKING:
    from archopt.laws.scaling import fit_scaling_law

__all__ = [
    "CellSummary",
    "GridCellState",
    "LawFit",
    "Prediction",
    "ScalingLaw",
    "SizeRecommendation",
    "Source",
    "fit_scaling_law",
    "next_cell",
    "recommend_size",
]


def __getattr__(name: str) -> Any:
    if name == "fit_scaling_law":
        from archopt.laws.scaling import fit_scaling_law

        return fit_scaling_law
    raise AttributeError(f"module 'archopt.laws' has no attribute {name!r}")
