"""When a search ends at the latest, and what a campaign has spent so far."""

import math
import time
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from archopt.campaign.storage import SPENT_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import optuna

COMPARISON_SHARE = 0.15  # of the time budget, that the comparison may take beyond it


@dataclass(frozen=True)
class Budget:
    """When a search ends at the latest.

    Attributes:
        n_trials: trials in the whole campaign; None without that limit.
        seconds: of search in the whole campaign, comparison included; None without that limit.
        n_replicates: trials that every proposed configuration gets at least.
        max_seconds_per_step: a slower allocation is infeasible.
        n_comparison_jobs: trainings that the comparison at the end needs; their time is set aside.
        n_workers: that train at the same time.
    """

    n_trials: int | None
    seconds: float | None
    n_replicates: int
    max_seconds_per_step: float | None
    n_comparison_jobs: int
    n_workers: int

    def reserve_seconds(self, trial_seconds: "Sequence[float]") -> float:
        """What the comparison, and a trial started now, will still take; 0 where no trial's length is known."""
        if not trial_seconds:
            return 0.0
        return fmean(trial_seconds) * (1.0 + math.ceil(self.n_comparison_jobs / self.n_workers))


@dataclass(frozen=True)
class SpentTime:
    """Wall time of a campaign: of earlier runs, as the storage has it, and of this one.

    Attributes:
        started: monotonic time at which this run began.
        before_seconds: of earlier runs.
        records: whether this process keeps the campaign's account; of several one does.
    """

    study: "optuna.Study"
    started: float
    before_seconds: float
    records: bool = True

    @classmethod
    def of(cls, study: "optuna.Study", started: float, *, records: bool = True) -> "SpentTime":
        """With what earlier runs have recorded."""
        return cls(study, started, float(study.user_attrs.get(SPENT_KEY, 0.0)), records)

    def here_seconds(self) -> float:
        """Of this run."""
        return time.monotonic() - self.started

    def seconds(self) -> float:
        """Of the whole campaign."""
        return self.before_seconds + self.here_seconds()

    def record(self) -> None:
        """Write the whole campaign's to the storage, where this process keeps the account."""
        if self.records:
            self.study.set_user_attr(SPENT_KEY, self.seconds())

    def seconds_left(self, budget: Budget, *, n_ended: int, n_earlier: int) -> float | None:
        """Until the nearer end: the time limit, or the trials that are left at this run's speed; None without one."""
        ends = []
        if budget.seconds is not None:
            ends.append(budget.seconds - self.seconds())
        if budget.n_trials is not None and n_ended > n_earlier:
            ends.append((budget.n_trials - n_ended) * self.here_seconds() / (n_ended - n_earlier))
        return max(0.0, min(ends)) if ends else None

    def comparison_deadline(self, budget_seconds: float | None) -> float | None:
        """Monotonic time by which the comparison ends; None without a time budget.

        Where the trials used up the time, as in a campaign that goes on after its comparison was interrupted, the
        comparison still gets its share.
        """
        if budget_seconds is None:
            return None
        share = COMPARISON_SHARE * budget_seconds
        return max(self.started + budget_seconds + share - self.before_seconds, time.monotonic() + share)


def earlier_trial_seconds(study: "optuna.Study") -> list[float]:
    """The typical wall time of a complete trial in the storage; empty where none is complete.

    The median, since the first trials of a run include the start of their workers.
    """
    lengths = [
        trial.duration.total_seconds()
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name == "COMPLETE" and trial.duration is not None
    ]
    return [median(lengths)] if lengths else []
