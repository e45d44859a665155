"""Figures of what the allocations are worth: loss against head_dim, against time, and by weighting."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from archopt.report.allocation_traces import (
    Trace,
    beyond_scale,
    estimated,
    gap,
    head_dim_of,
    listed,
    marks,
    posterior,
    stopped_early,
    trial_points,
    upright_band,
    upright_line,
)
from archopt.report.failure_sides import failure_sides
from archopt.report.figure import (
    INK,
    LAW,
    LAW_BAND,
    RAMP,
    RECOMMENDED,
    THEORY,
    THEORY_BAND,
    WORSE_BAND,
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
    ties,
)


def loss_against_head_dim(recommendation: Recommendation, rows: Sequence[TrialRow]) -> Figure | None:
    """Every trial, the posterior, closed form, law, and where it is clearly worse; None without trial and posterior."""
    ended, stopped = finished(rows), stopped_early(rows)
    failed = [row for row in rows if row.get("state") == "failed" and allocation_of(row)]
    entries = estimated(recommendation)
    values = [float(row["value"]) for row in ended]
    means, ends = _means_and_ends(entries)
    if not values and not means:
        return None
    metric = metric_name(recommendation)
    dims = sorted({head_dim_of(row) for row in [*ended, *stopped, *failed, *listed(recommendation)]})
    said = [value for value in (_said(recommendation, "theory"), _said(recommendation, "law")) if value is not None]
    y = value_axis(metric, readable_range([*values, *means, *ends], _worth_seeing(recommendation, entries)))
    x = log_axis("head_dim", [*dims, *said], dims)
    width = d_model_of(recommendation)
    x["title"]["text"] = f"head_dim (heads = {width} / head_dim)" if width else "head_dim"
    last = [float(row["curve"][-1][1]) for row in stopped]
    outside = sum(not y["range"][0] <= value <= y["range"][1] for value in [*values, *last])
    params = recommendation.get("params") or None
    own = [params is not None and row.get("params") == params for row in ended]
    traces: list[Trace] = [*_worse(recommendation, x, y), *_predicted(recommendation, x, y)]
    traces += posterior(entries, metric)
    for name, wanted, tint in (
        ("finished trial", False, INK),
        ("the recommended configuration", True, RECOMMENDED),
    ):
        held = [k for k, is_own in enumerate(own) if is_own is wanted]
        traces += trial_points(name, [ended[k] for k in held], [values[k] for k in held], y, "circle", tint)
    traces += beyond_scale(entries, [head_dim_of(entry) for entry in entries], y)
    traces += trial_points("pruned, last score", stopped, last, y, "triangle-down-open")
    edge = y["range"][0 if recommendation.get("direction") == "maximize" else 1]
    traces += trial_points("failed", failed, [edge] * len(failed), y, "x")
    traces += marks(recommendation, entries, "head_dim")
    caption = (
        "Every trial, so every replicate, at its own value; the line is the posterior mean of the best configuration "
        "of each allocation, its band the interval of the table. Narrower heads, and more of them, are to the left; "
        "grey is clearly worse than recommended: there the interval lies wholly beyond the recommended one's."
    )
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


def _said(recommendation: Recommendation, whose: str) -> float | None:
    """head_dim as the closed form ("theory") or a law ("law") has it."""
    return finite((recommendation.get(whose) or {}).get("head_dim"))


def _worse(recommendation: Recommendation, x: Mapping[str, Any], y: Mapping[str, Any]) -> list[Trace]:
    """The head_dims whose interval lies wholly beyond the recommended one's, shaded from there to the end."""
    traces: list[Trace] = []
    for side in failure_sides(recommendation):
        if side.clear_from is None or side.beside is None:
            continue
        between = (side.clear_from * side.beside) ** 0.5
        ends = (10 ** x["range"][0], between) if side.name == "narrower" else (between, 10 ** x["range"][1])
        shown = not traces
        traces.append(upright_band("clearly worse", *ends, y["range"], WORSE_BAND, shown=shown))
    return traces


def _predicted(recommendation: Recommendation, x: Mapping[str, Any], y: Mapping[str, Any]) -> list[Trace]:
    """What the closed form and a law say, each with its range."""
    low, high = (10**end for end in x["range"])
    law = recommendation.get("law") or {}
    ends = [end for end in map(finite, law.get("interval") or ()) if end is not None]
    sources = (
        ("theory", "closed form", "one sd either way", theory_range(recommendation), THEORY, THEORY_BAND, "dash"),
        ("law", "fitted law", "interval", (ends[0], ends[1]) if len(ends) == 2 else None, LAW, LAW_BAND, "dot"),
    )
    bands: list[Trace] = []
    lines: list[Trace] = []
    for whose, name, spread, span, tint, fill, dash in sources:
        head_dim = _said(recommendation, whose)
        if head_dim is None:
            continue
        if span is not None:
            held = max(span[0], low), min(span[1], high)
            bands.append(upright_band(f"{name}, {spread}", *held, y["range"], fill, shown=True))
        lines.append(upright_line(f"{name}: {short(head_dim)}", head_dim, y["range"], tint, dash))
    return [*bands, *lines]


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
    means, ends = _means_and_ends(entries)
    y = value_axis(metric, readable_range([*means, *ends], _worth_seeing(recommendation, entries)))
    names = ["{} x {}".format(*(allocation_of(entry) or (0, 0))) for entry in entries]
    # Neighbours in time get their labels on different sides, or they would run into each other.
    order = sorted(range(len(times)), key=times.__getitem__)
    label_sides = [
        f"{('top', 'bottom')[place % 2]} {'right' if 2 * place < len(order) else 'left'}"
        for place in map(order.index, range(len(times)))
    ]
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
            "x": [rounded(1e3 * time) for time in [*(entry["seconds_per_step"] for entry in on_front), max(times)]],
            "y": [rounded(entry["mean"]) for entry in [*on_front, on_front[-1]]],
            "line": {"shape": "hv", "color": INK, "dash": "dot", "width": 2},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": "allocation (heads x head_dim)",
            "x": [rounded(time) for time in milliseconds],
            "y": [rounded(value) for value in means],
            "error_y": bars,
            "text": names,
            "textposition": label_sides,
            "textfont": {"size": 11},
            "cliponaxis": False,
            "marker": {"color": RAMP[0], "size": 8},
            "hovertemplate": f"%{{text}}<br>%{{x}} ms a step<br>{as_text(metric)} %{{y}}<extra></extra>",
        },
        *beyond_scale(entries, milliseconds, y, named=True),
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
    axes = log_axis("milliseconds per training step", milliseconds), y
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
            "x": [as_text(name, most=24)] * len(values),
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
    names = [as_text(name, most=24) for name in groups]
    x = {"type": "category", "title": {"text": "weighting"}, "categoryarray": names, "categoryorder": "array"}
    axes = layout(x, y, height_pixels=380)
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


def _worth_seeing(recommendation: Recommendation, entries: Sequence[Mapping[str, Any]]) -> list[float]:
    """Means that an axis always shows: the recommended allocation's, and those of its ties."""
    told = {allocation_of(recommendation.get("allocation")), *ties(recommendation)}
    return [float(entry["mean"]) for entry in entries if allocation_of(entry) in told]


def _means_and_ends(entries: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Posterior means, and interval ends."""

    def known(keys: Sequence[str]) -> list[float]:
        return [float(entry[key]) for entry in entries for key in keys if finite(entry.get(key)) is not None]

    return known(("mean",)), known(("low", "high"))
