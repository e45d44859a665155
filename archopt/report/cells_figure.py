"""Loss against head_dim in every cell of a campaign, each relative to its own best."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from archopt.report.figure import (
    SYMBOLS,
    Figure,
    as_text,
    colour,
    layout,
    log_axis,
    readable_range,
    rounded,
    value_axis,
    within,
)
from archopt.report.numbers import short

DASHES = ("solid", "dash", "dot", "dashdot")


def cells_against_head_dim(frame: Sequence[Mapping[str, Any]], metric: str) -> Figure | None:
    """A line a cell; None where no cell has two allocations.

    Args:
        frame: rows of cells.csv.
        metric: its name.
    """
    cells: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in frame:
        cells.setdefault((row["n_samples"], row["d_model"]), []).append(row)
    held = {size: sorted(rows, key=lambda row: row["head_dim"]) for size, rows in cells.items() if len(rows) > 1}
    if not held:
        return None
    best = {size: min(float(row["loss"]) for row in rows) for size, rows in held.items()}
    relative = min(best.values(), default=inf) > 0
    heights = {
        size: [
            100 * (float(row["loss"]) / best[size] - 1) if relative else float(row["loss"]) - best[size] for row in rows
        ]
        for size, rows in held.items()
    }
    name = f"{metric}, % above the cell's best" if relative else f"{metric} above the cell's best"
    y = value_axis(name, [0.0, *readable_range([value for values in heights.values() for value in values])])
    ns, widths = (sorted({size[k] for size in held}) for k in (0, 1))
    dims = sorted({row["head_dim"] for rows in held.values() for row in rows})
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"n = {n:,}, D = {width}",
            "x": [row["head_dim"] for row in rows],
            "y": [rounded(value) for value in within(heights[n, width], y)],
            "customdata": [[rounded(row["loss"]), row["n_trials"]] for row in rows],
            "line": {
                "color": colour(ns.index(n), len(ns)),
                "width": 2,
                "dash": DASHES[widths.index(width) % len(DASHES)],
            },
            "marker": {"size": 7, "symbol": SYMBOLS[widths.index(width) % len(SYMBOLS)]},
            "hovertemplate": f"n = {n:,}, D = {width}<br>head_dim %{{x}}<br>{as_text(metric)} %{{customdata[0]}}, "
            "%{customdata[1]} trials<extra></extra>",
        }
        for (n, width), rows in sorted(held.items())
    ]
    told = "; ".join(
        f"n = {n:,}, D = {width}: lowest at head_dim {rows[heights[n, width].index(0.0)]['head_dim']} "
        f"({short(best[n, width])})"
        for (n, width), rows in sorted(held.items())
    )
    caption = (
        "The posterior mean of each allocation that was tried, at its best other settings, by the cell's own trials "
        "alone. Colour is n, dashes are D; values beyond the scale are drawn at its edge."
    )
    axes = layout(log_axis("head_dim", dims, dims), y, height_pixels=460)
    return Figure("cells-head-dim", f"{metric} against head_dim by cell", caption, f"{told}.", tuple(traces), axes)
