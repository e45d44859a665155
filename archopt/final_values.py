"""Where trials would end: read from what they have reported and from what finished trials showed at that step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from archopt.learning_curve import RungModel
from archopt.search_space import TrialRecord

MIN_FINISHED_FOR_CURVES = 6  # finished trials that reported at a step, below which nothing is read from it
MIN_WITH_DIVERSITY = 24  # of them with diversity, below which it is not looked at
MIN_GAIN = 0.02  # relative drop of the error on left-out trials that diversity must bring to be used
FOLDS = 5
MIN_OF_WIDTH = 4  # trials with as many heads, below which their diversity is not compared
MOST_SPREADS = 3.0  # off the median of those: farther is held to be as far
FARTHEST = 20.0  # natural logarithms from the finished trials: beyond, a reading of a logarithm is cut

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FinalValue:
    """What a trial's curve says of its final value, lower being better.

    Attributes:
        value, variance: a reading of it, apart from anything else that is known of the trial.
        expected, expected_sd: of a trial that could be any of the finished ones, with this reading.
        location, scale: the same as the model has it: of the logarithm with ``log_scale``.
        log_scale: losses spread in proportion to their size, so positive ones are modelled by their logarithm.
        by_curve: the reading without diversity.
        diversity_gain: relative drop in squared error on left-out finished trials that diversity brings (negative: it
            hurts); None where it was not looked at.
    """

    value: float
    variance: float
    expected: float
    expected_sd: float
    location: float
    scale: float
    log_scale: bool
    by_curve: float
    diversity_gain: float | None

    def probability_below(self, limit: float) -> float:
        """P(final value < limit)."""
        if self.log_scale and limit <= 0.0:
            return 0.0
        return float(ndtr(((math.log(limit) if self.log_scale else limit) - self.location) / self.scale))


class FinalValues:
    """Readings by one set of finished trials; what a step needs is worked out once.

    Args:
        finished: trials with a value.
    """

    def __init__(self, finished: Sequence[TrialRecord]) -> None:
        self._finished = finished
        self._rungs: dict[int, Rung | None] = {}

    def at(self, record: TrialRecord, step: int | None = None) -> FinalValue | None:
        """Where ``record`` would end, from what it showed at ``step`` (its last by default).

        None where it has reported nothing there, where fewer than `MIN_FINISHED_FOR_CURVES` finished trials have, or
        where what they showed has nothing to do with what they came to.
        """
        if not record.curve:
            return None
        step = record.curve[-1][0] if step is None else step
        now = sensors_at(record, step)
        if now is None:
            return None
        found = self.rung(step)
        return None if found is None else found.read(now, _log2_head_dim(record))

    def rung(self, step: int) -> "Rung | None":
        """The finished trials at ``step``; None where fewer than `MIN_FINISHED_FOR_CURVES` reported there."""
        if step not in self._rungs:
            shown = {i: now for i, other in enumerate(self._finished) if (now := sensors_at(other, step)) is not None}
            enough = len(shown) >= MIN_FINISHED_FOR_CURVES
            self._rungs[step] = Rung(self._finished, shown) if enough else None
        return self._rungs[step]


class Rung:
    """The finished trials as they were at one step.

    Args:
        finished: trials with a value.
        shown: by position among them, what those that reported there showed.

    Attributes:
        at: (N,) positions of those that reported there.
        sensors: (N, 4) what they showed, diversity at equal numbers of heads (`sensors_at` has the order).
        left_out: squared errors (N,) on left-out trials by the curve and with diversity; None with too little of it.
        gain: relative drop between their sums.
    """

    def __init__(self, finished: Sequence[TrialRecord], shown: Mapping[int, Array]) -> None:
        self.at = np.array(list(shown))
        self.sensors = np.array(list(shown.values()))
        self.final = np.array([finished[i].value for i in shown], dtype=np.float64)
        self.width = np.array([_log2_head_dim(finished[i]) for i in shown])
        self.log_scale = bool((self.final > 0).all() and (self.sensors[:, 0] > 0).all())
        if self.log_scale:
            self.sensors[:, 0], self.final = np.log(self.sensors[:, 0]), np.log(self.final)
        self._levels = _levels(self.sensors, self.width)
        for i, width in enumerate(self.width):
            self.sensors[i] = self._compared(self.sensors[i], width)
        self.gain: float | None = None
        self.left_out: tuple[Array, Array] | None = None
        self._curve = RungModel(self.sensors[:, :1], self.final, self.width)
        self._both: RungModel | None = None
        if np.isfinite(self.sensors[:, 1]).sum() >= MIN_WITH_DIVERSITY:
            without, with_it = (_left_out_errors(self.sensors[:, :k], self.final, self.width) ** 2 for k in (1, None))
            self.left_out = without, with_it
            self.gain = 1.0 - float(with_it.sum()) / max(float(without.sum()), 1e-300)
            if self.gain > MIN_GAIN:
                self._both = RungModel(self.sensors, self.final, self.width)

    def read(self, now: Array, width: float) -> FinalValue | None:
        if self.log_scale and now[0] <= 0.0:
            return None
        now = self._compared(now, width)
        if self.log_scale:
            now[0] = math.log(now[0])
        curve = self._curve.read(now[:1], width)
        reading = curve if self._both is None else self._both.read(now, width)
        if reading is None:
            return None
        location, variance = self._curve.expect(reading)
        value, unit = self._in_units(reading.value)
        expected, expected_unit = self._in_units(location)
        return FinalValue(
            value=value,
            variance=reading.variance * unit**2,
            expected=expected,
            expected_sd=math.sqrt(variance) * expected_unit,
            location=location,
            scale=math.sqrt(variance),
            log_scale=self.log_scale,
            by_curve=self._in_units((curve or reading).value)[0],
            diversity_gain=self.gain,
        )

    def _compared(self, sensors: Array, width: float) -> Array:
        """Diversity in spreads off the median of trials with as many heads: only those can be compared; the loss stays.

        0 where those are too few: they say nothing either way.
        """
        level = self._levels.get(width)
        found = sensors.copy()
        if level is None:
            found[1:] = np.where(np.isfinite(found[1:]), 0.0, np.nan)
        else:
            found[1:] = np.clip((found[1:] - level[0]) / level[1], -MOST_SPREADS, MOST_SPREADS)
        return found

    def _in_units(self, value: float) -> tuple[float, float]:
        """In the objective's units, and what a unit of the model is there.

        Logarithms are undone to first order about the finished trials' mean where they are lower, or a reading that is
        too low by its own uncertainty would look certain, being small.
        """
        if not self.log_scale:
            return value, 1.0
        centre = float(self.final.mean())
        unit = math.exp(min(max(value, centre), centre + FARTHEST))
        return unit * (1.0 + min(value - centre, 0.0)), unit


def _levels(sensors: Array, width: Array) -> dict[float, tuple[Array, Array]]:
    """By log2 head_dim, the median and the spread (scaled median deviation) of each diversity sensor."""
    found = {}
    for value in np.unique(width):
        shown = sensors[width == value, 1:]
        shown = shown[np.isfinite(shown).all(axis=1)]
        if len(shown) >= MIN_OF_WIDTH:
            median = np.median(shown, axis=0)
            spread = 1.4826 * np.median(np.abs(shown - median), axis=0)
            found[float(value)] = median, np.where(spread > 0.0, spread, 1.0)
    return found


def _left_out_errors(sensors: Array, final: Array, width: Array) -> Array:
    """(N,) what each trial came to less what the others' rung model expected of it, in `FOLDS` folds."""
    errors = np.empty(len(final))
    fold = np.arange(len(final)) % FOLDS
    for k in range(FOLDS):
        model = RungModel(sensors[fold != k], final[fold != k], width[fold != k])
        out = fold == k
        errors[out] = final[out] - model.expected(sensors[out], width[out])
    return errors


def sensors_at(record: TrialRecord, step: int) -> Array | None:
    """The loss at ``step``, the z-score of HDI there and its change since the first report, and output correlation.

    NaN where there is none (H = 1 has no diversity); None where there is no loss.
    """
    value = next((value for at, value in record.curve if at == step), None)
    if value is None:
        return None
    scores = [score for at, score in record.diversity_z_scores if at <= step]
    score, trend = (scores[-1], scores[-1] - scores[0]) if scores else (math.nan, math.nan)
    correlation = next((report.output_correlation for report in record.diversity if report.step == step), math.nan)
    return np.array([value, score, trend, correlation])


def _log2_head_dim(record: TrialRecord) -> float:
    return 0.0 if record.allocation is None else math.log2(record.allocation.head_dim)
