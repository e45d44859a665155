"""Regression functions whose values are known, of inputs with any number of independent dimensions.

All take latent coordinates u, uniform on [-1, 1]^d, and are scaled to mean 0 and variance 1 there, so that noise has
the same meaning for each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from archopt.theory.arrays import Array

_REFERENCE_ROWS = 20_000  # mean and scale to about 1 %, the same in every run


@dataclass(frozen=True)
class RegressionFunction:
    """m(u) for u of shape (n, d).

    Args:
        evaluate: rows (n, d) to values (n,), before scaling.
        smoothness: beta in mean square, which is what an integrated error sees: the squared bias of a kernel average
            falls like h^(2 beta). 2 for everything smoother, as a positive kernel cannot use more.
        min_dim: least d.
    """

    evaluate: Callable[[Array], Array]
    smoothness: float
    min_dim: int


def _friedman(u: Array) -> Array:  # Friedman (1991), number 1; coordinates beyond 5 do nothing
    x = (u + 1.0) / 2.0
    first: Array = 10.0 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20.0 * (x[:, 2] - 0.5) ** 2
    return first + 10.0 * x[:, 3] + 5.0 * x[:, 4]


def _radial(u: Array) -> Array:
    values: Array = np.exp(-3.0 * (u**2).mean(axis=1))  # E mean u^2 = 1/3: the exponent is about -1 at every d
    return values


def _additive(u: Array) -> Array:
    values: Array = np.sin(np.pi * u).sum(axis=1)
    return values


def _sparse(u: Array) -> Array:  # one coordinate matters
    values: Array = np.sin(np.pi * u[:, 0])
    return values


def _rough(u: Array) -> Array:  # its derivative is only just not square-integrable
    values: Array = np.sqrt(np.abs(u)).sum(axis=1)
    return values


FUNCTIONS: Mapping[str, RegressionFunction] = MappingProxyType(
    {
        "friedman": RegressionFunction(_friedman, 2.0, 5),
        "additive": RegressionFunction(_additive, 2.0, 1),
        "radial": RegressionFunction(_radial, 2.0, 1),
        "sparse": RegressionFunction(_sparse, 2.0, 1),
        "rough": RegressionFunction(_rough, 1.0, 1),
    }
)


def regression_values(name: str, u: Array) -> Array:
    """m(u), scaled to mean 0 and variance 1 over the uniform distribution on [-1, 1]^d.

    Args:
        name: a key of ``FUNCTIONS``.
        u: shape (n, d), d at least the function's ``min_dim``.

    Returns:
        Shape (n,).
    """
    centre, scale = _moments(name, u.shape[1])
    return (FUNCTIONS[name].evaluate(u) - centre) / scale


@lru_cache(maxsize=64)
def _moments(name: str, intrinsic_dim: int) -> tuple[float, float]:
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (_REFERENCE_ROWS, intrinsic_dim))
    values = FUNCTIONS[name].evaluate(rows)
    return float(values.mean()), float(values.std())
