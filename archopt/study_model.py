"""From a study's trials to a posterior over its configurations: what sampler, pruner and recommendation share."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation
from archopt.learning_curve import FinalValue, predict_final
from archopt.search_space import HeadParameter, SearchSpace, TrialRecord
from archopt.surrogate import Observations, OptimumPrior, Posterior, fit_posterior, fit_variances
from archopt.theory import family_default, optimal_allocation, z_score_from_index

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

MIN_FINISHED_FOR_CURVES = 6  # below this a pruned trial's last rung is not extrapolated
FLAT_SD_OCTAVES = 3.0  # prior on log2 d_k where there is no theory to ask: spans the divisors of any practical width
KILLS_TO_BAR = 2  # workers that died under one allocation: once may be the machine's doing
REPEATS_OF_COARSE_VALUES = 8
UNKNOWN_N_SAMPLES = 1e5  # the log-law moves by a fifth from 1e3 to 1e9, far less than its constant's spread


@dataclass(frozen=True)
class StudyModel:
    """A study's configurations with their posterior.

    Attributes:
        space: the M configurations.
        observed: finished trials, extrapolated pruned ones and diverged ones.
        posterior: of the M expected values.
        n_trials: (M,) finished trials, and pruned ones whose curve tells where they would have ended.
        infeasible: (M,) configurations of allocations that the device cannot run.
        noiseless: repeated trials gave the very same value, so replicates teach nothing.
    """

    space: SearchSpace
    observed: Observations
    posterior: Posterior
    n_trials: npt.NDArray[np.int64]
    infeasible: npt.NDArray[np.bool_]
    noiseless: bool

    @property
    def answerable(self) -> npt.NDArray[np.bool_]:
        """(M,) which configurations can be recommended: those that ran and can run."""
        return np.asarray((self.n_trials > 0) & ~self.infeasible)


def closed_form_prior(
    d_model: int,
    *,
    n_samples: float | None = None,
    intrinsic_dim: float | None = None,
    smoothness: float = 2.0,
    family: str | None = None,
    constant: float | None = None,
) -> OptimumPrior:
    """Where the log-law (Thm 6.1) expects the best log2 head_dim, and how surely (theory.md, section 5).

    Args:
        d_model: D; the expectation is kept within [1, D].
        n_samples: training rows or tokens; 1e5 where not known.
        intrinsic_dim: of the inputs; the family's where not known.
        smoothness: beta.
        family: "table" or "text", for the constant; "table" where not given.
        constant: in place of the family's.
    """
    default = family_default(family or "table")
    law = optimal_allocation(
        d_model,
        UNKNOWN_N_SAMPLES if n_samples is None else n_samples,
        default.intrinsic_dim if intrinsic_dim is None else intrinsic_dim,
        smoothness,
        default.constant if constant is None else constant,
    )
    return OptimumPrior(math.log2(min(max(law.head_dim, 1.0), d_model)), default.sd_octaves)


def flat_prior(log2_head_dim: npt.NDArray[np.float64]) -> OptimumPrior:
    """No opinion: centred on the space, far wider than it."""
    return OptimumPrior(float(np.mean(log2_head_dim)), FLAT_SD_OCTAVES)


def modelled_distributions(trials: Sequence["FrozenTrial"], head: HeadParameter) -> dict[str, "BaseDistribution"]:
    """The parameters that can enter the model, each with its latest distribution.

    Those that say what the split is come from any trial, running ones too: a second worker knows the space as soon as
    the first has suggested it. Any other must stand in every ended trial, or a parameter that is conditional, or was
    added midway, would cost the model all trials without it.
    """
    found: dict[str, BaseDistribution] = {}
    for trial in trials:
        found.update(trial.distributions)
    ended = [
        trial.params for trial in trials if trial.state.is_finished() and head.allocation(trial.params) is not None
    ]
    split = {head.name, head.d_model}
    return {
        name: distribution
        for name, distribution in found.items()
        if name in split or head.is_alias(name) or all(name in params for params in ended)
    }


def model_study(
    records: Sequence[TrialRecord], space: SearchSpace, prior: OptimumPrior, *, noise_sd: float | None = None
) -> StudyModel:
    """Fit the posterior of ``space`` to ``records``.

    A pruned trial counts with the final value that its curve predicts, and the variance of that prediction. One that
    failed, by itself or with an error, counts as worse than all that finished; one that the device could not run (or
    that killed its worker, twice) bars every configuration with its allocation. Two runs of the same replicate of a
    configuration are one observation.

    Args:
        noise_sd: of one trial beyond what trials of the same replicate share, where it is known.
    """
    index = space.index
    finished = [record for record in records if record.value is not None and math.isfinite(record.value)]
    values = [record.value for record in finished if record.value is not None]
    failed_value = None if not values else max(values) + (max(values) - min(values))
    rows: dict[tuple[int, int, int], tuple[float, float]] = {}
    n_trials = np.zeros(len(space.candidates), dtype=np.int64)
    for record in records:
        position = space.position(record.params, index)
        if position is None:
            continue
        if record in finished:
            observed, tried = (record.value, 0.0), True
        elif record.state == "pruned":
            final = predict_from_records(record, finished)
            observed, tried = (None, 0.0) if final is None else (final.median, final.sd**2), final is not None
        elif record.fault in ("diverged", "error"):
            observed, tried = (failed_value, 0.0), False
        else:
            continue
        if observed[0] is None:
            continue
        # trials whose replicate is not recorded are all observations of their own
        same = -1 - record.number if record.replicate is None else record.replicate
        rows.setdefault((position, same, record.replicate is None), (observed[0], observed[1]))
        n_trials[position] += tried
    observations = Observations(
        index=np.array([position for position, _, _ in rows], dtype=np.int64),
        value=np.array([value for value, _ in rows.values()], dtype=np.float64),
        replicate=np.array([-1 if unknown else same for _, same, unknown in rows], dtype=np.int64),
        extra_variance=np.array([variance for _, variance in rows.values()], dtype=np.float64),
    )
    noiseless = repeats_are_identical(finished)
    if noiseless and noise_sd is None and len(observations):
        noise_sd = 1e-6 * float(np.std(observations.value))
    arrays = (space.log2_head_dim, space.levels, space.ordered)
    variances = fit_variances(*arrays, observations, prior, noise_sd=noise_sd)
    posterior = fit_posterior(*arrays, observations, prior, variances)
    barred = _infeasible_allocations(records)
    infeasible = np.array([candidate.allocation in barred for candidate in space.candidates])
    return StudyModel(space, observations, posterior, n_trials, infeasible, noiseless)


def _infeasible_allocations(records: Sequence[TrialRecord]) -> set[HeadAllocation]:
    """Neither weighting nor learning rate makes an allocation fit a device that it does not fit."""
    kills = Counter(record.allocation for record in records if record.fault == "killed")
    barred = {record.allocation for record in records if record.fault == "infeasible"}
    return {split for split in barred | {split for split, n in kills.items() if n >= KILLS_TO_BAR} if split is not None}


def predict_from_records(
    record: TrialRecord, finished: Sequence[TrialRecord], *, at_step: int | None = None
) -> FinalValue | None:
    """Where ``record`` would end, from its curve up to ``at_step`` (its last step by default) and its diversity.

    None where it has reported nothing, or fewer than `MIN_FINISHED_FOR_CURVES` finished trials reported at that step.
    """
    if not record.curve:
        return None
    step = record.curve[-1][0] if at_step is None else at_step
    now = _curve_features(record, step)
    if now is None:
        return None
    known = [(features, other) for other in finished if (features := _curve_features(other, step)) is not None]
    if len(known) < MIN_FINISHED_FOR_CURVES:
        return None
    curve = np.array([features for features, _ in known])
    final = np.array([other.value for _, other in known], dtype=np.float64)
    curve_now = np.array(now)
    log_scale = bool((final > 0).all() and (curve[:, :2] > 0).all() and (curve_now[:2] > 0).all())
    return predict_final(
        _as_features(curve, log_scale),
        np.log(final) if log_scale else final,
        _as_features(curve_now[None, :], log_scale)[0],
        diversity=np.array([_diversity_features(other, step) for _, other in known]),
        diversity_now=np.array(_diversity_features(record, step)),
        log_scale=log_scale,
    )


def repeats_are_identical(finished: Sequence[TrialRecord]) -> bool:
    """Whether the objective has no noise, as far as repeats show.

    Every repeated configuration must have given the very same value each time: two of them where no two configurations
    share a value; `REPEATS_OF_COARSE_VALUES` where some do, since values on a coarse scale (an error rate on few rows)
    coincide by chance. Trials whose replicate number is recorded were run with different seeds, so they never count.
    """
    values: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for record in finished:
        if record.value is not None and record.replicate is None:
            values.setdefault(record.key, []).append(record.value)
    repeated = [found for found in values.values() if len(found) > 1]
    coarse = len({found[0] for found in values.values()}) < len(values)
    needed = REPEATS_OF_COARSE_VALUES if coarse else 2
    return len(repeated) >= needed and all(len(set(found)) == 1 for found in repeated)


def _curve_features(record: TrialRecord, step: int) -> tuple[float, float, float] | None:
    """Value at ``step`` and at the report before (the same, at the first), log2 head_dim (0 without heads)."""
    upto = [(at, value) for at, value in record.curve if at <= step]
    if not upto or upto[-1][0] != step:
        return None
    before = upto[-2][1] if len(upto) > 1 else upto[-1][1]
    return upto[-1][1], before, 0.0 if record.allocation is None else math.log2(record.allocation.head_dim)


def _as_features(curve: npt.NDArray[np.float64], log_scale: bool) -> npt.NDArray[np.float64]:
    """(N, 3): value, its change since the report before, log2 head_dim; the first two of logarithms on request."""
    values = np.log(curve[:, :2]) if log_scale else curve[:, :2]
    return np.column_stack([values[:, 0], values[:, 0] - values[:, 1], curve[:, 2]])


def _diversity_features(record: TrialRecord, step: int) -> tuple[float, float]:
    """z-score of HDI at ``step`` and its change since the first report; NaN where there is none (H = 1)."""
    upto = [report.hdi for report in record.diversity if report.step <= step]
    if not upto or record.allocation is None or record.allocation.n_heads == 1:
        return math.nan, math.nan
    split = record.allocation
    z_scores = [
        z_score_from_index(hdi, d_model=split.d_model, n_heads=split.n_heads, head_dim=split.head_dim)
        for hdi in (upto[0], upto[-1])
    ]
    return z_scores[1], z_scores[1] - z_scores[0]
