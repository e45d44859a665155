"""Section on the Head Diversity Index (HDI): how far apart the subspaces are that the heads' keys read.

Symbols: W_h in R^{D x d_k} (``key_projections[h]``, k_h = x W_h), Q_h an orthonormal basis of its columns, D
(``d_model``: the width that the keys are read from), H (``n_heads``), d_k (``head_dim``).

Stated (arXiv:2605.20271): G_hg = W_h^T W_g / d_k, HDI = 1 - 2/(H(H-1)) sum_{h<g} ||G_hg||_F^2; 1 for orthogonal
subspaces, 0 for identical projections.

Ours: as printed the index depends on the scale of W and identical heads give 0 only if ||W^T W||_F = d_k. The
"subspace" form meets both end points at any scale. The baseline of random heads, its spread, excess and z-score.
If the inputs fill only p < D linear directions of the width they are read from, random heads overlap more than the
baseline says; it assumes that all D are filled.

(HDI.1)  HDI = 1 - 2/(H(H-1)) sum_{h<g} ||W_h^T W_g||_F^2 / d_k^2       "paper"; Stated
(HDI.2)  HDI = 1 - 2/(H(H-1)) sum_{h<g} ||Q_h^T Q_g||_F^2 / d_k         "subspace"; Ours, as all that follows
(HDI.3)  E ||Q_h^T Q_g||_F^2 / d_k = d_k / D                           independent random subspaces
(HDI.4)  excess = (HDI - (1 - d_k/D)) / (d_k/D)
(HDI.5)  sd(excess) = 2 (D - d_k) / (d_k sqrt(H (H-1) (D-1) (D+2)))    independent random subspaces
(HDI.6)  z = excess / sd(excess)
(HDI.7)  mean_{h != g} corr_hg = (||sum_h z_h||^2 - H) / (H(H-1))      z_h: centred outputs of head h over their norm
"""

from math import isfinite, nan, sqrt
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from archopt.allocation import HeadAllocation, allocation_of
from archopt.errors import AllocationError, DegenerateHeadError, OptionError
from archopt.theory.arrays import Array, in_range, real_array, refuse_non_finite
from archopt.theory.checks import choice, finite_number

FORMS = ("subspace", "paper")
INDEX_SLACK = 0.01  # an index computed in half precision may leave [0, 1] by this much


def head_diversity_index(key_projections: ArrayLike, form: str = "subspace") -> float:
    """Mean pairwise separation of the subspaces that the heads' keys read.

    The subspace form (HDI.2) is one minus the mean squared cosine of the principal angles, unchanged by W_h -> W_h R
    for invertible R. The paper form (HDI.1) depends on the scale.

    Args:
        key_projections: shape (H, D, d_k), NumPy or a torch tensor on any device; head h maps row vectors by
            ``x @ key_projections[h]``.
        form: "subspace" or "paper" (as printed).

    Returns:
        Dimensionless; NaN for a single head. Subspace form: in [0, 1]; independent random heads average 1 - d_k/D.

    Raises:
        AllocationError: d_k > D.
        DegenerateHeadError: a slice is not finite or lacks full column rank; ``.head`` is its index. (The rank of a
            single head is not looked at.)
        OptionError: another shape, not real numbers, an unknown form, or entries so large that the paper form leaves
            the floats.

    Source: arXiv:2605.20271, section on the Head Diversity Index; subspace form: ours.
    """
    form = choice("form", form, FORMS)
    return _index(*_projections(key_projections), form)


def excess_diversity(key_projections: ArrayLike) -> float:
    """Subspace HDI above what random heads have, in units of their overlap; see :func:`excess_from_index`.

    Args, Raises: as for :func:`head_diversity_index`.

    Source: ours.
    """
    W, epsilon = _projections(key_projections)
    return excess_from_index(_index(W, epsilon, "subspace"), d_model=W.shape[1], head_dim=W.shape[2])


def diversity_z_score(key_projections: ArrayLike) -> float:
    """Excess diversity in standard deviations of random heads; see :func:`z_score_from_index`.

    Args, Raises: as for :func:`head_diversity_index`.

    Source: ours.
    """
    W, epsilon = _projections(key_projections)
    n_heads, d_model, head_dim = W.shape
    hdi = _index(W, epsilon, "subspace")
    return z_score_from_index(hdi, d_model=d_model, n_heads=n_heads, head_dim=head_dim)


