"""Where trials would end: predicted from what they have reported and from what finished trials showed at that step."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from archopt.learning_curve import FinalValue, FinalValueModel
from archopt.search_space import TrialRecord

MIN_FINISHED_FOR_CURVES = 6  # finished trials that reported at a step, below which nothing is predicted from it


class FinalValues:
    """Predictions from one set of finished trials; what a step needs is worked out once.

    Args:
        finished: trials with a value.
    """

    def __init__(self, finished: Sequence[TrialRecord]) -> None:
        self._finished = finished
        self._steps: dict[int, _Step | None] = {}

    def predict(self, record: TrialRecord, *, at_step: int | None = None) -> FinalValue | None:
        """Where ``record`` would end, from its curve up to ``at_step`` (its last step by default) and its diversity.

        None where it has reported nothing there, or fewer than `MIN_FINISHED_FOR_CURVES` finished trials have.
        """
        if not record.curve:
            return None
        step = record.curve[-1][0] if at_step is None else at_step
        now = _curve_features(record, step)
        if now is None:
            return None
        if step not in self._steps:
            known = [(features, other) for other in self._finished if (features := _curve_features(other, step))]
            self._steps[step] = _Step(step, known) if len(known) >= MIN_FINISHED_FOR_CURVES else None
        found = self._steps[step]
        return None if found is None else found.predict(np.array(now), np.array(_diversity_features(record, step)))


class _Step:
    """The finished trials as they were at one step."""

    def __init__(self, step: int, known: Sequence[tuple[tuple[float, float, float], TrialRecord]]) -> None:
        self._curve = np.array([features for features, _ in known])
        self._final = np.array([other.value for _, other in known], dtype=np.float64)
        self._diversity = np.array([_diversity_features(other, step) for _, other in known])
        self._positive = bool((self._final > 0).all() and (self._curve[:, :2] > 0).all())
        self._models: dict[bool, FinalValueModel] = {}

    def predict(self, now: npt.NDArray[np.float64], diversity_now: npt.NDArray[np.float64]) -> FinalValue:
        log_scale = self._positive and bool((now[:2] > 0).all())
        if log_scale not in self._models:
            self._models[log_scale] = FinalValueModel(
                _as_features(self._curve, log_scale),
                np.log(self._final) if log_scale else self._final,
                diversity=self._diversity,
                log_scale=log_scale,
            )
        return self._models[log_scale].predict(_as_features(now[None, :], log_scale)[0], diversity_now)


def _curve_features(record: TrialRecord, step: int) -> tuple[float, float, float] | None:
    """Value at ``step`` and at the report before (the same, at the first), log2 head_dim (0 without heads)."""
    before = None
    for at, value in record.curve:
        if at == step:
            width = 0.0 if record.allocation is None else math.log2(record.allocation.head_dim)
            return value, value if before is None else before, width
        before = value
    return None


def _as_features(curve: npt.NDArray[np.float64], log_scale: bool) -> npt.NDArray[np.float64]:
    """(N, 3): value, its change since the report before, log2 head_dim; the first two of logarithms on request."""
    values = np.log(curve[:, :2]) if log_scale else curve[:, :2]
    return np.column_stack([values[:, 0], values[:, 0] - values[:, 1], curve[:, 2]])


def _diversity_features(record: TrialRecord, step: int) -> tuple[float, float]:
    """z-score of HDI at ``step`` and its change since the first report; NaN where there is none (H = 1)."""
    upto = [z_score for at, z_score in record.diversity_z_scores if at <= step]
    return (upto[-1], upto[-1] - upto[0]) if upto else (math.nan, math.nan)
