"""From a study's trials to a posterior over its configurations: what sampler, pruner and recommendation share."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation
from archopt.final_values import FinalValues
from archopt.search_space import HeadParameter, SearchSpace, TrialRecord
from archopt.surrogate import Observations, OptimumPrior, Posterior, Variances, fit_posterior, fit_variances
from archopt.theory import family_default, optimal_allocation

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

FLAT_SD_OCTAVES = 3.0  # prior on log2 d_k where there is no theory to ask: spans the divisors of any practical width
KILLS_TO_BAR = 2  # workers that died under one allocation: once may be the machine's doing
REPEATS_OF_COARSE_VALUES = 8
REFIT_AFTER = 20  # trials until which the variances are fitted at each
REFIT_GROWTH = 1.1  # of the number of trials between two fits from then on
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
    observations, n_trials = _observe(records, space)
    finished = [record for record in records if _has_value(record)]
    noiseless = repeats_are_identical(finished)
    if noiseless and noise_sd is None and len(observations):
        noise_sd = 1e-6 * float(np.std(observations.value))
    ended = [record for record in records if record.state != "running"]
    n_early = _refit_at(len(ended))
    early = observations if n_early == len(ended) else _observe(ended[:n_early], space)[0]
    variances = _variances(space, early, prior, noise_sd)
    posterior = fit_posterior(space.log2_head_dim, space.levels, space.ordered, observations, prior, variances)
    barred = _infeasible_allocations(records)
    infeasible = np.array([candidate.allocation in barred for candidate in space.candidates])
    return StudyModel(space, observations, posterior, n_trials, infeasible, noiseless)


def _observe(records: Sequence[TrialRecord], space: SearchSpace) -> tuple[Observations, npt.NDArray[np.int64]]:
    """What the trials say of the M configurations, and how many say it of each, (M,)."""
    finished = [record for record in records if _has_value(record)]
    values = [record.value for record in finished if record.value is not None]
    failed_value = None if not values else max(values) + (max(values) - min(values))
    endings = FinalValues(finished)
    rows: dict[tuple[int, int, int], tuple[float, float]] = {}
    n_trials = np.zeros(len(space.candidates), dtype=np.int64)
    for record in records:
        position = space.position(record)
        if position is None:
            continue
        if _has_value(record):
            observed, tried = (record.value, 0.0), True
        elif record.state == "pruned":
            final = endings.predict(record)
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
    return observations, n_trials


def _has_value(record: TrialRecord) -> bool:
    return record.value is not None and math.isfinite(record.value)


def _refit_at(n_ended: int) -> int:
    """How many trials decide the variances: all of few, then a number that grows in ever larger steps.

    A fit costs n^3, and one trial more hardly moves what many say. A function of the number alone, so that a search
    that was resumed goes on as it would have.
    """
    if n_ended <= REFIT_AFTER:
        return n_ended
    step = REFIT_AFTER
    while step * REFIT_GROWTH <= n_ended:
        step = math.ceil(step * REFIT_GROWTH)
    return step


def _variances(space: SearchSpace, observed: Observations, prior: OptimumPrior, noise_sd: float | None) -> Variances:
    """`fit_variances`, remembered: between two refits every proposal asks for the same."""
    arrays = (space.log2_head_dim, space.levels, observed.index, observed.value, observed.replicate)
    content = tuple(array.tobytes() for array in (*arrays, observed.extra_variance))
    return _fitted(content, space.ordered, prior, noise_sd)


@lru_cache(maxsize=16)  # studies that take turns in one process
def _fitted(
    content: tuple[bytes, ...], ordered: tuple[bool, ...], prior: OptimumPrior, noise_sd: float | None
) -> Variances:
    log2_head_dim, levels, index, value, replicate, extra_variance = content
    observed = Observations(
        np.frombuffer(index, dtype=np.int64),
        np.frombuffer(value),
        np.frombuffer(replicate, dtype=np.int64),
        np.frombuffer(extra_variance),
    )
    widths = np.frombuffer(log2_head_dim)
    factors = np.frombuffer(levels).reshape(len(widths), len(ordered))
    return fit_variances(widths, factors, ordered, observed, prior, noise_sd=noise_sd)


def _infeasible_allocations(records: Sequence[TrialRecord]) -> set[HeadAllocation]:
    """Neither weighting nor learning rate makes an allocation fit a device that it does not fit."""
    kills = Counter(record.allocation for record in records if record.fault == "killed")
    barred = {record.allocation for record in records if record.fault == "infeasible"}
    return {split for split in barred | {split for split, n in kills.items() if n >= KILLS_TO_BAR} if split is not None}


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
