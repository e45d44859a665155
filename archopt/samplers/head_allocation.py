"""An Optuna sampler that knows what heads are: feasible splits only, seeded by the closed form, aware of noise."""

import secrets
import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.samplers.startup import MAX_STARTUP, startup_candidates
from archopt.search_space import (
    N_HEADS,
    WEIGHTING,
    Candidate,
    HeadParameter,
    SearchSpace,
    head_names,
    read_history,
    recent_trials,
    record_head_parameter,
    record_optimum,
    search_space_of,
    whole_study,
)
from archopt.study_model import StudyModel, closed_form_prior, flat_prior, informed_prior, model_study, optimum_of
from archopt.surrogate import OptimumPrior
from archopt.theory import family_default

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

STARTUP_UNTIL = 4  # times the startup proposals: a study that is that far on is not held up by them
THOMPSON_DRAWS = 32  # joint draws whose best are the contenders
_NORMAL_NODES, _NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


class HeadAllocationSampler(BaseSampler):
    """Propose head allocations where they teach most about which one is best.

    The first proposals are the closed form's allocation (Thm 6.1) and its neighbours under each weighting. Then a
    Gaussian process over the enumerated configurations (`archopt.surrogate`) models noise and replicates, and
    `choose` picks the next one, which may be an old one again, as a new replicate. Discrete
    parameters beside the heads join the model while the product stays enumerable; the rest go to ``base_sampler``.
    Where a study has no head parameter, or several objectives, ``base_sampler`` samples; with several
    objectives the first proposals still come from the closed form.

    Args:
        d_model: D, or the name of the parameter that holds it. Not needed where the parameter is text like "8x64".
        n_samples: training rows or tokens. With neither this nor ``intrinsic_dim``, ``family`` or ``constant`` there is
            nothing to ask the closed form with, and the prior is flat.
        intrinsic_dim: of the inputs; the family's where not given.
        smoothness: beta of the regression function.
        family: "table" or "text": which published practice gives the constant.
        constant: of the closed form, in place of the family's.
        head_param: the Optuna parameter that holds the heads.
        head_param_kind: "n_heads", "head_dim" or "allocation" ("8x64").
        base_sampler: any Optuna sampler; TPE by default.
        warm_start: earlier studies of the same kind of data, at another n or D: where their best head_dim was moves and
            narrows the prior. They are read once, here.
        seed: with the trial's number it fixes every draw. None draws one.

    Raises:
        OptionError, AllocationError: an argument outside what is allowed.

    Example:
        .. code-block:: python

            import archopt, optuna

            def objective(trial):
                n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8, 16])
                learning_rate = trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
                return train(n_heads, learning_rate, seed=archopt.replicate(trial))

            sampler = archopt.HeadAllocationSampler(d_model=512, n_samples=2_000_000, family="text")
            study = optuna.create_study(sampler=sampler)
            study.optimize(objective, n_trials=40)
            print(archopt.recommend(study))
    """

    def __init__(
        self,
        *,
        d_model: int | str | None = None,
        n_samples: float | None = None,
        intrinsic_dim: float | None = None,
        smoothness: float = 2.0,
        family: str | None = None,
        constant: float | None = None,
        head_param: str = N_HEADS,
        head_param_kind: str = "n_heads",
        base_sampler: BaseSampler | None = None,
        warm_start: "Sequence[Study]" = (),
        seed: int | None = None,
    ) -> None:
        if seed is not None and seed < 0:
            raise OptionError(f"seed must be at least 0 but got {seed}")
        self._head = HeadParameter(head_param, head_param_kind, d_model)  # type: ignore[arg-type]  # it checks
        self._law = {
            "n_samples": n_samples,
            "intrinsic_dim": intrinsic_dim,
            "smoothness": smoothness,
            "family": family,
            "constant": constant,
        }
        family_default(family or "table")
        if isinstance(d_model, int):
            self._prior_at(d_model)  # a mistake shows here, not in the first trial
        self._earlier = tuple(optimum_of(study) for study in warm_start)
        self._base = base_sampler
        self._seed = secrets.randbits(32) if seed is None else seed

    def reseed_rng(self) -> None:
        """Passed on to the base sampler; our own draws depend on (seed, trial number) alone."""
        if self._base is not None:
            self._base.reseed_rng()

    def before_trial(self, study: "Study", trial: "FrozenTrial") -> None:
        """Leave a note in the study of what its head parameter is, for `archopt.recommend`."""
        known = self._head.d_model is not None or self._head.kind == "allocation"
        if known:
            record_head_parameter(whole_study(study), self._head)
        self._base_for(trial).before_trial(study, trial)

    def after_trial(
        self, study: "Study", trial: "FrozenTrial", state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Passed on to the base sampler."""
        self._base_for(trial).after_trial(study, trial, state, values)

    def infer_relative_search_space(self, study: "Study", trial: "FrozenTrial") -> dict[str, "BaseDistribution"]:
        """What any earlier trial suggested and the model can enumerate, and what the base sampler takes besides."""
        every = whole_study(study)
        distributions = read_history(every, self._head, recent_trials(every)).distributions()
        space = self._space(distributions)
        mine = {} if space is None else {name: distributions[name] for name in space.names}
        if self._base is None and mine and len(mine) == len(distributions):
            return mine  # nothing is left for another sampler to infer, which reads every trial for it
        return {**self._base_for(trial).infer_relative_search_space(study, trial), **mine}

    def sample_relative(
        self, study: "Study", trial: "FrozenTrial", search_space: dict[str, "BaseDistribution"]
    ) -> dict[str, Any]:
        """The head parameter and its companions from the model, every other key from the base sampler."""
        space = self._space(search_space)
        mine = {} if space is None else self._propose(whole_study(study), trial, space)
        rest = {name: distribution for name, distribution in search_space.items() if name not in mine}
        if not rest:
            return mine
        base = self._base_for(trial)
        theirs = base.sample_relative(study, trial, rest)
        for name, distribution in rest.items():
            if name not in theirs:
                theirs[name] = base.sample_independent(study, trial, name, distribution)
        return {**theirs, **mine}

    def sample_independent(
        self, study: "Study", trial: "FrozenTrial", param_name: str, param_distribution: "BaseDistribution"
    ) -> Any:
        """The closed form for heads, or a width, that are met for the first time; else the base sampler."""
        if self._splits_width(param_name):
            fixed = {name: trial.distributions[name] for name in trial.params}
            space = self._space({**fixed, param_name: param_distribution})
            if space is not None:
                # heads may come before their width or after it: the second of them keeps to what divides
                given = {name: value for name, value in trial.params.items() if self._splits_width(name)}
                kept = [candidate for candidate in space.candidates if given.items() <= candidate.params.items()]
                return self._nearest_untried(study, trial, kept or list(space.candidates), space).params[param_name]
        base = self._base_for(trial, zlib.crc32(param_name.encode()))
        return base.sample_independent(study, trial, param_name, param_distribution)

    def _splits_width(self, name: str) -> bool:
        """Whether a parameter is the heads or the width."""
        return name in (self._head.name, self._head.d_model) or self._head.is_alias(name)

    def _propose(self, study: "Study", trial: "FrozenTrial", space: SearchSpace) -> dict[str, Any]:
        rng = np.random.default_rng([self._seed, trial.number])
        prior = self._prior(space)
        record_optimum(study, prior.log2_head_dim, prior.sd_octaves)
        history = read_history(study, self._head, recent_trials(study))
        if len(history.ended) < STARTUP_UNTIL * MAX_STARTUP:
            others = [record for record in history.open_records() if record.number != trial.number]
            placed = [at for record in [*history.ended, *others] if (at := space.position(record)) is not None]
            tried = {_split_and_weighting(space.candidates[at]) for at in placed}
            opening = startup_candidates(space, prior)
            first = [candidate for candidate in opening if _split_and_weighting(candidate) not in tried]
            if first and len(placed) < STARTUP_UNTIL * len(opening):
                return dict(first[0].params)
        if len(study.directions) > 1:
            return {}
        model = model_study(history, space, prior)
        return dict(space.candidates[choose(model, rng)].params)

    def _nearest_untried(
        self, study: "Study", trial: "FrozenTrial", candidates: list[Candidate], space: SearchSpace
    ) -> Candidate:
        """The candidate next in order of distance from the closed form."""
        centre = self._prior(space).log2_head_dim
        ranked = sorted(candidates, key=lambda c: (abs(np.log2(c.allocation.head_dim) - centre), c.allocation.n_heads))
        tried = {self._head.allocation(t.params) for t in recent_trials(whole_study(study)) if t.number != trial.number}
        untried = [candidate for candidate in ranked if candidate.allocation not in tried]
        return (untried or ranked)[0]

    def _space(self, distributions: Mapping[str, "BaseDistribution"]) -> SearchSpace | None:
        space = search_space_of(distributions, self._head)
        others = [] if self._head.name in distributions else head_names(distributions)
        if others and not any(self._head.is_alias(name) for name in distributions):
            warnings.warn(
                f"HeadAllocationSampler looks for {self._head.name!r} but the study has {others[0]!r}: "
                f"pass head_param={others[0]!r}; until then the base sampler samples it",
                stacklevel=2,
            )
        if space is None and self._head.name in distributions and self._head.d_model is None:
            warnings.warn(
                f"HeadAllocationSampler needs d_model to place {self._head.name!r}; the base sampler samples it",
                stacklevel=2,
            )
        return space

    def _prior(self, space: SearchSpace) -> OptimumPrior:
        if all(self._law[name] is None for name in ("n_samples", "intrinsic_dim", "constant", "family")):
            prior = flat_prior(space.log2_head_dim)
        else:
            prior = self._prior_at(space.widest)
        return informed_prior(prior, self._earlier, space.widest) if self._earlier else prior

    def _prior_at(self, d_model: int) -> OptimumPrior:
        return closed_form_prior(d_model, **self._law)  # type: ignore[arg-type]  # the constructor's own arguments

    def _base_for(self, trial: "FrozenTrial", stream: int = 0) -> BaseSampler:
        """The user's base sampler, or a TPE whose draws depend on (seed, trial number, stream) alone."""
        if self._base is not None:
            return self._base
        return TPESampler(seed=int(np.random.default_rng([self._seed, trial.number, 1, stream]).integers(2**31)))


def _split_and_weighting(candidate: Candidate) -> tuple[HeadAllocation, Any]:
    return candidate.allocation, candidate.params.get(WEIGHTING)


def choose(model: StudyModel, rng: np.random.Generator) -> int:
    """The configuration, or the replicate of one, from which most is to be gained for the final choice.

    Contenders are the best of joint posterior draws (Thompson sampling) and the best mean. Of these the one is taken
    whose next observation, in the replicate that it would be, is expected to lower the best posterior mean most: the
    knowledge gradient for correlated beliefs (Frazier, Powell and Dayanik 2009, doi:10.1287/ijoc.1080.0314). In a
    replicate of which much was seen an observation teaches less about a split than in a new one; that is part of it.

    Args:
        model: posterior of the configurations.
        rng: the only source of randomness.

    Returns:
        Position in ``model.space.candidates``. Infeasible configurations are never chosen while another is left, nor
        finished ones of an objective without noise.
    """
    barred = model.infeasible.copy()
    if model.noiseless:
        barred |= model.n_trials > 0
    if barred.all():  # all of the feasible ones have been tried, or none is feasible
        barred = model.infeasible & ~model.infeasible.all()
    draws = model.posterior.sample(rng, THOMPSON_DRAWS)
    draws[:, barred] = np.inf
    mean = np.where(barred, np.inf, model.posterior.mean)
    contenders = np.unique(np.append(draws.argmin(axis=1), mean.argmin()))
    covariance, variance = model.posterior.next_observation(contenders, model.replicates[contenders])
    # (C, C): how far each contender's mean moves for an observation one standard deviation off its expectation
    moves = covariance / np.sqrt(variance)[:, None]
    lowest = (mean[contenders][:, None] + moves[:, :, None] * _NORMAL_NODES).min(axis=1)  # (C, nodes)
    return int(contenders[(lowest @ _NORMAL_WEIGHTS).argmin()])
