"""Theorem 7.1 held against simulated noise: structured weights, best head first, and minimum-variance weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from archopt.laboratory.design import Design, draw_design, noise_draws
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure, smoother_blocks
from archopt.laboratory.setting import BEST, Setting
from archopt.laboratory.verdict import UNDECIDED, Finding, judge, mean_interval
from archopt.theory.arrays import Array
from archopt.theory.ensemble import head_error_covariance, head_smoothers
from archopt.theory.weighting import error_covariance, head_weights, heads_by_quality, minimum_variance_weights

_DRAWS = 8  # of the noise on every design
_ROWS = 200  # whose own row is left out to estimate the heads' errors
_OCTAVES = range(-3, 4)  # of temperature around the best for uniform weights: every scheme gets its own best


def _structured(scheme: str) -> Callable[[Array], Array]:
    def weights(covariance: Array) -> Array:
        placed = np.empty(len(covariance))
        placed[heads_by_quality(covariance)] = head_weights(scheme, len(covariance))
        return placed

    return weights


SCHEMES: Mapping[str, Callable[[Array], Array]] = {
    "uniform": _structured("uniform"),
    "geometric": _structured("geometric"),
    "fibonacci": _structured("fibonacci"),
    "minimum-variance": minimum_variance_weights,
}
"""From the heads' error covariance, estimated on left-out rows, to their weights."""


@dataclass(frozen=True)
class WeightingErrors:
    """Integrated errors by scheme.

    Args:
        mse: scheme to shape (replicates,), each the mean over draws of the noise.
        quality_spread: error of the worst head over that of the best, exact, mean over replicates.
    """

    mse: Mapping[str, Array]
    quality_spread: float


def measure_weightings(setting: Setting) -> WeightingErrors:
    """Every scheme on the same designs, noise and heads; order and covariance come from left-out rows, not the truth.

    Each training row's error is that of the average without it, so the rows that decide the weights do not train the
    heads that are judged by them; the error that is reported is at query points against the true function.

    Args:
        setting: with H of at least 2. Where its temperature is "best", every scheme gets the best of its own.
    """
    by_replicate = [weighting_errors(setting, replicate) for replicate in range(setting.replicates)]
    mse = {scheme: np.array([errors[scheme] for errors, _ in by_replicate]) for scheme in SCHEMES}
    return WeightingErrors(mse, float(np.mean([spread for _, spread in by_replicate])))


def weighting_errors(setting: Setting, replicate: int) -> tuple[dict[str, float], float]:
    """One replicate of :func:`measure_weightings`.

    Returns:
        Integrated error by scheme, and the error of the worst head over that of the best (exact).
    """
    design = draw_design(setting, replicate)
    heads = orthogonal_heads(design.axes, setting.n_heads)
    centre = measure(setting, design, heads).temperature
    octaves = _OCTAVES if setting.temperature == BEST else (0,)
    noise = noise_draws(setting, replicate, setting.n_samples, _DRAWS)
    tried = [_errors(setting, design, heads, centre * 2.0**octave, noise) for octave in octaves]
    errors = {scheme: min(errors[scheme] for errors in tried) for scheme in SCHEMES}
    return errors, _spread(setting, design, heads, centre)


def check_weighting(setting: Setting, errors: WeightingErrors, *, confidence: float) -> tuple[Finding, ...]:
    """Whether each scheme beats uniform weights in this setting.

    Args:
        setting: what was measured.
        errors: from :func:`measure_weightings`.
        confidence: of each interval.
    """
    uniform = errors.mse["uniform"]
    findings = []
    for scheme, values in errors.mse.items():
        if scheme == "uniform":
            continue
        origin: Literal["Stated", "Ours"] = "Ours" if scheme == "minimum-variance" else "Stated"
        change = mean_interval((values - uniform) / uniform.mean(), confidence=confidence)
        same = bool((values == uniform).all())  # Fibonacci at H = 2 is uniform: equal is not better
        findings.append(
            Finding(
                theorem="7.1",
                origin=origin,
                claim=f"{scheme} weights beat uniform ones here",
                predicted="an error below that of uniform weights",
                measured=(
                    f"MSE {values.mean():.4f} against {uniform.mean():.4f}: {change.estimate:+.1%} ± "
                    f"{change.standard_error:.1%}"
                ),
                quantity=f"relative change of the MSE from uniform to {scheme}",
                interval=change,
                allowed=(-inf, 0.0),
                verdict=UNDECIDED if same else judge(change, (-inf, 0.0)),
                note=f"the worst head's error is {errors.quality_spread:.2f} times the best's; the theorem says 'can'",
                rows=({"scheme": scheme, "mse": float(values.mean()), "uniform_mse": float(uniform.mean())},),
            )
        )
    return tuple(findings)


def _errors(setting: Setting, design: Design, heads: Array, temperature: float, noise: Array) -> dict[str, float]:
    """Mean over draws of the noise of every scheme's integrated squared error."""
    rows = np.arange(min(_ROWS, setting.n_samples), dtype=np.intp)
    targets = (design.truth_at_inputs + noise).T  # (n, draws)

    def estimates_at(points: Array, own_rows: NDArray[np.intp] | None) -> Array:  # (H, points, draws)
        blocks = smoother_blocks(setting, heads, points, design.inputs, temperature, own_rows)
        return np.concatenate([smoothers @ targets for _, smoothers in blocks], axis=1)

    estimates = estimates_at(design.queries, None)
    left_out = estimates_at(design.inputs[rows], rows)
    errors = left_out - targets[rows]
    totals = dict.fromkeys(SCHEMES, 0.0)
    for draw in range(noise.shape[0]):
        covariance = error_covariance(errors[:, :, draw])
        for scheme, weigh in SCHEMES.items():
            error = weigh(covariance) @ estimates[:, :, draw] - design.truth_at_queries
            totals[scheme] += float((error**2).mean()) / noise.shape[0]
    return totals


def _spread(setting: Setting, design: Design, heads: Array, temperature: float) -> float:
    smoothers = head_smoothers(heads, design.queries, design.inputs, kernel=setting.kernel, temperature=temperature)
    own = np.diag(
        head_error_covariance(smoothers, design.truth_at_inputs, design.truth_at_queries, setting.noise_variance)
    )
    return float(own.max() / own.min()) if own.min() > 0.0 else inf
