"""Theorem 7.1: weights of the heads, fixed before any data are seen, learned, or of least variance.

Symbols: alpha_h (``weights[h - 1]``), the weight of head h in m = sum_h alpha_h m_h; H (``n_heads``); r (``ratio``);
F_k, the Fibonacci numbers F_1 = F_2 = 1, F_{k+1} = F_k + F_{k-1}; e_h(x) the error of head h; Sigma
(``error_covariance``), the second moments of the e_h, sd_h = sqrt(Sigma_hh), C_hg = Sigma_hg / (sd_h sd_g).

Stated (arXiv:2605.20271, Theorem 7.1): with heads ordered by quality, geometric or Fibonacci weights can beat the
uniform 1/H, above all when the heads' quality differs.

Ours: the normalisation to sum 1, the way they are computed, the order, and the two free weightings. In training the
order is the head's index: heads are exchangeable at initialisation, so it costs nothing. For a trained model it is
:func:`heads_by_quality`. A transformer's free output projection W_O can absorb any fixed positive scale of a head, so
there a scheme acts only through initialisation and optimisation.

(7.1)  alpha_h = 1/H                                                   uniform
(7.2)  alpha_h ~ r^{h-1}                                               geometric
(7.3)  alpha_h = F_{H+1-h} / (F_{H+2} - 1)                             Fibonacci
(7.4)  alpha_h ~ exp(logit_h)                                          learned
(7.5)  alpha = argmin alpha^T Sigma alpha, alpha >= 0, sum alpha = 1   minimum variance
(7.5a) u = argmin_{u >= 0} u^T Sigma u + (1^T u - 1)^2, alpha ~ u      u = t alpha: each t > 0 has the same best alpha
(7.5b) u_h = w_h s / sd_h, s = min sd: w^T C w + (s sum w_h/sd_h - 1)^2, Sigma in units of s^2, so free of scale
(7.6)  Sigma_hg = mean_x e_h(x) e_g(x)
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.theory.arrays import Array, real_array, refuse_non_finite
from archopt.theory.checks import choice, number_between

WEIGHTING_SCHEMES = ("uniform", "geometric", "fibonacci")


def head_weights(scheme: str, n_heads: int, ratio: float = 0.8) -> NDArray[np.float64]:
    """Weights of the heads, non-increasing along their order: (7.1), (7.2) or (7.3).

    At H = 2 Fibonacci is the uniform weighting; at H = 1 every scheme gives 1.

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
        return np.full(n_heads, 1.0 / n_heads)  # (7.1)
    relative = _fibonacci(n_heads) if scheme == "fibonacci" else _geometric(n_heads, ratio)
    weights: NDArray[np.float64] = relative / relative.sum()
    return weights


def learned_weights(logits: ArrayLike) -> Array:
    """Softmax of one logit per head, (7.4): uniform where they are equal, unchanged by a shift of all.

    Args:
        logits: shape (H,), dimensionless, NumPy or a torch tensor.

    Returns:
        Shape (H,), non-negative, sum 1; any finite logits, the largest is subtracted first.

    Raises:
        DegenerateHeadError: a logit is not finite; ``.head`` is its index.
        OptionError: another shape, or not real numbers.

    Source: ours.
    """
    values, _ = real_array("logits", logits, (1,), "(H,)")
    refuse_non_finite(values, "logit")
    with np.errstate(over="ignore", under="ignore"):  # beyond the floats the difference is -inf, the weight 0
        relative = np.exp(values - values.max())
    return np.asarray(relative / relative.sum(), dtype=np.float64)  # (7.4)


def minimum_variance_weights(error_covariance: ArrayLike) -> Array:
    """The non-negative weights, sum 1, under which the weighted heads' mean squared error is least, (7.5).

    Sigma^{-1} 1 / (1^T Sigma^{-1} 1) where that is non-negative. Unchanged by Sigma -> c Sigma, c > 0, and, as the
    weights sum to 1, by Sigma -> Sigma + c 1 1^T.

    Args:
        error_covariance: Sigma, shape (H, H), squared units of the target, symmetric and positive semi-definite up to
            rounding; see :func:`error_covariance`.

    Returns:
        Shape (H,). Where Sigma is singular (two heads alike) there may be several minimisers, all with the least
        error: one of them. Heads that never err share the weight equally.

    Raises:
        DegenerateHeadError: a row is not finite; ``.head`` is its index.
        OptionError: another shape, not real numbers, not symmetric, or not positive semi-definite.

    Source: ours; (7.5a) by C. L. Lawson and R. J. Hanson, Solving Least Squares Problems (1974), through SciPy.
    """
    from scipy.optimize import nnls  # here, so that importing archopt.theory stays fast

    Sigma, epsilon = _covariance(error_covariance)
    sd = np.sqrt(np.diagonal(Sigma))
    faultless = sd == 0.0
    if faultless.any():
        return np.asarray(faultless / faultless.sum(), dtype=np.float64)
    C = Sigma / sd / sd[:, np.newaxis]
    eigenvalues, axes = np.linalg.eigh(C)
    # Rounding the entries moves no eigenvalue by more than H epsilon.
    if eigenvalues[0] < -10.0 * epsilon * len(C) ** 2:
        raise OptionError(
            "error_covariance must be positive semi-definite, the mean products of the heads' errors, but as "
            f"correlations its smallest eigenvalue is {eigenvalues[0]:.2g}"
        )
    root = np.sqrt(np.maximum(eigenvalues, 0.0))[:, np.newaxis] * axes.T  # C = root^T root
    relative = sd.min() / sd
    target = np.append(np.zeros(len(C)), 1.0)
    w, _ = nnls(np.vstack([root, relative]), target, maxiter=30 * len(C))  # (7.5b)
    u = w * relative
    return np.asarray(u / u.sum(), dtype=np.float64)  # (7.5a)


