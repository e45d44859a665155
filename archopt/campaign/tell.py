"""How a trial that was asked for goes on, and ends, told by a program that is not Python."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from archopt.campaign.ask import asked_settings, refuse_unfit
from archopt.campaign.storage import load_studies, storage_faults
from archopt.errors import OptionError
from archopt.pruners import HDIPruner
from archopt.search_space import ATTRIBUTES, INTERRUPTED, record_diversity

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

FAULTS = ("diverged", "infeasible", "error", INTERRUPTED)
OUT_OF_MEMORY = "out of memory"  # as CUDA, ROCm and PyTorch say it
MAX_REASON = 300
MAX_STEP = 2**31 - 1  # what databases hold


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Attributes:
        state: of Optuna's trial states.
        value: of a trial that is complete.
        reason, fault: of one that failed.
    """

    state: str
    value: float | None = None
    reason: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class Told:
    """Where a trial stands.

    Attributes:
        state: "running", "complete", "pruned" or "failed".
        prune: whether the trial had better stop: end it with ``pruned``.
        reason: why so, or why it failed.
    """

    study: str
    trial: int
    state: str
    value: float | None
    prune: bool
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.tell/1"."""
        return {"schema": "archopt.tell/1", **asdict(self)}


@dataclass(frozen=True)
class News:
    """What is told of a trial.

    Args:
        reports: intermediate values by step.
        diversity: raw subspace HDI by step, mean over layers.
        value: the final value; one that is not finite is a failure, the trial diverged.
        failed: why it failed.
        fault: of a failure: "diverged" or "error" (it counts against the configuration), "infeasible" (the device
            cannot run this split, whatever else changes), "interrupted" (the configuration is not at fault, and waits
            to be asked for again, as the same replicate). By default "infeasible" where ``failed`` says "out of
            memory", else "error".
        pruned: it was stopped early.

    Raises:
        OptionError: nothing, or several ends at once, or a number outside what is allowed.
    """

    reports: Mapping[int, float] = field(default_factory=dict)
    diversity: Mapping[int, float] = field(default_factory=dict)
    value: float | None = None
    failed: str | None = None
    fault: str | None = None
    pruned: bool = False

    def __post_init__(self) -> None:
        ends = [("--value", self.value is not None), ("--failed", self.failed is not None), ("--pruned", self.pruned)]
        given = [name for name, is_given in ends if is_given]
        if len(given) > 1:
            raise OptionError(f"a trial ends in one way but got {' and '.join(given)}")
        if not given and not self.reports and not self.diversity:
            raise OptionError("there is nothing to tell: give --value, --at STEP=VALUE, --failed REASON or --pruned")
        if self.fault is not None and self.failed is None:
            raise OptionError("--fault says what kind of failure it was: give the reason with --failed")
        if self.fault is not None and self.fault not in FAULTS:
            raise OptionError(f"fault must be one of {', '.join(FAULTS)} but got {self.fault[:40]!r}")
        if self.failed is not None and not self.failed.strip():
            raise OptionError("--failed needs a reason, such as 'CUDA out of memory'")
        for step in (*self.reports, *self.diversity):
            if not 0 <= step <= MAX_STEP:
                raise OptionError(f"a step is a whole number from 0 to {MAX_STEP:,} but got {step}")

    def outcome(self) -> Outcome | None:
        """How the trial ended; None while it goes on."""
        if self.pruned:
            return Outcome("PRUNED")
        if self.failed is not None:
            reason = " ".join(self.failed.split())[:MAX_REASON]
            usual = "infeasible" if OUT_OF_MEMORY in reason.lower() else "error"
            return Outcome("FAIL", reason=reason, fault=self.fault or usual)
        if self.value is None:
            return None
        if not math.isfinite(self.value):
            return Outcome("FAIL", reason=f"the value is {self.value}", fault="diverged")
        return Outcome("COMPLETE", self.value)


def tell(storage: str, study: str, trial: int, news: News) -> Told:
    """Tell a study how one of its trials goes on. To tell the same again changes nothing.

    Args:
        storage: Optuna storage URL.
        study: of one objective.
        trial: its number.

    Raises:
        OptionError: an unknown study or trial, one that waits to be asked for, or other news than were told before.
        StorageError: the storage cannot be opened.
        CampaignFailed: it stopped answering.
    """
    import optuna

    with storage_faults("while a trial was told"):
        (opened,) = load_studies(storage, [study], locks=True)
        refuse_unfit(opened)
        found = _trial_of(opened, trial)
        try:
            if not found.state.is_finished():
                return _go_on(opened, found, news)
        except optuna.exceptions.UpdateFinishedTrialError:  # another process has ended it since
            found = _trial_of(opened, trial)
        return _told_again(opened, found, news)


