"""Figures of what the allocations are worth: loss against head_dim, against time, and by weighting."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from archopt.report.allocation_traces import (
    Trace,
    estimated,
    gap,
    head_dim_of,
    listed,
    marks,
    posterior,
    stopped_early,
    theory_band,
    trial_points,
)
from archopt.report.figure import (
    INK,
    RAMP,
    THEORY,
    Figure,
    as_text,
    layout,
    log_axis,
    point_size,
    readable_range,
    rounded,
    value_axis,
    within,
)
from archopt.report.numbers import count, decimals_for, finite, fixed, short, step_time
from archopt.report.tables import finished, loss_decimals, values_by_weighting
from archopt.report.wording import (
    Recommendation,
    TrialRow,
    allocation_of,
    d_model_of,
    in_words,
    metric_name,
    theory_range,
)


def loss_against_head_dim(recommendation: Recommendation, rows: Sequence[TrialRow]) -> Figure | None:
    """Every trial, the posterior with its band, the closed form and the recommendation; None without any of them."""
    ended, stopped = finished(rows), stopped_early(rows)
    entries = estimated(recommendation)
    values = [float(row["value"]) for row in ended]
    means, ends = _means_and_ends(entries)
    if not values and not means:
        return None
    metric = metric_name(recommendation)
    dims = sorted({head_dim_of(row) for row in [*ended, *stopped, *listed(recommendation)]})
    theory = finite((recommendation.get("theory") or {}).get("head_dim"))
    spread = theory_range(recommendation) if theory is not None else None
    y = value_axis(metric, readable_range([*values, *ends], means))
    x = log_axis("head_dim", [*dims, *([theory] if theory else [])], dims)
    width = d_model_of(recommendation)
    x["title"]["text"] = f"head_dim (heads = {width} / head_dim)" if width else "head_dim"
    last = [float(row["curve"][-1][1]) for row in stopped]
    outside = sum(not y["range"][0] <= value <= y["range"][1] for value in [*values, *last])
    traces: list[Trace] = []
    if theory is not None and spread is not None:
        low, high = max(spread[0], 10 ** x["range"][0]), min(spread[1], 10 ** x["range"][1])
        traces.append(theory_band(low, high, y["range"]))
    traces += posterior(entries, metric)
    traces += trial_points("finished trial", ended, values, y, "circle")
    traces += trial_points("pruned, last score", stopped, last, y, "triangle-down-open")
    if theory is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"closed form: {short(theory)}",
                "x": [rounded(theory)] * 2,
                "y": list(y["range"]),
                "line": {"color": THEORY, "dash": "dash", "width": 2},
                "hoverinfo": "name",
            }
        )
    traces += marks(recommendation, entries, "head_dim")
    caption = (
        "Every trial at its own value; the line is the posterior mean of the best configuration of each allocation"
    )
    caption += ", its band the interval of the table. Smaller heads are to the left."
    if outside:
        caption += f" {count(outside, 'trial')} beyond the scale: drawn at its edge."
    return Figure(
        "loss-head-dim",
        f"{metric} against head_dim",
        caption,
        _best_and_ends(recommendation, entries, metric) or f"{len(ended):,} finished trials.",
        tuple(traces),
        layout(x, y, height_pixels=480),
    )


def loss_against_time(recommendation: Recommendation) -> Figure | None:
    """Posterior loss against seconds per training step, with the Pareto front; None below two measured allocations."""
    entries = [entry for entry in estimated(recommendation) if (finite(entry.get("seconds_per_step")) or 0.0) > 0]
    if len(entries) < 2:
        return None
    metric, minimize = metric_name(recommendation), recommendation.get("direction") != "maximize"
    front = pareto_front([(entry["seconds_per_step"], entry["mean"]) for entry in entries], minimize=minimize)
    on_front = [entries[index] for index in front]
    times = [float(entry["seconds_per_step"]) for entry in entries]
    milliseconds = [1e3 * time for time in times]
    names = ["{} x {}".format(*(allocation_of(entry) or (0, 0))) for entry in entries]
    # Neighbours in time get their labels on different sides, or they would run into each other.
    order = sorted(range(len(times)), key=times.__getitem__)
    label_sides = [("top right", "bottom right")[order.index(index) % 2] for index in range(len(times))]
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [gap(entry, "high") for entry in entries],
        "arrayminus": [gap(entry, "low") for entry in entries],
        "thickness": 1,
        "width": 3,
    }
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "Pareto front",
            "x": [rounded(1e3 * entry["seconds_per_step"]) for entry in on_front],
            "y": [rounded(entry["mean"]) for entry in on_front],
            "line": {"shape": "hv", "color": INK, "dash": "dot", "width": 2},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": "allocation (heads x head_dim)",
            "x": [rounded(time) for time in milliseconds],
            "y": [rounded(entry["mean"]) for entry in entries],
            "error_y": bars,
            "text": names,
            "textposition": label_sides,
            "textfont": {"size": 11},
            "cliponaxis": False,
            "marker": {"color": RAMP[0], "size": 8},
            "hovertemplate": f"%{{text}}<br>%{{x}} ms a step<br>{as_text(metric)} %{{y}}<extra></extra>",
        },
        *marks(recommendation, entries, "seconds_per_step"),
    ]
    slow, fast = names[times.index(max(times))], names[times.index(min(times))]
    alternative = (
        f"Steps take from {step_time(min(times))} ({fast}) to {step_time(max(times))} ({slow}). "
        f"On the Pareto front: {', '.join(names[index] for index in front)}."
    )
    caption = (
        "Nothing measured is both faster and better than a point on the dotted line. Bars are the posterior intervals."
    )
    means, ends = _means_and_ends(entries)
    axes = log_axis("milliseconds per training step", milliseconds), value_axis(metric, readable_range(ends, means))
    return Figure("loss-time", f"{metric} against time", caption, alternative, tuple(traces), layout(*axes))


def weighting_compared(recommendation: Recommendation, rows: Sequence[TrialRow]) -> Figure | None:
    """Finished trials by head weighting; None with fewer than two schemes."""
    groups = values_by_weighting(rows)
    if len(groups) < 2:
        return None
    metric = metric_name(recommendation)
    y = value_axis(metric, readable_range([value for values in groups.values() for value in values]))
    traces: list[Trace] = [
        {
            "type": "box",
            "name": as_text(name, most=24),
            "y": [rounded(value) for value in within(values, y)],
            "boxpoints": "all",
            "jitter": 0.5,
            "pointpos": 0,
            "marker": {"color": RAMP[0], "size": point_size(len(values), 5), "opacity": 0.7},
            "line": {"color": INK, "width": 1.5},
            "fillcolor": "rgba(0,0,0,0)",
            "showlegend": False,
        }
        for name, values in groups.items()
    ]
    decimals = decimals_for([value for values in groups.values() for value in values])
    medians = "; ".join(
        f"{name} {fixed(median(values), decimals)} (n = {len(values)})" for name, values in groups.items()
    )
    caption = (
        "Each point is a finished trial of more than one head; boxes are quartiles. Their other settings differ, so "
        "this is a look and not a test."
    )
    title = f"{metric} by head weighting"
    axes = layout({"type": "category", "title": {"text": "weighting"}}, y, height_pixels=380)
    return Figure("weighting", title, caption, f"Median {metric}: {medians}.", tuple(traces), axes)


def pareto_front(points: Sequence[tuple[float, float]], *, minimize: bool = True) -> list[int]:
    """Indices of the (time, loss) points that no other point beats in both, by rising time."""
    sign = 1.0 if minimize else -1.0
    order = sorted(range(len(points)), key=lambda index: (points[index][0], sign * points[index][1]))
    front: list[int] = []
    for index in order:
        if not front or sign * points[index][1] < sign * points[front[-1]][1]:
            front.append(index)
    return front


def _best_and_ends(recommendation: Recommendation, entries: Sequence[Mapping[str, Any]], metric: str) -> str:
    if not entries:
        return ""
    decimals = loss_decimals(recommendation)
    chosen = allocation_of(recommendation.get("allocation"))
    told = [entries[0], *(entry for entry in entries if allocation_of(entry) == chosen), entries[-1]]
    unique = list({allocation_of(entry): entry for entry in told}.values())
    parts = [f"{in_words(allocation_of(entry) or (0, 0))} {fixed(entry['mean'], decimals)}" for entry in unique]
    return f"Posterior mean {metric} from the smallest to the largest head_dim: {'; '.join(parts)}."


def _means_and_ends(entries: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Posterior means, which an axis always shows, and interval ends, which far out are cut off."""

    def known(keys: Sequence[str]) -> list[float]:
        return [float(entry[key]) for entry in entries for key in keys if finite(entry.get(key)) is not None]

    return known(("mean",)), known(("low", "high"))
