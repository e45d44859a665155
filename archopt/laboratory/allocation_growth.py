"""Theorem 6.1 held against exact errors: how the best head width grows with n, and the best number of heads with D."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, log2
from typing import Any, Literal

import numpy as np

from archopt.allocation import divisors
from archopt.laboratory.design import draw_design
from archopt.laboratory.functions import FUNCTIONS
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure
from archopt.laboratory.setting import BEST, LITERAL, Setting
from archopt.laboratory.verdict import NOT_MEASURED, UNDECIDED, Finding, Interval, judge, nothing_to_measure
from archopt.laboratory.vertex import Vertex, best_head_dim, resampled_sd
from archopt.theory.arrays import Array

MOST_CENSORED = 0.05  # share of resamples with the optimum on the edge, above which a vertex is not believed
WIDTH_MARGIN = 0.1  # of the exponent of D
LEAST_REPLICATES = 10  # below, the bootstrap's standard errors are not worth much
_LEAST_SAMPLES = 10
_LADDER = (16, 4, 1)
_STATED_SMOOTHNESS = 2.0


@dataclass(frozen=True)
class WidthCurve:
    """Exact errors of every split of one width at one n.

    Args:
        n_samples, d_model: n and D.
        head_dims: the divisors of D, rising.
        errors: integrated MSE, shape (replicates, divisors).
        neighbours: effective number of neighbours, mean over replicates, shape (divisors,).
        vertex: the best head width.
    """

    n_samples: int
    d_model: int
    head_dims: tuple[int, ...]
    errors: Array
    neighbours: Array
    vertex: Vertex


def measure_width_curve(setting: Setting, *, n_samples: int, d_model: int) -> WidthCurve:
    """Orthogonal heads, uniform weights, every divisor of D as head width.

    Args:
        setting: everything but n, D and H.
        n_samples, d_model: n and D.
    """
    head_dims = divisors(d_model)
    errors = np.empty((setting.replicates, len(head_dims)))
    neighbours = np.empty_like(errors)
    for replicate in range(setting.replicates):
        design = draw_design(setting, replicate, n_samples=n_samples, d_model=d_model)
        for column, head_dim in enumerate(head_dims):
            found = measure(setting, design, orthogonal_heads(design.axes, d_model // head_dim))
            errors[replicate, column], neighbours[replicate, column] = found.mse.mse, found.neighbours
    vertex = best_head_dim(errors, head_dims, seed=setting.seed)
    return WidthCurve(n_samples, d_model, tuple(head_dims), errors, neighbours.mean(axis=0), vertex)


def check_allocation(setting: Setting, *, confidence: float) -> tuple[Finding, ...]:
    """d_k* ~ (log n)^{2/(2 beta + d)} (6.1), the same power of n (6.2), and H* nearly linear in D.

    The theorem is about heads of bandwidth 1/sqrt(d_k). So a setting with the best temperature is looked at twice: as
    the theorem has it, and at the best temperature, which takes the bandwidth out of d_k's hands. In which units the
    bandwidth is meant is not stated: ours are keys of unit variance, and the exponent depends on that.

    Args:
        setting: its H plays no part.
        confidence: of all intervals together.
    """
    sizes = {setting.n_samples // divisor for divisor in _LADDER}
    ladder = sorted(size for size in sizes if size >= _LEAST_SAMPLES)
    rules: tuple[float | str, ...] = (setting.temperature,)
    if setting.temperature == BEST and setting.kernel == "gaussian":
        rules = (LITERAL, BEST)
    even = setting.d_model % 2 == 0
    joint = 1.0 - (1.0 - confidence) / (len(rules) * (3 if even else 2))
    findings: list[Finding] = []
    for rule in rules:
        ruled = replace(setting, temperature=rule)
        curves = [
            measure_width_curve(ruled, n_samples=n, d_model=setting.d_model) for n in ladder or [setting.n_samples]
        ]
        findings += [growth_with_samples(ruled, curves, law, confidence=joint) for law in ("log", "power")]
        if even:
            half = measure_width_curve(ruled, n_samples=curves[-1].n_samples, d_model=setting.d_model // 2)
            findings.append(growth_with_width(ruled, half, curves[-1], confidence=joint))
    return tuple(findings)


def growth_with_samples(setting: Setting, curves: Sequence[WidthCurve], law: str, *, confidence: float) -> Finding:
    """The exponent of log n (or of n) in the best head width, against 2/(2 beta + d), give or take half of it.

    Args:
        setting: function, intrinsic dimension, and the rule for the temperature.
        curves: one D, rising n.
        law: "log" (stated for beta = 2 and the literal bandwidth) or "power" (ours).
        confidence: of the interval.
    """
    beta = FUNCTIONS[setting.function].smoothness
    exponent = 2.0 / (2.0 * beta + setting.intrinsic_dim)  # (6.1)
    sizes = [log(curve.n_samples) if law == "log" else curve.n_samples for curve in curves]
    stated = law == "log" and beta == _STATED_SMOOTHNESS and setting.temperature == LITERAL
    base = "log n" if law == "log" else "n"
    claim = f"the best head_dim grows like {'(log n)' if law == 'log' else 'n'}^(2/(2 beta + d)), {_rule(setting)}"
    if len(curves) < 2:
        least = _LADDER[-2] * _LEAST_SAMPLES
        reason = (
            f"n_samples = {curves[-1].n_samples} is one size: with at least {least} a quarter of them is looked at too"
        )
        return nothing_to_measure("6.1", "Stated" if stated else "Ours", claim, reason)
    return _growth(
        curves,
        [log2(size) for size in sizes],
        origin="Stated" if stated else "Ours",
        claim=claim,
        predicted=f"exponent {exponent:.3f}, give or take half",
        quantity=f"exponent of {base}",
        allowed=(0.5 * exponent, 1.5 * exponent),
        confidence=confidence,
        heads=False,
    )


def growth_with_width(setting: Setting, narrow: WidthCurve, wide: WidthCurve, *, confidence: float) -> Finding:
    """The exponent of D in the best number of heads, against "nearly linear".

    What counts as that is ours: from the bound's (2 beta + d)/(2 beta + d + 2) for uncorrelated heads to its 1 for
    fully correlated ones, and ``WIDTH_MARGIN`` beyond.

    Args:
        setting: function, intrinsic dimension, and the rule for the temperature.
        narrow, wide: one n, two D.
        confidence: of the interval.
    """
    beta = FUNCTIONS[setting.function].smoothness
    power = 2.0 * beta + setting.intrinsic_dim
    low, high = power / (power + 2.0), 1.0  # (6.4) at rho = 0 and 1
    stated = beta == _STATED_SMOOTHNESS and setting.temperature == LITERAL
    return _growth(
        [narrow, wide],
        [log2(narrow.d_model), log2(wide.d_model)],
        origin="Stated" if stated else "Ours",
        claim=f"the best number of heads grows nearly linearly with D, {_rule(setting)}",
        predicted=f"exponent {low:.2f} to {high:.2f}, give or take {WIDTH_MARGIN:g} (this range is ours)",
        quantity="exponent of D",
        allowed=(low - WIDTH_MARGIN, high + WIDTH_MARGIN),
        confidence=confidence,
        heads=True,
    )


def _rule(setting: Setting) -> str:
    if setting.temperature == LITERAL:
        return "with bandwidth 1/sqrt(d_k)"
    return "at the best temperature" if setting.temperature == BEST else f"at temperature {setting.temperature:g}"


def _growth(
    curves: Sequence[WidthCurve],
    scale: Sequence[float],
    *,
    origin: Literal["Stated", "Ours"],
    claim: str,
    predicted: str,
    quantity: str,
    allowed: tuple[float, float],
    confidence: float,
    heads: bool,
) -> Finding:
    interval = _slope(curves, scale, confidence, heads)
    best = ", ".join(
        f"{curve.vertex.head_dim:.1f} (± {curve.vertex.standard_error:.2f} octaves) at {_place(curve)}"
        for curve in curves
    )
    measured, reason = f"best head_dim {best}; exponent {interval.estimate:.2f} ± {interval.standard_error:.2f}", ""
    censored = [_place(curve) for curve in curves if curve.vertex.edge_share > MOST_CENSORED]
    if censored:
        # The exponent of an optimum that is not seen would be a figure without meaning.
        measured, interval = f"best head_dim {best}", NOT_MEASURED
        reason = f"the best head_dim lies on the edge of what D allows at {', '.join(censored)}: its growth is not seen"
    elif len(curves[0].errors) < LEAST_REPLICATES:
        reason = f"standard errors need at least {LEAST_REPLICATES} replicates but there are {len(curves[0].errors)}"
    return Finding(
        theorem="6.1",
        origin=origin,
        claim=claim,
        predicted=predicted,
        measured=measured,
        quantity=quantity,
        interval=interval,
        allowed=allowed,
        verdict=UNDECIDED if reason else judge(interval, allowed),
        note=reason
        or "an asymptotic statement, seen between these sizes only; bandwidths are for keys of unit variance",
        rows=tuple(_row(curve) for curve in curves),
    )


def _place(curve: WidthCurve) -> str:
    return f"n = {curve.n_samples:,}, D = {curve.d_model}"


def _slope(curves: Sequence[WidthCurve], scale: Sequence[float], confidence: float, heads: bool) -> Interval:
    """Least-squares slope of log2 d_k* (or of log2 H*) on ``scale``.

    The interval is Student's over replicates with the bootstrap's standard error (percentiles of few replicates are
    too narrow), widened by how far the slope moves when vertices are found from twice as many widths.
    """
    from scipy.stats import t

    x = np.asarray(scale) - np.mean(scale)

    def slope(log2_head_dim: Array) -> Array:  # (curves, ...)
        widths = np.log2([curve.d_model for curve in curves]).reshape(-1, *[1] * (log2_head_dim.ndim - 1))
        values = widths - log2_head_dim if heads else log2_head_dim
        return np.asarray(np.tensordot(x, values, axes=1) / (x @ x))

    estimate = float(slope(np.array([curve.vertex.log2_head_dim for curve in curves])))
    shape = abs(float(slope(np.array([curve.vertex.wider for curve in curves]))) - estimate)
    replicates = curves[0].vertex.n_replicates
    standard_error = resampled_sd(slope(np.array([curve.vertex.resampled for curve in curves])), replicates)
    reach = standard_error * float(t.ppf(0.5 + confidence / 2.0, replicates - 1)) + shape
    return Interval(estimate, standard_error, estimate - reach, estimate + reach)


def _row(curve: WidthCurve) -> dict[str, Any]:
    errors = curve.errors.std(axis=0, ddof=1) / len(curve.errors) ** 0.5

    def by_width(values: Array) -> dict[str, float]:
        return {str(width): float(value) for width, value in zip(curve.head_dims, values, strict=True)}

    return {
        "n_samples": curve.n_samples,
        "d_model": curve.d_model,
        "best_head_dim": curve.vertex.head_dim,
        "best_head_dim_se_octaves": curve.vertex.standard_error,
        "edge_share": curve.vertex.edge_share,
        "mse": by_width(curve.errors.mean(axis=0)),
        "mse_se": by_width(errors),
        "neighbours": by_width(curve.neighbours),
    }
