"""What a recommendation says: configurations and allocations with their posteriors, and how to write them down."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from archopt.allocation import HeadAllocation

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ConfigurationEstimate:
    """One configuration: posterior of its expected objective, in the study's own sign and units."""

    allocation: HeadAllocation
    params: dict[str, Any]
    mean: float
    sd: float
    p_best: float
    n_trials: int


@dataclass(frozen=True)
class AllocationEstimate:
    """One allocation at its best other parameters.

    Attributes:
        mean, low, high: posterior mean and central interval at the recommendation's confidence.
        p_best: probability that the best configuration has this allocation.
        n_trials: that ran with it, pruned ones included.
        seconds_per_step: median over its trials; None where not measured.
        in_confidence_set: whether some configuration with it is in the confidence set.
    """

    allocation: HeadAllocation
    mean: float
    low: float
    high: float
    p_best: float
    n_trials: int
    seconds_per_step: float | None
    in_confidence_set: bool


@dataclass(frozen=True)
class Recommendation:
    """What to use, and how sure that is.

    Attributes:
        allocation: the recommended split.
        params: the study's own parameter names and values.
        p_best: probability that the best configuration has this allocation.
        p_good: probability that ``params`` lie within ``tolerance`` of the best configuration.
        confidence: of the set and the intervals.
        confidence_set: the configurations, best first, that together hold the best one with that probability.
        estimates: every allocation of the space, by rising head_dim.
        noise_sd: of one trial around its configuration's expected value.
        tolerance: differences up to this are ties.
        sure: whether some allocation is best with probability ``confidence``, or the posterior mean's best is expected
            to be worse than the best by no more than ``tolerance``; measured costs play no part in it.
        expected_regret: how much worse than the best configuration ``params`` are expected to be.
        reason: in plain language.
        caveats: what it rests on and what was not checked.
        direction: "minimize" or "maximize", as the study has it.
        details: what the search adds (theory, comparison, data, settings, versions); empty for other studies.
    """

    allocation: HeadAllocation
    params: dict[str, Any]
    p_best: float
    p_good: float
    confidence: float
    confidence_set: tuple[ConfigurationEstimate, ...]
    estimates: tuple[AllocationEstimate, ...]
    noise_sd: float
    tolerance: float
    expected_regret: float
    reason: str
    caveats: tuple[str, ...]
    direction: str
    sure: bool
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def allocations(self) -> tuple[HeadAllocation, ...]:
        """The distinct allocations in the confidence set, best first."""
        return tuple(dict.fromkeys(estimate.allocation for estimate in self.confidence_set))

    def to_frame(self) -> "pd.DataFrame":
        """The confidence set, one row a configuration, best first."""
        import pandas as pd

        rows = [
            {
                "n_heads": e.allocation.n_heads,
                "head_dim": e.allocation.head_dim,
                **e.params,
                "mean": e.mean,
                "sd": e.sd,
                "p_best": e.p_best,
                "n_trials": e.n_trials,
            }
            for e in self.confidence_set
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.recommendation/1", described in the README."""
        split = _split
        return {
            "schema": "archopt.recommendation/1",
            "allocation": split(self.allocation),
            "weighting": self.params.get("weighting"),
            "params": self.params,
            "p_best": self.p_best,
            "p_good": self.p_good,
            "direction": self.direction,
            "confidence": self.confidence,
            "noise_sd": self.noise_sd,
            "tolerance": self.tolerance,
            "sure": self.sure,
            "expected_regret": self.expected_regret,
            "allocations": [
                {
                    **split(e.allocation),
                    "mean": e.mean,
                    "low": e.low,
                    "high": e.high,
                    "p_best": e.p_best,
                    "n_trials": e.n_trials,
                    "seconds_per_step": e.seconds_per_step,
                    "in_confidence_set": e.in_confidence_set,
                }
                for e in self.estimates
            ],
            "confidence_set": [
                {
                    "allocation": split(e.allocation),
                    "params": e.params,
                    "mean": e.mean,
                    "sd": e.sd,
                    "p_best": e.p_best,
                    "n_trials": e.n_trials,
                }
                for e in self.confidence_set
            ],
            "reason": self.reason,
            "caveats": list(self.caveats),
            **self.details,
        }


def _split(allocation: HeadAllocation) -> dict[str, int]:
    return {"n_heads": allocation.n_heads, "head_dim": allocation.head_dim}
