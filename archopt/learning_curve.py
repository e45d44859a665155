"""The final value of a run, predicted from its curve so far and, where that helps, its heads' diversity.

A Bayesian linear regression (ours) of the final value on what a run shows at one rung, fitted on the
finished runs at the same rung: normal-inverse-gamma prior, so that predictions are Student t. Whether diversity
enters is decided by leave-one-out prediction on those finished runs; it has no weight where it does not help.
"""

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
    """Student t over a run's final value.

    Attributes:
        mean, sd: location and scale, in the objective's units.
        degrees: of freedom.
        used_diversity: whether the diversity columns had a weight.
        diversity_gain: relative drop in leave-one-out squared error that they brought (negative: they hurt).
    """

    mean: float
    sd: float
    degrees: float
    used_diversity: bool
    diversity_gain: float

    def probability_below(self, threshold: float) -> float:
        """P(final value < threshold)."""
        return float(student_t.cdf((threshold - self.mean) / self.sd, self.degrees))

    @property
    def variance(self) -> float:
        """Of the predictive distribution."""
        return self.sd**2 * self.degrees / (self.degrees - 2.0)


def predict_final(
    curve: Array, final: Array, curve_now: Array, *, diversity: Array | None = None, diversity_now: Array | None = None
) -> FinalValue:
    """Predict where a run will end.

    Args:
        curve: (N, C) curve features of N finished runs at this rung.
        final: (N,) what they ended at; N >= 3.
        curve_now: (C,) the same features of the run in question.
        diversity: (N, G) diversity features; rows with NaN (H = 1) stand for "no information".
        diversity_now: (G,).
    """
    plain = _Regression(curve, final)
    if diversity is None or diversity_now is None or not np.isfinite(diversity).all(axis=1).any():
        return plain.predict(curve_now, used=False, gain=0.0)
    centre = np.nanmean(np.where(np.isfinite(diversity), diversity, np.nan), axis=0)
    known = np.where(np.isfinite(diversity), diversity, centre)
    now = np.where(np.isfinite(diversity_now), diversity_now, centre)
    both = _Regression(np.hstack([curve, known]), final)
    gain = 1.0 - both.leave_one_out_error / plain.leave_one_out_error if plain.leave_one_out_error > 0 else 0.0
    if gain > MIN_GAIN:
        return both.predict(np.concatenate([curve_now, now]), used=True, gain=gain)
    return plain.predict(curve_now, used=False, gain=gain)


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

    def predict(self, now: Array, *, used: bool, gain: float) -> FinalValue:
        row = self._design(now[None, :])[0]
        spread = self._rate / self._shape * (1.0 + float(row @ self._covariance @ row))
        return FinalValue(
            mean=self._target_mean + self._target_sd * float(row @ self._coefficients),
            sd=self._target_sd * float(np.sqrt(spread)),
            degrees=2.0 * self._shape,
            used_diversity=used,
            diversity_gain=gain,
        )


def _positive(spread: Array) -> Array:
    return np.where(spread > 0.0, spread, 1.0)
