"""Observed values, put on the model's scale, and what they say in information form."""

from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

JITTER = 1e-8
KNEE = 1.5  # spreads above the centre, from where values are compressed
# Logarithm of the spreads above that: what is a thousand of them off is bad, and no worse for being more
MAX_LOG_EXCESS = 7.0


@dataclass(frozen=True)
class Observations:
    """N observed values.

    Attributes:
        index: (N,) which of the M configurations.
        value: (N,) lower is better.
        replicate: (N,) replicate numbers, none twice for a configuration: that would be the same run. -1 where not
            known, which shares nothing with any other.
        extra_variance: (N,) known variance beyond the common noise (0 for a finished trial).
    """

    index: Indices
    value: Array
    replicate: Indices
    extra_variance: Array

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True)
class Scale:
    """From the observations' units to the model's and back.

    Attributes:
        centre, spread: of the better half of the values.
    """

    centre: float
    spread: float

    def apply(self, value: Array) -> Array:
        """To the model's units. Far above the centre logarithms: a run a thousand spreads away is bad, and must not
        stretch a model of the good ones.
        """
        scaled = (value - self.centre) / self.spread
        excess = np.minimum(np.log1p(np.maximum(scaled - KNEE, 0.0)), MAX_LOG_EXCESS)
        return np.where(scaled > KNEE, KNEE + excess, scaled)

    def apply_variance(self, value: Array, variance: Array) -> Array:
        """Variances of values there, in the model's units: to first order, where values are compressed."""
        scaled = (value - self.centre) / self.spread
        return np.asarray(variance / (self.spread * (1.0 + np.maximum(scaled - KNEE, 0.0))) ** 2)


def scale_of(observed: Observations) -> Scale:
    """By the spread of the better half, so that a few diverged runs do not flatten the rest.

    Values that are known exactly decide, where there are some: a reading of a curve may lie anywhere.
    """
    exact = observed.extra_variance == 0.0
    value = observed.value[exact] if exact.sum() > 1 else observed.value
    if len(value) == 0:
        return Scale(0.0, 1.0)
    low, middle = np.min(value), np.median(value)
    better = value[value <= middle + 3.0 * (middle - low)]
    centre, spread = float(np.mean(better)), float(np.std(better)) or float(np.std(value))
    return Scale(centre, spread if spread > 0.0 else 1e-6 * max(abs(centre), 1.0))


@dataclass(frozen=True)
class Information:
    """log p(y | f) = -1/2 (log_det + square - 2 vector . f + f^T precision f) + const, all noise integrated out.

    Attributes:
        precision: (m, m).
        vector: (m,).
        square, log_det: of the values and of their noise's covariance.
        inverses: of each block's noise covariance.
    """

    precision: Array
    vector: Array
    square: float
    log_det: float
    inverses: list[Array]