def _trial_of(study: "optuna.Study", number: int) -> "FrozenTrial":
    trials = study.get_trials(deepcopy=False)
    if not 0 <= number < len(trials):
        has = f"it has 0 to {len(trials) - 1}" if trials else "nothing was asked of it yet"
        raise OptionError(f"study {study.study_name!r} has no trial {number}: {has}")
    if trials[number].state.name == "WAITING":
        raise OptionError(f"trial {number} waits to be asked for: what is told of it would be of another run")
    return trials[number]


def _go_on(study: "optuna.Study", found: "FrozenTrial", news: News) -> Told:
    """Raises UpdateFinishedTrialError where another process ends the trial at this moment."""
    import optuna

    settings = asked_settings(study)
    study.pruner = HDIPruner(seed=0 if settings is None else settings.seed)
    trial = optuna.Trial(study, found._trial_id)
    _refuse_other_reports(found, news)
    for step in sorted(news.reports.keys() - found.intermediate_values.keys()):
        trial.report(news.reports[step], step)
    for step, hdi in sorted(news.diversity.items()):
        record_diversity(trial, step, hdi)
    outcome = news.outcome()
    if outcome is None:
        prune = trial.should_prune()
        decisions = trial.user_attrs.get(ATTRIBUTES.pruner)
        reason = decisions[-1]["reason"] if decisions else None
        return Told(study.study_name, found.number, "running", None, prune, reason)
    if outcome.state == "FAIL":
        trial.set_user_attr(ATTRIBUTES.reason, outcome.reason)
        trial.set_user_attr(ATTRIBUTES.fault, outcome.fault)
    try:
        study.tell(found.number, outcome.value, state=optuna.trial.TrialState[outcome.state])
    except ValueError:  # not running any more: the only way in which these arguments can be wrong
        raise optuna.exceptions.UpdateFinishedTrialError from None
    if outcome.fault == INTERRUPTED:
        claim = found.user_attrs.get(ATTRIBUTES.replicate)
        study.enqueue_trial(found.params, user_attrs=None if claim is None else {ATTRIBUTES.replicate: claim})
    return _standing(study, _trial_of(study, found.number))


def _refuse_other_reports(found: "FrozenTrial", news: News) -> None:
    for step, value in news.reports.items():
        before = found.intermediate_values.get(step, value)
        if not _same(before, value):
            raise OptionError(f"trial {found.number} was told {before:g} at step {step} before, not {value:g}")


def _told_again(study: "optuna.Study", found: "FrozenTrial", news: News) -> Told:
    """The same as before changes nothing: whoever did not hear the answer may ask for it again."""
    outcome = news.outcome()
    rows = found.user_attrs.get(ATTRIBUTES.diversity, ())
    known = {step: math.nan if hdi is None else hdi for step, hdi, _ in rows}
    is_same = (
        (outcome is None or (outcome.state == found.state.name and outcome.value in (None, found.value)))
        and (outcome is None or outcome.fault in (None, found.user_attrs.get(ATTRIBUTES.fault)))
        and all(_same(found.intermediate_values.get(step), value) for step, value in news.reports.items())
        and all(_same(known.get(step), hdi) for step, hdi in news.diversity.items())
    )
    standing = _standing(study, found)
    if not is_same:
        why = f" with value {found.value:g}" if found.state.name == "COMPLETE" and found.value is not None else ""
        reason = f" ({standing.reason})" if standing.reason else ""
        raise OptionError(f"trial {found.number} has ended, {standing.state}{why}{reason}: ask for another trial")
    return standing


def _standing(study: "optuna.Study", found: "FrozenTrial") -> Told:
    state = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}[found.state.name]
    value = found.value if state == "complete" else None
    return Told(study.study_name, found.number, state, value, False, found.user_attrs.get(ATTRIBUTES.reason))


def _same(before: float | None, now: float) -> bool:
    return before is not None and (before == now or (math.isnan(before) and math.isnan(now)))
