"""Stop a trial early when its learning curve, and its heads' diversity where that helps, say it will not be best."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from optuna.pruners import BasePruner

from archopt.errors import OptionError
from archopt.final_values import FinalValues
from archopt.search_space import (
    ATTRIBUTES,
    HeadParameter,
    TrialRecord,
    read_record,
    read_records,
    recent_trials,
    recognise_head_parameter,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class Decision:
    """What the pruner thought at one report.

    Attributes:
        step: of the report.
        prune: what it decided.
        reason: in words.
        predicted, predicted_sd: the final value it expects (the study's own sign); None where it made no prediction.
        p_better: P(the final value beats the incumbent); None where it made no prediction.
        used_diversity: whether HDI had a weight in the prediction.
        diversity_gain: relative drop in leave-one-out error that HDI brought on the finished trials.
    """

    step: int
    prune: bool
    reason: str
    predicted: float | None = None
    predicted_sd: float | None = None
    p_better: float | None = None
    used_diversity: bool = False
    diversity_gain: float | None = None


class HDIPruner(BasePruner):
    """Prune on the predictive probability of beating the incumbent.

    At every report the final value is predicted from the curve so far, the split and, where it lowers
    leave-one-out error on the finished trials, the z-score of HDI and its trend (`archopt.learning_curve`). The
    incumbent is the best configuration's mean, shrunk towards the mean of all, so that one lucky trial does not
    set the bar. A share of trials always runs to the end. Without diversity reports it works from the curve
    alone; without finished trials it does not prune.

    Args:
        n_min_trials: finished trials before anything is pruned.
        threshold: prune when P(better than the incumbent) is below this at ``patience`` + 1 reports in a row.
        patience: see ``threshold``.
        run_to_end_share: share of trials, drawn by (seed, trial number), that are never pruned.
        max_pruned_share: of all ended trials; above it nothing is pruned.
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
        threshold: float = 0.05,
        patience: int = 1,
        run_to_end_share: float = 0.1,
        max_pruned_share: float = 0.8,
        seed: int | None = None,
    ) -> None:
        for name, share in (
            ("threshold", threshold),
            ("run_to_end_share", run_to_end_share),
            ("max_pruned_share", max_pruned_share),
        ):
            if not 0.0 <= share <= 1.0:
                raise OptionError(f"{name} must be between 0 and 1 but got {share}")
        if n_min_trials < 1 or patience < 0:
            raise OptionError(f"n_min_trials must be >= 1 and patience >= 0 but got {n_min_trials} and {patience}")
        self._n_min_trials = n_min_trials
        self._threshold = threshold
        self._patience = patience
        self._run_to_end_share = run_to_end_share
        self._max_pruned_share = max_pruned_share
        self._seed = 0 if seed is None else seed

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
        step = trial.last_step
        if step is None:
            raise OptionError("the trial has reported nothing yet: call trial.report first")
        value = trial.intermediate_values[step]
        if not math.isfinite(value):
            return Decision(step, True, f"the value at step {step} is {value}")
        trials = recent_trials(study)
        head = _head_of(study, trials)
        maximise = study.direction.name == "MAXIMIZE"
        sign = -1.0 if maximise else 1.0
        record = read_record(trial, head, maximise=maximise)
        ended = [other for other in read_records(study, head, trials) if other.number != trial.number]
        finished = [other for other in ended if other.value is not None and math.isfinite(other.value)]
        if len(finished) < self._n_min_trials:
            return Decision(step, False, f"{len(finished)} finished trials, {self._n_min_trials} needed")
        if np.random.default_rng([self._seed, trial.number]).random() < self._run_to_end_share:
            return Decision(step, False, "one of the trials that always run to the end")
        incumbent, contenders = _incumbent(finished)
        steps = [at for at, _ in record.curve][-(self._patience + 1) :]
        endings = FinalValues(finished)
        predictions = [endings.predict(record, at_step=at) for at in steps]
        last = predictions[-1] if predictions else None
        if last is None:
            return Decision(step, False, f"too few finished trials reported at step {step}")
        chances = [prediction.probability_below(incumbent) for prediction in predictions if prediction is not None]
        seen = {
            "predicted": sign * last.median,
            "predicted_sd": last.sd,
            "p_better": chances[-1],
            "used_diversity": last.used_diversity,
            "diversity_gain": last.diversity_gain,
        }
        if record.key in contenders:
            return Decision(step, False, "another replicate of a contender", **seen)  # type: ignore[arg-type]
        if len(chances) <= self._patience or max(chances) >= self._threshold:
            return Decision(step, False, "may still be the best", **seen)  # type: ignore[arg-type]
        n_pruned = sum(other.state == "pruned" for other in ended)
        if n_pruned + 1 > self._max_pruned_share * (n_pruned + 1 + len(finished)):
            return Decision(step, False, "enough trials have been pruned", **seen)  # type: ignore[arg-type]
        reason = f"P(better than {sign * incumbent:.4g}) = {chances[-1]:.2g} at step {step}"
        return Decision(step, True, reason, **seen)  # type: ignore[arg-type]


def _head_of(study: "Study", trials: "Sequence[FrozenTrial]") -> HeadParameter:
    """The study's head parameter; where none is recognised, trials are judged by their curves alone."""
    try:
        return recognise_head_parameter(study, trials=trials)
    except OptionError:
        return HeadParameter()


def _incumbent(finished: Sequence[TrialRecord]) -> tuple[float, set[tuple[tuple[str, str], ...]]]:
    """The best configuration's shrunk mean, and the configurations within one noise sd of it.

    Means are shrunk towards the mean of the better half by n / (n + noise variance / spread variance), so that with
    one trial each the luckiest does not become the bar.
    """
    values: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for record in finished:
        values.setdefault(record.key, []).append(record.value if record.value is not None else math.nan)
    every = np.concatenate([np.asarray(found) for found in values.values()])
    better = every[every <= np.median(every)]
    centre, spread = float(better.mean()), float(better.var())
    repeated = [np.asarray(found) for found in values.values() if len(found) > 1]
    degrees = sum(len(found) - 1 for found in repeated)
    within = sum(float(((found - found.mean()) ** 2).sum()) for found in repeated)
    # one pseudo-replicate at half the spread keeps the first few repeats from claiming no noise at all
    noise = (within + 0.5 * spread) / (degrees + 1)
    shrunk = {
        key: centre + (float(np.mean(found)) - centre) * len(found) / (len(found) + noise / max(spread, 1e-300))
        for key, found in values.items()
    }
    best = min(shrunk.values())
    return best, {key for key, mean in shrunk.items() if mean <= best + math.sqrt(noise)}
