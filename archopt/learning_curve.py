"""What a run shows at one rung, as a reading of where it will end.

A Bayesian regression (ours) of what finished runs showed at a rung on where they ended, turned round for a run that is
still on its way: its loss is a sensor of its final value, and its heads' diversity can be more of them. Regressing this
way round, the slope does not depend on how good the finished runs were, and what a rung says can be told from what is
known of a run without it: a rung that says nothing gives a reading without weight, not the mean of all runs.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Priors, in standard deviations of the sensor and of the final value; found on the tuning tables of
# studies/2026-12-02_pruner. Of the slope, a difference at the end is expected to show by half at a rung.
SLOPE_MEAN, SLOPE_SD = 0.5, 0.5
OTHER_SLOPE_SD = 0.2  # of the diversity sensors, of which little is expected: mean 0
WIDTH_VARIANCE = 3.0  # of the slope in log2 head_dim over the residual variance: widths learn at speeds of their own
RESIDUAL_VARIANCE, RESIDUAL_COUNT = 2.0, 2.0  # what so many runs would show
FARTHER = 3.0  # than finished runs may one be held to end
MIN_SLOPE = 0.02  # below it the loss at a rung is no sensor


@dataclass(frozen=True)
class Reading:
    """What a rung says of where a run ends, apart from anything else that is known of it.

    Attributes:
        value: of the final value, or of its logarithm.
        variance: of ``value`` around that; large where the rung says little.
    """

    value: float
    variance: float


class RungModel:
    """What N finished runs showed at one rung.

    Args:
        sensors: (N, K) the loss at the rung and, where used, diversity; NaN where a run has none (H = 1), but not in
            the first column.
        final: (N,) what they ended at, N >= 2.
        log2_head_dim: (N,) 0 for runs without heads.
    """

    def __init__(self, sensors: Array, final: Array, log2_head_dim: Array) -> None:
        self._final_mean, self._final_sd = float(final.mean()), _spread(final)
        self._n_final = len(final)
        self._width_mean, self._widths = float(log2_head_dim.mean()), np.unique(log2_head_dim)
        end = (final - self._final_mean) / self._final_sd
        design = np.column_stack([np.ones(len(final)), end, log2_head_dim - self._width_mean])
        known = np.isfinite(sensors)
        self._known = known.any(axis=0)
        sensors, known = sensors[:, self._known], known[:, self._known]
        self._mean = np.nanmean(sensors, axis=0)
        self._sd = np.array([_spread(column[np.isfinite(column)]) for column in sensors.T])
        scaled = np.where(known, (np.where(known, sensors, 0.0) - self._mean) / self._sd, 0.0)
        unit = self._final_sd / self._sd[0]  # the loss and what it ends at have one unit, so that the prior has too
        self._coefficients = np.zeros((3, scaled.shape[1]))
        residuals = np.zeros_like(scaled)
        for k in range(scaled.shape[1]):
            mean = SLOPE_MEAN * unit if k == 0 else 0.0
            sd = SLOPE_SD * unit if k == 0 else OTHER_SLOPE_SD
            precision = np.diag([1e-6, RESIDUAL_VARIANCE / sd**2, RESIDUAL_VARIANCE / WIDTH_VARIANCE])
            rows = design[known[:, k]]
            total = rows.T @ rows + precision
            prior = precision @ np.array([0.0, mean, 0.0])
            self._coefficients[:, k] = np.linalg.solve(total, rows.T @ scaled[known[:, k], k] + prior)
            if scaled[:, k].std() == 0.0:  # all showed the same: the slope's prior is no evidence
                self._coefficients[:, k] = 0.0
            residuals[known[:, k], k] = scaled[known[:, k], k] - rows @ self._coefficients[:, k]
            if k == 0:
                self._unscaled = np.linalg.inv(total)
        count = known.T.astype(np.float64) @ known
        square = residuals.T @ residuals
        square[np.diag_indices_from(square)] += RESIDUAL_VARIANCE * RESIDUAL_COUNT
        self._residual = square / np.maximum(count + RESIDUAL_COUNT - 2.0, RESIDUAL_COUNT)  # two slopes were fitted

    def read(self, sensors: Array, log2_head_dim: float) -> Reading | None:
        """The reading of a run that shows ``sensors`` (K,) at this rung; None where they say nothing."""
        value, variance = self._read(sensors[None], np.array([log2_head_dim]))
        return None if math.isnan(value[0]) else Reading(float(value[0]), float(variance[0]))

    def expect(self, reading: Reading | None) -> tuple[float, float]:
        """Mean and variance of where a run ends, taken for one of the finished ones; of all of them with no reading.

        Where the reading is farther off than thrice its standard deviation, runs are held to spread as far as that, up
        to `FARTHER` times as far as those that finished: these may be the good ones.
        """
        if reading is None:
            return self._final_mean, self._final_spread
        mean, variance = self._expect(np.array([reading.value]), np.array([reading.variance]))
        return float(mean[0]), float(variance[0])

    def expected(self, sensors: Array, log2_head_dim: Array) -> Array:
        """(N,) means by `expect` of runs that show ``sensors`` (N, K)."""
        value, variance = self._read(sensors, log2_head_dim)
        says = np.isfinite(value)
        found = np.full(len(value), self._final_mean)
        found[says] = self._expect(value[says], variance[says])[0]
        return found

    def _read(self, sensors: Array, log2_head_dim: Array) -> tuple[Array, Array]:
        """Values and variances (N,) of readings; NaN where the sensors say nothing.

        Sensors combine by generalised least squares, with the residuals' covariance.
        """
        sensors = sensors[:, self._known]
        value, variance = np.full(len(sensors), np.nan), np.full(len(sensors), np.nan)
        finite = np.isfinite(sensors)
        for which in np.unique(finite, axis=0):
            if not which[0]:
                continue
            at = np.flatnonzero((finite == which).all(axis=1))
            intercept, slope, width = self._coefficients[:, which]
            if slope[0] <= MIN_SLOPE * self._final_sd / self._sd[0]:
                slope = np.where(np.arange(len(slope)) == 0, 0.0, slope)
            weighted = np.linalg.solve(self._residual[np.ix_(which, which)], slope)
            precision = float(weighted @ slope)
            if precision < 1e-6:
                continue
            off = log2_head_dim[at] - self._width_mean
            scaled = (sensors[np.ix_(at, which)] - self._mean[which]) / self._sd[which]
            end = (scaled - intercept - off[:, None] * width) @ weighted / precision
            # where a run is likely to end by this and by the finished ones: the slope's uncertainty matters so far off
            likely = np.column_stack([np.ones(len(at)), end * precision / (1.0 + precision), off])
            beyond = np.abs(self._widths - log2_head_dim[at, None]).min(axis=1)  # there the slope may be another one
            unsure = np.einsum("ni,ij,nj->n", likely, self._unscaled, likely)
            value[at] = self._final_mean + self._final_sd * end
            variance[at] = self._final_sd**2 * (1.0 + unsure + WIDTH_VARIANCE * beyond**2) / precision
        return value, variance

    def _expect(self, value: Array, variance: Array) -> tuple[Array, Array]:
        spread = self._final_spread
        beyond = (value - self._final_mean) ** 2 - 9.0 * variance
        spreads = np.maximum(spread, np.minimum(beyond, FARTHER**2 * spread))
        weight = spreads / (spreads + variance)
        return self._final_mean + weight * (value - self._final_mean), weight * variance

    @property
    def _final_spread(self) -> float:
        return self._final_sd**2 * (1.0 + 1.0 / self._n_final)


def _spread(values: Array) -> float:
    """The standard deviation; 1 where there is none."""
    spread = float(values.std()) if len(values) else 0.0
    return spread if spread > 0.0 and math.isfinite(spread) else 1.0
