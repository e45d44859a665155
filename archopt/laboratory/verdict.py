"""What a measurement says about a claim: holds, does not hold, cannot tell. Intervals decide, never the estimate alone.

A claim allows a range of values, widened by a margin below which nobody would care. Inside it with its whole interval a
claim holds; outside with its whole interval it does not; else the measurement cannot tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

HOLDS: Literal["holds"] = "holds"
FAILS: Literal["does not hold"] = "does not hold"
UNDECIDED: Literal["cannot tell"] = "cannot tell"
Verdict = Literal["holds", "does not hold", "cannot tell"]


@dataclass(frozen=True)
class Interval:
    """An estimate with its standard error and a confidence interval; NaN where there is none."""

    estimate: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """One claim held against numbers.

    Args:
        theorem: its number, "3.1".
        origin: "Stated" by the paper, or "Ours".
        claim: what is claimed, in words.
        predicted: what that means here.
        measured: what came out, with standard errors.
        quantity: what ``interval`` is about.
        interval: estimate, standard error and interval.
        allowed: the values that the claim allows, margin included.
        verdict: "holds", "does not hold" or "cannot tell".
        note: what a reader has to know, or "".
        rows: the raw figures.
    """

    theorem: str
    origin: Literal["Stated", "Ours"]
    claim: str
    predicted: str
    measured: str
    quantity: str
    interval: Interval
    allowed: tuple[float, float]
    verdict: Verdict
    note: str = ""
    rows: tuple[dict[str, Any], ...] = field(default=(), repr=False)


NOT_MEASURED = Interval(nan, nan, nan, nan)


def nothing_to_measure(theorem: str, origin: Literal["Stated", "Ours"], claim: str, reason: str) -> Finding:
    """The answer where a claim is about something that the setting does not have."""
    return Finding(theorem, origin, claim, "nothing", reason, "", NOT_MEASURED, (-inf, inf), UNDECIDED)


def mean_interval(samples: ArrayLike, *, confidence: float, comparisons: int = 1) -> Interval:
    """Student's interval for the mean of independent samples.

    Args:
        samples: shape (n,), n of at least 2.
        confidence: of all ``comparisons`` together (Bonferroni).
        comparisons: how many intervals are looked at before the verdict.
    """
    from scipy.stats import t

    values = np.asarray(samples, dtype=np.float64)
    standard_error = float(values.std(ddof=1)) / sqrt(len(values))
    reach = standard_error * float(t.ppf(1.0 - (1.0 - confidence) / (2.0 * comparisons), len(values) - 1))
    mean = float(values.mean())
    return Interval(mean, standard_error, mean - reach, mean + reach)


def relative_change(start: ArrayLike, end: ArrayLike, *, confidence: float, comparisons: int = 1) -> Interval:
    """How much larger ``end`` is than ``start``, as a share of it: the geometric mean of the paired ratios, minus 1.

    Student's interval for the logarithm, so that it respects the floor of -100 % and the start's own noise.

    Args:
        start, end: shape (n,), above 0, paired.
        confidence, comparisons: as for :func:`mean_interval`.
    """
    ratios = np.log(np.asarray(end, dtype=np.float64)) - np.log(np.asarray(start, dtype=np.float64))
    found = mean_interval(ratios, confidence=confidence, comparisons=comparisons)
    with np.errstate(over="ignore"):  # to infinity, from intervals that say nothing
        estimate, low, high = (float(np.expm1(value)) for value in (found.estimate, found.low, found.high))
        return Interval(estimate, float(np.exp(found.estimate)) * found.standard_error, low, high)


def signed_percent(value: float) -> str:
    """With one decimal and a sign; no change has no minus."""
    return f"{round(value, 3) + 0.0:+.1%}"


def judge(interval: Interval, allowed: tuple[float, float]) -> Verdict:
    """Inside ``allowed`` with the whole interval: holds. Outside with the whole interval: does not hold."""
    if not (isfinite(interval.low) and isfinite(interval.high)):
        return UNDECIDED
    if allowed[0] <= interval.low and interval.high <= allowed[1]:
        return HOLDS
    return FAILS if interval.high < allowed[0] or interval.low > allowed[1] else UNDECIDED


def deciding(intervals: Sequence[Interval], allowed: tuple[float, float]) -> int:
    """Which of several intervals decides a claim about all of them: it fails if one fails, and holds if all hold.

    The one that lies furthest outside what is allowed, or else reaches furthest beyond it; its verdict is the claim's.
    """

    def outside(interval: Interval) -> tuple[float, float]:
        wholly = max(allowed[0] - interval.high, interval.low - allowed[1])
        reaches = max(allowed[0] - interval.low, interval.high - allowed[1])
        return max(wholly, 0.0), reaches

    return max(range(len(intervals)), key=lambda index: outside(intervals[index]))
