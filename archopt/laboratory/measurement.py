"""The exact integrated error of one ensemble on one design, at the temperature that the setting asks for."""

from dataclasses import dataclass

import numpy as np

from archopt.laboratory.design import Design
from archopt.laboratory.setting import BEST, Setting
from archopt.laboratory.temperatures import TEMPERATURES, fixed_temperature, smoother_blocks
from archopt.theory.arrays import Array
from archopt.theory.ensemble import EnsembleMSE, IntegratedMSE, ensemble_mse
from archopt.theory.nadaraya_watson import effective_neighbours

_TERMS = ("bias_squared", "variance", "covariance")


@dataclass(frozen=True)
class Measurement:
    """One ensemble's error.

    Args:
        temperature: at which it was measured, for keys of unit variance.
        neighbours: effective number of training rows in an average, mean over heads and query points.
        mse: the three terms of Theorem 3.1 and their sum, in units of the function's variance.
        at_edge: the best temperature was the highest or the lowest one looked at: nearly the plain mean, or (Gaussian
            kernel) the nearest neighbour.
    """

    temperature: float
    neighbours: float
    mse: IntegratedMSE
    at_edge: bool = False


def measure(setting: Setting, design: Design, key_projections: Array) -> Measurement:
    """Exact bias, variance and covariance, uniform weights, over the training noise, integrated over the query points.

    The best temperature is looked for in steps of an octave, at all query points (the error may have several minima),
    and once between the best three.

    Args:
        setting: kernel, noise and the rule for the temperature.
        design: what the heads see.
        key_projections: shape (H, D, d_k).
    """
    if setting.temperature != BEST:
        fixed = fixed_temperature(setting, key_projections.shape[2])
        return _measured(setting, design, key_projections, np.array([fixed]))[0]
    octaves = _measured(setting, design, key_projections, TEMPERATURES)
    errors = [found.mse.mse for found in octaves]
    best = int(np.argmin(errors))
    if best in (0, len(octaves) - 1):
        edge = octaves[best]
        return Measurement(edge.temperature, edge.neighbours, edge.mse, at_edge=True)
    between = TEMPERATURES[best] * 2.0 ** -_parabola(*errors[best - 1 : best + 2])
    refined = _measured(setting, design, key_projections, np.array([between]))[0]
    return min(octaves[best], refined, key=lambda found: found.mse.mse)


def _measured(setting: Setting, design: Design, key_projections: Array, temperatures: Array) -> list[Measurement]:
    """The same at every one of some temperatures, each half the one before."""
    terms = np.empty((len(temperatures), len(_TERMS), len(design.queries)))
    neighbours = np.empty((len(temperatures), len(design.queries)))
    blocks = smoother_blocks(setting, key_projections, design.queries, design.inputs, temperatures)
    for points, index, smoothers in blocks:
        found = ensemble_mse(smoothers, design.truth_at_inputs, design.truth_at_queries[points], setting.noise_variance)
        terms[index, :, points] = [getattr(found, term) for term in _TERMS]
        neighbours[index, points] = effective_neighbours(smoothers).mean(axis=0)
    return [
        Measurement(float(temperature), float(count.mean()), EnsembleMSE(*parts).integrated)
        for temperature, count, parts in zip(temperatures, neighbours, terms, strict=True)
    ]


def _parabola(before: float, here: float, after: float) -> float:
    """Where the parabola through three equally spaced values is least, in steps from the middle, which is no larger."""
    curvature = before - 2.0 * here + after
    return 0.5 * (before - after) / curvature if curvature > 0.0 else 0.0
