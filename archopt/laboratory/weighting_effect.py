"""Theorem 7.1 held against simulated noise: structured weights, best head first, and minimum-variance weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from archopt.laboratory.design import draw_design, noise_draws
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.setting import BEST, Setting
from archopt.laboratory.temperatures import TEMPERATURES, fixed_temperature, smoother_blocks
from archopt.laboratory.verdict import Finding, judge, nothing_to_measure, relative_change, signed_percent
from archopt.theory.arrays import Array
from archopt.theory.weighting import error_covariance, head_weights, heads_by_quality, minimum_variance_weights

MARGIN = 0.01  # of the MSE: a gain by less is called none
_DRAWS = 8  # of the noise on every design
_ROWS = 200  # training rows that are left out, each of its own average, to estimate the heads' errors


def _structured(scheme: str) -> Callable[[Array], Array]:
    def weights(covariance: Array) -> Array:
        placed = np.empty(len(covariance))
        placed[heads_by_quality(covariance)] = head_weights(scheme, len(covariance))  # best head first
        return placed

    return weights


# From the heads' error covariance, estimated on left-out rows, to their weights.
SCHEMES: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "uniform": _structured("uniform"),
        "geometric": _structured("geometric"),
        "fibonacci": _structured("fibonacci"),
        "minimum-variance": minimum_variance_weights,
    }
)


@dataclass(frozen=True)
class WeightingErrors:
    """One replicate: means over draws of the noise.

    Args:
        mse: integrated error by scheme.
        mse_sd: its standard deviation over draws.
        temperature: median chosen, by scheme.
        quality_spread: error of the worst head over that of the best, at the temperatures chosen for uniform weights.
    """

    mse: Mapping[str, float]
    mse_sd: Mapping[str, float]
    temperature: Mapping[str, float]
    quality_spread: float


def weighting_errors(setting: Setting, replicate: int) -> WeightingErrors:
    """Every scheme on one design, with the same heads and noise.

    Order, covariance and, where the setting's temperature is "best", each scheme's temperature come from
    leave-one-out errors on training rows: every such row's error is that of the average without it. The error that is
    reported is at query points against the true function, which nothing was chosen by. Two things to know: the rows
    reach to the boundary, the query points do not, so that what is chosen suits the rows' larger bias there; and
    minimum-variance weights are ranked over temperatures by the covariance that they were fitted to.

    Args:
        setting: with H of at least 2.
        replicate: 0, 1, ...
    """
    design = draw_design(setting, replicate)
    heads = orthogonal_heads(design.axes, setting.n_heads)
    if setting.temperature == BEST:
        temperatures = TEMPERATURES
    else:
        temperatures = np.array([fixed_temperature(setting, heads.shape[2])])
    rows = np.arange(min(_ROWS, setting.n_samples), dtype=np.intp)
    targets = (design.truth_at_inputs + noise_draws(setting, replicate, setting.n_samples, _DRAWS)).T  # (n, draws)

    def estimates(points: Array, own_rows: NDArray[np.intp] | None) -> Array:  # (T, H, points, draws)
        found = np.empty((len(temperatures), setting.n_heads, len(points), _DRAWS))
        for where, index, smoothers in smoother_blocks(setting, heads, points, design.inputs, temperatures, own_rows):
            found[index, :, where] = smoothers @ targets  # (1.1)
        return found

    left_out_errors = estimates(design.inputs[rows], rows) - targets[rows]
    errors = estimates(design.queries, None) - design.truth_at_queries[:, np.newaxis]

    mse = {scheme: np.empty(_DRAWS) for scheme in SCHEMES}
    chosen = {scheme: np.empty(_DRAWS, dtype=np.intp) for scheme in SCHEMES}
    spreads = []
    for draw in range(_DRAWS):
        covariances = [error_covariance(errors_at) for errors_at in left_out_errors[..., draw]]  # by temperature
        for scheme, weigh in SCHEMES.items():
            weights = [weigh(Sigma) for Sigma in covariances]
            expected = [alpha @ Sigma @ alpha for alpha, Sigma in zip(weights, covariances, strict=True)]
            best = chosen[scheme][draw] = int(np.argmin(expected))
            mse[scheme][draw] = ((weights[best] @ errors[best, :, :, draw]) ** 2).mean()
        own = (errors[chosen["uniform"][draw], :, :, draw] ** 2).mean(axis=1)
        spreads.append(own.max() / own.min())
    return WeightingErrors(
        mse={scheme: float(values.mean()) for scheme, values in mse.items()},
        mse_sd={scheme: float(values.std(ddof=1)) for scheme, values in mse.items()},
        temperature={scheme: float(np.median(temperatures[index])) for scheme, index in chosen.items()},
        quality_spread=float(np.mean(spreads)),
    )


def check_weighting(setting: Setting, *, confidence: float) -> tuple[Finding, ...]:
    """Whether each scheme beats uniform weights in this setting, by more than ``MARGIN``.

    Args:
        setting: at H = 1 there is nothing to measure, at H = 2 nothing for Fibonacci weights, which are uniform there.
        confidence: of all intervals together.
    """
    claims = {
        scheme: f"{scheme} weights beat uniform ones in this setting" for scheme in SCHEMES if scheme != "uniform"
    }
    if setting.n_heads == 1:
        reason = "one head has all the weight"
        return tuple(nothing_to_measure("7.1", "Ours", claim, reason) for claim in claims.values())
    found = [weighting_errors(setting, replicate) for replicate in range(setting.replicates)]
    spread = float(np.mean([errors.quality_spread for errors in found]))
    by_scheme = {scheme: np.array([errors.mse[scheme] for errors in found]) for scheme in SCHEMES}
    uniform = by_scheme.pop("uniform")
    allowed = (-inf, -MARGIN)
    findings = []
    for scheme, values in by_scheme.items():
        if scheme == "fibonacci" and setting.n_heads == 2:
            findings.append(nothing_to_measure("7.1", "Ours", claims[scheme], "at H = 2 they are uniform"))
            continue
        change = relative_change(uniform, values, confidence=confidence, comparisons=len(by_scheme))
        findings.append(
            Finding(
                theorem="7.1",
                origin="Ours",
                claim=claims[scheme],
                predicted=f"an error lower by more than {MARGIN:.0%}",
                measured=(
                    f"MSE {values.mean():.4g} against {uniform.mean():.4g}: {signed_percent(change.estimate)} ± "
                    f"{change.standard_error:.1%}"
                ),
                quantity=f"relative change of the MSE from uniform to {scheme}",
                interval=change,
                allowed=allowed,
                verdict=judge(change, allowed),
                note=(
                    f"the worst head's error is {spread:.2f} times the best's. The theorem says that structured "
                    f"weights can win, above all where heads differ: one setting cannot refute it"
                ),
                rows=({"scheme": scheme, "mse": float(values.mean()), "uniform_mse": float(uniform.mean())},),
            )
        )
    return tuple(findings)
