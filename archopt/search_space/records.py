"""What archopt writes beside a trial, and trials read back as plain records."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.search_space.parameters import HeadParameter, canonical_params
from archopt.theory.diversity import z_score_from_index

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class Attributes:
    """Names of the trial attributes; one attribute a trial for each, whatever the number of steps."""

    diversity: str = "archopt:diversity"  # [[step, hdi, output_correlation], ...]
    replicate: str = "archopt:replicate"
    seconds_per_step: str = "archopt:seconds_per_step"
    rungs: str = "archopt:rungs"  # [[step, seconds of training steps so far, rows or bytes seen so far], ...]
    attention: str = "archopt:attention"
    reason: str = "archopt:reason"  # why a trial failed or was pruned
    fault: str = "archopt:fault"  # "diverged" | "infeasible" | "killed" | "error" | "interrupted"
    pruner: str = "archopt:pruner"  # [decision, ...]


LARGEST_VALUE = 1e100  # beyond: the square of a difference overflows
RECENT_SECONDS = 1.0
_LAST_READ = threading.local()

ATTRIBUTES = Attributes()
INTERRUPTED = "interrupted"  # the fault of a trial that says nothing about its configuration
KILLED = "killed"  # of one whose training process died: as the former it waits to be run again

State = Literal["complete", "pruned", "failed", "running"]


@dataclass(frozen=True)
class DiversityReport:
    """HDI as reported at one step: raw, subspace form, mean over layers; NaN where it does not exist."""

    step: int
    hdi: float
    output_correlation: float


@dataclass(frozen=True)
class TrialRecord:
    """One trial in plain values.

    Attributes:
        params: as Optuna has them, made canonical (`canonical_params`).
        allocation: None where the parameters hold no split.
        value: the objective; None unless complete. Lower is better (maximised studies are negated).
        curve: (step, value) by rising step, with the same sign as ``value``; non-finite reports left out.
        replicate: as recorded; None where the study records none.
        attributes: the trial's user attributes.
    """

    number: int
    state: State
    params: dict[str, Any]
    allocation: HeadAllocation | None
    value: float | None
    curve: tuple[tuple[int, float], ...] = ()
    diversity: tuple[DiversityReport, ...] = ()
    replicate: int | None = None
    seconds_per_step: float | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for two trials of the same configuration."""
        return params_key(self.params)

    @cached_property
    def diversity_z_scores(self) -> tuple[tuple[int, float], ...]:
        """(step, z-score of HDI under random heads) by rising step; none for one head, NaN where it has none."""
        split = self.allocation
        if split is None or split.n_heads == 1:
            return ()
        width, n_heads, head_dim = split.d_model, split.n_heads, split.head_dim
        return tuple(
            (report.step, z_score_from_index(report.hdi, d_model=width, n_heads=n_heads, head_dim=head_dim))
            for report in self.diversity
        )

    @property
    def is_finished(self) -> bool:
        """Whether it has a value to go by."""
        return self.value is not None and abs(self.value) <= LARGEST_VALUE

    @property
    def fault(self) -> str | None:
        """Why it failed, in one word; "diverged" where a study does not say; None for a trial that did not fail.

        One whose value is infinite or beyond `LARGEST_VALUE` has diverged, too: Optuna takes those for complete.
        """
        if self.state == "complete" and not self.is_finished:
            return "diverged"
        return self.attributes.get(ATTRIBUTES.fault, "diverged") if self.state == "failed" else None


