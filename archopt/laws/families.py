"""The laws that are held against cells (theory.md, section 5), each as log2 of the best head_dim.

Linear in their parameters, up to a fixed part:

(L3)  log2 d_k* = t0                                              constant
(L4)  log2 d_k* = t0 + t1 log2 ln n                               log-law (6.1), exponent free
(L5)  log2 d_k* = t0 + 2/(2 beta + d) log2 ln n                   log-law, exponent of Theorem 6.1
(L6)  log2 d_k* = t0 + t1 log2 n                                  power law (6.3)
(L7)  log2 d_k* = t0 + t1 log2 n + t2 log2 D                      n^p D^q, and D^q alone
(L8)  the minimiser of the bound (6.4) in log2(B/sigma^2) = t0    heads independent (rho = 0), or rho = 0.9

n and D are taken relative to the cells' geometric means, so that t0 is log2 of the head_dim there and parameters are
nearly uncorrelated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log

import numpy as np
import numpy.typing as npt

from archopt.theory.scaling import MAX_SMOOTHNESS

Array = npt.NDArray[np.float64]

CORRELATED = 0.9  # of the pilots' heads (theory.md, section 5)
_LOG2 = log(2.0)
_MOST_DIM = 1e100  # of the data: the bound at more is beyond the floats
_TABLE: Array = np.linspace(-4.0, 24.0, 561)  # log2 head_dim at which (6.5) is solved for B/sigma^2


@dataclass(frozen=True)
class Curve:
    """A law at given cells.

    Attributes:
        name: a key of `DESCRIPTIONS`.
        parameters: their names.
        values: parameters (R, p) to log2 head_dim (R, C).
        jacobian: parameters (R, p) to its derivatives (R, C, p).
        least: of the first parameter; below it nothing changes any more.
    """

    name: str
    parameters: tuple[str, ...]
    values: Callable[[Array], Array]
    jacobian: Callable[[Array], Array]
    least: float = -inf


@dataclass(frozen=True)
class Basis:
    """What the cells are taken relative to, and the theory's constants.

    Attributes:
        n_samples, d_model: geometric means over the cells.
        intrinsic_dim, smoothness: d and beta of (6.1)-(6.5); beta counts as at most 2.
    """

    n_samples: float
    d_model: float
    intrinsic_dim: float
    smoothness: float

    @property
    def exponent(self) -> float:
        """2 / (2 beta + d)."""
        return 2.0 / (2.0 * min(self.smoothness, MAX_SMOOTHNESS) + self.intrinsic_dim)


DESCRIPTIONS = {
    "constant": "d_k = c",
    "log": "d_k = c (log n)^p",
    "log_theory": "d_k = c (log n)^{2/(2 beta + d)}, the theorem's",
    "power": "d_k = c n^p",
    "power_width": "d_k = c n^p D^q",
    "width": "d_k = c D^q",
    "bound_independent": "minimiser of the bound, independent heads",
    "bound_correlated": "minimiser of the bound, correlated heads (rho = 0.9)",
}


def curve(name: str, basis: Basis, n_samples: Array, d_model: Array) -> Curve:
    """The law called ``name`` at cells of these sizes (C,)."""
    n, width = np.asarray(n_samples, dtype=np.float64), np.asarray(d_model, dtype=np.float64)
    one = np.ones_like(n)
    log_n = np.log2(np.log(n)) - np.log2(np.log(basis.n_samples))
    power_n, power_d = np.log2(n / basis.n_samples), np.log2(width / basis.d_model)
    if name == "constant":
        return _linear(name, {"log2_head_dim": one})
    if name == "log":
        return _linear(name, {"log2_head_dim": one, "exponent_log_n": log_n})
    if name == "log_theory":
        return _linear(name, {"log2_head_dim": one}, basis.exponent * log_n)
    if name == "power":
        return _linear(name, {"log2_head_dim": one, "exponent_n": power_n})
    if name == "power_width":
        return _linear(name, {"log2_head_dim": one, "exponent_n": power_n, "exponent_d_model": power_d})
    if name == "width":
        return _linear(name, {"log2_head_dim": one, "exponent_d_model": power_d})
    rho = {"bound_independent": 0.0, "bound_correlated": CORRELATED}[name]
    return _bound(name, basis, n, width, rho)


def design_rank(name: str, basis: Basis, n_samples: Array, d_model: Array) -> tuple[int, int]:
    """(rank, parameters) of a law at cells: less rank than parameters leaves some undetermined."""
    at = curve(name, basis, n_samples, d_model)
    size = len(at.parameters)
    columns = at.jacobian(np.full((1, size), 4.0))[0] if size > 1 else np.ones((len(n_samples), 1))
    return int(np.linalg.matrix_rank(columns, tol=1e-6 * np.sqrt(len(columns)))), size


def _linear(name: str, columns: dict[str, Array], fixed: Array | float = 0.0) -> Curve:
    design = np.column_stack(list(columns.values()))

    def values(theta: Array) -> Array:
        return np.asarray(theta @ design.T + fixed)

    def jacobian(theta: Array) -> Array:
        return np.asarray(np.broadcast_to(design, (len(theta), *design.shape)))

    return Curve(name, tuple(columns), values, jacobian)


def _bound(name: str, basis: Basis, n: Array, width: Array, rho: float) -> Curve:
    """(6.5) read from right to left: B/sigma^2 is explicit in d_k, and rises with it."""
    d, beta = min(basis.intrinsic_dim, _MOST_DIM), min(basis.smoothness, MAX_SMOOTHNESS)
    t = _TABLE * _LOG2
    shared = np.log(rho * d / 2.0) + d / 2.0 * t if rho > 0.0 else np.full_like(t, -np.inf)
    own = np.log((1.0 - rho) * (d + 2.0) / 2.0) + (d / 2.0 + 1.0) * t - np.log(width)[:, None]  # (C, table)
    ratio = (np.logaddexp(shared, own) + beta * t - np.log(beta) - np.log(n)[:, None]) / _LOG2  # (6.5)
    slope = np.gradient(_TABLE) / np.gradient(ratio, axis=1)
    least = np.log2(d)  # (6.4) holds for d_k >= d

    def at(theta: Array, of: Callable[[int], Array]) -> Array:
        return np.column_stack([np.interp(theta[:, 0], ratio[row], of(row)) for row in range(len(n))])

    def values(theta: Array) -> Array:
        return np.maximum(at(theta, lambda row: _TABLE), least)

    def jacobian(theta: Array) -> Array:
        free = at(theta, lambda row: _TABLE) > least
        return np.asarray((at(theta, lambda row: slope[row]) * free)[..., None])

    floor = min(float(np.interp(least, _TABLE, row)) for row in ratio)  # below it every cell is at d_k = d
    return Curve(name, ("log2_bias_to_noise",), values, jacobian, floor)
