"""From a fitted posterior to a recommendation: the best mean, ties by cost, a set that holds the best."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.recommendation.result import AllocationEstimate, ConfigurationEstimate, Recommendation
from archopt.search_space import TrialRecord
from archopt.study_model import StudyModel

DRAWS = 4_000  # from the posterior: P(best) to within 0.008 at one standard error
TOLERANCE_IN_NOISE_SD = 0.1  # differences below this are called ties
FEWEST_TO_GUESS_NOISE = 8  # configurations with one value each, from which the roughness of the surface says something
SAME_COST = 1.05  # what timings repeat to: within it the better mean decides, not the clock


def recommend_from(
    model: StudyModel,
    records: Sequence[TrialRecord],
    *,
    confidence: float = 0.9,
    tolerance: float | None = None,
    direction: str = "minimize",
) -> Recommendation:
    """As `archopt.recommend`, from a fitted model; the draws are a function of the model alone.

    Raises:
        OptionError: no configuration ran and can run (`StudyModel.answerable`).
    """
    if not model.answerable.any():
        raise OptionError("no configuration has both finished and fits the device: let at least one trial finish")
    posterior, space = model.posterior, model.space
    tolerance = TOLERANCE_IN_NOISE_SD * posterior.noise_sd if tolerance is None else tolerance
    draws = posterior.sample(np.random.default_rng(0), DRAWS)
    usable = np.where(model.infeasible, np.inf, draws)
    best_of_draw = usable.min(axis=1)
    p_best = np.bincount(usable.argmin(axis=1), minlength=len(space.candidates)) / len(draws)
    p_good = (draws <= best_of_draw[:, None] + tolerance).mean(axis=0)
    seconds = _seconds_by_allocation(records)
    chosen, tied = _choose(model, tolerance, seconds)
    members = _smallest_set(p_best, posterior.mean, chosen, confidence)
    sign = -1.0 if direction == "maximize" else 1.0
    estimates = tuple(
        ConfigurationEstimate(
            allocation=space.candidates[i].allocation,
            params=dict(space.candidates[i].params),
            mean=sign * float(posterior.in_units(posterior.mean[i])),
            sd=float(posterior.sd[i]),
            p_best=float(p_best[i]),
            n_trials=int(model.n_trials[i]),
        )
        for i in members
    )
    by_allocation = _by_allocation(model, draws, p_best, members, seconds, confidence, sign)
    split = space.candidates[chosen].allocation
    p_split = next(e.p_best for e in by_allocation if e.allocation == split)
    n_finished = sum(record.state == "complete" for record in records)
    n_ended = sum(record.state != "running" for record in records)
    regret = float(np.mean(draws[:, _best_by_mean(model)] - best_of_draw))
    likeliest = max(e.p_best for e in by_allocation)
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
        reason=_reason(split, p_split, estimates, tied, seconds, n_finished, n_ended),
        sure=likeliest >= confidence or regret <= tolerance,
        caveats=_caveats(model, n_finished),
        direction=direction,
    )


def _choose(
    model: StudyModel, tolerance: float, seconds: Mapping[HeadAllocation, float]
) -> tuple[int, tuple[HeadAllocation, ...]]:
    """The tried configuration with the best posterior mean; among ties the one with the cheapest step."""
    mean = model.posterior.mean
    limit = mean[_best_by_mean(model)] + tolerance
    tied = [int(i) for i in np.flatnonzero(model.answerable) if mean[i] <= limit]
    splits = tuple(dict.fromkeys(model.space.candidates[i].allocation for i in tied))
    cost = {i: seconds.get(model.space.candidates[i].allocation, math.inf) for i in tied}
    cheap = [i for i in tied if cost[i] <= SAME_COST * min(cost.values())]
    return min(cheap, key=lambda i: float(mean[i])), splits


def _best_by_mean(model: StudyModel) -> int:
    """The configuration with the best posterior mean among those that can be recommended."""
    able = np.flatnonzero(model.answerable)
    return int(able[np.argmin(model.posterior.mean[able])])


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
        low, high = model.posterior.in_units(np.quantile(draws[:, best], [(1 - confidence) / 2, (1 + confidence) / 2]))
        ends = sorted((sign * float(low), sign * float(high)))
        rows.append(
            AllocationEstimate(
                allocation=split,
                mean=sign * float(model.posterior.in_units(model.posterior.mean[best])),
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
    heads = f"{split.n_heads} heads of {split.head_dim}" if split.n_heads > 1 else f"1 head of {split.head_dim}"
    verb = "has" if split.n_heads == 1 else "have"
    rest = ", ".join(f"{other.n_heads} x {other.head_dim}" for other in tied if other != split)
    basis = "cheapest step" if split in seconds else "best mean (no costs were measured)"
    # _choose took the cheapest of the tied
    standing = f"{verb} the {basis} of those tied with it ({rest})" if rest else f"{verb} the best expected value"
    text = (
        f"{heads} {standing} after {n_finished} finished of {n_trials} trials; "
        f"the probability that no other allocation is better is {_percent(p_best)}."
    )
    if others:
        text += f" Not told apart from it: {', '.join(f'{o.n_heads} x {o.head_dim}' for o in others)}."
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _percent(probability: float) -> str:
    """Never 0 % or 100 %: that is more than draws can say."""
    if probability < 0.01:
        return "< 1 %"
    return "> 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"


def _caveats(model: StudyModel, n_finished: int) -> tuple[str, ...]:
    caveats = []
    if model.noiseless:
        caveats.append("repeated trials gave identical values: the objective has no noise, or its seed is fixed")
    elif len(set(model.observed.index.tolist())) == len(model.observed):
        if len(model.observed) < FEWEST_TO_GUESS_NOISE:
            caveats.append(
                f"{_count(len(model.observed), 'configuration')}, none run twice, cannot tell noise from differences: "
                "the certainty rests on an assumed noise; run some again with another seed, or give noise_sd"
            )
        else:
            caveats.append("no configuration was run twice: the noise is a guess from how rough the values are")
    if n_finished < 10:
        caveats.append(f"only {_count(n_finished, 'trial')} finished")
    return tuple(caveats)
