"""The configurations that a search can choose from, enumerated, with the numbers a model needs of each."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation
from archopt.search_space.parameters import HeadParameter, canonical_params
from archopt.search_space.records import TrialRecord, params_key, value_key

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

MAX_CANDIDATES = 1_000  # a joint posterior over them is a matrix of this side
MAX_LEVELS = 64  # of one parameter; a wider one is left to the base sampler


@dataclass(frozen=True)
class Candidate:
    """One configuration, as Optuna wants its parameters."""

    params: dict[str, Any]
    allocation: HeadAllocation
    key: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """The enumerated configurations.

    Attributes:
        candidates: M configurations, no two the same thing.
        names: the parameters they fix; what a study has beyond these is not modelled.
        log2_head_dim: shape (M,).
        levels: shape (M, F), a column for each parameter that is not the split itself; scaled to [0, 1] where the
            choices have an order (log scale where all are positive), else the number of the choice.
        ordered: shape (F,), which columns have an order.
    """

    candidates: tuple[Candidate, ...]
    names: tuple[str, ...]
    log2_head_dim: npt.NDArray[np.float64]
    levels: npt.NDArray[np.float64]
    ordered: tuple[bool, ...]

    @cached_property
    def index(self) -> dict[tuple[tuple[str, str], ...], int]:
        """Position of each configuration by its key."""
        return {candidate.key: position for position, candidate in enumerate(self.candidates)}

    @cached_property
    def widest(self) -> int:
        """The largest d_model."""
        return max(candidate.allocation.d_model for candidate in self.candidates)

    def position(self, record: TrialRecord) -> int | None:
        """Where a trial's configuration stands, by the parameters that the space fixes; None where it does not."""
        if len(record.params) == len(self.names):
            return self.index.get(record.key)
        return self.index.get(params_key({name: record.params[name] for name in self.names if name in record.params}))


def search_space_of(distributions: Mapping[str, "BaseDistribution"], head: HeadParameter) -> SearchSpace | None:
    """Enumerate what ``distributions`` allow; None where they hold no head parameter or no feasible split.

    Parameters are taken in while the product stays within `MAX_CANDIDATES`, those with the fewest levels first;
    continuous ones are never taken in. Pairs whose heads do not divide the width are left out.
    """
    try:
        return _enumerated(tuple(distributions.items()), head)
    except TypeError:  # choices that cannot be hashed, which Optuna only warns of
        return _enumerated.__wrapped__(tuple(distributions.items()), head)


@lru_cache(maxsize=64)  # asked for at every proposal
def _enumerated(items: "tuple[tuple[str, BaseDistribution], ...]", head: HeadParameter) -> SearchSpace | None:
    distributions = dict(items)
    choices = {name: _levels(distribution) for name, distribution in distributions.items()}
    splits, names = _splits(choices, head)
    if not splits or len(splits) > MAX_CANDIDATES:
        return None
    free = [name for name in choices if name not in names and not head.is_alias(name) and choices[name] is not None]
    others = sorted(free, key=lambda name: len(choices[name] or ()))
    taken: list[str] = []
    size = len(splits)
    for name in others:
        if size * len(choices[name] or ()) > MAX_CANDIDATES:
            break
        size *= len(choices[name] or ())
        taken.append(name)
    factors = [name for name in [*_width_names(head), *taken] if len(choices[name] or ()) > 1]
    candidates: dict[tuple[tuple[str, str], ...], Candidate] = {}
    for (params, allocation), values in itertools.product(
        splits, itertools.product(*(choices[name] or () for name in taken))
    ):
        full = {**params, **dict(zip(taken, values, strict=True))}
        same = canonical_params(full, allocation)
        key = params_key(same)
        legal = same if all(same[name] in (choices[name] or ()) for name in taken) else full
        candidates.setdefault(key, Candidate(legal, allocation, key))
    chosen = tuple(candidates.values())
    scales = {name: _scale(choices[name] or ()) for name in factors}
    levels = np.array(
        [[scales[name][1][value_key(c.params[name])] for name in factors] for c in chosen], dtype=np.float64
    )
    return SearchSpace(
        candidates=chosen,
        names=tuple(name for name in [*names, *taken] if name in choices),
        log2_head_dim=np.array([math.log2(c.allocation.head_dim) for c in chosen]),
        levels=levels.reshape(len(chosen), len(factors)),
        ordered=tuple(scales[name][0] for name in factors),
    )


def _width_names(head: HeadParameter) -> list[str]:
    return [head.d_model] if isinstance(head.d_model, str) else []


def _splits(
    choices: Mapping[str, tuple[Any, ...] | None], head: HeadParameter
) -> tuple[list[tuple[dict[str, Any], HeadAllocation]], list[str]]:
    """Every feasible split with its parameters, and the names that take part: the heads', by width, and the width's."""
    names = [head.name, *_width_names(head)]
    if any(choices.get(name) is None for name in names[1:]):
        return [], names
    widths = (choices[names[1]] or ()) if len(names) > 1 else (head.d_model,)
    splits: list[tuple[dict[str, Any], HeadAllocation]] = []
    for width in widths:
        own = head.name_at(width)
        parameter = own if own in choices else head.name
        names = list(dict.fromkeys([*names, parameter]))
        for value in choices.get(parameter) or ():
            params = {parameter: value, **({names[1]: width} if isinstance(head.d_model, str) else {})}
            allocation = head.allocation(params)
            if allocation is not None:
                splits.append((params, allocation))
    return splits, names


def _levels(distribution: "BaseDistribution") -> tuple[Any, ...] | None:
    """The values a parameter can take; None where it is continuous or has too many."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(distribution, CategoricalDistribution):
        return tuple(distribution.choices) if len(distribution.choices) <= MAX_CANDIDATES else None
    if isinstance(distribution, IntDistribution):
        values: Sequence[Any] = range(distribution.low, distribution.high + 1, distribution.step)
        return tuple(values) if len(values) <= MAX_LEVELS else None
    if isinstance(distribution, FloatDistribution) and distribution.step is not None:
        count = math.floor((distribution.high - distribution.low) / distribution.step + 1e-9) + 1
        if count <= MAX_LEVELS:
            return tuple(distribution.low + k * distribution.step for k in range(count))
    return None


def _scale(choices: Sequence[Any]) -> tuple[bool, dict[str, float]]:
    """Whether the choices have an order, and a number for each."""
    numeric = all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in choices)
    if not numeric:
        return False, {value_key(choice): float(position) for position, choice in enumerate(choices)}
    transform = math.log if all(choice > 0 for choice in choices) else float
    low, high = transform(min(choices)), transform(max(choices))
    span = (high - low) or 1.0
    return True, {value_key(choice): (transform(choice) - low) / span for choice in choices}
