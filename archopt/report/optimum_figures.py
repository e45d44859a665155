"""How the best head_dim, and the best number of heads, move with n and D over a campaign: cells, law and theory."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING, Any, Literal

from archopt.report.figure import Figure, colour, layout, log_axis, rounded
from archopt.report.numbers import short

if TYPE_CHECKING:
    from archopt.laws import CellSummary, ScalingLaw

Sizes = Literal["n_samples", "d_model"]
POINTS = 13  # of a law's line
BEYOND = 2.0  # how far a law's line goes beyond the cells
NAMES = {"n_samples": "n", "d_model": "D"}
CENSORED = {"below": "triangle-down-open", "above": "triangle-up-open", "both": "diamond-open"}


@dataclass(frozen=True)
class ClosedForm:
    """What the closed form says of one cell: head_dim, as its data's intrinsic dimension has it."""

    n_samples: float
    d_model: int
    head_dim: float


def optimum_figures(law: "ScalingLaw", theory: Sequence[ClosedForm]) -> list[Figure]:
    """head_dim and heads against n, then against D; no figure against a size of which there is only one."""
    figures = []
    across: Sizes
    for across in ("n_samples", "d_model"):
        if len({_size(cell, across) for cell in law.cells}) > 1:
            figures += [_figure(law, theory, across, heads=heads) for heads in (False, True)]
    return figures


def _figure(law: "ScalingLaw", theory: Sequence[ClosedForm], across: Sizes, *, heads: bool) -> Figure:
    by: Sizes = "d_model" if across == "n_samples" else "n_samples"
    groups = sorted({_size(cell, by) for cell in law.cells})
    sizes = sorted({_size(cell, across) for cell in law.cells})
    traces: list[dict[str, Any]] = []
    heights: list[float] = []
    for index, group in enumerate(groups):
        name, tint = f"{NAMES[by]} = {group:,.6g}", colour(index, len(groups))
        cells = sorted((cell for cell in law.cells if _size(cell, by) == group), key=lambda cell: _size(cell, across))
        if law.fits:
            x, middle = _law_line(law, across, sizes, group, heads=heads)
            traces.append(_line(x, middle, tint, "law", "solid", group="law", shown=index == 0))
            heights += middle
        closed = sorted((c for c in theory if _size(c, by) == group), key=lambda c: _size(c, across))
        if len(closed) > 1:
            values = [c.d_model / c.head_dim if heads else c.head_dim for c in closed]
            closed_x = [_size(c, across) for c in closed]
            traces.append(_line(closed_x, values, tint, "closed form", "dash", group="theory", shown=index == 0))
            heights += values
        traces.append(_cells(cells, across, name, tint, heads=heads, nudge=_nudge(index, len(groups), sizes)))
        heights += [value for cell in cells for value in _optimum(cell, heads=heads)]
    what, symbol = ("heads", "H*") if heads else ("head_dim", "d_k*")
    x_title = "n (training rows or bytes)" if across == "n_samples" else "D (d_model)"
    ends = [sizes[0] / BEYOND, sizes[-1] * BEYOND] if law.fits else sizes
    marks = [2.0**k for k in range(20) if min(heights) / 2 <= 2.0**k <= 2 * max(heights)]
    told = "; ".join(
        f"{cell.label}: {short(_optimum(cell, heads=heads)[0])}"
        f"{f' ({_beyond(cell, heads=heads)})' if cell.censored else ''}"
        for cell in law.cells
    )
    lines = "The solid lines are the fitted laws, weighted by their evidence; " if law.fits else "No law was fitted; "
    caption = (
        "A point is a cell with the 90 % interval of its best value; an open triangle means: there, or beyond what was "
        f"tried. {lines}the dashed ones are the closed form at each cell. Colours are {NAMES[by]}."
    )
    return Figure(
        f"{'heads' if heads else 'head-dim'}-against-{'n' if across == 'n_samples' else 'width'}",
        f"Best {'number of heads' if heads else 'head_dim'} against {NAMES[across]}",
        caption,
        f"Best {what} by cell: {told}.",
        tuple(traces),
        layout(
            log_axis(x_title, ends, sizes),
            log_axis(f"best {what} ({symbol})", [*heights, *marks], marks),
            height_pixels=420,
        ),
    )


def _cells(
    cells: Sequence["CellSummary"], across: Sizes, name: str, tint: str, *, heads: bool, nudge: float
) -> dict[str, Any]:
    optima = [_optimum(cell, heads=heads) for cell in cells]
    symbols = [_symbol(cell, heads=heads) for cell in cells]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "x": [rounded(_size(cell, across) * nudge) for cell in cells],
        "y": [rounded(best) for best, _, _ in optima],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [rounded(high - best) for best, _, high in optima],
            "arrayminus": [rounded(best - low) for best, low, _ in optima],
            "thickness": 1.2,
            "width": 3,
            "color": tint,
        },
        "text": [cell.label for cell in cells],
        "marker": {"color": tint, "size": 10, "symbol": symbols},
        "hovertemplate": "%{text}<br>best %{y}<extra></extra>",
    }


def _line(
    x: Sequence[float], y: Sequence[float], tint: str, name: str, dash: str, *, group: str, shown: bool = False
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": group,
        "showlegend": shown,
        "x": [rounded(value) for value in x],
        "y": [rounded(value) for value in y],
        "line": {"color": tint, "width": 2, "dash": dash},
        "hovertemplate": f"{name}<br>%{{y}}<extra></extra>",
    }


def _law_line(
    law: "ScalingLaw", across: Sizes, sizes: Sequence[float], group: float, *, heads: bool
) -> tuple[list[float], list[float]]:
    low, high = log10(sizes[0] / BEYOND), log10(sizes[-1] * BEYOND)
    x = [10 ** (low + (high - low) * k / (POINTS - 1)) for k in range(POINTS)]
    if across == "d_model":
        x = list(dict.fromkeys(max(1.0, float(round(value))) for value in x))
    middle = []
    for value in x:
        n, width = (value, round(group)) if across == "n_samples" else (group, round(value))
        head_dim = law.predict(max(n, 2.0), width).head_dim
        middle.append(width / head_dim if heads else head_dim)
    return x, middle


def _optimum(cell: "CellSummary", *, heads: bool) -> tuple[float, float, float]:
    """Best, low, high."""
    if heads:
        return cell.d_model / cell.head_dim, cell.d_model / cell.high, cell.d_model / cell.low
    return cell.head_dim, cell.low, cell.high


def _symbol(cell: "CellSummary", *, heads: bool) -> str:
    turned = {"below": "above", "above": "below"} if heads else {}  # the widest heads are the fewest
    return CENSORED.get(turned.get(cell.censored, cell.censored), "circle")


def _beyond(cell: "CellSummary", *, heads: bool) -> str:
    turned = {"below": "above", "above": "below"} if heads else {}
    return {"below": "or lower", "above": "or higher"}.get(turned.get(cell.censored, cell.censored), "or beyond")


def _nudge(index: int, count: int, sizes: Sequence[float]) -> float:
    """A factor that keeps the bars of several groups at one size apart."""
    return float((sizes[-1] / sizes[0]) ** (0.015 * (index - (count - 1) / 2)))


def _size(cell: "CellSummary | ClosedForm", which: Sizes) -> float:
    size: float = cell.n_samples if which == "n_samples" else cell.d_model
    return size
