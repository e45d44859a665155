"""Theorem 3.1 held against simulated noise: the exact three terms, and the error against the true function."""

from dataclasses import replace
from typing import Any

import numpy as np

from archopt.laboratory.design import draw_design, noise_draws
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure
from archopt.laboratory.setting import Setting
from archopt.laboratory.temperatures import smoother_blocks
from archopt.laboratory.verdict import Finding, Interval, deciding, judge
from archopt.theory.ensemble import EstimatedMSE, IntegratedMSE, ensemble_mse_from_draws

MARGIN = 0.05  # of each term
_DRAWS = 10_000
_ROUNDING = 1e-20  # of the MSE, a square: what rounding of values near 1 can look like over many draws
_MOST_NUMBERS = 50_000_000  # in one array: 400 MB
_TERMS = {"bias^2": "bias_squared", "variance": "variance", "covariance": "covariance", "MSE": "mse"}


def check_decomposition(setting: Setting, *, confidence: float, draws: int | None = None) -> Finding:
    """(3.1) with its terms computed by (3.1a-c) from the smoothers and sigma^2, without any draw.

    Every term, and the left side, is estimated from targets y = m + noise drawn anew, with the MSE taken against m and
    not against y. From one set of draws alone the equation is algebra and would prove nothing.

    Args:
        setting: its first replicate's design is used.
        confidence: of the four intervals together.
        draws: of the training noise; as many as memory allows, at most 10,000, when left out.
    """
    from scipy.stats import t

    if draws is None:
        draws = min(_DRAWS, _MOST_NUMBERS // setting.n_samples)
    most_queries = max(1, _MOST_NUMBERS // (draws * setting.n_heads))
    design = draw_design(replace(setting, n_queries=min(setting.n_queries, most_queries)), 0)
    heads = orthogonal_heads(design.axes, setting.n_heads)
    exact = measure(setting, design, heads)
    targets = (design.truth_at_inputs + noise_draws(setting, 0, setting.n_samples, draws)).T  # (n, R)
    estimates = np.empty((draws, setting.n_heads, len(design.queries)))
    temperature = np.array([exact.temperature])
    for points, _, smoothers in smoother_blocks(setting, heads, design.queries, design.inputs, temperature):
        estimates[:, :, points] = (smoothers @ targets).transpose(2, 0, 1)  # (1.1)
    drawn = ensemble_mse_from_draws(estimates, design.truth_at_queries)
    reach = float(t.ppf(1.0 - (1.0 - confidence) / (2.0 * len(_TERMS)), draws - 1))
    # One head has no covariance, and without noise there is none at all: rounding is not a size to compare with.
    rows = tuple(
        _row(name, exact.mse, drawn, reach)
        for name, term in _TERMS.items()
        if abs(getattr(exact.mse, term)) > _ROUNDING * exact.mse.mse
    )
    intervals = [Interval(row["difference"], row["difference_se"], row["low"], row["high"]) for row in rows]
    allowed = (-MARGIN, MARGIN)
    worst = deciding(intervals, allowed)
    return Finding(
        theorem="3.1",
        origin="Stated",
        claim="the error is squared bias + the heads' variances + their covariances",
        predicted=", ".join(f"{row['term']} {row['exact']:.4g}" for row in rows),
        measured=", ".join(f"{row['term']} {row['drawn']:.4g} ± {row['drawn_se']:.2g}" for row in rows),
        quantity=f"relative difference of the {rows[worst]['term']}",
        interval=intervals[worst],
        allowed=allowed,
        verdict=judge(intervals[worst], allowed),
        note=(
            f"predicted by our exact terms for linear smoothers; {draws:,} draws of the noise on one design, "
            f"{len(design.queries)} query points; effective neighbours {exact.neighbours:.1f} of {setting.n_samples:,}"
        ),
        rows=rows,
    )


def _row(name: str, exact: IntegratedMSE, drawn: EstimatedMSE, reach: float) -> dict[str, Any]:
    estimate, predicted = getattr(drawn, _TERMS[name]), float(getattr(exact, _TERMS[name]))
    difference, standard_error = estimate.value / predicted - 1.0, estimate.standard_error / abs(predicted)
    return {
        "term": name,
        "exact": predicted,
        "drawn": estimate.value,
        "drawn_se": estimate.standard_error,
        "difference": difference,
        "difference_se": standard_error,
        "low": difference - reach * standard_error,
        "high": difference + reach * standard_error,
    }
