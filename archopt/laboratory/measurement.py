"""The exact integrated error of one ensemble on one design, at the temperature that the setting asks for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archopt.laboratory.design import Design
from archopt.laboratory.setting import BEST, Setting
from archopt.theory.arrays import Array
from archopt.theory.ensemble import EnsembleMSE, IntegratedMSE, effective_neighbours, ensemble_mse, head_smoothers

# Octaves of temperature that are searched. At n = 100,000 and one dimension the best is about 2^-17.
_OCTAVES = (-20.0, 8.0)
_COARSE_STEP = 2.0
_COARSE_QUERIES = 20
_FINE_STEP = 0.25  # octaves; the error is flat at its minimum
_BLOCK_ELEMENTS = 4_000_000  # of smoothers at a time: 32 MB
_TERMS = ("bias_squared", "variance", "covariance")


@dataclass(frozen=True)
class Measurement:
    """One ensemble's error.

    Args:
        temperature: at which it was measured.
        neighbours: effective number of training rows in an average, mean over heads and query points.
        mse: the three terms of Theorem 3.1 and their sum, in units of the function's variance.
    """

    temperature: float
    neighbours: float
    mse: IntegratedMSE


def measure(setting: Setting, design: Design, key_projections: Array, weights: Array | None = None) -> Measurement:
    """Exact bias, variance and covariance over the training noise, integrated over the query points.

    Args:
        setting: kernel, noise and the rule for the temperature.
        design: what the heads see.
        key_projections: shape (H, D, d_k).
        weights: shape (H,), of the heads; None for uniform.
    """

    def look(temperature: float, every: int = 1) -> tuple[IntegratedMSE, float]:
        return _integrated(setting, design, key_projections, weights, temperature, every)

    temperature = setting.temperature
    if temperature == BEST:
        every = max(1, len(design.queries) // _COARSE_QUERIES)
        temperature = best_temperature(lambda T: look(T, every)[0].mse, lambda T: look(T)[0].mse)
    terms, neighbours = look(float(temperature))
    return Measurement(float(temperature), neighbours, terms)


def smoother_blocks(
    setting: Setting,
    key_projections: Array,
    queries: Array,
    inputs: Array,
    temperature: float,
    own_rows: NDArray[np.intp] | None = None,
) -> Iterator[tuple[slice, Array]]:
    """The heads' smoothers for some query points after others, that stay in the processor's caches meanwhile.

    Three times faster than all at once, and less memory.

    Args:
        setting: its kernel.
        key_projections: shape (H, D, d_k).
        queries, inputs: shapes (m, D) and (n, D).
        temperature: of the kernel.
        own_rows: shape (m,), the training row that each query's average leaves out.

    Yields:
        Which query points, and shape (H, points, n).
    """
    block = max(1, _BLOCK_ELEMENTS // (len(key_projections) * len(inputs)))
    for start in range(0, len(queries), block):
        points = slice(start, start + block)
        left_out = None if own_rows is None else own_rows[points]
        yield (
            points,
            head_smoothers(
                key_projections,
                queries[points],
                inputs,
                kernel=setting.kernel,
                temperature=temperature,
                own_rows=left_out,
            ),
        )


def _integrated(
    setting: Setting,
    design: Design,
    key_projections: Array,
    weights: Array | None,
    temperature: float,
    every: int,
) -> tuple[IntegratedMSE, float]:
    """The terms over every ``every``-th query point, and the mean effective number of neighbours."""
    queries, truth = design.queries[::every], design.truth_at_queries[::every]
    parts, neighbours = [], []
    for points, smoothers in smoother_blocks(setting, key_projections, queries, design.inputs, temperature):
        parts.append(ensemble_mse(smoothers, design.truth_at_inputs, truth[points], setting.noise_variance, weights))
        neighbours.append(effective_neighbours(smoothers))
    terms = [np.concatenate([getattr(part, term) for part in parts]) for term in _TERMS]
    return EnsembleMSE(*terms).integrated, float(np.concatenate(neighbours, axis=1).mean())


def best_temperature(coarse: Callable[[float], float], fine: Callable[[float], float]) -> float:
    """The temperature with the least error.

    Args:
        coarse: an approximate error, looked at on a grid of ``_COARSE_STEP`` octaves.
        fine: the error itself, minimised around the grid's best.
    """
    from scipy.optimize import minimize_scalar

    grid = np.arange(_OCTAVES[0], _OCTAVES[1] + _COARSE_STEP / 2, _COARSE_STEP)
    start = float(grid[int(np.argmin([coarse(2.0**octave) for octave in grid]))])
    around = (start - _COARSE_STEP, start + _COARSE_STEP)
    found = minimize_scalar(
        lambda octave: fine(2.0**octave), bounds=around, method="bounded", options={"xatol": _FINE_STEP}
    )
    return float(2.0**found.x)
