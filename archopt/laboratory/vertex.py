"""Where a curve of errors over head widths is least, between the widths that were tried, and whether it is censored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archopt.theory.arrays import Array

BOOTSTRAPS = 1_000
_STREAM = 1_007  # of random numbers, no other in the laboratory has it


@dataclass(frozen=True)
class Vertex:
    """The best head width with its uncertainty over replicates.

    Args:
        log2_head_dim: of the mean curve, by the parabola through the least error and its two neighbours.
        wider: the same from a least-squares parabola over two neighbours on either side; how far the two lie apart says
            how much the answer owes to the curve's shape.
        resampled: ``log2_head_dim`` from resampled replicates, shape (BOOTSTRAPS,).
        edge_share: share of resamples whose least error is at the narrowest or the widest head tried: there the optimum
            is censored, since a width beyond might be better.
        n_replicates: behind all this.
    """

    log2_head_dim: float
    wider: float
    resampled: Array
    edge_share: float
    n_replicates: int

    @property
    def standard_error(self) -> float:
        """Over replicates, in octaves."""
        return resampled_sd(self.resampled, self.n_replicates)

    @property
    def head_dim(self) -> float:
        """2 ** log2_head_dim."""
        return float(2.0**self.log2_head_dim)


def resampled_sd(resampled: Array, n_replicates: int) -> float:
    """Standard error from the bootstrap, whose resamples vary by the factor (R - 1) / R too little."""
    return float(resampled.std(ddof=1) * np.sqrt(n_replicates / (n_replicates - 1)))


def best_head_dim(errors: Array, head_dims: Sequence[int], *, seed: int = 0) -> Vertex:
    """The vertex of log mean error over log2 d_k, and the same for replicates drawn again with replacement.

    Args:
        errors: shape (replicates, widths), positive, paired by replicate.
        head_dims: rising.
        seed: of the resampling; equal seeds and numbers of replicates resample the same replicates, which keeps
            vertices at several n paired.
    """
    positions = np.log2(np.asarray(head_dims, dtype=np.float64))
    picks = np.random.default_rng([seed, _STREAM]).integers(0, len(errors), (BOOTSTRAPS, len(errors)))
    resampled, at_edge = _vertices(positions, np.log(errors[picks].mean(axis=1)))
    mean = np.log(errors.mean(axis=0))
    return Vertex(
        log2_head_dim=float(_vertices(positions, mean[np.newaxis])[0][0]),
        wider=_wider(positions, mean),
        resampled=resampled,
        edge_share=float(at_edge.mean()),
        n_replicates=len(errors),
    )


def _vertices(x: Array, curves: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Positions (B,) of the least value of curves (B, widths), by the parabola through it and its two neighbours.

    And which of them have it on the edge, where there is no second neighbour and the edge itself is the answer.
    """
    least = curves.argmin(axis=1)
    at_edge = (least == 0) | (least == len(x) - 1)
    if len(x) < 3:
        return x[least], at_edge
    middle = np.clip(least, 1, len(x) - 2)
    row = np.arange(len(curves))
    left, right = x[middle - 1] - x[middle], x[middle + 1] - x[middle]
    low, high = (curves[row, middle + side] - curves[row, middle] for side in (-1, 1))
    curvature = low * right - high * left  # > 0 unless all three are equal, or the least is on the edge
    inside = ~at_edge & (curvature > 0.0)
    offset = 0.5 * (low * right**2 - high * left**2) / np.where(inside, curvature, 1.0)
    return np.where(inside, x[middle] + offset, x[least]), at_edge


def _wider(x: Array, curve: Array) -> float:
    """The same from the least-squares parabola over two neighbours on either side, kept between the nearest two."""
    least = int(curve.argmin())
    if least in (0, len(x) - 1):
        return float(x[least])
    near = slice(max(0, least - 2), least + 3)
    square, slope, _ = np.polyfit(x[near] - x[least], curve[near], 2)
    if square <= 0.0:
        return float(x[least])
    return float(np.clip(x[least] - slope / (2.0 * square), x[least - 1], x[least + 1]))