def error_covariance(errors: ArrayLike) -> Array:
    """Sigma, (7.6): mean products of the heads' errors, not centred, so that alpha^T Sigma alpha is the ensemble's MSE.

    The errors must come from rows that neither train nor score the weights (cross-fitting: predict each fold by
    heads trained on the others): in sample Sigma flatters itself. Errors against noisy targets add sigma^2 1 1^T to it
    on average, which is the same for every weighting of sum 1 and moves no minimiser.

    Args:
        errors: shape (H, n), head and held-out row, units of the target, n >= 2.

    Returns:
        Shape (H, H), squared units of the target, symmetric and positive semi-definite up to rounding.

    Raises:
        DegenerateHeadError: a head's error is not finite; ``.head`` is its index.
        OptionError: another shape, fewer than 2 rows, not real numbers, or squares beyond the floats.

    Source: ours.
    """
    e, _ = real_array("errors", errors, (2,), "(H, n)")
    if e.shape[1] < 2:
        raise OptionError(f"errors must have at least 2 held-out rows, shape (H, n), but got shape {e.shape}")
    refuse_non_finite(e, "held-out error")
    scaled = e / np.sqrt(e.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        Sigma = scaled @ scaled.T  # (7.6)
    if not np.isfinite(Sigma).all():
        raise OptionError(f"errors must have squares within the floats but the largest is {np.abs(e).max():.1e}")
    return np.asarray(Sigma, dtype=np.float64)


def heads_by_quality(error_covariance: ArrayLike) -> NDArray[np.intp]:
    """The heads' indices, smallest mean squared error first, ties in their given order.

    ``weights[heads_by_quality(Sigma)] = head_weights("geometric", n_heads)`` gives the best head the most weight. As
    for :func:`minimum_variance_weights`, the errors must come from rows of their own.

    Args:
        error_covariance: Sigma, shape (H, H); only its diagonal decides.

    Returns:
        Shape (H,), a permutation of 0 .. H-1.

    Raises:
        DegenerateHeadError: a row is not finite; ``.head`` is its index.
        OptionError: another shape, not real numbers, not symmetric, a negative mean square, an entry above sd_h sd_g.

    Source: ours.
    """
    Sigma, _ = _covariance(error_covariance)
    return np.argsort(np.diagonal(Sigma), kind="stable")


def _covariance(error_covariance: ArrayLike) -> tuple[Array, float]:
    """Sigma, exactly symmetric, and the rounding unit of what came."""
    Sigma, epsilon = real_array("error_covariance", error_covariance, (2,), "(H, H)")
    if Sigma.shape[0] != Sigma.shape[1]:
        raise OptionError(f"error_covariance must be square, shape (H, H), but got shape {Sigma.shape}")
    refuse_non_finite(Sigma, "row of error_covariance")
    mean_squares = np.diagonal(Sigma)
    if (mean_squares < 0.0).any():
        head = int((mean_squares < 0.0).argmax())
        raise OptionError(
            f"error_covariance must have mean squares of at least 0 on its diagonal but head {head} has "
            f"{mean_squares[head]:.3g}"
        )
    sd = np.sqrt(mean_squares)
    rounding = 10.0 * epsilon * len(Sigma) * sd * sd[:, np.newaxis]  # |Sigma_hg| <= sd_h sd_g
    for bad, wanted in (
        (np.abs(Sigma / 2.0 - Sigma.T / 2.0) > rounding, "be symmetric"),
        (
            np.abs(Sigma) > sd * sd[:, np.newaxis] + rounding,
            "be positive semi-definite, |entry| <= sd of row * column,",
        ),
    ):
        if bad.any():
            row, column = (int(index) for index in np.argwhere(bad)[0])
            raise OptionError(
                f"error_covariance must {wanted} but has {Sigma[row, column]:.6g} at [{row}, {column}] and "
                f"{Sigma[column, row]:.6g} at [{column}, {row}]"
            )
    return Sigma / 2.0 + Sigma.T / 2.0, epsilon


def _geometric(n_heads: int, ratio: float) -> NDArray[np.float64]:
    r = number_between("ratio", ratio, 0.0, 1.0)
    if r in (0.0, 1.0):
        raise OptionError(f"ratio must lie strictly between 0 and 1 but got {r:g}; for equal weights use 'uniform'")
    powers: NDArray[np.float64] = r ** np.arange(n_heads, dtype=np.float64)  # (7.2)
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
    return np.asarray(np.cumprod(relative), dtype=np.float64)  # (7.3)
