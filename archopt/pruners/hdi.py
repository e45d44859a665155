"""Stop a trial early when its learning curve, and its heads' diversity where that helps, say it will not be best."""

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from optuna.pruners import BasePruner

from archopt.errors import OptionError
from archopt.pruners.judgement import Judgement, judge
from archopt.search_space import (
    ATTRIBUTES,
    HeadParameter,
    StudyHistory,
    TrialRecord,
    read_history,
    read_record,
    recent_trials,
    recognise_head_parameter,
    recorded_head_parameter,
)
from archopt.study_model import recorded_prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Study
    from optuna.trial import FrozenTrial

COLLAPSE_Z_SCORE = -3.0  # heads so much more alike than random ones


@dataclass(frozen=True)
class Decision:
    """What the pruner thought at one report; values have the study's own sign.

    Attributes:
        step: of the report.
        prune: what it decided.
        reason: in words.
        would_prune: what it would have decided of a trial that nothing protects.
        predicted, predicted_sd: what it expects of the trial (see `archopt.pruners.judgement`); None where it made no
            prediction, as are the following.
        incumbent: what the trial had to beat.
        p_better: P(better than the incumbent).
        by_curve: what the loss alone says of the final value, and
        by_curve_and_diversity: what it says with diversity; the same where that is not used.
        diversity_gain: relative drop in squared error that HDI brought on finished trials that were left out.
    """

    step: int
    prune: bool
    reason: str
    would_prune: bool = False
    predicted: float | None = None
    predicted_sd: float | None = None
    incumbent: float | None = None
    p_better: float | None = None
    by_curve: float | None = None
    by_curve_and_diversity: float | None = None
    diversity_gain: float | None = None


