"""What is lost on either side of the recommended head_dim: heads that are too narrow, and too few that are wide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archopt.report.allocation_traces import estimated, head_dim_of
from archopt.report.numbers import finite, fixed
from archopt.report.tables import loss_decimals
from archopt.report.wording import Recommendation, allocation_of, in_words, metric_name


@dataclass(frozen=True)
class FailureSide:
    """One side of the recommendation.

    Attributes:
        name: "narrower" or "wider".
        end: the last allocation on that side that has an estimate.
        loss: how much worse than the recommended one it is expected to be, in the metric's units; below 0 better.
        clear_from: head_dim of the nearest one whose interval lies wholly on the worse side of the recommended one's;
            None where there is none.
        beside: head_dim of its neighbour on the recommendation's side.
    """

    name: str
    end: tuple[int, int]
    loss: float
    clear_from: int | None
    beside: int | None


def failure_sides(recommendation: Recommendation) -> list[FailureSide]:
    """The two sides, narrower heads first; one that has no allocation is absent."""
    entries = estimated(recommendation)
    chosen = allocation_of(recommendation.get("allocation"))
    at = next((k for k, entry in enumerate(entries) if allocation_of(entry) == chosen), None)
    if at is None:
        return []
    sides = [("narrower", entries[:at][::-1]), ("wider", entries[at + 1 :])]
    return [_side(name, entries[at], beyond, recommendation) for name, beyond in sides if beyond]


def side_sentences(recommendation: Recommendation) -> list[str]:
    """What narrower and wider heads cost, a sentence each; also where there is nothing beyond."""
    sides = {side.name: side for side in failure_sides(recommendation)}
    if allocation_of(recommendation.get("allocation")) is None or not estimated(recommendation):
        return []
    decimals, metric = loss_decimals(recommendation), metric_name(recommendation)
    told = []
    for name, end in (("narrower", "narrowest"), ("wider", "widest")):
        side = sides.get(name)
        if side is None:
            told.append(f"The recommended heads are the {end} allowed: what lies beyond was not looked at.")
            continue
        how = "worse" if side.loss >= 0 else "better"
        sentence = (
            f"{name.capitalize()} heads: at {in_words(side.end)} the expected {metric} is "
            f"{fixed(abs(side.loss), decimals)} {how}"
        )
        clear = (
            f"; from head_dim {side.clear_from} on its interval lies wholly beyond the recommended one's"
            if side.clear_from is not None
            else "; no interval on this side lies wholly beyond the recommended one's"
        )
        told.append(f"{sentence}{clear}.")
    return told


def _side(
    name: str, chosen: Mapping[str, Any], beyond: Sequence[Mapping[str, Any]], recommendation: Recommendation
) -> FailureSide:
    worse, near, far = (-1.0, "high", "low") if recommendation.get("direction") == "maximize" else (1.0, "low", "high")
    limit = finite(chosen.get(far))
    clear = [
        limit is not None and (end := finite(entry.get(near))) is not None and worse * (end - limit) > 0
        for entry in beyond
    ]
    first = clear.index(True) if True in clear else None
    neighbours = [chosen, *beyond]
    return FailureSide(
        name=name,
        end=allocation_of(beyond[-1]) or (0, 0),
        loss=worse * (float(beyond[-1]["mean"]) - float(chosen["mean"])),
        clear_from=None if first is None else head_dim_of(beyond[first]),
        beside=None if first is None else head_dim_of(neighbours[first]),
    )
