"""Section 1 held against numbers: how the bandwidth of one head's kernel depends on its width."""

from math import log, sqrt
from typing import Any

import numpy as np

from archopt.allocation import divisors
from archopt.laboratory.design import draw_design
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.setting import BEST, Setting
from archopt.laboratory.verdict import NOT_MEASURED, UNDECIDED, Finding, judge, mean_interval
from archopt.theory.ensemble import attention_weights, effective_neighbours

MARGIN = 0.05  # of an exponent
STATED = -0.5  # h = 1 / sqrt(d_k)


def check_bandwidth(setting: Setting, *, confidence: float) -> Finding:
    """Stated: one head has bandwidth 1/sqrt(d_k). Measured: the kernel's bandwidth in units of the inputs.

    The kernel is exp(-|k - k'|^2 / (2 tau)) with tau = sqrt(d_k): bandwidth sqrt(tau) in units of the keys. Keys of
    orthonormal projections measure the inputs' distances times a factor s that grows like sqrt(d_k), so in the inputs'
    own units it is sqrt(tau) / s ~ d_k^{-1/4}. Only a temperature that falls like d_k^{-1/2} makes the stated one true.

    Args:
        setting: its temperature, or 1 where that is "best"; its H plays no part.
        confidence: of the interval.
    """
    claim, widths = "one head's bandwidth is 1/sqrt(d_k)", divisors(setting.d_model)
    if len(widths) < 2:
        return Finding("1", "Stated", claim, "exponent -0.5 of d_k", "D = 1 has one head width", "", NOT_MEASURED,
                       (STATED, STATED), UNDECIDED)  # fmt: skip
    temperature = 1.0 if setting.temperature == BEST else float(setting.temperature)
    log_bandwidths = np.empty((setting.replicates, len(widths)))
    neighbours = np.empty_like(log_bandwidths)
    for replicate in range(setting.replicates):
        design = draw_design(setting, replicate)
        differences = design.queries - design.inputs[np.arange(len(design.queries)) % len(design.inputs)]
        for column, head_dim in enumerate(widths):
            W = orthogonal_heads(design.axes, setting.d_model // head_dim)[0]
            shrinkage = sqrt(((differences @ W) ** 2).sum() / (differences**2).sum())
            log_bandwidths[replicate, column] = 0.5 * log(temperature * sqrt(head_dim)) - log(max(shrinkage, 1e-300))
            weights = attention_weights(
                design.queries @ W, design.inputs @ W, kernel=setting.kernel, temperature=temperature
            )
            neighbours[replicate, column] = effective_neighbours(weights).mean()
    x = np.log(widths) - np.mean(np.log(widths))
    slope = mean_interval(log_bandwidths @ x / (x @ x), confidence=confidence)
    allowed = (STATED - MARGIN, STATED + MARGIN)
    rows: tuple[dict[str, Any], ...] = tuple(
        {"head_dim": width, "bandwidth": float(bandwidth), "neighbours": float(count)}
        for width, bandwidth, count in zip(
            widths, np.exp(log_bandwidths).mean(axis=0), neighbours.mean(axis=0), strict=True
        )
    )
    return Finding(
        theorem="1",
        origin="Stated",
        claim=claim,
        predicted=f"exponent {STATED:g} ± {MARGIN:g} of d_k",
        measured=f"exponent {slope.estimate:+.3f} ± {slope.standard_error:.3f} in units of the inputs",
        quantity="exponent of d_k in the bandwidth",
        interval=slope,
        allowed=allowed,
        verdict=judge(slope, allowed),
        note=(
            f"a convention: scale and temperature are free. At temperature {temperature:g} an average has "
            f"{rows[0]['neighbours']:.0f} effective neighbours at d_k = {widths[0]} and "
            f"{rows[-1]['neighbours']:.0f} at {widths[-1]}, of {setting.n_samples:,}"
        ),
        rows=rows,
    )
