"""Key projections of a chosen diversity, cut from one orthonormal basis: from identical heads to orthogonal ones."""

import numpy as np

from archopt.theory.arrays import Array


def orthogonal_heads(axes: Array, n_heads: int) -> Array:
    """The basis (D, D) cut into H blocks of columns, shape (H, D, D/H): HDI 1."""
    d_model = axes.shape[0]
    return axes.reshape(d_model, n_heads, d_model // n_heads).transpose(1, 0, 2)


def rotated_heads(axes: Array, n_heads: int, angle: float) -> Array:
    """Heads that all lie ``angle`` radians away from the first block, each towards a block of its own.

    W_h = cos(angle) Q_1 + sin(angle) Q_h, W_1 = Q_1, with the orthogonal blocks Q. All principal angles between the
    first head and another are ``angle``, and between two others arccos(cos^2 angle). So the subspace HDI is
    1 - (2 c^2 + (H-2) c^4) / H with c = cos(angle): 0 at angle 0 (identical heads), 1 at pi/2.

    Returns:
        Shape (H, D, D/H), orthonormal columns.
    """
    blocks = orthogonal_heads(axes, n_heads)
    rotated: Array = np.cos(angle) * blocks[0] + np.sin(angle) * blocks
    rotated[0] = blocks[0]
    return rotated


def independent_heads(d_model: int, n_heads: int, random: np.random.Generator) -> Array:
    """H independent uniformly random subspaces, what untrained heads are: HDI about 1 - d_k/D.

    Returns:
        Shape (H, D, D/H), orthonormal columns.
    """
    normal = random.standard_normal((n_heads, d_model, d_model // n_heads))
    bases: Array = np.linalg.qr(normal)[0]
    return bases
