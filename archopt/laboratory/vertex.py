"""Where a curve of errors over head widths is least, between the widths that were tried, and whether it is censored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    found = [_vertex(positions, np.log(errors[pick].mean(axis=0)), reach=1) for pick in picks]
    mean = np.log(errors.mean(axis=0))
    return Vertex(
        log2_head_dim=_vertex(positions, mean, reach=1)[0],
        wider=_vertex(positions, mean, reach=2)[0],
        resampled=np.array([place for place, _ in found]),
        edge_share=float(np.mean([edge for _, edge in found])),
        n_replicates=len(errors),
    )


def _vertex(x: Array, y: Array, reach: int) -> tuple[float, bool]:
    """Position of the least value, by a parabola over ``reach`` neighbours a side; and whether it lies on the edge."""
    least = int(y.argmin())
    if least in (0, len(y) - 1):
        return float(x[least]), True
    near = slice(max(0, least - reach), least + reach + 1)
    square, slope, _ = np.polyfit(x[near] - x[least], y[near], 2)
    if square <= 0.0:
        return float(x[least]), False
    offset = np.clip(-slope / (2.0 * square), x[least - 1] - x[least], x[least + 1] - x[least])
    return float(x[least] + offset), False
