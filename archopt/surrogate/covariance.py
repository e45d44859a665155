"""What is assumed of the expected values before any is observed: the parts of eq. S1 and their variances."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky

from archopt.surrogate.observations import JITTER

Array = npt.NDArray[np.float64]

SMOOTH_OCTAVES = 1.0  # length scale of smooth(u)
SLOW_OCTAVES = 2.0  # over which other effects change with u
SHARED_OCTAVES = 0.7  # over which what a replicate's runs share changes with u
ORDERED_LENGTH = 0.5  # of an ordered parameter scaled to [0, 1]
CURVATURE_MEAN, CURVATURE_SD = 0.05, 0.1  # per octave^2, in units of the observations' spread
OPTIMUM_NODES = 7  # of u*, spread over +- 2 prior standard deviations
LEVEL_VARIANCE = 1.0
NARROW_VARIANCE, NARROW_POWER = 9.0, 1.5  # of what heads of width 1 cost, and how it falls with the width


@dataclass(frozen=True)
class OptimumPrior:
    """Where the optimum of log2 head_dim is expected: normal with this mean and standard deviation (octaves)."""

    log2_head_dim: float
    sd_octaves: float

    def nodes(self) -> tuple[Array, Array]:
        """(K,) a grid of u* and its log prior, up to a constant."""
        steps = np.linspace(-2.0, 2.0, OPTIMUM_NODES)
        return self.log2_head_dim + self.sd_octaves * steps, -0.5 * steps**2


@dataclass(frozen=True, eq=False)
class Inputs:
    """The M configurations in numbers; hashed by identity, since much is remembered of each.

    Attributes:
        log2_head_dim: (M,).
        levels: (M, F), a column for each parameter that is not the split itself.
        ordered: (F,), which columns have an order; those are scaled to [0, 1].
    """

    log2_head_dim: Array
    levels: Array
    ordered: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.log2_head_dim)

    def fixed(self, at: npt.NDArray[np.int64] | None = None) -> Array:
        """(m, m) covariance of the terms whose variance is not fitted: the level, and the cost of narrow heads."""
        u = self.log2_head_dim if at is None else self.log2_head_dim[at]
        narrow = 2.0 ** (-NARROW_POWER * u)
        return np.asarray(LEVEL_VARIANCE + NARROW_VARIANCE * np.outer(narrow, narrow))

    def parts(self, at: npt.NDArray[np.int64] | None = None) -> Array:
        """(P, m, m) covariances of unit variance of the expected values: smooth, effects, interactions, own.

        Args:
            at: (m,) which configurations; all by default.
        """
        gap, effects = self._differences(at)
        smooth, slow = _bell(gap, SMOOTH_OCTAVES), _bell(gap, SLOW_OCTAVES)
        return np.stack([smooth, *effects, *[effect * slow for effect in effects], np.eye(len(gap))])

    def shared_parts(self, at: npt.NDArray[np.int64] | None = None) -> Array:
        """(Q, m, m) covariances of unit variance of what runs of one replicate share: all, smooth, interactions."""
        gap, effects = self._differences(at)
        smooth = _bell(gap, SHARED_OCTAVES)
        return np.stack([np.ones_like(gap), smooth, *[effect * smooth for effect in effects]])

    def _differences(self, at: npt.NDArray[np.int64] | None) -> tuple[Array, list[Array]]:
        """(m, m) octaves between configurations, and correlations of each other parameter's effects."""
        u = self.log2_head_dim if at is None else self.log2_head_dim[at]
        levels = self.levels if at is None else self.levels[at]
        effects = []
        for column, has_order in zip(levels.T, self.ordered, strict=True):
            distance = column[:, None] - column[None, :]
            effects.append(_bell(distance, ORDERED_LENGTH) if has_order else (distance == 0).astype(float))
        return u[:, None] - u[None, :], effects


@dataclass(frozen=True)
class Variances:
    """The fitted variance of every part of eq. S1, in units of the observations' spread squared.

    Attributes:
        expected: of the parts of the expected value, in the order of `Inputs.parts`.
        shared: of the parts of what a replicate's runs share, in the order of `Inputs.shared_parts`.
        noise: of a run's own noise.
    """

    expected: tuple[float, ...]
    shared: tuple[float, ...]
    noise: float

    def to_array(self) -> Array:
        """All of them, in this order."""
        return np.array([*self.expected, *self.shared, self.noise])

    @classmethod
    def from_array(cls, values: Array, n_expected: int) -> "Variances":
        """Inverse of `to_array`."""
        v = tuple(float(value) for value in values)
        return cls(v[:n_expected], v[n_expected:-1], v[-1])


@dataclass(frozen=True, eq=False)
class PriorCovariance:
    """Covariances over the M configurations.

    Attributes:
        matrix: (M, M), of the expected values, but for the bowl around u*.
        shared: (M, M), of what runs of one replicate share.
    """

    matrix: Array
    shared: Array

    @cached_property
    def root(self) -> Array:
        """Lower Cholesky factor, for drawing."""
        return np.asarray(cholesky(self.matrix, lower=True, check_finite=False))


@lru_cache(maxsize=4)  # between two fits of the variances every proposal asks for the same
def prior_covariance(inputs: Inputs, variances: Variances) -> PriorCovariance:
    """That of eq. S1 at these variances."""
    parts = inputs.parts()
    matrix = np.tensordot(np.array(variances.expected), parts, axes=1) + inputs.fixed()
    matrix[np.diag_indices_from(matrix)] += JITTER
    return PriorCovariance(matrix, np.tensordot(np.array(variances.shared), inputs.shared_parts(), axes=1))


def _bell(distance: Array, length: float) -> Array:
    return np.asarray(np.exp(-0.5 * (distance / length) ** 2))
