"""The first proposals of a search: the closed form's allocation and its neighbours, under each weighting."""

import math

from archopt.allocation import HeadAllocation, nearest_allocation
from archopt.search_space import WEIGHTING, Candidate, SearchSpace
from archopt.surrogate import OptimumPrior

# Ten weightings of three splits: a weighting may be called what the user likes, but not be a learning rate
MAX_STARTUP = 30


def startup_candidates(space: SearchSpace, prior: OptimumPrior) -> list[Candidate]:
    """Distinct candidates, in the order in which to try them.

    The closed form's allocation comes first, then its neighbour on each side, then the three again under every other
    weighting. Other parameters start in the middle of their choices and take turns from the fourth proposal on, so that
    what is learned about a weighting does not hang on one learning rate.
    """
    by_width: dict[int, list[Candidate]] = {}
    for candidate in space.candidates:
        by_width.setdefault(candidate.allocation.d_model, []).append(candidate)
    width = min(by_width, key=lambda d_model: (-len(by_width[d_model]), d_model))
    pool = by_width[width]
    splits = sorted({candidate.allocation for candidate in pool}, key=lambda split: split.head_dim)
    around = _nearest_and_neighbours(2.0**prior.log2_head_dim, splits)
    weightings = list(dict.fromkeys(candidate.params.get(WEIGHTING) for candidate in pool))
    weightings.sort(key=lambda weighting: weighting != "uniform")  # what everybody uses comes first
    weightings = weightings[: MAX_STARTUP // len(around)]
    chosen: dict[tuple[tuple[str, str], ...], Candidate] = {}
    turn = 0
    for weighting in weightings:
        for split in around:
            same = [c for c in pool if c.allocation == split and c.params.get(WEIGHTING) == weighting]
            if not same:
                continue  # one head has one weighting
            picked = _middle(same, 0 if len(chosen) < len(around) else (turn := turn + 1))
            chosen.setdefault(picked.key, picked)
    return list(chosen.values())


def _nearest_and_neighbours(head_dim: float, splits: list[HeadAllocation]) -> list[HeadAllocation]:
    centre = splits.index(nearest_allocation(head_dim, splits))
    around = [splits[i] for i in (centre, centre - 1, centre + 1) if 0 <= i < len(splits)]
    return sorted(around, key=lambda split: abs(math.log(split.head_dim / head_dim)))


def _middle(candidates: list[Candidate], turn: int) -> Candidate:
    """Those that differ only in other parameters, from the middle of the list outwards."""
    centre = (len(candidates) - 1) // 2
    return candidates[(centre + turn) % len(candidates)]
