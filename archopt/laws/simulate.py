"""New losses for the same runs, as a law with its scatter and the cells' own noise would have them.

One simulator for everything that asks "what if": intervals (a bootstrap over the runs inside cells and over the scatter
of cells about the law), how much more data would tell laws apart, and the tests.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from archopt.laws.cells import Cell, Stack
from archopt.laws.fit import DEGREES

Array = npt.NDArray[np.float64]

ENOUGH_RESIDUALS = 4  # degrees of freedom from which a cell's own residuals are drawn, else normal ones


def simulate_losses(
    stacked: Stack,
    cells: Sequence[Cell],
    law_values: Array,
    scatter: float,
    curvature: Array,
    rng: np.random.Generator,
    count: int,
) -> Array:
    """(R, C, K) mean losses, by (L1) without skew, with the vertices of (L9).

    Args:
        law_values: (C,) log2 head_dim that the law asks for.
        scatter: tau, octaves.
        curvature: (C,) b.
        count: R.
    """
    vertex = law_values + scatter * rng.standard_t(DEGREES, (count, len(law_values)))
    bowl = curvature[:, None] * (stacked.x - vertex[..., None]) ** 2
    there = np.isfinite(stacked.noise)
    sd = np.sqrt(np.where(there, stacked.noise, 0.0))
    near = np.where(there & (np.abs(stacked.x - vertex[..., None]) <= 2.0), bowl, 0.0).max(axis=-1, keepdims=True)
    shape = stacked.misfit * np.maximum(near, 1e-12) * rng.standard_normal(bowl.shape)
    return np.asarray(bowl + sd * _mean_residuals(cells, bowl.shape, rng) + shape)


def _mean_residuals(cells: Sequence[Cell], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """(R, C, K) of unit variance: means of as many of the cell's own residuals, drawn again, as it has runs."""
    drawn = rng.standard_normal(shape)
    for row, cell in enumerate(cells):
        if cell.degrees < ENOUGH_RESIDUALS or cell.loss_sd is not None:
            continue
        unit = cell.residuals - cell.residuals.mean()
        size = float(unit.std())
        if size == 0.0:
            continue
        unit = unit / size
        runs = np.maximum(np.rint(cell.runs), 1.0)
        most = int(runs.max())
        picks = unit[rng.integers(0, len(unit), (shape[0], len(cell.loss), most))]
        counted = np.arange(most) < runs[:, None]
        drawn[:, row, : len(cell.loss)] = (picks * counted).sum(axis=-1) / np.sqrt(runs)
    return drawn
