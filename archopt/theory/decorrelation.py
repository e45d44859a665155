"""Theorem 5.1: heads whose key subspaces are orthogonal, the penalty that drives them there, and its gradient.

Symbols: W_h in R^{D x d_k} (``key_projections[h]``, k_h = x W_h), Q_h R_h its QR factors, P_h = Q_h Q_h^T the projector
onto its columns, W_h^+ = R_h^{-1} Q_h^T, D (``d_model``), H (``n_heads``), d_k (``head_dim``), J the penalty.

Stated (arXiv:2605.20271, Theorem 5.1): the integrated MSE is minimised when W_h^T W_g ~ 0 for h != g.

Ours: the two levers below. Heads that project (below) move only the covariance term of Theorem 3.1. For kernel averages
all three terms move: orthogonal heads see different data, so the bias can rise or fall, and the total with it.

(5.1)  W_h^T W_g = 0, h != g                                           blocks of one Haar random orthogonal matrix
(5.2)  J = 2/(H(H-1)) sum_{h<g} ||Q_h^T Q_g||_F^2 / d_k = 1 - HDI      a mean over pairs: means the same at every H
(5.3)  dJ/dW_h = 4/(H(H-1) d_k) (I - P_h) (sum_g P_g) (W_h^+)^T        W_h^T dJ/dW_h = 0: J sees the subspace only
(5.3a) sum_g P_g Q_h = B B^T Q_h, B = [Q_1 ... Q_H]                    one product for all pairs

J >= max(0, (H d_k/D - 1) / (H - 1)), since ||B B^T||_F^2 >= (tr B B^T)^2 / D: 0 is in reach only if H d_k <= D.
For heads that project onto their subspaces, m_h = P_h y with uniform weights and n = D rows, the integrated covariance
is exactly sigma^2 (H-1)/H (d_k/D) J, which is least where J is.
"""

from math import isnan
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from archopt.allocation import allocation_of
from archopt.errors import OptionError
from archopt.theory.arrays import Array, in_range, real_array, refuse_non_finite
from archopt.theory.diversity import head_diversity_index


def block_orthogonal_projections(d_model: int, n_heads: int, *, seed: int | np.random.Generator = 0) -> Array:
    """One Haar random D x D orthogonal matrix, cut into H blocks of columns, (5.1): HDI 1, penalty 0.

    The matrix does not depend on H, so every split of one width starts from the same numbers.

    Args:
        d_model: D, a multiple of ``n_heads``. Time grows as D^3 (seconds at 4,096), memory as D^2.
        n_heads: H.
        seed: a whole number of at least 0, or a NumPy generator (from which D^2 normals are drawn).

    Returns:
        Shape (H, D, d_k), orthonormal columns throughout.

    Raises:
        AllocationError: ``n_heads`` does not divide ``d_model``, or either is not a positive whole number.
        OptionError: another seed.

    Source: Theorem 5.1; the matrix: F. Mezzadri, Notices of the AMS 54 (2007), section 5.
    """
    allocation = allocation_of(d_model, n_heads)
    D = allocation.d_model
    Q, R = np.linalg.qr(_generator(seed).standard_normal((D, D)))
    Q *= np.where(np.diagonal(R) < 0.0, -1.0, 1.0)  # Haar only once R's diagonal is positive
    blocks = Q.reshape(D, allocation.n_heads, allocation.head_dim).transpose(1, 0, 2)
    return np.ascontiguousarray(blocks, dtype=np.float64)


def decorrelation_penalty(key_projections: ArrayLike) -> float:
    """Mean over pairs of heads of their subspaces' overlap, (5.2): what is added to a loss, times lambda.

    Args:
        key_projections: shape (H, D, d_k), NumPy or a torch tensor; ``archopt.models.projections`` has the
            differentiable form for training.

    Returns:
        Dimensionless, in [0, 1], to about 1e-16: 0 for orthogonal heads and for a single one (no pairs, nothing to
        penalise), 1 for heads with the same subspace.

    Raises:
        AllocationError: d_k > D.
        DegenerateHeadError: a head is not finite or lacks full column rank; ``.head`` is its index. (The rank of a
            single head is not looked at.)
        OptionError: another shape, or not real numbers.

    Source: ours, after Theorem 5.1.
    """
    index = head_diversity_index(key_projections)
    return 0.0 if isnan(index) else 1.0 - index  # (5.2)


def decorrelation_gradient(key_projections: ArrayLike) -> Array:
    """Gradient of :func:`decorrelation_penalty` with respect to the entries of W, (5.3).

    Args: as for :func:`decorrelation_penalty`.

    Returns:
        Shape (H, D, d_k), in units of 1 / W; zeros for a single head.

    Raises: as :func:`decorrelation_penalty`; DegenerateHeadError also where entries are so small (about 1e-308) that
        the gradient leaves the floats.

    Source: ours, after Theorem 5.1.
    """
    single = isnan(head_diversity_index(key_projections))  # also refuses heads that have no subspace
    W, _ = real_array("key_projections", key_projections, (3,), "(H, D, d_k)")
    if single:
        return np.zeros_like(W)
    n_heads, d_model, head_dim = W.shape
    scaled, exponents = in_range(W)
    Q, R = np.linalg.qr(scaled)
    B = Q.transpose(1, 0, 2).reshape(d_model, n_heads * head_dim)
    shared = np.linalg.multi_dot([B, B.T, B]).reshape(d_model, n_heads, head_dim).transpose(1, 0, 2)  # (5.3a)
    outside = shared - Q @ (Q.transpose(0, 2, 1) @ shared)  # (I - P_h) (sum_g P_g) Q_h
    by_row = np.linalg.solve(R, outside.transpose(0, 2, 1)).transpose(0, 2, 1)  # times R_h^{-T}
    with np.errstate(over="ignore"):  # refused below
        gradient = np.ldexp(4.0 / (n_heads * (n_heads - 1) * head_dim) * by_row, -exponents)  # (5.3)
    refuse_non_finite(gradient, "gradient of the decorrelation penalty")
    return np.asarray(gradient, dtype=np.float64)


def _generator(seed: object) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed must be a whole number of at least 0 or a NumPy generator but got {str(seed)[:60]!r}")
    return np.random.default_rng(int(seed))
