"""What a fit leaves: one record a law, one a cell, one a prediction."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation, feasible_allocations, nearest_allocation

Array = npt.NDArray[np.float64]


def place(n_samples: float, d_model: int, group: Iterable[tuple[str, object]]) -> str:
    """Such as "n = 1,000, D = 48, n_layers = 4"."""
    return ", ".join([f"n = {n_samples:,.6g}", f"D = {d_model:,}", *(f"{name} = {value}" for name, value in group)])


@dataclass(frozen=True)
class LawFit:
    """One law fitted to the cells.

    Attributes:
        name: a key of `archopt.laws.families.DESCRIPTIONS`.
        parameters, estimate, low, high: names, maximum-likelihood values and central posterior intervals;
            ``log2_head_dim`` is at the cells' geometric mean n and D.
        bootstrap: (low, high) of each parameter over refits to resampled runs; too narrow where optima are censored.
            None where it was not asked for, or the law is rejected.
        scatter: tau of (L9), octaves.
        log_likelihood, aicc: of the cells; tau counts as a parameter.
        delta: AICc less the best law's.
        weight: Akaike's, exp(-delta / 2) to a sum of 1: what predictions mix the laws by.
        rejected: whether another law is better by more than chance explains.
        largest_n_error: octaves by which the law, fitted without the largest n, misses the optima there; None where it
            could not be fitted without.
        draws: (draws, p + 1) parameters and tau from the posterior.
    """

    name: str
    parameters: tuple[str, ...]
    estimate: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    bootstrap: tuple[tuple[float, float], ...] | None
    scatter: float
    log_likelihood: float
    aicc: float
    delta: float
    weight: float
    rejected: bool
    largest_n_error: float | None
    draws: Array

    def interval(self, parameter: str) -> tuple[float, float, float]:
        """Estimate, low, high of a parameter."""
        at = self.parameters.index(parameter)
        return self.estimate[at], self.low[at], self.high[at]

    @property
    def in_words(self) -> str:
        """Every parameter with its interval, such as "exponent_n 0.2 [0.1, 0.3]"."""
        return ", ".join(
            f"{name} {value:.3g} [{low:.3g}, {high:.3g}]"
            for name, value, low, high in zip(self.parameters, self.estimate, self.low, self.high, strict=True)
        )


@dataclass(frozen=True)
class CellSummary:
    """One cell: where its best head_dim lies.

    Attributes:
        head_dim, low, high: median and central 90 % interval of the vertex, within what was tried.
        censored: "below", "above", "both" where the best may lie beyond what was tried; "" elsewhere.
        best_tried: head_dim with the lowest mean loss; ``tied`` those not told apart from it, none where the noise is
            not known.
        tried: the lowest and the highest head_dim.
    """

    n_samples: float
    d_model: int
    group: dict[str, Any]
    head_dim: float
    low: float
    high: float
    censored: str
    best_tried: int
    tied: tuple[int, ...]
    tried: tuple[int, int]

    @property
    def label(self) -> str:
        """Which cell it is."""
        return place(self.n_samples, self.d_model, self.group.items())


@dataclass(frozen=True)
class Prediction:
    """The best head_dim at a size, and how sure that is.

    Attributes:
        head_dim: median, within [1, D].
        interval: central, at ``confidence``.
        allocations: the splits of D inside the interval, or the nearest one; by rising head_dim.
        mean, sd: median of log2 head_dim and half the width of its central 68 %, before it is kept within [1, D].
        basis: what it rests on.
        warnings: one line each.
    """

    n_samples: float
    d_model: int
    head_dim: float
    interval: tuple[float, float]
    confidence: float
    allocations: tuple[HeadAllocation, ...]
    mean: float
    sd: float
    basis: str
    warnings: tuple[str, ...]

    @property
    def allocation(self) -> HeadAllocation:
        """The split of D nearest to ``head_dim``."""
        return nearest_allocation(self.head_dim, feasible_allocations(self.d_model))


def splits_inside(d_model: int, low: float, high: float, head_dim: float) -> tuple[HeadAllocation, ...]:
    """The splits of D with low <= d_k <= high, or else the one nearest to ``head_dim``."""
    every = feasible_allocations(d_model)
    inside = tuple(split for split in every if low * (1 - 1e-9) <= split.head_dim <= high * (1 + 1e-9))
    return inside or (nearest_allocation(head_dim, every),)
