"""Which configuration to use, how sure that is, and what cannot be told apart from it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.search_space import (
    TrialRecord,
    read_records,
    recognise_head_parameter,
    search_space_of,
)
from archopt.study_model import StudyModel, flat_prior, model_study, union_of_distributions
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna
    import pandas as pd

DRAWS = 4_000  # from the posterior: P(best) to within 0.008 at one standard error
TOLERANCE_IN_NOISE_SD = 0.1  # differences below this are called ties


@dataclass(frozen=True)
class ConfigurationEstimate:
    """One configuration: posterior of its expected objective, in the study's own sign and units."""

    allocation: HeadAllocation
    params: dict[str, Any]
    mean: float
    sd: float
    p_best: float
    n_trials: int


@dataclass(frozen=True)
class AllocationEstimate:
    """One allocation at its best other parameters.

    Attributes:
        mean, low, high: posterior mean and central interval at the recommendation's confidence.
        p_best: probability that the best configuration has this allocation.
        n_trials: that ran with it, pruned ones included.
        seconds_per_step: median over its trials; None where not measured.
        in_confidence_set: whether some configuration with it is in the confidence set.
    """

    allocation: HeadAllocation
    mean: float
    low: float
    high: float
    p_best: float
    n_trials: int
    seconds_per_step: float | None
    in_confidence_set: bool


