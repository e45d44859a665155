"""A trial in training: asked for, what it shows on its way, and how it ends, in the study."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from archopt.campaign.stale import MAX_DEATHS, n_deaths
from archopt.evaluation import RungReport
from archopt.evaluation.workers import Failed
from archopt.search_space import ATTRIBUTES, KILLED, diversity_row

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

SLOW_RUNGS = 2  # in a row: one slow reading on a busy machine must not bar an allocation

TRACEBACK_KEY = "archopt:traceback"  # of an error that nobody expected, for a bug report
MAX_TRACEBACK = 4000  # characters, the last ones: they name the error


@dataclass
class RunningTrial:
    """A trial in training. What it shows on its way is written once, at its end: every write costs a commit."""

    trial: "optuna.Trial"
    shown: "optuna.trial.FrozenTrial"  # as the pruner sees it
    begun: float  # monotonic seconds
    rungs: list[list[float]] = field(default_factory=list)  # as `ATTRIBUTES.rungs` stores them
    decisions: list[dict[str, Any]] = field(default_factory=list)  # as `ATTRIBUTES.pruner` stores them
    n_slow: int = 0  # rungs in a row with steps above the limit
    too_slow: float | None = None  # seconds a step, once that is established

    def note_speed(self, seconds_per_step: float, limit: float | None, *, last: bool) -> None:
        """Too slow is above the limit at some rungs in a row, or at the last one, whose median is of all steps."""
        slow = limit is not None and seconds_per_step > limit
        self.n_slow = self.n_slow + 1 if slow else 0
        if self.n_slow >= SLOW_RUNGS or (slow and last):
            self.too_slow = seconds_per_step

    def note(self, report: RungReport) -> None:
        """Keep what a rung shows."""
        row = diversity_row(report.step, report.hdi, report.output_correlation)
        self.shown.intermediate_values[report.step] = report.value
        self.shown.user_attrs.setdefault(ATTRIBUTES.diversity, []).append(row)
        self.rungs.append([report.step, report.train_seconds, report.n_seen])

    def write(self) -> None:
        """Put what was kept beside the trial."""
        if self.rungs:
            self.trial.set_user_attr(ATTRIBUTES.rungs, self.rungs)
            self.trial.set_user_attr(ATTRIBUTES.diversity, self.shown.user_attrs[ATTRIBUTES.diversity])
        if self.decisions:
            self.trial.set_user_attr(ATTRIBUTES.pruner, self.decisions)

    def reason_and_fault(self, event: Failed) -> tuple[str, str]:
        """What its failure is put down to; see `archopt.search_space.ATTRIBUTES`."""
        memory = "memory" in event.reason.lower()
        fault = {"failed": "infeasible" if memory else "diverged"}.get(event.fault, event.fault)
        if fault == KILLED and n_deaths(self.shown) + 1 >= MAX_DEATHS:
            return f"{event.reason}, for the {MAX_DEATHS}rd time", "infeasible"
        return event.reason, fault

    def complete(self, value: float) -> None:
        """Tell the study its value, unless it has ended meanwhile."""
        self.trial.study.tell(self.trial, value, skip_if_finished=True)

    def prune(self) -> None:
        """Tell the study that it was stopped, for the last decision's reason."""
        self.trial.set_user_attr(ATTRIBUTES.reason, self.decisions[-1]["reason"])
        self.trial.study.tell(self.trial, state=trial_state("PRUNED"), skip_if_finished=True)

    def fail(self, reason: str, fault: str, traceback: str | None = None) -> None:
        """Tell the study why it failed, and what was at fault."""
        if traceback:
            self.trial.set_user_attr(TRACEBACK_KEY, traceback[-MAX_TRACEBACK:])
        self.trial.set_user_attr(ATTRIBUTES.reason, reason)
        self.trial.set_user_attr(ATTRIBUTES.fault, fault)
        self.trial.study.tell(self.trial, state=trial_state("FAIL"), skip_if_finished=True)


def ask(study: "optuna.Study", distributions: "Mapping[str, BaseDistribution]") -> "optuna.Trial":
    """The study's next trial, queued or proposed."""
    with warnings.catch_warnings():
        # Optuna warns that only `optimize` sends heartbeats: `TrialLoop` sends them itself
        warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed to be used with")
        return study.ask(dict(distributions))


def trial_state(name: str) -> Any:
    """Optuna's state of that name."""
    import optuna

    return optuna.trial.TrialState[name]
