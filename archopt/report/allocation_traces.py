"""Traces and look-ups that the figures of allocations share."""

from collections.abc import Mapping, Sequence
from typing import Any

from archopt.report.figure import BAND, INK, RAMP, RECOMMENDED, as_text, point_size, rounded, within
from archopt.report.numbers import finite, short
from archopt.report.wording import Recommendation, TrialRow, allocation_of, in_words, ties

Trace = dict[str, Any]


def posterior(entries: Sequence[Mapping[str, Any]], metric: str) -> list[Trace]:
    """The interval as a band (where both ends are known) under the mean as a line."""
    banded = [
        entry for entry in entries if finite(entry.get("low")) is not None and finite(entry.get("high")) is not None
    ]
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "legendgroup": "posterior"}
    dims = [head_dim_of(entry) for entry in banded]
    traces: list[Trace] = []
    if banded:
        traces.append({**edge, "x": dims, "y": [rounded(entry["low"]) for entry in banded], "showlegend": False})
        traces.append(
            {
                **edge,
                "x": dims,
                "y": [rounded(entry["high"]) for entry in banded],
                "fill": "tonexty",
                "fillcolor": BAND,
                "name": "posterior interval",
            }
        )
    if entries:
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "posterior mean",
                "x": [head_dim_of(entry) for entry in entries],
                "y": [rounded(entry["mean"]) for entry in entries],
                "line": {"color": RAMP[0], "width": 2},
                "marker": {"size": 5},
                "hovertemplate": f"head_dim %{{x}}<br>{as_text(metric)} %{{y}}<extra>posterior mean</extra>",
            }
        )
    return traces


def trial_points(
    name: str,
    rows: Sequence[TrialRow],
    values: Sequence[float],
    axis: Mapping[str, Any],
    symbol: str,
    tint: str = INK,
) -> list[Trace]:
    """Trials at their own values, moved to the edge of the scale where they lie beyond it; nothing without trials."""
    if not rows:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "cliponaxis": False,
            "name": name,
            "x": [head_dim_of(row) for row in rows],
            "y": [rounded(value) for value in within(values, axis)],
            "customdata": [[row.get("number"), _told(row, value)] for row, value in zip(rows, values, strict=True)],
            "marker": {"symbol": symbol, "size": point_size(len(rows), 6), "color": tint, "opacity": 0.9},
            "hovertemplate": f"trial %{{customdata[0]}}<br>head_dim %{{x}}<br>%{{customdata[1]}}<extra>{name}</extra>",
        }
    ]


def _told(row: TrialRow, value: float) -> str:
    """The value with what was trained: weighting, learning rate, replicate."""
    parts = [str(rounded(value))]
    if row.get("weighting"):
        parts.append(as_text(row["weighting"], most=24))
    if finite(row.get("learning_rate")) is not None:
        parts.append(f"rate {short(row['learning_rate'])}")
    if row.get("replicate") is not None:
        parts.append(f"replicate {as_text(row['replicate'], most=12)}")
    return ", ".join(parts)


def beyond_scale(
    entries: Sequence[Mapping[str, Any]],
    across: Sequence[float],
    axis: Mapping[str, Any],
    *,
    named: bool = False,
) -> list[Trace]:
    """Posterior means outside the scale, at its edge with their values; nothing where all are inside.

    Args:
        across: where each entry stands on the other axis.
        named: whether the allocation is named, too.
    """
    low, high = axis["range"]
    out = [k for k, entry in enumerate(entries) if not low <= float(entry["mean"]) <= high]
    if not out:
        return []
    means = [float(entries[k]["mean"]) for k in out]
    above = [mean > high for mean in means]
    middle = (min(across) * max(across)) ** 0.5
    names = ["{} x {}: ".format(*(allocation_of(entries[k]) or (0, 0))) if named else "" for k in out]
    sides = ["left" if across[k] > middle else "right" for k in out]
    return [
        {
            "type": "scatter",
            "mode": "markers+text",
            "cliponaxis": False,
            "name": "posterior mean beyond the scale",
            "x": [rounded(across[k]) for k in out],
            "y": [rounded(value) for value in within(means, axis)],
            "text": [f"{name}{short(mean)}" for name, mean in zip(names, means, strict=True)],
            "textposition": [
                f"{'bottom' if is_above else 'top'} {side}" for is_above, side in zip(above, sides, strict=True)
            ],
            "textfont": {"size": 11},
            "marker": {
                "symbol": ["triangle-up" if is_above else "triangle-down" for is_above in above],
                "size": 11,
                "color": RAMP[0],
            },
            "hovertemplate": "posterior mean %{text}<extra></extra>",
        }
    ]


def upright_band(name: str, low: float, high: float, y_range: Sequence[float], fill: str, *, shown: bool) -> Trace:
    """A range of head_dim as a rectangle over the whole height."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": shown,
        "x": [rounded(low), rounded(low), rounded(high), rounded(high)],
        "y": [y_range[0], y_range[1], y_range[1], y_range[0]],
        "fill": "toself",
        "fillcolor": fill,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def upright_line(name: str, head_dim: float, y_range: Sequence[float], tint: str, dash: str) -> Trace:
    """One head_dim as a line over the whole height."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [rounded(head_dim)] * 2,
        "y": list(y_range),
        "line": {"color": tint, "dash": dash, "width": 2},
        "hoverinfo": "name",
    }


def marks(recommendation: Recommendation, entries: Sequence[Mapping[str, Any]], across: str) -> list[Trace]:
    """The recommended allocation, and those that cannot be told apart from it, where their loss is estimated."""
    scale = 1e3 if across == "seconds_per_step" else 1.0
    chosen, tied = allocation_of(recommendation.get("allocation")), set(ties(recommendation))
    groups = (
        ("cannot be told apart", tied, {"symbol": "diamond-open", "size": 13, "line": {"width": 2}}),
        ("recommended", {chosen}, {"symbol": "star", "size": 17}),
    )
    traces: list[Trace] = []
    for name, members, marker in groups:
        held = [entry for entry in entries if allocation_of(entry) in members]
        if held:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [rounded(scale * entry[across]) for entry in held],
                    "y": [rounded(entry["mean"]) for entry in held],
                    "text": [in_words(allocation_of(entry) or (0, 0)) for entry in held],
                    "marker": {"color": RECOMMENDED, **marker},
                    "hovertemplate": f"%{{text}}<extra>{name}</extra>",
                }
            )
    return traces


def listed(recommendation: Recommendation) -> list[Mapping[str, Any]]:
    """The allocations by rising head_dim."""
    entries = [entry for entry in recommendation.get("allocations") or () if allocation_of(entry)]
    return sorted(entries, key=head_dim_of)


def estimated(recommendation: Recommendation) -> list[Mapping[str, Any]]:
    """Those with a posterior mean."""
    return [entry for entry in listed(recommendation) if finite(entry.get("mean")) is not None]


def stopped_early(rows: Sequence[TrialRow]) -> list[TrialRow]:
    """The pruned trials that were scored at least once."""
    return [
        row
        for row in rows
        if row.get("state") == "pruned"
        and allocation_of(row)
        and row.get("curve")
        and finite(row["curve"][-1][1]) is not None
    ]


def head_dim_of(entry: Mapping[str, Any]) -> int:
    """d_k of anything that carries an allocation."""
    return (allocation_of(entry) or (1, 1))[1]


def gap(entry: Mapping[str, Any], key: str) -> float | None:
    """How far the interval's end is from the mean."""
    end = finite(entry.get(key))
    return None if end is None else rounded(abs(end - float(entry["mean"])))
