"""Theorem 3.1 held against simulated noise: the exact three terms, and the error against the true function."""

from dataclasses import replace
from typing import Any

import numpy as np

from archopt.laboratory.design import draw_design, noise_draws
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure, smoother_blocks
from archopt.laboratory.setting import Setting
from archopt.laboratory.verdict import Finding, Interval, judge_all
from archopt.theory.ensemble import EstimatedMSE, IntegratedMSE, ensemble_mse_from_draws

MARGIN = 0.02  # of the MSE
_DRAWS = 2_000
_MOST_QUERIES = 100  # draws times heads times query points are in memory at once
_TERMS = ("bias_squared", "variance", "covariance", "mse")


def check_decomposition(setting: Setting, *, confidence: float, draws: int = _DRAWS) -> Finding:
    """MSE = (sum alpha b)^2 + sum alpha^2 V + sum alpha alpha C, with b = S m - m and C = sigma^2 S S'.

    The right side is computed from the smoothers and sigma^2, without any draw. The left side, and each term, is
    estimated from targets y = m + noise drawn anew, with the MSE taken against m and not against y. From one set of
    draws alone the equation is algebra and would prove nothing.

    Args:
        setting: its first replicate's design is used.
        confidence: of the four intervals together.
        draws: of the training noise.
    """
    from scipy.stats import norm

    design = draw_design(replace(setting, n_queries=min(setting.n_queries, _MOST_QUERIES)), 0)
    heads = orthogonal_heads(design.axes, setting.n_heads)
    exact = measure(setting, design, heads)
    targets = (design.truth_at_inputs + noise_draws(setting, 0, setting.n_samples, draws)).T  # (n, R)
    blocks = smoother_blocks(setting, heads, design.queries, design.inputs, exact.temperature)
    estimates = np.concatenate([smoothers @ targets for _, smoothers in blocks], axis=1).transpose(2, 0, 1)  # (R, H, m)
    drawn = ensemble_mse_from_draws(estimates, design.truth_at_queries)
    reach = float(norm.ppf(1.0 - (1.0 - confidence) / (2.0 * len(_TERMS))))
    rows = tuple(_row(term, exact.mse, drawn) for term in _TERMS)
    intervals = [
        Interval(row["difference"], row["standard_error"], row["difference"] - reach * row["standard_error"],
                 row["difference"] + reach * row["standard_error"])
        for row in rows
    ]  # fmt: skip
    allowed = (-MARGIN, MARGIN)
    worst = max(intervals, key=lambda interval: max(abs(interval.low), abs(interval.high)))
    return Finding(
        theorem="3.1",
        origin="Stated",
        claim="the error is squared bias + the heads' variances + their covariances",
        predicted=_terms(exact.mse),
        measured=", ".join(
            f"{name} {getattr(drawn, term).value:.4f} ± {getattr(drawn, term).standard_error:.4f}"
            for name, term in zip(("bias^2", "variance", "covariance", "MSE"), _TERMS, strict=True)
        ),
        quantity="largest difference of a term, as a share of the MSE",
        interval=worst,
        allowed=allowed,
        verdict=judge_all(intervals, allowed),
        note=f"{draws:,} draws of the noise on one design; effective neighbours {exact.neighbours:.0f}",
        rows=rows,
    )


def _row(term: str, exact: IntegratedMSE, drawn: EstimatedMSE) -> dict[str, Any]:
    estimate, predicted = getattr(drawn, term), float(getattr(exact, term))
    scale = exact.mse if exact.mse > 0.0 else 1.0
    return {
        "term": term,
        "exact": predicted,
        "drawn": estimate.value,
        "drawn_se": estimate.standard_error,
        "difference": (estimate.value - predicted) / scale,
        "standard_error": estimate.standard_error / scale,
    }


def _terms(mse: IntegratedMSE) -> str:
    parts = f"bias^2 {mse.bias_squared:.4f}, variance {mse.variance:.4f}, covariance {mse.covariance:.4f}"
    return f"{parts}, MSE {mse.mse:.4f}"
