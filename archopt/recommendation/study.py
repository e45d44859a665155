"""`archopt.recommend`: a recommendation from any Optuna study with a head parameter."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from archopt.errors import OptionError
from archopt.recommendation.decide import recommend_from
from archopt.recommendation.result import Recommendation
from archopt.search_space import read_history, recognise_head_parameter, search_space_of
from archopt.study_model import model_study, recorded_prior
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna


def recommend(
    study: "optuna.Study",
    *,
    confidence: float = 0.9,
    tolerance: float | None = None,
    noise_sd: float | None = None,
    d_model: int | str | None = None,
    prior: OptimumPrior | None = None,
) -> Recommendation:
    """Recommend a head allocation from any Optuna study with a head parameter, finished or running.

    Args:
        study: single-objective; archopt's own or not. Its head parameter is recognised by name, or as
            `HeadAllocationSampler` recorded it.
        confidence: of the confidence set.
        tolerance: differences up to this are ties, in the objective's units; 0.1 noise sd by default.
        noise_sd: of one trial around its configuration's expected value, where known; else estimated from replicates
            and from how rough the values are.
        d_model: D (or the parameter that holds it), where the study does not say.
        prior: of the optimum; by default the one that the study's sampler recorded, or none.

    Raises:
        OptionError: no head parameter, several objectives, no finished trial, or an argument outside what is allowed.
    """
    _check(study, confidence, tolerance, noise_sd)
    trials = study.get_trials(deepcopy=False)
    if not trials:
        raise OptionError("the study has no trials yet: let at least one finish")
    head = recognise_head_parameter(study, d_model, trials=trials)
    history = read_history(study, head, trials)
    space = search_space_of(history.distributions(), head)
    records = [record for record in history.records() if record.allocation is not None]
    n_finished = sum(trial.state.name == "COMPLETE" for trial in trials)
    width = f"their {head.d_model!r}" if isinstance(head.d_model, str) else f"d_model = {head.d_model}"
    if space is None or not any(record.state == "complete" for record in records):
        if n_finished and not records:
            raise OptionError(f"no {head.name!r} of {len(trials)} trials is a split of {width}: give another d_model")
        raise OptionError(
            f"no finished trial with a feasible {head.name!r} among {len(trials)} trials: let at least one finish"
        )
    model = model_study(history, space, prior or recorded_prior(study, space), noise_sd=noise_sd)
    found = recommend_from(
        model,
        records,
        confidence=confidence,
        tolerance=tolerance,
        direction="maximize" if study.direction.name == "MAXIMIZE" else "minimize",
    )
    n_used = sum(record.state == "complete" for record in records)
    if n_used == n_finished:
        return found
    left_out = (
        f"{n_finished - n_used} of {n_finished} finished trials were left out: their {head.name!r} is no split of"
    )
    return replace(found, caveats=(*found.caveats, f"{left_out} {width}"))


def _check(study: "optuna.Study", confidence: float, tolerance: float | None, noise_sd: float | None) -> None:
    if len(study.directions) > 1:
        raise OptionError("recommend needs a study with one objective; this one has several")
    if not 0.0 < confidence < 1.0:
        raise OptionError(f"confidence must lie between 0 and 1 but got {confidence}")
    for name, value in (("tolerance", tolerance), ("noise_sd", noise_sd)):
        if value is not None and not (math.isfinite(value) and value >= 0.0):
            raise OptionError(f"{name} must be a finite number of at least 0 but got {value}")
