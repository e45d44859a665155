"""Theorem 6.1 held against exact errors: how the best head width grows with n, and the best number of heads with D."""

from dataclasses import dataclass
from math import log, log2
from typing import Any, Literal

import numpy as np

from archopt.allocation import divisors
from archopt.laboratory.design import draw_design
from archopt.laboratory.functions import FUNCTIONS
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure
from archopt.laboratory.setting import Setting
from archopt.laboratory.verdict import NOT_MEASURED, UNDECIDED, Finding, Interval, judge
from archopt.laboratory.vertex import Vertex, best_head_dim
from archopt.theory.arrays import Array

MARGIN = 0.1  # of an exponent
MOST_CENSORED = 0.05  # share of resamples with the optimum on the edge, above which a vertex is not believed
_LEAST_SAMPLES = 10
_LADDER = (16, 4, 1)


@dataclass(frozen=True)
class WidthCurve:
    """Exact errors of every split of one width at one n.

    Args:
        n_samples, d_model: n and D.
        head_dims: the divisors of D, rising.
        errors: integrated MSE, shape (replicates, divisors).
        vertex: the best head width.
    """

    n_samples: int
    d_model: int
    head_dims: tuple[int, ...]
    errors: Array
    vertex: Vertex


def measure_width_curve(setting: Setting, *, n_samples: int, d_model: int) -> WidthCurve:
    """Orthogonal heads, uniform weights, every divisor of D as head width.

    Args:
        setting: everything but n, D and H.
        n_samples, d_model: n and D.
    """
    head_dims = divisors(d_model)
    errors = np.empty((setting.replicates, len(head_dims)))
    for replicate in range(setting.replicates):
        design = draw_design(setting, replicate, n_samples=n_samples, d_model=d_model)
        for column, head_dim in enumerate(head_dims):
            heads = orthogonal_heads(design.axes, d_model // head_dim)
            errors[replicate, column] = measure(setting, design, heads).mse.mse
    vertex = best_head_dim(errors, head_dims, seed=setting.seed)
    return WidthCurve(n_samples, d_model, tuple(head_dims), errors, vertex)


def check_allocation(setting: Setting, *, confidence: float) -> tuple[Finding, ...]:
    """d_k* ~ (log n)^{2/(2 beta + d)} (stated for beta = 2) and as a power of n (ours); H* nearly linear in D.

    Args:
        setting: its H plays no part.
        confidence: of each interval.
    """
    ladder = sorted({max(_LEAST_SAMPLES, setting.n_samples // divisor) for divisor in _LADDER})
    curves = [measure_width_curve(setting, n_samples=n, d_model=setting.d_model) for n in ladder]
    findings = [growth_with_samples(setting, curves, law, confidence=confidence) for law in ("log", "power")]
    if setting.d_model % 2 == 0:
        half = measure_width_curve(setting, n_samples=ladder[-1], d_model=setting.d_model // 2)
        findings.append(growth_with_width(setting, half, curves[-1], confidence=confidence))
    return tuple(findings)


def growth_with_samples(
    setting: Setting, curves: list[WidthCurve], law: Literal["log", "power"], *, confidence: float
) -> Finding:
    """The exponent of log n (or of n) in the best head width, against 2/(2 beta + d).

    Args:
        setting: function and intrinsic dimension.
        curves: one D, rising n.
        law: "log" (stated) or "power" (ours).
        confidence: of the interval, from resampled replicates.
    """
    exponent = 2.0 / (2.0 * FUNCTIONS[setting.function].smoothness + setting.intrinsic_dim)
    scale = [log2(log(curve.n_samples)) if law == "log" else log2(curve.n_samples) for curve in curves]
    base = "log n" if law == "log" else "n"
    return _growth(
        curves,
        scale,
        origin="Stated" if law == "log" else "Ours",
        claim=f"the best head_dim grows like ({base})^(2/(2 beta + d))",
        predicted=f"exponent {exponent:.3f} ± {MARGIN:g}",
        quantity=f"exponent of {base}",
        allowed=(exponent - MARGIN, exponent + MARGIN),
        confidence=confidence,
        heads=False,
    )


def growth_with_width(setting: Setting, narrow: WidthCurve, wide: WidthCurve, *, confidence: float) -> Finding:
    """The exponent of D in the best number of heads, against "nearly linear".

    The bound of theory.scaling gives (d+4)/(d+6) for uncorrelated heads and 1 for fully correlated ones: between
    them, and ``MARGIN`` beyond, is called nearly linear.

    Args:
        setting: its intrinsic dimension.
        narrow, wide: one n, two D.
        confidence: of the interval, from resampled replicates.
    """
    d = setting.intrinsic_dim
    low, high = (d + 4.0) / (d + 6.0), 1.0
    return _growth(
        [narrow, wide],
        [log2(narrow.d_model), log2(wide.d_model)],
        origin="Stated",
        claim="the best number of heads grows nearly linearly with D",
        predicted=f"exponent {low:.2f} to {high:.2f}, ± {MARGIN:g}",
        quantity="exponent of D",
        allowed=(low - MARGIN, high + MARGIN),
        confidence=confidence,
        heads=True,
    )


def _growth(
    curves: list[WidthCurve],
    scale: list[float],
    *,
    origin: Literal["Stated", "Ours"],
    claim: str,
    predicted: str,
    quantity: str,
    allowed: tuple[float, float],
    confidence: float,
    heads: bool,
) -> Finding:
    rows = tuple(_row(curve) for curve in curves)
    censored = [curve for curve in curves if curve.vertex.edge_share > MOST_CENSORED]
    reason = ""
    if len(curves) < 2:
        interval, reason = NOT_MEASURED, "one size is no growth: n must be larger"
    else:
        interval = _slope(curves, scale, confidence, heads)
    if censored:
        places = ", ".join(f"n = {curve.n_samples:,}, D = {curve.d_model}" for curve in censored)
        reason = f"the best head_dim lies on the edge of what D allows at {places}: censored, its growth is not seen"
    best = ", ".join(
        f"{curve.vertex.head_dim:.1f} (± {curve.vertex.standard_error:.2f} octaves) at n = {curve.n_samples:,}, "
        f"D = {curve.d_model}"
        for curve in curves
    )
    return Finding(
        theorem="6.1",
        origin=origin,
        claim=claim,
        predicted=predicted,
        measured=f"best head_dim {best}; exponent {interval.estimate:.2f} ± {interval.standard_error:.2f}",
        quantity=quantity,
        interval=interval,
        allowed=allowed,
        verdict=UNDECIDED if reason else judge(interval, allowed),
        note=reason or "an asymptotic statement, seen between these sizes only",
        rows=rows,
    )


def _slope(curves: list[WidthCurve], scale: list[float], confidence: float, heads: bool) -> Interval:
    """Least-squares slope of log2 d_k* (or of log2 H*) on ``scale``, with an interval from resampled replicates."""
    x = np.asarray(scale) - np.mean(scale)

    def slope(log2_head_dim: Array) -> Array:  # (curves, ...)
        widths = np.log2([curve.d_model for curve in curves]).reshape(-1, *[1] * (log2_head_dim.ndim - 1))
        values = widths - log2_head_dim if heads else log2_head_dim
        return np.asarray(np.tensordot(x, values, axes=1) / (x @ x))

    estimate = float(slope(np.array([curve.vertex.log2_head_dim for curve in curves])))
    resampled = slope(np.array([curve.vertex.resampled for curve in curves]))
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(resampled, [tail, 1.0 - tail])
    return Interval(estimate, float(resampled.std(ddof=1)), float(low), float(high))


def _row(curve: WidthCurve) -> dict[str, Any]:
    means = curve.errors.mean(axis=0)
    errors = curve.errors.std(axis=0, ddof=1) / len(curve.errors) ** 0.5
    return {
        "n_samples": curve.n_samples,
        "d_model": curve.d_model,
        "best_head_dim": curve.vertex.head_dim,
        "best_head_dim_se_octaves": curve.vertex.standard_error,
        "edge_share": curve.vertex.edge_share,
        "mse": {str(k): float(value) for k, value in zip(curve.head_dims, means, strict=True)},
        "mse_se": {str(k): float(value) for k, value in zip(curve.head_dims, errors, strict=True)},
    }