def params_key(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Hashable identity of a configuration: names and values, in order of name."""
    return tuple(sorted((name, value_key(value)) for name, value in params.items()))


def value_key(value: object) -> str:
    """Identity of one value: 0 and 0.0 are the same, and so are stepped floats that differ by rounding."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.12g}"
    return repr(value)


def read_record(trial: "optuna.trial.FrozenTrial", head: HeadParameter, *, maximise: bool = False) -> TrialRecord:
    """One trial as a record; see `TrialRecord`."""
    import optuna

    sign = -1.0 if maximise else 1.0
    states: dict[optuna.trial.TrialState, State] = {
        optuna.trial.TrialState.COMPLETE: "complete",
        optuna.trial.TrialState.PRUNED: "pruned",
        optuna.trial.TrialState.FAIL: "failed",
    }
    allocation = head.allocation(trial.params)
    state = states.get(trial.state, "running")
    attributes = trial.user_attrs
    last = trial.intermediate_values.get(trial.last_step) if trial.last_step is not None else None
    if state == "pruned" and last is not None and not math.isfinite(last):
        state, attributes = "failed", {**attributes, ATTRIBUTES.fault: "diverged"}
    value = trial.values[0] if state == "complete" and trial.values else None
    curve = sorted(
        (int(step), sign * value) for step, value in trial.intermediate_values.items() if math.isfinite(value)
    )
    return TrialRecord(
        number=trial.number,
        state=state,
        params=canonical_params(trial.params, allocation),
        allocation=allocation,
        value=None if value is None else sign * value,
        curve=tuple(curve),
        diversity=tuple(_diversity(trial.user_attrs.get(ATTRIBUTES.diversity, ()))),
        replicate=trial.user_attrs.get(ATTRIBUTES.replicate),
        seconds_per_step=trial.user_attrs.get(ATTRIBUTES.seconds_per_step),
        attributes=attributes,
    )


def whole_study(study: "optuna.Study") -> "optuna.Study":
    """The study that a sampler's is a view of: Hyperband shows samplers one bracket of it, without its attributes."""
    return getattr(study, "_study", study)


def recent_trials(study: "optuna.Study") -> "list[optuna.trial.FrozenTrial]":
    """The study's trials as of this thread's last ``ask`` or ``tell``, or of a second ago: not to be changed.

    A storage in a file takes milliseconds to read, and a trial would read it a dozen times.
    """
    trials = study._get_trials(deepcopy=False, use_cache=True)
    if getattr(_LAST_READ, "trials", None) is trials and time.monotonic() - _LAST_READ.at > RECENT_SECONDS:
        study._thread_local.cached_all_trials = None  # other processes may have finished some since
        trials = study._get_trials(deepcopy=False, use_cache=True)
    if getattr(_LAST_READ, "trials", None) is not trials:
        _LAST_READ.trials, _LAST_READ.at = trials, time.monotonic()
    return trials


def record_diversity(trial: "optuna.Trial", step: int, hdi: float, *, output_correlation: float | None = None) -> None:
    """Store a trial's head diversity at ``step``, where the host already reports the value (HF Trainer, Lightning).

    Args:
        trial: the running trial.
        step: the step of the value that it belongs to, in the unit that the host reports in.
        hdi: raw subspace HDI, mean over layers; NaN for one head.
        output_correlation: mean correlation between heads' outputs, where measured.

    Raises:
        OptionError: the step is not a whole number of at least 0, or HDI lies outside [0, 1].
    """
    try:
        whole = int(step)
        if whole != step or whole < 0:
            raise ValueError
    except (TypeError, ValueError):
        raise OptionError(f"step must be a whole number of at least 0 but got {step!r}") from None
    try:
        shown = float(hdi)
    except (TypeError, ValueError):
        shown = math.inf
    if shown == math.inf or (math.isfinite(shown) and not -1e-6 <= shown <= 1 + 1e-6):
        raise OptionError(f"hdi must be between 0 and 1 (or NaN for one head) but got {hdi!r}")
    row = diversity_row(whole, shown, output_correlation)
    before = [old for old in trial.user_attrs.get(ATTRIBUTES.diversity, []) if old[0] != whole]
    trial.set_user_attr(ATTRIBUTES.diversity, sorted([*before, row], key=lambda stored: stored[0]))


def diversity_row(step: int, hdi: float, output_correlation: float | None) -> list[Any]:
    """What `ATTRIBUTES.diversity` holds for one report."""
    return [step, _or_none(hdi), _or_none(output_correlation)]


def report_diversity(
    trial: "optuna.Trial", step: int, value: float, hdi: float, *, output_correlation: float | None = None
) -> None:
    """``trial.report(value, step)`` and `record_diversity` in one call; its arguments are as for `record_diversity`.

    Raises:
        OptionError: as `record_diversity`, or the study has several objectives (Optuna has no reports there).
    """
    if len(trial.study.directions) > 1:
        raise OptionError("Optuna does not take reports in a multi-objective study: call record_diversity instead")
    record_diversity(trial, step, hdi, output_correlation=output_correlation)
    trial.report(value, int(step))


def _diversity(rows: Sequence[Sequence[Any]]) -> list[DiversityReport]:
    return [DiversityReport(int(step), _or_nan(hdi), _or_nan(correlation)) for step, hdi, correlation in rows]


def _or_none(number: float | None) -> float | None:
    # JSON has no NaN, and storages other than SQLite refuse it
    return float(number) if number is not None and math.isfinite(number) else None


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else float(number)
