"""Which cell of a grid over (n, D) to train in next, so that the law of the best head_dim becomes certain soonest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archopt.errors import OptionError

SCATTER_OCTAVES = 0.5  # of cells' optima around a law: no number of trials in one cell takes it away

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GridCellState:
    """What a cell has come to. Where its optimum lies does not matter here: the certainty of a line depends on that
    of its points alone.

    Attributes:
        n_samples: training rows or bytes, at least 2.
        d_model: D, at least 1.
        sd_octaves: of the best log2 head_dim, by the cell's own trials; above 0.
        n_trials: that it rests on, at least 1.
        trial_seconds: what one more costs; above 0.

    Raises:
        OptionError: one of them is outside that.
    """

    n_samples: float
    d_model: float
    sd_octaves: float
    n_trials: int
    trial_seconds: float

    def __post_init__(self) -> None:
        lowest = {"n_samples": (2.0, True), "d_model": (1.0, True), "n_trials": (1.0, True)}
        for name in ("n_samples", "d_model", "sd_octaves", "n_trials", "trial_seconds"):
            low, included = lowest.get(name, (0.0, False))
            value = getattr(self, name)
            if not (math.isfinite(value) and (value > low or (included and value == low))):
                raise OptionError(f"{name} must be {'at least' if included else 'above'} {low:g} but got {value}")


def next_cell(cells: Sequence[GridCellState], n_more: int) -> int:
    """The cell in which ``n_more`` trials lower the law's summed predictive variance most, per second of training.

    The law is log2 d_k* = b0 + b1 log2 ln n + b2 log2 D, without the terms that do not vary. A cell's optimum is read
    with variance sd^2 + `SCATTER_OCTAVES`^2; after k more trials than the t that it has, sd^2 is taken to be
    sd^2 t / (t + k). A cell so flat that a few trials leave it nearly as uncertain gets them only where no other cell
    says what the law is there.

    Args:
        cells: the grid, at least one.
        n_more: k, at least 1.

    Returns:
        Position in ``cells``; of equals the first.

    Raises:
        OptionError: no cell, or k below 1.
    """
    if not cells:
        raise OptionError("cells must hold at least one cell but got none")
    if n_more < 1:
        raise OptionError(f"n_more must be at least 1 but got {n_more}")
    design = law_design([cell.n_samples for cell in cells], [cell.d_model for cell in cells])
    variance = np.array([cell.sd_octaves**2 for cell in cells])
    now = summed_variance(design, variance)
    gains = []
    for at, cell in enumerate(cells):
        later = variance.copy()
        later[at] *= cell.n_trials / (cell.n_trials + n_more)
        gains.append((now - summed_variance(design, later)) / (n_more * cell.trial_seconds))
    best = max(gains)
    return next(at for at, gain in enumerate(gains) if gain >= best * (1.0 - 1e-9))  # equal but for rounding


def law_design(n_samples: Sequence[float], d_models: Sequence[float]) -> Array:
    """(C, 1 to 3) columns 1, log2 ln n, log2 D of C cells; those that do not vary are left out."""
    columns = [np.log2(np.log(np.asarray(n_samples, dtype=np.float64))), np.log2(np.asarray(d_models, np.float64))]
    varying = [column - column.mean() for column in columns if np.ptp(column) > 1e-12]
    return np.column_stack([np.ones(len(n_samples)), *varying])


def summed_variance(design: Array, variance: Array) -> float:
    """Sum over the cells of the variance of the fitted law there, in octaves squared.

    Args:
        design: (C, P), of any rank: what a cell's law is at the cells themselves is known all the same.
        variance: (C,) of the cells' optima, without their scatter around the law.
    """
    weight = 1.0 / (variance + SCATTER_OCTAVES**2)
    information = design.T @ (weight[:, None] * design)
    return float(np.trace(design @ np.linalg.pinv(information, rcond=1e-10, hermitian=True) @ design.T))
