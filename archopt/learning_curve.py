"""The final value of a run, predicted from its curve so far and, where that helps, its heads' diversity.

A Bayesian linear regression (ours) of the final value on what a run shows at one rung, fitted on the
finished runs at the same rung: normal-inverse-gamma prior, so that predictions are Student t. Whether diversity
enters is decided by leave-one-out prediction on those finished runs; it has no weight where it does not help.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student_t

Array = npt.NDArray[np.float64]

PRIOR_VARIANCE = 10.0  # of each coefficient over the residual variance, features and target standardised: weak
PRIOR_SHAPE, PRIOR_RATE = 2.0, 0.05  # inverse gamma of the residual variance, weak
MIN_GAIN = 0.02  # relative drop of the leave-one-out error that diversity must bring to be used


@dataclass(frozen=True)
class FinalValue:
    """What a run's final value is expected to be.

    Attributes:
        location, scale, degrees: of a Student t over the final value, or over its logarithm.
        log_scale: which of the two. Losses spread in proportion to their size, so a positive one is modelled by its
            logarithm: a few bad runs then do not widen the prediction for the good ones.
        used_diversity: whether the diversity columns had a weight.
        diversity_gain: relative drop in leave-one-out squared error that they brought (negative: they hurt).
    """

    location: float
    scale: float
    degrees: float
    log_scale: bool
    used_diversity: bool
    diversity_gain: float

    def probability_below(self, threshold: float) -> float:
        """P(final value < threshold)."""
        if self.log_scale:
            if threshold <= 0.0:
                return 0.0
            threshold = math.log(threshold)
        return float(student_t.cdf((threshold - self.location) / self.scale, self.degrees))

    @property
    def median(self) -> float:
        """In the objective's units."""
        return math.exp(self.location) if self.log_scale else self.location

    @property
    def sd(self) -> float:
        """In the objective's units; to first order where the logarithm is modelled."""
        spread = self.scale * math.sqrt(self.degrees / (self.degrees - 2.0))
        return self.median * spread if self.log_scale else spread


class FinalValueModel:
    """What N finished runs say about where a run ends that shows these features now.

    Args:
        curve: (N, C) curve features of N finished runs at this rung.
        final: (N,) what they ended at (its logarithm, with ``log_scale``); N >= 3.
        diversity: (N, G) diversity features; rows with NaN (H = 1) stand for "no information".
        log_scale: ``final`` is in logarithms.
    """

    def __init__(self, curve: Array, final: Array, *, diversity: Array | None = None, log_scale: bool = False) -> None:
        self._log_scale = log_scale
        self._plain = _Regression(curve, final)
        self._both: _Regression | None = None
        self._gain = 0.0
        if diversity is None or not np.isfinite(diversity).all(axis=1).any():
            return
        self._centre = np.nanmean(np.where(np.isfinite(diversity), diversity, np.nan), axis=0)
        known = np.where(np.isfinite(diversity), diversity, self._centre)
        self._both = _Regression(np.hstack([curve, known]), final)
        if self._plain.leave_one_out_error > 0:
            self._gain = 1.0 - self._both.leave_one_out_error / self._plain.leave_one_out_error

    def predict(self, curve_now: Array, diversity_now: Array | None = None) -> FinalValue:
        """Where the run ends: (C,) curve features and (G,) diversity features, as those of the finished runs."""
        if self._both is None or diversity_now is None:
            return self._plain.predict(curve_now, self._log_scale, used=False, gain=0.0)
        if self._gain <= MIN_GAIN:
            return self._plain.predict(curve_now, self._log_scale, used=False, gain=self._gain)
        now = np.where(np.isfinite(diversity_now), diversity_now, self._centre)
        return self._both.predict(np.concatenate([curve_now, now]), self._log_scale, used=True, gain=self._gain)


class _Regression:
    """Conjugate Bayesian linear regression on standardised columns."""

    def __init__(self, features: Array, target: Array) -> None:
        self._feature_mean, self._feature_sd = features.mean(axis=0), _positive(features.std(axis=0))
        self._target_mean, self._target_sd = float(target.mean()), float(_positive(np.array(target.std())))
        design = self._design(features)
        outcome = (target - self._target_mean) / self._target_sd
        precision = design.T @ design + np.diag([1e-6, *[1.0 / PRIOR_VARIANCE] * features.shape[1]])
        self._covariance = np.linalg.inv(precision)
        self._coefficients = self._covariance @ design.T @ outcome
        residual = outcome - design @ self._coefficients
        leverage = np.einsum("ij,jk,ik->i", design, self._covariance, design)
        self.leave_one_out_error = float(np.mean((residual / np.maximum(1.0 - leverage, 1e-6)) ** 2))
        self._shape = PRIOR_SHAPE + 0.5 * len(target)
        shrinkage = float(self._coefficients[1:] @ self._coefficients[1:]) / PRIOR_VARIANCE
        self._rate = PRIOR_RATE + 0.5 * (float(residual @ residual) + shrinkage)

    def _design(self, features: Array) -> Array:
        scaled = (features - self._feature_mean) / self._feature_sd
        return np.hstack([np.ones((len(features), 1)), scaled])

    def predict(self, now: Array, log_scale: bool, *, used: bool, gain: float) -> FinalValue:
        row = self._design(now[None, :])[0]
        spread = self._rate / self._shape * (1.0 + float(row @ self._covariance @ row))
        return FinalValue(
            location=self._target_mean + self._target_sd * float(row @ self._coefficients),
            scale=self._target_sd * float(np.sqrt(spread)),
            degrees=2.0 * self._shape,
            log_scale=log_scale,
            used_diversity=used,
            diversity_gain=gain,
        )


def _positive(spread: Array) -> Array:
    return np.where(spread > 0.0, spread, 1.0)
