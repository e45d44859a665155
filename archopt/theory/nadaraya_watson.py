"""Section 1: a head is a Nadaraya-Watson estimator, its smoother the matrix of normalised attention weights.

Symbols: n training rows x_i (``inputs``) with targets y_i, m query points x, H heads, D the inputs' width, d_k
(``head_dim``); W_h (``key_projections[h]``), q_h = x W_h, k_hi = x_i W_h; tau the bandwidth, T (``temperature``);
w_hi the weight of row i for head h; S_h (``smoothers[h]``, m x n) holds them.

Stated (arXiv:2605.20271): softmax(q.k / sqrt(d_k))-weighted averaging is Nadaraya-Watson regression with the
exponential kernel: (1.1) with (1.3), bandwidth h = 1/sqrt(d_k).

Ours: the Gaussian kernel; an explicit temperature, since free projections rescale themselves (T = 1 is dot-product
attention's scale, and the stated h is tau = h^2 = 1/d_k in (1.2), so a convention); (1.4), which says what it came to.

(1.1)  w_hi = K(q_h, k_hi) / sum_j K(q_h, k_hj),  m_h(x) = sum_i w_hi y_i = S_h y,  tau = sqrt(d_k) T
(1.2)  K(q, k) = exp(-||q - k||^2 / (2 tau))     "gaussian"
(1.3)  K(q, k) = exp(q.k / tau)                  "exponential"
(1.4)  effective neighbours = 1 / sum_i w_i^2
"""

import sys
from math import frexp, inf, ldexp, sqrt
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archopt.errors import OptionError
from archopt.theory.arrays import Array, finite_array, real_array, refuse_non_finite
from archopt.theory.checks import choice, positive_number

KERNELS = ("gaussian", "exponential")


def attention_weights(
    queries: ArrayLike,
    keys: ArrayLike,
    *,
    kernel: str = "gaussian",
    temperature: ArrayLike = 1.0,
    own_rows: ArrayLike | None = None,
) -> Array:
    """Normalised kernel weights of the keys, (1.1).

    Args:
        queries, keys: shapes (m, d_k) and (n, d_k), or with a leading axis of H heads; NumPy or torch.
        kernel: "gaussian" or "exponential"; the latter at temperature 1 is softmax(q.k / sqrt(d_k)).
        temperature: T > 0, one number or one per head, shape (H,).
        own_rows: shape (m,), the key that each query leaves out of its average: its own row in leave-one-out.

    Returns:
        Shape (m, n) or (H, m, n), rows sum to 1. Never NaN: where all kernels underflow the nearest key remains (keys
        equally near share).

    Raises:
        DegenerateHeadError: a head's queries or keys are not finite; ``.head`` is its index.
        OptionError: other or unequal shapes, not real numbers, an unknown kernel, a temperature not above 0, rows that
            are not keys, or ``own_rows`` with n < 2.

    Source: arXiv:2605.20271, section on attention as Nadaraya-Watson regression; Gaussian form, temperature: ours.
    """
    kernel = choice("kernel", kernel, KERNELS)
    q, _ = real_array("queries", queries, (2, 3), "(m, d_k) or (H, m, d_k)")
    k, _ = real_array("keys", keys, (2, 3), "(n, d_k) or (H, n, d_k)")
    if q.ndim != k.ndim or q.shape[-1] != k.shape[-1] or q.shape[:-2] != k.shape[:-2]:
        raise OptionError(
            f"keys must have the queries' number of axes, heads and width d_k: (H, n, d_k) beside (H, m, d_k), but got "
            f"{k.shape} beside {q.shape}"
        )
    q_heads, k_heads = q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:])
    refuse_non_finite(q_heads, "query")
    refuse_non_finite(k_heads, "key")
    (n_heads, n_queries, head_dim), n_keys = q_heads.shape, k_heads.shape[1]
    taus = [sqrt(head_dim) * T for T in _temperatures(temperature, n_heads)]
    left_out = None if own_rows is None else _own_rows(own_rows, n_queries, n_keys)
    weights = np.empty((n_heads, n_queries, n_keys))
    for head in range(n_heads):
        scores, exponent = _SCORES[kernel](q_heads[head], k_heads[head])
        if left_out is not None:
            scores[np.arange(n_queries), left_out] = -np.inf
        weights[head] = _softmax(scores, exponent, taus[head])
    return weights.reshape(*q.shape[:-1], n_keys)