def excess_from_index(hdi: float, *, d_model: int, head_dim: int) -> float:
    """(HDI - (1 - d_k/D)) / (d_k/D): 0 for random heads on average, 1 for orthogonal ones, 1 - D/d_k for identical.

    Args:
        hdi: the subspace form, in [0, 1], or NaN. The paper form has no baseline.
        d_model: D, the width that the keys are read from.
        head_dim: d_k, at most D.

    Returns:
        Dimensionless; NaN where ``hdi`` is NaN (a single head). The floor depends on D/d_k: to compare across H use
        :func:`z_score_from_index`.

    Raises:
        AllocationError: the widths are not positive whole numbers with d_k <= D.
        OptionError: ``hdi`` lies outside [0, 1].

    Source: ours.
    """
    overlap = _head_dim(d_model, head_dim) / d_model  # (HDI.3)
    if isinstance(hdi, Real) and hdi != hdi:  # NaN
        return nan
    allowed = "from 0 to 1 (the subspace form; the paper form has no baseline)"
    index = finite_number("hdi", hdi, allowed)
    if not -INDEX_SLACK <= index <= 1.0 + INDEX_SLACK:
        raise OptionError(f"hdi must be {allowed} but got {index:g}")
    return (index - (1.0 - overlap)) / overlap  # (HDI.4)


def z_score_from_index(hdi: float, *, d_model: int, n_heads: int, head_dim: int) -> float:
    """Excess diversity over its standard deviation under random heads: comparable across H.

    Args:
        hdi, d_model, head_dim: as for :func:`excess_from_index`.
        n_heads: H; H * d_k need not be D.

    Returns:
        Dimensionless; NaN for a single head, and where d_k = D (every head then spans everything).

    Raises: as :func:`excess_from_index`.

    Source: ours.
    """
    excess = excess_from_index(hdi, d_model=d_model, head_dim=head_dim)
    spread = random_excess_sd(d_model=d_model, n_heads=n_heads, head_dim=head_dim)
    return excess / spread if spread > 0.0 else nan  # (HDI.6); NaN compares false


def random_excess_sd(*, d_model: int, n_heads: int, head_dim: int) -> float:
    """Exact standard deviation of the excess when the heads' subspaces are independent and uniformly random.

    (HDI.5). With H * d_k = D that is 2 sqrt((H-1)/H) / sqrt((D-1)(D+2)), about 2 sqrt((H-1)/H) / D.

    Why: ||Q_h^T Q_g||_F^2 = tr(P_h P_g) with projectors P. Their traceless parts have squared norm d_k (D - d_k) / D
    and live in an irreducible representation of O(D), the traceless symmetric matrices, of dimension (D-1)(D+2)/2. So
    by Schur's lemma Var tr(P_h P_g) = 2 (d_k (D - d_k) / D)^2 / ((D-1)(D+2)). Given P_h, the overlaps with P_g and P_f
    are independent with the same mean, so pairs are uncorrelated and their variances add.

    Args:
        d_model, n_heads, head_dim: D, H and d_k.

    Returns:
        Dimensionless; NaN for a single head, 0 where d_k = D.

    Raises:
        AllocationError: not positive whole numbers with d_k <= D.

    Source: ours.
    """
    D, d_k, H = d_model, _head_dim(d_model, head_dim), HeadAllocation(n_heads, head_dim).n_heads
    if H == 1:
        return nan
    if d_k == D:
        return 0.0
    return 2.0 * (D - d_k) / (d_k * sqrt(H * (H - 1) * (D - 1) * (D + 2)))  # (HDI.5)


def principal_angles(first: ArrayLike, second: ArrayLike) -> Array:
    """Principal angles between the column spaces of two heads' key projections.

    Args:
        first, second: shape (D, d_k), with the same D; the numbers of columns may differ.

    Returns:
        Radians in [0, pi/2], rising, one per column of the narrower head. Their mean squared cosine is the heads'
        overlap; small angles are accurate too (arccos alone would lose half the digits).

    Raises:
        AllocationError: d_k > D.
        DegenerateHeadError: a head is not finite or lacks full column rank; ``.head`` is 0 or 1.
        OptionError: another shape, different D, or not real numbers.

    Source: A. V. Knyazev and M. E. Argentati, SIAM J. Sci. Comput. 23 (2002), through SciPy.
    """
    from scipy.linalg import subspace_angles  # here, so that importing archopt.theory stays fast

    bases = []
    for head, values in enumerate((first, second)):
        W, epsilon = real_array("a head's key projection", values, (2,), "(D, d_k)")
        bases.append(_bases(_checked(W[np.newaxis], head), epsilon, head)[0])
    if bases[0].shape[0] != bases[1].shape[0]:
        raise OptionError(f"both heads must read the same width D but got {bases[0].shape[0]} and {bases[1].shape[0]}")
    return np.sort(np.asarray(subspace_angles(*bases), dtype=np.float64))