class Grouped:
    """Observations by replicate, whose noise is independent between replicates and shared inside of one.

    Args:
        observed: N observations.
        scale: theirs.

    Attributes:
        seen: (m,) the configurations that were observed.
    """

    def __init__(self, observed: Observations, scale: Scale) -> None:
        counts = np.bincount(observed.index)
        self.seen = np.flatnonzero(counts)
        place = np.zeros(len(counts), dtype=np.int64)
        place[self.seen] = np.arange(len(self.seen))
        self._at = place[observed.index]
        self._value = scale.apply(observed.value)
        self._extra = scale.apply_variance(observed.value, observed.extra_variance) + JITTER
        self._blocks: list[Indices] = []
        self._numbers: list[int] = []  # replicate of each block
        alone = [np.flatnonzero(observed.replicate < 0)]
        numbered = np.flatnonzero(observed.replicate >= 0)
        by_number = numbered[np.argsort(observed.replicate[numbered], kind="stable")]
        numbers, starts = np.unique(observed.replicate[by_number], return_index=True)
        for number, rows in zip(numbers, np.split(by_number, starts[1:]), strict=False):
            if len(rows) == 1:
                alone.append(rows)
            else:
                self._blocks.append(rows)
                self._numbers.append(int(number))
        self._alone = np.concatenate(alone)
        self._replicate = observed.replicate

    @property
    def coupled(self) -> bool:
        """Whether some replicate has two observations, which then share noise."""
        return bool(self._blocks)

    def minus(self, mean: Array) -> "Grouped":
        """The same with ``mean`` (m,) of each configuration taken off its values."""
        other = copy(self)
        other._value = self._value - mean[self._at]
        return other

    def information(self, shared: Array, noise_variance: float) -> Information:
        """What the values say where a replicate's runs share noise of covariance ``shared`` (m, m) and their own."""
        m = len(self.seen)
        rows = self._alone
        weight = 1.0 / (np.diagonal(shared)[self._at[rows]] + noise_variance + self._extra[rows])
        # as floats: of no rows at all the counts are whole numbers
        precision = np.diag(np.bincount(self._at[rows], weight, minlength=m).astype(np.float64))
        vector = np.bincount(self._at[rows], weight * self._value[rows], minlength=m).astype(np.float64)
        square, log_det = float(weight @ self._value[rows] ** 2), float(-np.log(weight).sum())
        inverses = []
        for rows in self._blocks:
            at, value = self._at[rows], self._value[rows]
            square_of = np.ix_(at, at)
            covariance = shared[square_of]
            covariance[np.diag_indices_from(covariance)] += noise_variance + self._extra[rows]
            root = cholesky(covariance, lower=True, check_finite=False, overwrite_a=True)
            inverse = inverse_of(root)
            precision[square_of] += inverse
            weighted = inverse @ value
            vector[at] += weighted
            square += float(value @ weighted)
            log_det += 2.0 * float(np.log(np.diagonal(root)).sum())
            inverses.append(inverse)
        return Information(precision, vector, square, log_det, inverses)

    def known_noise(self, said: Information, shared: Array, noise_variance: float) -> dict[int, tuple[Indices, Array]]:
        """By replicate the configurations seen in it, (k,) of m, and the inverse of their noise's covariance (k, k)."""
        found = {
            number: (self._at[rows], inverse)
            for number, rows, inverse in zip(self._numbers, self._blocks, said.inverses, strict=True)
        }
        # one at a time: few are alone in a replicate that has a number
        for row in self._alone[self._replicate[self._alone] >= 0]:
            at = self._at[row]
            variance = shared[at, at] + noise_variance + self._extra[row]
            found[int(self._replicate[row])] = (np.array([at]), np.array([[1.0 / variance]]))
        return found

    def slope(
        self, said: Information, shared: Array, noise_variance: float, mean: Array, covariance: Array
    ) -> tuple[Array, float]:
        """Twice the derivative of -log p(y) by ``shared`` (m, m) and by the noise's own variance.

        Args:
            said: `information` at the same variances.
            mean, covariance: (m,) and (m, m), the posterior of the expected values.
        """
        by_shared = np.zeros_like(covariance)
        rows = self._alone
        at = self._at[rows]
        weight = 1.0 / (np.diagonal(shared)[at] + noise_variance + self._extra[rows])
        residual = weight * (self._value[rows] - mean[at])
        alone = weight - weight**2 * np.diagonal(covariance)[at] - residual**2
        by_shared[np.diag_indices_from(by_shared)] += np.bincount(at, alone, minlength=len(mean))
        by_noise = float(alone.sum())
        for rows, inverse in zip(self._blocks, said.inverses, strict=True):
            at = self._at[rows]
            square_of = np.ix_(at, at)
            residual = inverse @ (self._value[rows] - mean[at])
            found = inverse - inverse @ covariance[square_of] @ inverse - np.outer(residual, residual)
            by_shared[square_of] += found
            by_noise += float(np.trace(found))
        return by_shared, by_noise


def inverse_of(root: Array) -> Array:
    """The inverse of the matrix with this lower Cholesky factor."""
    found, _ = dpotri(root, lower=1)
    found = np.tril(found)
    return np.asarray(found + np.tril(found, -1).T)
