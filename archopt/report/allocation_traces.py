"""Traces and look-ups that the figures of allocations share."""

from collections.abc import Mapping, Sequence
from typing import Any

from archopt.report.figure import BAND, INK, RAMP, RECOMMENDED, THEORY_BAND, as_text, point_size, rounded, within
from archopt.report.numbers import finite
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
    name: str, rows: Sequence[TrialRow], values: Sequence[float], axis: Mapping[str, Any], symbol: str
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
            "customdata": [[row.get("number"), rounded(value)] for row, value in zip(rows, values, strict=True)],
            "marker": {"symbol": symbol, "size": point_size(len(rows), 6), "color": INK, "opacity": 0.9},
            "hovertemplate": f"trial %{{customdata[0]}}<br>head_dim %{{x}}<br>%{{customdata[1]}}<extra>{name}</extra>",
        }
    ]


def theory_band(low: float, high: float, y_range: Sequence[float]) -> Trace:
    """The closed form's range of head_dim as a rectangle."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "closed form, one sd either way",
        "x": [rounded(low), rounded(low), rounded(high), rounded(high)],
        "y": [y_range[0], y_range[1], y_range[1], y_range[0]],
        "fill": "toself",
        "fillcolor": THEORY_BAND,
        "line": {"width": 0},
        "hoverinfo": "skip",
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