def head_output_correlation(outputs: ArrayLike) -> float:
    """Mean Pearson correlation between the outputs of different heads, what Theorem 3.1's covariance term is about.

    Args:
        outputs: shape (H, n) or (H, n, c): head, row, component; NumPy or a torch tensor. Each component is centred
            over the n >= 2 rows, then the components are pooled.

    Returns:
        In [-1, 1]; NaN for a single head. A head whose output does not vary has no correlation: its pairs are left
        out, and the result is NaN where no pair is left.

    Raises:
        DegenerateHeadError: a head's output is not finite; ``.head`` is its index.
        OptionError: another shape, fewer than 2 rows, or not real numbers.

    Source: ours.
    """
    y, epsilon = real_array("outputs", outputs, (2, 3), "(H, n) or (H, n, c)")
    if y.shape[1] < 2:
        raise OptionError(f"outputs must have at least 2 rows, shape (H, n) or (H, n, c), but got shape {y.shape}")
    refuse_non_finite(y, "output")
    y, _ = in_range(y)
    centred = (y - y.mean(axis=1, keepdims=True)).reshape(len(y), -1)
    size, rounding = np.linalg.norm(centred, axis=1), epsilon * np.linalg.norm(y.reshape(len(y), -1), axis=1)
    varies = size > 10.0 * rounding
    n_varying = int(varies.sum())
    if n_varying < 2:
        return nan
    summed = (centred[varies] / size[varies, np.newaxis]).sum(axis=0)
    total = float(summed @ summed)  # ||sum_h z_h||^2 = sum over all h, g of the correlation, the diagonal being H
    return float(np.clip((total - n_varying) / (n_varying * (n_varying - 1)), -1.0, 1.0))  # (HDI.7)


def _index(W: Array, epsilon: float, form: str) -> float:
    n_heads, _, head_dim = W.shape
    if n_heads == 1:
        return nan  # no pairs: neither low nor high
    Q = _bases(W, epsilon)
    pairs: float = n_heads * (n_heads - 1) / 2
    if form == "subspace":
        return float(np.clip(1.0 - _summed_overlap(Q) / (pairs * head_dim), 0.0, 1.0))  # (HDI.2); rounding errs
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        index = 1.0 - _summed_overlap(W) / (pairs * float(head_dim) ** 2)  # (HDI.1)
    if not isfinite(index):
        raise OptionError(
            f"key_projections must be small enough for form 'paper', whose fourth powers exceed 1e308 at entries up to "
            f"{np.abs(W).max():.1e}; form 'subspace' does not depend on their scale"
        )
    return index


def _summed_overlap(matrices: Array) -> float:
    """sum_{h<g} ||A_h^T A_g||_F^2 for (H, D, d_k), from one Gram matrix of the smaller side."""
    n_heads, d_model, head_dim = matrices.shape
    columns = matrices.transpose(1, 0, 2).reshape(d_model, n_heads * head_dim)  # [A_1 ... A_H]
    if n_heads * head_dim <= d_model:
        gram = columns.T @ columns  # block (h, g) is A_h^T A_g
        blocks = gram.reshape(n_heads, head_dim, n_heads, head_dim)
        blocks[np.arange(n_heads), :, np.arange(n_heads), :] = 0.0
        return 0.5 * float(np.vdot(gram, gram))
    gram = columns @ columns.T  # sum_h A_h A_h^T, with the same norm as the larger Gram matrix
    own = matrices.transpose(0, 2, 1) @ matrices  # A_h^T A_h
    return 0.5 * float(np.vdot(gram, gram) - np.vdot(own, own))


def _bases(W: Array, epsilon: float, first_head: int = 0) -> Array:
    """Orthonormal bases of the columns of each head, shape (H, D, d_k)."""
    Q, R = np.linalg.qr(in_range(W)[0])
    singular = np.linalg.svd(R, compute_uv=False)
    # Rounding the entries moves no singular value by more than epsilon/2 * sqrt(d_k) * the largest (Weyl).
    degenerate = singular[:, -1] <= 10.0 * epsilon * sqrt(W.shape[2]) * singular[:, 0]
    if degenerate.any():
        head = int(degenerate.argmax())
        raise DegenerateHeadError(
            f"head {first_head + head} lacks full column rank: its {W.shape[2]} columns must be linearly independent, "
            f"but its singular values (scaled) go from {singular[head, 0]:.1e} to {singular[head, -1]:.1e}",
            first_head + head,
        )
    return np.asarray(Q)


def _projections(key_projections: ArrayLike) -> tuple[Array, float]:
    W, epsilon = real_array("key_projections", key_projections, (3,), "(H, D, d_k)")
    return _checked(W), epsilon


def _checked(W: Array, first_head: int = 0) -> Array:
    _head_dim(W.shape[1], W.shape[2])
    refuse_non_finite(W, "key projection", first_head)
    return W


def _head_dim(d_model: int, head_dim: int) -> int:
    width, head_dim = allocation_of(d_model, 1).d_model, HeadAllocation(1, head_dim).head_dim
    if head_dim > width:
        raise AllocationError(f"head_dim must be at most the width D = {width} it reads from but got {head_dim}")
    return head_dim
