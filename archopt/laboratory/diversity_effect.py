"""Theorems 4.2 and 5.1 held against exact errors: what happens to the error as the same heads are turned apart."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import inf, pi

import numpy as np

from archopt.laboratory.design import Design, draw_design, filled_directions
from archopt.laboratory.heads import independent_heads, rotated_heads
from archopt.laboratory.measurement import Measurement, measure
from archopt.laboratory.setting import Setting
from archopt.laboratory.verdict import Finding, Interval, deciding, judge, relative_change, signed_percent
from archopt.theory.arrays import Array
from archopt.theory.diversity import head_diversity_index

DOES_NOT_RISE = "the error does not rise as the heads' diversity (HDI) rises"
LEAST_IF_ORTHOGONAL = "the error is least when heads are orthogonal"
MARGIN = 0.01  # of the MSE: a rise by less is called none
ANGLES_DEGREES = (0, 30, 45, 60, 75, 90)  # 0: identical heads, 90: orthogonal ones
INDEPENDENT = "independent"
_INDEPENDENT_STREAM = 101


@dataclass(frozen=True)
class DiversityLevel:
    """The same replicates at one diversity.

    Args:
        name: the angle between heads, "45 degrees", or "independent" (random heads, as before any training).
        hdi: subspace form, one per replicate.
        measurements: one per replicate.
    """

    name: str
    hdi: tuple[float, ...]
    measurements: tuple[Measurement, ...]

    @property
    def mse(self) -> Array:
        """Shape (replicates,)."""
        return np.array([measurement.mse.mse for measurement in self.measurements])


def diversity_heads(setting: Setting, design: Design, replicate: int) -> Mapping[str, Array]:
    """Key projections (H, D, d_k) by name of the level: turned apart by every angle, and independent random ones."""
    turned = {
        f"{degrees} degrees": rotated_heads(design.axes, setting.n_heads, degrees * pi / 180.0)
        for degrees in ANGLES_DEGREES
    }
    random = np.random.default_rng([setting.seed, replicate, _INDEPENDENT_STREAM])
    return {**turned, INDEPENDENT: independent_heads(setting.d_model, setting.n_heads, random)}


def measure_diversity_levels(setting: Setting) -> tuple[DiversityLevel, ...]:
    """Exact errors on every replicate, from identical heads to orthogonal ones; last, independent random heads.

    Args:
        setting: with H of at least 2.
    """
    hdi: dict[str, list[float]] = {}
    measured: dict[str, list[Measurement]] = {}
    for replicate in range(setting.replicates):
        design = draw_design(setting, replicate)
        for name, heads in diversity_heads(setting, design, replicate).items():
            hdi.setdefault(name, []).append(head_diversity_index(heads))
            measured.setdefault(name, []).append(measure(setting, design, heads))
    return tuple(DiversityLevel(name, tuple(hdi[name]), tuple(measured[name])) for name in hdi)


def check_diversity(
    setting: Setting, levels: Sequence[DiversityLevel], *, confidence: float
) -> tuple[Finding, Finding]:
    """Theorem 4.2 (the error never rises with HDI) and Theorem 5.1 (it is least for orthogonal heads).

    A rise by less than ``MARGIN`` of the error counts as none. Replicates are paired: what is compared is the same
    design with the same axes.

    Args:
        setting: with H of at least 2.
        levels: from :func:`measure_diversity_levels`.
        confidence: of all intervals of one theorem together.
    """
    *path, independent = levels
    allowed = (-inf, MARGIN)
    rows = tuple(_row(level) for level in levels)

    steps = list(pairwise(path))
    rises = [_change(low, high, confidence, len(steps)) for low, high in steps]
    step = deciding(rises, allowed)
    (start, end), rise = steps[step], rises[step]
    monotone = Finding(
        theorem="4.2",
        origin="Stated",
        claim=DOES_NOT_RISE,
        predicted=f"no rise above {MARGIN:.0%} at any step from HDI {_hdi(path[0]):.2f} to {_hdi(path[-1]):.2f}",
        measured=(
            f"MSE {_mean(path[0])} at HDI {_hdi(path[0]):.2f}, {_mean(path[-1])} at {_hdi(path[-1]):.2f}; the step "
            f"that decides: {signed_percent(rise.estimate)} ± {rise.standard_error:.1%}, from "
            f"{_hdi(start):.2f} to {_hdi(end):.2f}"
        ),
        quantity=f"relative change of the MSE from {start.name} to {end.name} between heads",
        interval=rise,
        allowed=allowed,
        verdict=judge(rise, allowed),
        note=_note(setting, path, rows[0], rows[-2]),
        rows=rows + tuple(_step(low, high, change) for (low, high), change in zip(steps, rises, strict=True)),
    )

    orthogonal, others = path[-1], [*path[:-1], independent]
    losses = [_change(other, orthogonal, confidence, len(others)) for other in others]
    rival = deciding(losses, allowed)
    least = Finding(
        theorem="5.1",
        origin="Stated",
        claim=LEAST_IF_ORTHOGONAL,
        predicted=f"none of the heads tried is better by more than {MARGIN:.0%}",
        measured=(
            f"MSE {_mean(orthogonal)} orthogonal, {_mean(independent)} independent random; against the heads that "
            f"decide ({others[rival].name}): {signed_percent(losses[rival].estimate)} ± "
            f"{losses[rival].standard_error:.1%}"
        ),
        quantity=f"relative change of the MSE from {others[rival].name} to orthogonal heads",
        interval=losses[rival],
        allowed=allowed,
        verdict=judge(losses[rival], allowed),
        rows=rows + tuple(_step(other, orthogonal, loss) for other, loss in zip(others, losses, strict=True)),
    )
    return monotone, least


def _change(start: DiversityLevel, end: DiversityLevel, confidence: float, comparisons: int) -> Interval:
    return relative_change(start.mse, end.mse, confidence=confidence, comparisons=comparisons)


def _step(start: DiversityLevel, end: DiversityLevel, change: Interval) -> dict[str, object]:
    return {"from": start.name, "to": end.name, **asdict(change)}


def _row(level: DiversityLevel) -> dict[str, object]:
    terms = {
        name: float(np.mean([getattr(measurement.mse, name) for measurement in level.measurements]))
        for name in ("bias_squared", "variance", "covariance", "mse")
    }
    standard_error = float(level.mse.std(ddof=1)) / len(level.mse) ** 0.5
    neighbours = float(np.mean([measurement.neighbours for measurement in level.measurements]))
    return {"heads": level.name, "hdi": _hdi(level), **terms, "mse_se": standard_error, "neighbours": neighbours}


def _note(
    setting: Setting, path: Sequence[DiversityLevel], first: Mapping[str, object], last: Mapping[str, object]
) -> str:
    moves = ", ".join(
        f"{name} {first[key]:.3g} to {last[key]:.3g}"
        for name, key in (("bias^2", "bias_squared"), ("variance", "variance"), ("covariance", "covariance"))
    )
    filled = float(np.mean([filled_directions(draw_design(setting, r).inputs) for r in range(3)]))
    edge = float(np.mean([measurement.at_edge for level in path for measurement in level.measurements]))
    at_edge = f". {edge:.0%} of the temperatures lie at the edge of what was looked at" if edge > 0.0 else ""
    directions = f"The inputs fill about {filled:.0f} of {setting.d_model} directions"
    return f"from identical to orthogonal: {moves}. {directions}{at_edge}"


def _hdi(level: DiversityLevel) -> float:
    return float(np.mean(level.hdi))


def _mean(level: DiversityLevel) -> str:
    return f"{level.mse.mean():.4g}"
