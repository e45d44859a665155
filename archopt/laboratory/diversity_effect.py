"""Theorems 4.2 and 5.1 held against exact errors: what happens to the error as the same heads are turned apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, pi

import numpy as np

from archopt.laboratory.design import Design, draw_design, filled_directions
from archopt.laboratory.heads import independent_heads, rotated_heads
from archopt.laboratory.measurement import Measurement, measure
from archopt.laboratory.setting import Setting
from archopt.laboratory.verdict import NOT_MEASURED, UNDECIDED, Finding, judge_all, mean_interval
from archopt.theory.arrays import Array
from archopt.theory.diversity import head_diversity_index

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
        f"{angle} degrees": rotated_heads(design.axes, setting.n_heads, angle * pi / 180.0) for angle in ANGLES_DEGREES
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
    design with the same rotation.

    Args:
        setting: with H of at least 2.
        levels: from :func:`measure_diversity_levels`.
        confidence: of all intervals of one theorem together.
    """
    *path, independent = levels
    allowed = (-inf, MARGIN)
    rises = [
        mean_interval((high.mse - low.mse) / low.mse.mean(), confidence=confidence, comparisons=len(path) - 1)
        for low, high in pairwise(path)
    ]
    steepest = int(np.argmax([rise.estimate for rise in rises]))
    rows = tuple(_row(level) for level in levels)
    monotone = Finding(
        theorem="4.2",
        origin="Stated",
        claim="the error does not rise as the heads' diversity (HDI) rises",
        predicted=f"no rise above {MARGIN:.0%} at any step from HDI {rows[0]['hdi']:.2f} to {rows[-2]['hdi']:.2f}",
        measured=(
            f"MSE {_mean(path[0])} at HDI {rows[0]['hdi']:.2f}, {_mean(path[-1])} at {rows[-2]['hdi']:.2f}; "
            f"steepest step {rises[steepest].estimate:+.1%} ± {rises[steepest].standard_error:.1%}, from "
            f"{rows[steepest]['hdi']:.2f} to {rows[steepest + 1]['hdi']:.2f}"
        ),
        quantity="relative change of the MSE at the steepest step",
        interval=rises[steepest],
        allowed=allowed,
        verdict=judge_all(rises, allowed),
        note=_note(setting, path),
        rows=rows,
    )
    orthogonal = path[-1]
    others = [*path[:-1], independent]
    losses = [
        mean_interval((orthogonal.mse - other.mse) / other.mse.mean(), confidence=confidence, comparisons=len(others))
        for other in others
    ]
    closest = int(np.argmax([loss.estimate for loss in losses]))
    least = Finding(
        theorem="5.1",
        origin="Stated",
        claim="the error is least when heads are orthogonal",
        predicted=f"no other heads better by more than {MARGIN:.0%}",
        measured=(
            f"MSE {_mean(orthogonal)} orthogonal, {_mean(independent)} independent random; orthogonal against the best "
            f"others ({others[closest].name}): {losses[closest].estimate:+.1%} ± {losses[closest].standard_error:.1%}"
        ),
        quantity="MSE of orthogonal heads relative to the best others, minus 1",
        interval=losses[closest],
        allowed=allowed,
        verdict=judge_all(losses, allowed),
        rows=rows,
    )
    return monotone, least


def one_head(theorem: str, claim: str) -> Finding:
    """The answer where there is one head: it has no pairs, hence neither diversity nor weighting."""
    return Finding(
        theorem, "Stated", claim, "nothing: one head has no pairs", "nothing to measure at H = 1", "", NOT_MEASURED,
        (-inf, inf), UNDECIDED,
    )  # fmt: skip


def _row(level: DiversityLevel) -> dict[str, object]:
    terms = {
        name: float(np.mean([getattr(measurement.mse, name) for measurement in level.measurements]))
        for name in ("bias_squared", "variance", "covariance", "mse")
    }
    standard_error = float(level.mse.std(ddof=1)) / len(level.mse) ** 0.5
    return {"heads": level.name, "hdi": float(np.mean(level.hdi)), **terms, "mse_se": standard_error}


def _note(setting: Setting, path: Sequence[DiversityLevel]) -> str:
    first, last = _row(path[0]), _row(path[-1])
    moves = ", ".join(
        f"{name} {first[key]:.4f} to {last[key]:.4f}"
        for name, key in (("bias^2", "bias_squared"), ("variance", "variance"), ("covariance", "covariance"))
    )
    filled = float(np.mean([filled_directions(draw_design(setting, r).inputs) for r in range(3)]))
    return f"from identical to orthogonal: {moves}. The inputs fill about {filled:.0f} of {setting.d_model} directions"


def _mean(level: DiversityLevel) -> str:
    return f"{level.mse.mean():.4f}"