def effective_neighbours(weights: ArrayLike) -> Array:
    """1 / sum_i w_i^2 over the last axis: how many equally weighted rows the average is worth.

    Args:
        weights: shape (..., n), rows that sum to 1, up to 4 axes.

    Returns:
        Shape (...), dimensionless; from 1 (one row has all the weight) to n (uniform) for non-negative weights.

    Raises:
        OptionError: not real and finite numbers, or rows that do not sum to 1 (to 1e-3: half precision does).

    Source: L. Kish, Survey Sampling (1965), the effective sample size.
    """
    w, _ = real_array("weights", weights, (1, 2, 3, 4), "(..., n)")
    sums = w.sum(axis=-1)
    wrong = ~(np.abs(sums - 1.0) <= 1e-3)  # NaN is wrong too
    if wrong.any():
        raise OptionError(f"weights must sum to 1 over the last axis but got a row with sum {sums[wrong].flat[0]:g}")
    return np.asarray(1.0 / np.einsum("...n,...n->...", w, w))  # (1.4)


def head_smoothers(
    key_projections: ArrayLike,
    queries: ArrayLike,
    inputs: ArrayLike,
    *,
    kernel: str = "gaussian",
    temperature: ArrayLike = 1.0,
    own_rows: ArrayLike | None = None,
) -> Array:
    """Each head as a linear smoother: m_h = S_h y, with S_h the attention weights of its projected rows.

    Args:
        key_projections: shape (H, D, d_k).
        queries, inputs: shapes (m, D) and (n, D), n >= 2.
        kernel, temperature, own_rows: as for :func:`attention_weights`.

    Returns:
        Shape (H, m, n).

    Raises:
        DegenerateHeadError: a head's projection, or what it projects to, is not finite; ``.head`` is its index.
        OptionError: as :func:`attention_weights`; another width, n < 2, or rows that are not finite.

    Source: arXiv:2605.20271, section on attention as Nadaraya-Watson regression.
    """
    W, _ = real_array("key_projections", key_projections, (3,), "(H, D, d_k)")
    refuse_non_finite(W, "key projection")
    x = finite_array("queries", queries, (None, W.shape[1]), "(m, D)")
    rows = finite_array("inputs", inputs, (None, W.shape[1]), "(n, D)")
    if len(rows) < 2:
        raise OptionError(f"inputs must have at least 2 rows, shape (n, D), but got shape {rows.shape}")
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused there, with its head
        projected = x @ W, rows @ W
    return attention_weights(*projected, kernel=kernel, temperature=temperature, own_rows=own_rows)


def head_estimates(smoothers: ArrayLike, targets: ArrayLike) -> Array:
    """The heads' estimates S_h y: smoothers (H, m, n) and targets (n,) to shape (H, m), in units of the target.

    Raises:
        DegenerateHeadError: a smoother is not finite; ``.head`` is its index.
        OptionError: other shapes, not real numbers, or targets that are not finite.

    Source: arXiv:2605.20271, section on attention as Nadaraya-Watson regression.
    """
    S = smoother_array(smoothers)
    estimates: Array = S @ finite_array("targets", targets, S.shape[2:], "(n,)")  # (1.1)
    return estimates


def left_out_errors(
    key_projections: ArrayLike,
    inputs: ArrayLike,
    targets: ArrayLike,
    *,
    kernel: str = "gaussian",
    temperature: ArrayLike = 1.0,
) -> Array:
    """Every head's error on every training row, predicted without that row: input of ``theory.error_covariance``.

    Cross-fitting with as many folds as rows, which for averages is exact and needs no second fit. The errors are
    against the noisy targets. One head after another, so that memory is O(n^2).

    Args:
        key_projections, inputs, kernel, temperature: as for :func:`head_smoothers`.
        targets: y, shape (n,).

    Returns:
        Shape (H, n), in units of the target.

    Raises: as :func:`head_smoothers`; OptionError also for other targets.

    Source: ours.
    """
    W, _ = real_array("key_projections", key_projections, (3,), "(H, D, d_k)")
    refuse_non_finite(W, "key projection")
    x = finite_array("inputs", inputs, (None, W.shape[1]), "(n, D)")
    y = finite_array("targets", targets, (len(x),), "(n,)")
    rows = np.arange(len(x))
    errors = np.empty((len(W), len(x)))
    for head, T in enumerate(_temperatures(temperature, len(W))):
        without = head_smoothers(W[head : head + 1], x, x, kernel=kernel, temperature=T, own_rows=rows)
        errors[head] = without[0] @ y - y  # (1.1)
    return errors


