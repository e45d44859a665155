"""Where a curve of errors over head widths is least, between the widths that were tried, and whether it is censored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archopt.theory.arrays import Array

BOOTSTRAPS = 1_000


@dataclass(frozen=True)
class Vertex:
    """The best head width with its uncertainty over replicates.

    Args:
        log2_head_dim: of the mean curve.
        resampled: the same from resampled replicates, shape (BOOTSTRAPS,).
        edge_share: share of resamples whose least error is at the narrowest or the widest head tried: there the optimum
            is censored, since a width beyond might be better.
    """

    log2_head_dim: float
    resampled: Array
    edge_share: float

    @property
    def standard_error(self) -> float:
        """Standard deviation of the resampled values, in octaves."""
        return float(self.resampled.std(ddof=1))

    @property
    def head_dim(self) -> float:
        """2 ** log2_head_dim."""
        return float(2.0**self.log2_head_dim)


def best_head_dim(errors: Array, head_dims: Sequence[int], *, seed: int = 0) -> Vertex:
    """The vertex of log mean error over log2 d_k, and the same for replicates drawn again with replacement.

    Args:
        errors: shape (replicates, widths), positive, paired by replicate.
        head_dims: rising.
        seed: of the resampling; equal seeds and numbers of replicates resample the same replicates, which keeps
            vertices at several n paired.
    """
    positions = np.log2(np.asarray(head_dims, dtype=np.float64))
    picks = np.random.default_rng([seed, 7]).integers(0, len(errors), (BOOTSTRAPS, len(errors)))
    found = [_vertex(positions, np.log(errors[pick].mean(axis=0))) for pick in picks]
    here, _ = _vertex(positions, np.log(errors.mean(axis=0)))
    return Vertex(here, np.array([place for place, _ in found]), float(np.mean([edge for _, edge in found])))


def _vertex(x: Array, y: Array) -> tuple[float, bool]:
    """Position of the least value, by the parabola through it and its neighbours; and whether it lies on the edge."""
    least = int(y.argmin())
    if least in (0, len(y) - 1):
        return float(x[least]), True
    left, right = x[least - 1] - x[least], x[least + 1] - x[least]
    low, high = y[least - 1] - y[least], y[least + 1] - y[least]
    curvature = low * right - high * left  # > 0 unless all three are equal
    if curvature <= 0.0:
        return float(x[least]), False
    return float(x[least] + 0.5 * (low * right**2 - high * left**2) / curvature), False
