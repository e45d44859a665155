"""Theorem 7.1: structured weights of the heads, fixed before any data are seen.

Symbols: alpha_h (``weights[h - 1]``), the weight of head h in m = sum_h alpha_h m_h; H (``n_heads``); r (``ratio``);
F_k, the Fibonacci numbers F_1 = F_2 = 1, F_{k+1} = F_k + F_{k-1}.

Stated (arXiv:2605.20271, Theorem 7.1): with heads ordered by quality, geometric or Fibonacci weights can beat the
uniform 1/H, above all when the heads' quality differs.

Ours: the normalisation to sum 1, the way they are computed, and the order. In training the order is the head's index:
heads are exchangeable at initialisation, so it costs nothing. A transformer's free output projection W_O can absorb
any fixed positive scale of a head, so there a scheme acts only through initialisation and optimisation.
"""

import numpy as np
from numpy.typing import NDArray

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.theory.checks import choice, number_between

WEIGHTING_SCHEMES = ("uniform", "geometric", "fibonacci")


def head_weights(scheme: str, n_heads: int, ratio: float = 0.8) -> NDArray[np.float64]:
    """Weights of the heads, non-increasing along their order.

    uniform: alpha_h = 1/H; geometric: alpha_h ~ r^{h-1}; fibonacci: alpha_h = F_{H+1-h} / (F_{H+2} - 1), which at H = 2
    is the uniform weighting. At H = 1 every scheme gives 1.

    Args:
        scheme: "uniform", "geometric" or "fibonacci".
        n_heads: H, at least 1.
        ratio: r of the geometric scheme, strictly between 0 and 1; the other schemes do not look at it.

    Returns:
        Shape (H,), float64, non-negative, sum 1. Weights below about 1e-308 of the first one are 0.

    Raises:
        AllocationError: n_heads is not a positive whole number.
        OptionError: an unknown scheme, or a ratio outside (0, 1).

    Source: arXiv:2605.20271, Theorem 7.1; normalisation and computation: ours.
    """
    scheme = choice("scheme", scheme, WEIGHTING_SCHEMES)
    n_heads = HeadAllocation(n_heads, head_dim=1).n_heads
    if scheme == "uniform":
        return np.full(n_heads, 1.0 / n_heads)
    relative = _fibonacci(n_heads) if scheme == "fibonacci" else _geometric(n_heads, ratio)
    weights: NDArray[np.float64] = relative / relative.sum()
    return weights


def _geometric(n_heads: int, ratio: float) -> NDArray[np.float64]:
    r = number_between("ratio", ratio, 0.0, 1.0)
    if r in (0.0, 1.0):
        raise OptionError(f"ratio must lie strictly between 0 and 1 but got {r:g}; for equal weights use 'uniform'")
    powers: NDArray[np.float64] = r ** np.arange(n_heads, dtype=np.float64)  # r^{h-1}
    return powers


def _fibonacci(n_heads: int) -> NDArray[np.float64]:
    """F_{H+1-h} / F_H for h = 1..H.

    F_k itself leaves int64 at k = 93 and float64 at k = 1477. The quotients s_k = F_k / F_{k+1} stay in [1/2, 1] and
    obey s_k = 1 / (1 + s_{k-1}), s_1 = 1. No factor exceeds 1, so rounding cannot break the order either.
    """
    relative = np.ones(n_heads)
    quotient = 1.0  # s_1
    for position in range(n_heads - 1, 0, -1):  # position h - 1 holds F_{H+1-h} / F_{H+2-h} = s_{H+1-h}
        relative[position] = quotient
        quotient = 1.0 / (1.0 + quotient)
    return np.asarray(np.cumprod(relative), dtype=np.float64)