class HDIPruner(BasePruner):
    """Prune a trial that has become very unlikely to be the best.

    At every report the trial's curve so far is read as a forecast of its final value, by what finished trials showed at
    the same step (`archopt.learning_curve`); the z-score of HDI, its trend and the correlation of head outputs are
    read with it where that lowers the error on finished trials that were left out. Where all of the study's parameters
    can be enumerated, the study's model takes the forecast for one more observation and says how likely the
    configuration is to be better than the best other one; it tells luck from merit. Elsewhere the forecast is held
    against the best configuration's shrunk mean. Without diversity reports it works from the curve alone; without
    finished trials it does not prune. A value that is not finite ends its trial.

    Args:
        n_min_trials: finished trials before anything is pruned.
        threshold: prune when P(better than the incumbent) is below this at ``patience`` + 1 reports in a row.
        patience: see ``threshold``.
        run_to_end_share: share of trials, drawn by (seed, trial number), that are never pruned: they keep the forecast
            honest and show how often it errs.
        max_pruned_share: of all ended trials; above it nothing is pruned.
        prune_collapsed: prune, whatever the curve says, a trial whose heads are far more alike than random ones (HDI's
            z-score below -3) and were less so at the report before. Off: what it is worth has not been shown.
        seed: of the draw for ``run_to_end_share``.

    Raises:
        OptionError: an argument outside what is allowed.

    Example:
        .. code-block:: python

            study = optuna.create_study(sampler=sampler, pruner=archopt.HDIPruner(seed=0))

            def objective(trial):
                ...
                for epoch in range(10):
                    loss = train_one_epoch(model)
                    hdi = archopt.theory.head_diversity_index(key_projections_of(model))
                    archopt.report_diversity(trial, epoch, loss, hdi)
                    if trial.should_prune():
                        raise optuna.TrialPruned
    """

    def __init__(
        self,
        *,
        n_min_trials: int = 8,
        threshold: float = 0.02,
        patience: int = 1,
        run_to_end_share: float = 0.1,
        max_pruned_share: float = 0.8,
        prune_collapsed: bool = False,
        seed: int | None = None,
    ) -> None:
        for name, share in (
            ("threshold", threshold),
            ("run_to_end_share", run_to_end_share),
            ("max_pruned_share", max_pruned_share),
        ):
            if not (isinstance(share, int | float) and 0.0 <= share <= 1.0):
                raise OptionError(f"{name} must be between 0 and 1 but got {share!r}")
        for name, number, least in (
            ("n_min_trials", n_min_trials, 1),
            ("patience", patience, 0),
            ("seed", 0 if seed is None else seed, 0),
        ):
            if not isinstance(number, int | np.integer) or number < least:
                raise OptionError(f"{name} must be a whole number of at least {least} but got {number!r}")
        self._n_min_trials = n_min_trials
        self._threshold = threshold
        self._patience = patience
        self._run_to_end_share = run_to_end_share
        self._max_pruned_share = max_pruned_share
        self._prune_collapsed = prune_collapsed
        self._seed = 0 if seed is None else int(seed)

    def prune(self, study: "Study", trial: "FrozenTrial") -> bool:
        """Decide, and keep the decision beside the trial (one attribute, `archopt:pruner`)."""
        if trial.last_step is None:
            return False
        decision = self.decide(study, trial)
        before = trial.user_attrs.get(ATTRIBUTES.pruner)
        if before is None and len(trial.intermediate_values) > 1:  # a copy that does not know of earlier decisions
            before = study._storage.get_trial(trial._trial_id).user_attrs.get(ATTRIBUTES.pruner)
        log = [*(before or []), asdict(decision)]
        # Optuna's own pruners write through the storage too: a FrozenTrial has no public way
        study._storage.set_trial_user_attr(trial._trial_id, ATTRIBUTES.pruner, log)
        trial.user_attrs[ATTRIBUTES.pruner] = log  # Trial shares this with the copies that it hands out
        if decision.prune:
            study._storage.set_trial_user_attr(trial._trial_id, ATTRIBUTES.reason, decision.reason)
        return decision.prune

    def decide(self, study: "Study", trial: "FrozenTrial") -> Decision:
        """The decision at the trial's last report, a function of (study, trial) alone."""
        if len(study.directions) > 1:
            raise OptionError(
                "HDIPruner needs a study with one objective: Optuna takes no reports where there are more"
            )
        step = trial.last_step
        if step is None:
            raise OptionError("the trial has reported nothing yet: call trial.report first")
        step, value = int(step), trial.intermediate_values[step]
        if not math.isfinite(value):
            return Decision(step, True, f"the value at step {step} is {value}", would_prune=True)
        trials = recent_trials(study)
        history = read_history(study, _head_of(study, trial, trials), trials)
        maximise = study.direction.name == "MAXIMIZE"
        record = read_record(trial, history.head, maximise=maximise)
        sign = -1.0 if maximise else 1.0
        if self._prune_collapsed and (fallen := _collapsed(record)) is not None:
            reason = f"heads have collapsed: z-score of HDI {fallen:.1f} at step {step}, falling"
            return self._unless_protected(Decision(step, True, reason, would_prune=True), history, record)
        if history.n_finished < self._n_min_trials:
            return Decision(step, False, f"{history.n_finished} finished trials, {self._n_min_trials} needed")
        found = self._judge(study, history, record, step)
        if found is None:
            return Decision(step, False, f"what finished trials reported at step {step} does not tell how they ended")
        reason, unlikely = "may still be the best", found.p_better < self._threshold
        if found.contender:
            reason, unlikely = "another replicate of a contender", False
        elif unlikely:
            earlier = [at for at, _ in record.curve if at < step][-self._patience :] if self._patience else []
            before = [self._judge(study, history, record, at) for at in earlier]
            if len(before) < self._patience or any(b is None or b.p_better >= self._threshold for b in before):
                reason, unlikely = f"unlikely to be the best, but not yet at {self._patience + 1} reports", False
        if unlikely:
            reason = f"P(better than {sign * found.incumbent:.4g}) = {found.p_better:.2g} at step {step}"
        decision = Decision(
            step,
            unlikely,
            reason,
            would_prune=unlikely,
            predicted=sign * found.expected,
            predicted_sd=found.expected_sd,
            incumbent=sign * found.incumbent,
            p_better=found.p_better,
            by_curve=sign * found.reading.by_curve,
            by_curve_and_diversity=sign * found.reading.value,
            diversity_gain=found.reading.diversity_gain,
        )
        return self._unless_protected(decision, history, record) if unlikely else decision

    def _judge(self, study: "Study", history: StudyHistory, record: TrialRecord, step: int) -> Judgement | None:
        return judge(history, record, step, lambda space: recorded_prior(study, space))

    def _unless_protected(self, decision: Decision, history: StudyHistory, record: TrialRecord) -> Decision:
        """A share of trials runs to the end, and never are nearly all trials pruned."""
        if np.random.default_rng([self._seed, record.number]).random() < self._run_to_end_share:
            return replace(decision, prune=False, reason=f"one of those that always run to the end ({decision.reason})")
        n_pruned = history.n_pruned + 1
        if n_pruned > self._max_pruned_share * (n_pruned + history.n_complete):
            return replace(decision, prune=False, reason=f"enough trials have been pruned ({decision.reason})")
        return decision


def _head_of(study: "Study", trial: "FrozenTrial", trials: "Sequence[FrozenTrial]") -> HeadParameter:
    """The study's head parameter; where none is recognised, trials are judged by their curves alone."""
    known = recorded_head_parameter(study)
    if known is not None and known.name in trial.params and known.d_model is not None:
        return known
    try:
        return recognise_head_parameter(study, trials=trials)
    except OptionError:
        return HeadParameter()


def _collapsed(record: TrialRecord) -> float | None:
    """The z-score of HDI at the last report, where it is far below that of random heads and still falls."""
    scores = [score for _, score in record.diversity_z_scores if math.isfinite(score)]
    if len(scores) < 2 or scores[-1] > COLLAPSE_Z_SCORE or scores[-1] >= scores[-2]:
        return None
    return scores[-1]
