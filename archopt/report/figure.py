"""One figure as plain data, and the look that all figures share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from typing import Any

from archopt.report.numbers import finite, printable, short

# Each has a contrast of at least 3:1 against white and against the dark page (WCAG 2.2, 1.4.11).
RAMP = ("#3f74d1", "#8a5fd6", "#c9489a", "#d9652b", "#a5801f")
INK = "#7a828c"
RECOMMENDED = "#259466"
THEORY = "#c8571c"
BAND = "rgba(63, 116, 209, 0.20)"
THEORY_BAND = "rgba(200, 87, 28, 0.12)"
LAW = "#8a5fd6"
LAW_BAND = "rgba(138, 95, 214, 0.16)"
WORSE_BAND = "rgba(122, 130, 140, 0.16)"
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon", "pentagon", "bowtie")


@dataclass(frozen=True)
class Figure:
    """Traces and a layout in plotly's JSON form.

    Args:
        key: a name that is unique in the report and safe in HTML ids and file names.
        title: what is plotted.
        caption: how to read it, a sentence or two.
        alternative: what it shows, in words and numbers, for those who do not see it.
        data: traces.
        layout: axes and legend; no colours of text or grid, which follow the page.
    """

    key: str
    title: str
    caption: str
    alternative: str
    data: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any] = field(default_factory=dict)


def as_text(name: object, most: int = 60) -> str:
    """A name from outside, safe in plotly's texts, which understand some HTML, and formulas between dollar signs."""
    return escape(printable(name, most=most)).replace("$", "&#36;")


def colour(index: int, count: int) -> str:
    """The ``index``-th of ``count`` ordered colours along ``RAMP``, as "#rrggbb"."""
    position = (len(RAMP) - 1) * (index / (count - 1) if count > 1 else 0.0)
    low = min(floor(position), len(RAMP) - 2)
    channels = []
    for start in (1, 3, 5):
        ends = (int(RAMP[low][start : start + 2], 16), int(RAMP[low + 1][start : start + 2], 16))
        channels.append(round(ends[0] + (ends[1] - ends[0]) * (position - low)))
    return "#{:02x}{:02x}{:02x}".format(*channels)


def layout(x: Mapping[str, Any], y: Mapping[str, Any], *, height_pixels: int = 430) -> dict[str, Any]:
    """The layout of a figure with these axes; touch scrolls the page and does not drag the plot."""
    return {
        "height": height_pixels,
        "margin": {"l": 64, "r": 16, "t": 12, "b": 56},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "dragmode": False,
        "hovermode": "closest",
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "xaxis": {"fixedrange": True, "zeroline": False, "automargin": True, **x},
        "yaxis": {"fixedrange": True, "zeroline": False, "automargin": True, **_apart(y)},
    }


def _apart(axis: Mapping[str, Any]) -> dict[str, Any]:
    """The title kept off the numbers."""
    return {**axis, "title": {**axis["title"], "standoff": 10}} if "title" in axis else dict(axis)


def log_axis(title: str, values: Sequence[float], ticks: Sequence[float] | None = None) -> dict[str, Any]:
    """A logarithmic axis over positive ``values``, labelled at ``ticks`` as far as the labels do not touch."""
    low, high = log10(min(values)), log10(max(values))
    margin = 0.06 * (high - low) + 0.02
    places = list(ticks) if ticks is not None else _round_numbers(low - margin, high + margin)
    shown: list[float] = []
    for place in places:
        apart = 0.08 if ticks is None else 0.045  # the numbers of allocations are short, and each means one
        if not shown or log10(place / shown[-1]) >= apart * (high - low + 2 * margin):
            shown.append(place)
    return {
        "type": "log",
        "title": {"text": as_text(title)},
        "range": [low - margin, high + margin],
        "tickvals": shown,
        "ticktext": [short(place) for place in shown],
    }


def value_axis(title: str, inside: Sequence[float], *, slack: float = 0.08) -> dict[str, Any]:
    """A linear axis that holds ``inside`` and a little more; its ends are as round as what is drawn, to be drawn at."""
    low, high = min(inside), max(inside)
    margin = slack * (high - low) or 0.05 * abs(high) or 1.0
    return {"title": {"text": as_text(title)}, "range": [rounded(low - margin), rounded(high + margin)]}


def within(values: Sequence[float], axis: Mapping[str, Any]) -> list[float]:
    """The values, those beyond a linear axis moved to its ends."""
    low, high = axis["range"]
    return [min(max(value, low), high) for value in values]


def readable_range(values: Sequence[float], always: Sequence[float] = ()) -> list[float]:
    """``values`` without far outliers (3 interquartile ranges beyond the quartiles), plus ``always``.

    A diverging trial may not press all others into one line.
    """
    ordered = sorted(values)
    if len(ordered) >= 4:
        quarter, last = len(ordered) // 4, len(ordered) - 1
        low, high = ordered[quarter], ordered[last - quarter]
        reach = 3.0 * (high - low)
        ordered = [value for value in ordered if low - reach <= value <= high + reach] if reach > 0 else ordered
    return [*ordered, *always]


def point_size(n_points: int, largest: int) -> int:
    """Marker size in pixels: smaller where hundreds of points would hide each other."""
    return largest if n_points <= 300 else max(3, largest // 2)


def rounded(value: object, digits: int = 5) -> float | None:
    """Enough digits for a pixel; thousands of trials must fit into a page."""
    number = finite(value)
    return None if number is None else float(f"{number:.{digits}g}")


def _round_numbers(low: float, high: float) -> list[float]:
    coarse, fine = (1, 2, 5), (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    for steps in (coarse, fine):
        decades = range(floor(low), ceil(high) + 1)
        inside = [v for decade in decades for step in steps if low <= log10(v := float(f"{step}e{decade}")) <= high]
        if len(inside) >= 4:
            break
    return inside
