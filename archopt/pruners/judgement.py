"""What a study's finished trials say of one that is still on its way."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import ndtr

from archopt.final_values import FinalValue
from archopt.search_space import SearchSpace, StudyHistory, TrialRecord, search_space_of
from archopt.study_model import curve_readings, model_study
from archopt.surrogate import Observations, OptimumPrior

Key = tuple[tuple[str, str], ...]

# by history: how many trials it held, what has to be beaten, the contenders
_BEST: "WeakKeyDictionary[StudyHistory, tuple[int, float, set[Key]]]" = WeakKeyDictionary()


@dataclass(frozen=True)
class Judgement:
    """Whether a trial may yet be the best; lower is better.

    Attributes:
        p_better: P(better than the incumbent).
        incumbent: what has to be beaten, in the objective's units.
        expected, expected_sd: of the trial: its configuration's expected value where the study has a model of those,
            else its own final value.
        reading: what the curve alone, with diversity where it helps, says of the final value.
        contender: the trial is another replicate of a configuration that may be the best one, and is not to be judged
            by its own luck; the model knows of luck, so that this is False where there is one.
    """

    p_better: float
    incumbent: float
    expected: float
    expected_sd: float
    reading: FinalValue
    contender: bool = False


def judge(
    history: StudyHistory, record: TrialRecord, step: int, prior_of: Callable[[SearchSpace], OptimumPrior]
) -> Judgement | None:
    """Judge a trial by what it showed at ``step``.

    Where the study's parameters are configurations that can be enumerated, the study's model (eq. S1) takes the curve
    for one more observation: it knows what the configuration's other trials and its neighbours came to, and how much of
    a difference is luck that all runs of one replicate share. Else the trial's final value is predicted by its curve.

    Returns:
        None where too few finished trials reported at that step, or what they reported says nothing.
    """
    reading = curve_readings(history).at(record, step)
    if reading is None:
        return None
    space = search_space_of(history.distributions(), history.head)
    position = None if space is None else space.position(record)
    if space is None or position is None or not record.params.keys() <= set(space.names):
        return _by_curve(history, record, reading)
    running = Observations(
        np.array([position]),
        np.array([reading.value]),
        np.array([-1 if record.replicate is None else record.replicate]),
        np.array([reading.variance]),
    )
    model = model_study(history, space, prior_of(space), running=running)
    others = model.answerable.copy()
    others[position] = False
    if not others.any():
        return None
    mean = model.posterior.mean
    best = int(np.flatnonzero(others)[mean[others].argmin()])
    covariance = model.posterior.covariance(np.array([position, best]))
    spread = math.sqrt(max(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1], 1e-300))
    in_units = model.posterior.in_units(mean[[position, best]])
    return Judgement(
        p_better=float(ndtr((mean[best] - mean[position]) / spread)),
        incumbent=float(in_units[1]),
        expected=float(in_units[0]),
        expected_sd=math.sqrt(max(covariance[0, 0], 0.0)),
        reading=reading,
    )


def _by_curve(history: StudyHistory, record: TrialRecord, reading: FinalValue) -> Judgement:
    known = _BEST.get(history)
    if known is None or known[0] != len(history.ended):
        known = _BEST[history] = len(history.ended), *_incumbent(history.ended)
    _, incumbent, contenders = known
    return Judgement(
        p_better=reading.probability_below(incumbent),
        incumbent=incumbent,
        expected=reading.expected,
        expected_sd=reading.expected_sd,
        reading=reading,
        contender=record.key in contenders,
    )


def _incumbent(ended: Sequence[TrialRecord]) -> tuple[float, set[Key]]:
    """The best configuration's shrunk mean, and the configurations within one noise sd of it.

    Means are shrunk towards the mean of the better half by n / (n + noise variance / spread variance), so that with
    one trial each the luckiest does not become the bar.
    """
    values: dict[Key, list[float]] = {}
    for record in ended:
        if record.is_finished and record.value is not None:
            values.setdefault(record.key, []).append(record.value)
    count = np.array([len(found) for found in values.values()])
    every = np.concatenate([*values.values()])
    mean = np.add.reduceat(every, np.cumsum(count) - count) / count
    better = every[every <= np.median(every)]
    centre, spread = float(better.mean()), float(better.var())
    within = float(((every - np.repeat(mean, count)) ** 2).sum())
    # one pseudo-replicate at half the spread keeps the first few repeats from claiming no noise at all
    noise = (within + 0.5 * spread) / (int((count - 1).sum()) + 1)
    shrunk = centre + (mean - centre) * count / (count + noise / max(spread, 1e-300))
    best = float(shrunk.min())
    good = shrunk <= best + math.sqrt(noise)
    return best, {key for key, holds in zip(values, good, strict=True) if holds}