def smoother_array(smoothers: ArrayLike) -> Array:
    """Smoothers of H heads as float64, shape (H, m, n).

    Raises:
        DegenerateHeadError: a smoother is not finite; ``.head`` is its index.
        OptionError: another shape, or not real numbers.
    """
    S, _ = real_array("smoothers", smoothers, (3,), "(H, m, n)")
    refuse_non_finite(S, "smoother")
    return S


def _gaussian_scores(q: Array, k: Array) -> tuple[Array, int]:
    """tau log K as (scores, e), to be read as scores * 2^e. Scaled first, so that no square overflows or vanishes.

    Differences are squared one by one: ||q||^2 - 2 q.k + ||k||^2 would tell duplicates apart at low temperatures.
    """
    from scipy.spatial.distance import cdist  # here, so that importing archopt.theory stays fast

    scale = max(_exponent(q), _exponent(k))
    distances: Array = cdist(np.ldexp(q, -scale), np.ldexp(k, -scale), "sqeuclidean")
    return -distances, 2 * scale - 1  # (1.2)


def _exponential_scores(q: Array, k: Array) -> tuple[Array, int]:
    """As :func:`_gaussian_scores`."""
    q_scale, k_scale = _exponent(q), _exponent(k)
    return np.ldexp(q, -q_scale) @ np.ldexp(k, -k_scale).T, q_scale + k_scale  # (1.3)


_SCORES = {"gaussian": _gaussian_scores, "exponential": _exponential_scores}


def _exponent(values: Array) -> int:
    """The power of two just above the largest entry."""
    return frexp(float(np.abs(values).max()))[1]


def _softmax(scores: Array, exponent: int, tau: float) -> Array:
    """Softmax of scores * 2^exponent / tau by row; -inf leaves an entry out."""
    try:
        factor = ldexp(1.0 / tau, exponent)
    except OverflowError:
        factor = inf
    factor = min(max(factor, 5e-324), sys.float_info.max)  # 0 * inf would be NaN
    with np.errstate(over="ignore"):  # to -inf, a weight of 0
        weights: Array = np.exp((scores - scores.max(axis=1, keepdims=True)) * factor)
    weights /= weights.sum(axis=1, keepdims=True)  # (1.1); the largest is 1 before
    return weights


def _temperatures(temperature: ArrayLike, n_heads: int) -> list[float]:
    if isinstance(temperature, (Real, str)):
        return [positive_number("temperature", temperature)] * n_heads
    wanted = f"(H,) = ({n_heads},), or be one number"
    T, _ = real_array("temperature", temperature, (0, 1), wanted)
    if T.ndim == 1 and len(T) != n_heads:
        raise OptionError(f"temperature must have shape {wanted}, but got shape {T.shape}")
    for head, value in enumerate(np.atleast_1d(T)):
        if not (np.isfinite(value) and value > 0):
            raise OptionError(f"temperature must be finite and above 0 but got {value:g} for head {head}")
    return [float(value) for value in np.broadcast_to(T, n_heads)]


def _own_rows(own_rows: ArrayLike, n_queries: int, n_keys: int) -> NDArray[np.intp]:
    if n_keys < 2:
        raise OptionError(f"own_rows leaves a row out, so it needs at least 2 keys but got {n_keys}")
    rows = finite_array("own_rows", own_rows, (n_queries,), "(m,)")
    wrong = (rows != np.floor(rows)) | (rows < 0) | (rows >= n_keys)
    if wrong.any():
        raise OptionError(f"own_rows must be whole numbers from 0 to n - 1 = {n_keys - 1} but got {rows[wrong][0]:g}")
    return rows.astype(np.intp)
