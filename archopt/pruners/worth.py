"""What head diversity was worth to a study: to its forecasts, and as a sign of a low loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from archopt.final_values import FinalValues
from archopt.rank_correlation import tau_within
from archopt.search_space import TrialRecord, read_records, recognise_head_parameter

if TYPE_CHECKING:
    import optuna

USEFUL_GAIN = 0.05  # a relative drop of the squared error that would be worth having
CONFIDENCE = 0.9
N_RESAMPLED = 2000

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DiversityWorth:
    """Whether diversity helped to forecast where trials end.

    Attributes:
        helped: "yes" where the whole interval of the gain is above 0, "no" where all of it is below 5 %, else
            "cannot tell".
        gain: relative drop in squared error of forecasts of left-out finished trials, at the rungs before their end,
            when diversity is read with the curve; negative where that does harm; None where there is too little.
        low, high: its central 90 % interval, from configurations drawn with replacement.
        tau: Kendall's tau between the z-score of HDI at the last report and the final value (lower is better), over
            pairs with equally many heads; None with fewer than 10 such pairs.
        tau_error: its standard error if the two had nothing to do with each other.
        n_trials: finished trials with diversity.
        n_rungs: steps at which enough of them reported for the gain to be measured.
    """

    helped: Literal["yes", "no", "cannot tell"]
    gain: float | None
    low: float | None
    high: float | None
    tau: float | None
    tau_error: float | None
    n_trials: int
    n_rungs: int


def diversity_worth(study: "optuna.Study", d_model: int | None = None) -> DiversityWorth:
    """What diversity was worth on a study whose trials used `archopt.report_diversity`.

    Args:
        d_model: where the study does not say.

    Raises:
        OptionError: no parameter of the study says how attention is split.
    """
    return worth_of_diversity(read_records(study, recognise_head_parameter(study, d_model)))


def worth_of_diversity(records: Sequence[TrialRecord]) -> DiversityWorth:
    """The same of trials as records; deterministic."""
    finished = [record for record in records if record.is_finished]
    shown = [record for record in finished if record.diversity_z_scores]
    correlation = tau_within(
        [
            (record.allocation.n_heads, record.diversity_z_scores[-1][1], record.value)
            for record in shown
            if record.allocation is not None and record.value is not None
        ]
    )
    without, with_it = _squared_errors(finished)
    n_rungs = without.shape[1]
    if not n_rungs:
        return DiversityWorth("cannot tell", None, None, None, correlation.tau, correlation.error, len(shown), 0)
    gain, low, high = _gain(without, with_it, [record.key for record in finished])
    helped: Literal["yes", "no", "cannot tell"] = "cannot tell"
    if low > 0.0:
        helped = "yes"
    elif high < USEFUL_GAIN:
        helped = "no"
    return DiversityWorth(helped, gain, low, high, correlation.tau, correlation.error, len(shown), n_rungs)


def _squared_errors(finished: Sequence[TrialRecord]) -> tuple[Array, Array]:
    """(N, rungs) of left-out forecasts by the curve and with diversity, over each rung's mean by the curve.

    0 where a trial has no diversity to be read: there the two do not differ but by chance.
    """
    last = max((record.curve[-1][0] for record in finished if record.curve), default=0)
    steps = sorted({report.step for record in finished for report in record.diversity if report.step < last})
    values = FinalValues(finished)
    without: list[Array] = []
    with_it: list[Array] = []
    for step in steps:
        rung = values.rung(step)
        if rung is None or rung.left_out is None:
            continue
        known = np.isfinite(rung.sensors[:, 1])
        unit = max(float(rung.left_out[0][known].mean()), 1e-300)
        for found, squares in zip((without, with_it), rung.left_out, strict=True):
            column = np.zeros(len(finished))
            column[rung.at] = np.where(known, squares, 0.0) / unit
            found.append(column)
    empty = np.zeros((len(finished), 0))
    return (np.column_stack(without), np.column_stack(with_it)) if without else (empty, empty)


def _gain(without: Array, with_it: Array, keys: Sequence[object]) -> tuple[float, float, float]:
    """The gain and its interval; trials of one configuration are not independent, so they are drawn together."""
    numbered = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    group = np.array([numbered[key] for key in keys])
    sums = np.array([np.bincount(group, weights=errors.sum(axis=1)) for errors in (without, with_it)])
    n = sums.shape[1]
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=N_RESAMPLED)
    totals = drawn @ sums.T
    gains = 1.0 - totals[:, 1] / np.maximum(totals[:, 0], 1e-300)
    low, high = np.quantile(gains, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return float(1.0 - sums[1].sum() / max(float(sums[0].sum()), 1e-300)), float(low), float(high)
