"""Figures of what happened in training: learning curves, and how diversity went with the loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archopt.rank_correlation import tau_within
from archopt.report.figure import (
    SYMBOLS,
    Figure,
    as_text,
    colour,
    layout,
    log_axis,
    point_size,
    readable_range,
    rounded,
    value_axis,
    within,
)
from archopt.report.numbers import count, finite, short
from archopt.report.tables import finished
from archopt.report.wording import Recommendation, TrialRow, allocation_of, d_model_of, metric_name
from archopt.theory.diversity import INDEX_SLACK, excess_from_index

MOST_CURVES = 300  # more cannot be told apart, and a page of them would be slow


@dataclass(frozen=True)
class DiversityPoint:
    """A finished trial's last diversity record (two heads or more) and its loss."""

    number: object
    n_heads: int
    value: float
    hdi: float
    excess: float
    output_correlation: float | None


def learning_curves(recommendation: Recommendation, rows: Sequence[TrialRow]) -> Figure | None:
    """Validation loss against training step, pruned trials dashed; None without curves."""
    drawn = [row for row in rows if allocation_of(row) and len(_points(row)) >= 2]
    if not drawn:
        return None
    metric, total = metric_name(recommendation), len(drawn)
    if total > MOST_CURVES:  # evenly over the search, not the best ones
        drawn = [drawn[index * total // MOST_CURVES] for index in range(MOST_CURVES)]
    dims = sorted({(allocation_of(row) or (1, 1))[1] for row in drawn})
    groups: dict[tuple[int, str], list[TrialRow]] = {}
    for row in drawn:
        groups.setdefault(((allocation_of(row) or (1, 1))[1], str(row.get("state"))), []).append(row)
    traces: list[dict[str, Any]] = []
    named: set[int] = set()
    for (head_dim, state), members in sorted(groups.items()):
        traces.append(_curves(head_dim, state, members, dims, shown=head_dim not in named))
        named.add(head_dim)
    steps = [step for row in drawn for step, _ in _points(row) if step > 0]
    ticks = sorted(set(steps))
    last = [_points(row)[-1][1] for row in drawn]
    values = [value for row in drawn for _, value in _points(row)]
    n_pruned = sum(row.get("state") == "pruned" for row in drawn)
    of = f"{len(drawn):,} of {total:,} curves, evenly over the search. " if total > len(drawn) else ""
    y = value_axis(metric, readable_range(values, last[:1]))
    return Figure(
        "learning-curves",
        "Learning curves",
        f"{of}Colour is head_dim; pruned trials are dashed and end where they were stopped.",
        f"{metric} against training step for {count(len(drawn), 'trial')}, {n_pruned:,} of them pruned, "
        f"head_dim {dims[0]} to {dims[-1]}.",
        tuple(traces),
        layout(log_axis("training step", steps, ticks if len(ticks) <= 12 else None), y, height_pixels=460)
        if steps
        else layout({}, y),
    )


def diversity_points(recommendation: Recommendation, rows: Sequence[TrialRow]) -> list[DiversityPoint]:
    """The last diversity record of each finished trial; one head has no pairs and so no point."""
    found: list[DiversityPoint] = []
    for row in finished(rows):
        n_heads, head_dim = allocation_of(row) or (1, 1)
        records: Sequence[tuple[int, float, float]] = row.get("diversity") or ()
        hdi = finite(records[-1][1]) if records else None
        if hdi is None or n_heads < 2 or not -INDEX_SLACK <= hdi <= 1 + INDEX_SLACK:
            continue
        width = d_model_of(recommendation) or n_heads * head_dim
        excess = finite(excess_from_index(hdi, d_model=width, head_dim=head_dim))
        if excess is not None:
            _, _, correlation = records[-1]
            found.append(
                DiversityPoint(row.get("number"), n_heads, float(row["value"]), hdi, excess, finite(correlation))
            )
    return found


def loss_against_diversity(recommendation: Recommendation, points: Sequence[DiversityPoint]) -> list[Figure]:
    """Loss against raw HDI, excess HDI and the correlation of head outputs; those for which there are points."""
    metric = metric_name(recommendation)
    with_correlation = [point for point in points if point.output_correlation is not None]
    sides = (
        ("hdi-raw", "raw HDI", "0: one subspace; 1: orthogonal", points, [p.hdi for p in points]),
        ("hdi-excess", "excess HDI", "0: as random heads; 1: orthogonal", points, [p.excess for p in points]),
        (
            "output-correlation",
            "correlation of head outputs",
            "1: heads that say the same",
            with_correlation,
            [p.output_correlation for p in with_correlation],
        ),
    )
    figures = []
    for key, title, reading, held, across in sides:
        values = [value for value in across if value is not None]
        if len(held) < 2:
            continue
        y = value_axis(metric, readable_range([point.value for point in held]))
        found = tau_within([(p.n_heads, x, p.value) for p, x in zip(held, values, strict=True)])
        told = ""
        if found.tau is not None:
            told = (
                f"Kendall tau at equal number of heads {short(found.tau, 2)} over {found.n_pairs:,} pairs (standard "
                f"error without association {short(found.error, 2)})"
            )
        figures.append(
            Figure(
                key,
                f"{metric} against {title}",
                f"Finished trials at their last record, by number of heads ({reading}). Compare points of one number "
                f"of heads only.{f' {told}; learning rates differ between them.' if told else ''}",
                f"{count(len(held), 'trial')}; {title} from {short(min(values))} to {short(max(values))}."
                f"{f' {told}.' if told else ''}",
                tuple(_by_heads(held, values, metric, y)),
                layout(value_axis(title, values), y, height_pixels=400),
            )
        )
    return figures


def _curves(
    head_dim: int, state: str, members: Sequence[TrialRow], dims: Sequence[int], *, shown: bool
) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    numbers: list[object] = []
    for row in members:  # one trace for all, with gaps: hundreds of traces would be slow
        for step, value in _points(row):
            x.append(step)
            y.append(rounded(value))
            numbers.append(row.get("number"))
        x.append(None)
        y.append(None)
        numbers.append(None)
    dashed = state != "complete"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"head_dim {head_dim}",
        "legendgroup": str(head_dim),
        "showlegend": shown,
        "x": x,
        "y": y,
        "customdata": numbers,
        "connectgaps": False,
        "opacity": 0.75,
        "line": {"color": colour(dims.index(head_dim), len(dims)), "width": 1.3, "dash": "dash" if dashed else "solid"},
        "marker": {"size": 4, "symbol": "circle-open" if dashed else "circle"},
        "hovertemplate": f"trial %{{customdata}} ({as_text(state)})<br>step %{{x}}<br>%{{y}}"
        f"<extra>head_dim {head_dim}</extra>",
    }


def _by_heads(
    points: Sequence[DiversityPoint], across: Sequence[float], metric: str, axis: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Values beyond the scale stand at its edge."""
    heads = sorted({point.n_heads for point in points})
    traces: list[Mapping[str, Any]] = []
    for index, n_heads in enumerate(heads):
        held = [(point, x) for point, x in zip(points, across, strict=True) if point.n_heads == n_heads]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": count(n_heads, "head"),
                "x": [rounded(x) for _, x in held],
                "y": [rounded(value) for value in within([point.value for point, _ in held], axis)],
                "cliponaxis": False,
                "customdata": [[point.number, rounded(point.hdi, 4), rounded(point.value)] for point, _ in held],
                "marker": {
                    "color": colour(index, len(heads)),
                    "symbol": SYMBOLS[index % len(SYMBOLS)],
                    "size": point_size(len(points), 8),
                    "opacity": 0.8,
                },
                "hovertemplate": f"trial %{{customdata[0]}}<br>raw HDI %{{customdata[1]}}<br>%{{x}}<br>"
                f"{as_text(metric)} %{{customdata[2]}}"
                f"<extra>{count(n_heads, 'head')}</extra>",
            }
        )
    return traces


def _points(row: TrialRow) -> list[tuple[float, float]]:
    return [
        (float(step), float(value))
        for step, value in row.get("curve") or ()
        if finite(step) is not None and finite(value) is not None
    ]
