"""The posterior of a study's configurations, from its trials."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from archopt.search_space import SearchSpace, StudyHistory
from archopt.study_model.columns import Rows, columns_of
from archopt.study_model.curves import curve_readings, refit_at
from archopt.surrogate import Inputs, Observations, OptimumPrior, Posterior, Variances, fit_posterior, fit_variances


@dataclass(frozen=True)
class StudyModel:
    """A study's configurations with their posterior.

    Attributes:
        space: the M configurations.
        observed: finished trials, extrapolated pruned ones and diverged ones.
        posterior: of the M expected values.
        n_trials: (M,) finished trials, and pruned ones whose curve says something.
        n_finished: (M,) trials with a value.
        infeasible: (M,) configurations of allocations that the device cannot run.
        noiseless: repeated trials gave the very same value, so replicates teach nothing.
        replicates: (M,) the number that another run of a configuration would have; -1 where none are recorded.
    """

    space: SearchSpace
    observed: Observations
    posterior: Posterior
    n_trials: npt.NDArray[np.int64]
    n_finished: npt.NDArray[np.int64]
    infeasible: npt.NDArray[np.bool_]
    noiseless: bool
    replicates: npt.NDArray[np.int64]

    @property
    def answerable(self) -> npt.NDArray[np.bool_]:
        """(M,) which configurations can be recommended: those that ran to their end and can run."""
        return np.asarray((self.n_finished > 0) & ~self.infeasible)


def model_study(
    history: StudyHistory,
    space: SearchSpace,
    prior: OptimumPrior,
    *,
    noise_sd: float | None = None,
    running: Observations | None = None,
) -> StudyModel:
    """Fit the posterior of ``space`` to the trials that have ended; see `Columns.observe` for what each counts.

    An allocation that the device could not run (or that killed its worker, twice) bars every configuration with it.

    Args:
        noise_sd: of one trial around its configuration's expected value, where it is known.
        running: what is known of trials that have not ended.
    """
    columns = columns_of(history, space)
    rows = columns.rows(history)
    n_early, curves = refit_at(len(rows)), curve_readings(history)
    observed, tried = columns.observe(rows, curves)
    noiseless = columns.noiseless(rows)
    if noiseless and noise_sd is None:
        noise_sd = 1e-6 * float(np.std(observed.value))
    if running is not None:
        observed = _joined(observed, running)
    inputs = _inputs(space)
    early = observed if n_early == len(rows) and running is None else columns.early(rows, n_early, curves)
    variances = _variances(inputs, early, prior, noise_sd)
    barred = columns.infeasible
    return StudyModel(
        space=space,
        observed=observed,
        posterior=fit_posterior(inputs, observed, prior, variances),
        n_trials=np.bincount(tried, minlength=len(space.candidates)),
        n_finished=np.bincount(rows.finished, minlength=len(space.candidates)),
        infeasible=np.array([candidate.allocation in barred for candidate in space.candidates])
        if barred
        else np.zeros(len(space.candidates), dtype=bool),
        noiseless=noiseless,
        replicates=_next_replicates(rows, len(space.candidates)),
    )


def _joined(one: Observations, other: Observations) -> Observations:
    return Observations(*(np.concatenate(pair) for pair in zip(vars(one).values(), vars(other).values(), strict=True)))


def _next_replicates(rows: Rows, n_configurations: int) -> npt.NDArray[np.int64]:
    """The lowest number that a configuration's trials have not had."""
    known = (rows.position >= 0) & (rows.replicate >= 0)
    if not known.any():
        return np.full(n_configurations, -1)
    taken = np.zeros((n_configurations, int(rows.replicate[known].max()) + 2), dtype=bool)
    taken[rows.position[known], rows.replicate[known]] = True
    return np.asarray(taken.argmin(axis=1))


@lru_cache(maxsize=64)
def _inputs(space: SearchSpace) -> Inputs:
    return Inputs(space.log2_head_dim, space.levels, space.ordered)


def _variances(inputs: Inputs, early: Observations, prior: OptimumPrior, noise_sd: float | None) -> Variances:
    """`fit_variances`, remembered: between two refits every proposal asks for the same."""
    arrays = (early.index, early.value, early.replicate, early.extra_variance)
    return _fitted(inputs, tuple(array.tobytes() for array in arrays), prior, noise_sd)


@lru_cache(maxsize=16)  # studies that take turns in one process
def _fitted(inputs: Inputs, content: tuple[bytes, ...], prior: OptimumPrior, noise_sd: float | None) -> Variances:
    index, value, replicate, extra_variance = content
    observed = Observations(
        np.frombuffer(index, dtype=np.int64),
        np.frombuffer(value),
        np.frombuffer(replicate, dtype=np.int64),
        np.frombuffer(extra_variance),
    )
    return fit_variances(inputs, observed, prior, noise_sd=noise_sd)