@dataclass(frozen=True)
class Recommendation:
    """What to use, and how sure that is.

    Attributes:
        allocation: the recommended split.
        params: the study's own parameter names and values.
        p_best: probability that the best configuration has this allocation.
        p_good: probability that ``params`` lie within ``tolerance`` of the best configuration.
        confidence: of the set and the intervals.
        confidence_set: the configurations, best first, that together hold the best one with that probability.
        estimates: every allocation of the space, by rising head_dim.
        noise_sd: of one trial.
        tolerance: differences up to this are ties.
        expected_regret: how much worse than the best configuration ``params`` are expected to be.
        reason: in plain language.
        caveats: what it rests on and what was not checked.
        details: what the search adds (theory, comparison, data, settings, versions); empty for other studies.
    """

    allocation: HeadAllocation
    params: dict[str, Any]
    p_best: float
    p_good: float
    confidence: float
    confidence_set: tuple[ConfigurationEstimate, ...]
    estimates: tuple[AllocationEstimate, ...]
    noise_sd: float
    tolerance: float
    expected_regret: float
    reason: str
    caveats: tuple[str, ...]
    direction: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def allocations(self) -> tuple[HeadAllocation, ...]:
        """The distinct allocations in the confidence set, best first."""
        return tuple(dict.fromkeys(estimate.allocation for estimate in self.confidence_set))

    def to_frame(self) -> "pd.DataFrame":
        """The confidence set, one row a configuration, best first."""
        import pandas as pd

        rows = [
            {
                "n_heads": e.allocation.n_heads,
                "head_dim": e.allocation.head_dim,
                **e.params,
                "mean": e.mean,
                "sd": e.sd,
                "p_best": e.p_best,
                "n_trials": e.n_trials,
            }
            for e in self.confidence_set
        ]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.recommendation/1", described in the README."""
        split = _split
        return {
            "schema": "archopt.recommendation/1",
            "allocation": split(self.allocation),
            "weighting": self.params.get("weighting"),
            "params": self.params,
            "p_best": self.p_best,
            "p_good": self.p_good,
            "direction": self.direction,
            "confidence": self.confidence,
            "noise_sd": self.noise_sd,
            "tolerance": self.tolerance,
            "expected_regret": self.expected_regret,
            "allocations": [
                {
                    **split(e.allocation),
                    "mean": e.mean,
                    "low": e.low,
                    "high": e.high,
                    "p_best": e.p_best,
                    "n_trials": e.n_trials,
                    "seconds_per_step": e.seconds_per_step,
                    "in_confidence_set": e.in_confidence_set,
                }
                for e in self.estimates
            ],
            "confidence_set": [
                {
                    "allocation": split(e.allocation),
                    "params": e.params,
                    "mean": e.mean,
                    "sd": e.sd,
                    "p_best": e.p_best,
                    "n_trials": e.n_trials,
                }
                for e in self.confidence_set
            ],
            "reason": self.reason,
            "caveats": list(self.caveats),
            **self.details,
        }


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
        noise_sd: of one trial, where known; else estimated from replicates and from how rough the values are.
        d_model: D (or the parameter that holds it), where the study does not say.
        prior: of the optimum; none by default.

    Raises:
        OptionError: no head parameter, several objectives, no finished trial, or an argument outside what is allowed.
    """
    _check(study, confidence, tolerance, noise_sd)
    head = recognise_head_parameter(study, d_model)
    space = search_space_of(union_of_distributions(study.get_trials(deepcopy=False)), head)
    records = [record for record in read_records(study, head) if record.allocation is not None]
    if space is None or not any(record.value is not None for record in records):
        raise OptionError(
            f"no finished trial with a feasible {head.name!r} among {len(records)} trials: let at least one finish"
        )
    model = model_study(records, space, prior or flat_prior(space.log2_head_dim), noise_sd=noise_sd)
    return recommend_from(
        model,
        records,
        confidence=confidence,
        tolerance=tolerance,
        direction="maximize" if study.direction.name == "MAXIMIZE" else "minimize",
    )


def recommend_from(
    model: StudyModel,
    records: Sequence[TrialRecord],
    *,
    confidence: float = 0.9,
    tolerance: float | None = None,
    direction: str = "minimize",
) -> Recommendation:
    """As `recommend`, from a fitted model; the draws are a function of the model alone."""
    posterior, space = model.posterior, model.space
    tolerance = TOLERANCE_IN_NOISE_SD * posterior.noise_sd if tolerance is None else tolerance
    draws = posterior.sample(np.random.default_rng(0), DRAWS)
    draws[:, model.infeasible] = np.inf
    best_of_draw = draws.min(axis=1)
    p_best = np.bincount(draws.argmin(axis=1), minlength=len(space.candidates)) / len(draws)
    p_good = (draws <= best_of_draw[:, None] + tolerance).mean(axis=0)
    seconds = _seconds_by_allocation(records)
    chosen, tied = _choose(model, tolerance, seconds)
    members = _smallest_set(p_best, posterior.mean, chosen, confidence)
    sign = -1.0 if direction == "maximize" else 1.0
    estimates = tuple(
        ConfigurationEstimate(
            allocation=space.candidates[i].allocation,
            params=dict(space.candidates[i].params),
            mean=sign * float(posterior.mean[i]),
            sd=float(posterior.sd[i]),
            p_best=float(p_best[i]),
            n_trials=int(model.n_trials[i]),
        )
        for i in members
    )
    by_allocation = _by_allocation(model, draws, p_best, members, seconds, confidence, sign)
    split = space.candidates[chosen].allocation
    p_split = next(e.p_best for e in by_allocation if e.allocation == split)
    n_finished = sum(record.value is not None for record in records)
    return Recommendation(
        allocation=split,
        params=dict(space.candidates[chosen].params),
        p_best=p_split,
        p_good=float(p_good[chosen]),
        confidence=confidence,
        confidence_set=estimates,
        estimates=by_allocation,
        noise_sd=posterior.noise_sd,
        tolerance=tolerance,
        expected_regret=float(np.mean(draws[:, chosen] - best_of_draw)),
        reason=_reason(split, p_split, estimates, tied, seconds, n_finished, len(records)),
        caveats=_caveats(model, n_finished),
        direction=direction,
    )


def _choose(
    model: StudyModel, tolerance: float, seconds: Mapping[HeadAllocation, float]
) -> tuple[int, tuple[HeadAllocation, ...]]:
    """The tried configuration with the best posterior mean; among ties the one with the cheapest step."""
    mean = model.posterior.mean
    tried = np.flatnonzero((model.n_trials > 0) & ~model.infeasible)
    best = tried[np.argmin(mean[tried])]
    tied = [int(i) for i in tried if mean[i] <= mean[best] + tolerance]
    splits = tuple(dict.fromkeys(model.space.candidates[i].allocation for i in tied))

    def cost(i: int) -> tuple[float, float]:
        split = model.space.candidates[i].allocation
        # 5 % is what timings repeat to: within it the better mean decides, not the clock
        return round(math.log(seconds[split]) / math.log(1.05)) if split in seconds else math.inf, float(mean[i])

    return min(tied, key=cost), splits


def _smallest_set(
    p_best: npt.NDArray[np.float64], mean: npt.NDArray[np.float64], chosen: int, confidence: float
) -> list[int]:
    """The chosen configuration and the likeliest others until they hold the best one with this probability."""
    order = sorted(range(len(p_best)), key=lambda i: (-p_best[i], mean[i]))
    members, held = [chosen], float(p_best[chosen])
    for i in order:
        if held >= confidence - 1e-12:
            break
        if i != chosen:
            members.append(i)
            held += float(p_best[i])
    return members


def _by_allocation(
    model: StudyModel,
    draws: npt.NDArray[np.float64],
    p_best: npt.NDArray[np.float64],
    members: Sequence[int],
    seconds: Mapping[HeadAllocation, float],
    confidence: float,
    sign: float,
) -> tuple[AllocationEstimate, ...]:
    positions: dict[HeadAllocation, list[int]] = {}
    for i, candidate in enumerate(model.space.candidates):
        positions.setdefault(candidate.allocation, []).append(i)
    inside = {model.space.candidates[i].allocation for i in members}
    rows = []
    for split in sorted(positions, key=lambda split: (split.d_model, split.head_dim)):
        at = positions[split]
        best = at[int(np.argmin(model.posterior.mean[at]))]
        low, high = np.quantile(draws[:, best], [(1 - confidence) / 2, (1 + confidence) / 2])
        ends = sorted((sign * float(low), sign * float(high)))
        rows.append(
            AllocationEstimate(
                allocation=split,
                mean=sign * float(model.posterior.mean[best]),
                low=ends[0],
                high=ends[1],
                p_best=float(p_best[at].sum()),
                n_trials=int(model.n_trials[at].sum()),
                seconds_per_step=seconds.get(split),
                in_confidence_set=split in inside,
            )
        )
    return tuple(rows)


def _seconds_by_allocation(records: Sequence[TrialRecord]) -> dict[HeadAllocation, float]:
    found: dict[HeadAllocation, list[float]] = {}
    for record in records:
        if record.allocation is not None and record.seconds_per_step:
            found.setdefault(record.allocation, []).append(record.seconds_per_step)
    return {split: float(np.median(values)) for split, values in found.items()}


def _reason(
    split: HeadAllocation,
    p_best: float,
    members: Sequence[ConfigurationEstimate],
    tied: Sequence[HeadAllocation],
    seconds: Mapping[HeadAllocation, float],
    n_finished: int,
    n_trials: int,
) -> str:
    others = list(dict.fromkeys(e.allocation for e in members if e.allocation != split))
    text = (
        f"{split.n_heads} heads of {split.head_dim} have the best expected value after {n_finished} finished of "
        f"{n_trials} trials; the probability that no other allocation is better is {p_best:.0%}."
    )
    if len(tied) > 1:
        # _choose took the cheapest of these
        rest = ", ".join(f"{other.n_heads} x {other.head_dim}" for other in tied if other != split)
        basis = "its step is the cheapest measured" if split in seconds else "no costs were measured"
        text = text.replace("have the best expected value", f"are tied for the best expected value with {rest}", 1)
        text += f" Among the tied, {basis}."
    if others:
        text += f" Not told apart from it: {', '.join(f'{o.n_heads} x {o.head_dim}' for o in others)}."
    return text


def _caveats(model: StudyModel, n_finished: int) -> tuple[str, ...]:
    caveats = []
    if model.noiseless:
        caveats.append("repeated trials gave identical values: the objective has no noise, or its seed is fixed")
    elif len(set(model.observed.index.tolist())) == len(model.observed):
        caveats.append(
            "no configuration was run twice: the noise is a guess from how rough the values are; pass noise_sd if known"
        )
    if n_finished < 10:
        caveats.append(f"only {n_finished} trials finished")
    return tuple(caveats)


def _split(allocation: HeadAllocation) -> dict[str, int]:
    return {"n_heads": allocation.n_heads, "head_dim": allocation.head_dim}


def _check(study: "optuna.Study", confidence: float, tolerance: float | None, noise_sd: float | None) -> None:
    if len(study.directions) > 1:
        raise OptionError("recommend needs a study with one objective; this one has several")
    if not 0.0 < confidence < 1.0:
        raise OptionError(f"confidence must lie between 0 and 1 but got {confidence}")
    for name, value in (("tolerance", tolerance), ("noise_sd", noise_sd)):
        if value is not None and not (math.isfinite(value) and value >= 0.0):
            raise OptionError(f"{name} must be a finite number of at least 0 but got {value}")
