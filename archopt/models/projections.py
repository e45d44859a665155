"""Key projections split into heads: how they start, and the penalty that keeps their subspaces apart."""

import torch
from torch import Tensor

_MAX_ORTHOGONAL = 2048  # a QR of a wider square takes seconds; Gaussian blocks are then orthogonal to about D^-1/2


def initial_heads(d_model: int, n_heads: int, generator: torch.Generator) -> Tensor:
    """One random D x D orthogonal matrix, cut into H blocks of columns.

    The matrix does not depend on H, so that every split of one width starts from the same numbers. Its blocks
    are orthogonal subspaces (HDI 1) and keep unit-variance inputs at unit variance. Above D = 2,048 the
    entries are independent N(0, 1/D) instead.

    Args:
        d_model: D, a multiple of ``n_heads``.
        n_heads: H.
        generator: source of randomness; D * D normals are drawn.

    Returns:
        shape (H, D, d_k).
    """
    normal = torch.randn(d_model, d_model, generator=generator)
    if d_model > _MAX_ORTHOGONAL:
        square: Tensor = normal / d_model**0.5
    else:
        basis, triangle = torch.linalg.qr(normal)
        square = basis * torch.where(triangle.diagonal() < 0, -1.0, 1.0)  # Haar: Mezzadri 2007, section 5
    return square.reshape(d_model, n_heads, d_model // n_heads).transpose(0, 1).contiguous()


def subspace_overlap(key_projections: Tensor) -> Tensor:
    """Mean over pairs of heads of ||Q_h^T Q_g||_F^2 / d_k: one minus the subspace HDI, and differentiable.

    With the orthonormal bases side by side as B = [Q_1 ... Q_H], the sum over ordered pairs is
    ||B^T B||_F^2 - H d_k, so one product replaces H (H-1) / 2.

    Args:
        key_projections: shape (H, D, d_k) with d_k <= D.

    Returns:
        scalar in [0, 1]; 0 for a single head.

    Source: theory.md section 4; arXiv:2605.20271, Theorem 5.1 (the penalty is ours).
    """
    n_heads, d_model, head_dim = key_projections.shape
    if n_heads == 1:
        return key_projections.new_zeros(())
    if head_dim == 1:  # the QR of one column is its direction
        bases = key_projections / torch.linalg.vector_norm(key_projections, dim=1, keepdim=True)
    else:
        bases = torch.linalg.qr(key_projections)[0]
    side_by_side = bases.transpose(0, 1).reshape(d_model, n_heads * head_dim)
    gram = side_by_side.T @ side_by_side
    overlap: Tensor = gram.square().sum() - n_heads * head_dim
    return overlap / (n_heads * (n_heads - 1) * head_dim)


def mean_overlap(layers: list[Tensor]) -> Tensor:
    """Mean over layers of ``subspace_overlap``; a scalar."""
    return torch.stack([subspace_overlap(projections) for projections in layers]).mean()
