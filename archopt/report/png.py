"""The report's figures as PNG files for slides: the same traces and layout, drawn without a browser."""

import itertools
from collections.abc import Mapping, Sequence
from html import unescape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from archopt.report.figure import INK, Figure
from archopt.report.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = "figures"
INCHES, DOTS_PER_INCH = (10.0, 5.625), 160  # 1600 x 900, a slide's shape
PAPER, TEXT, GRID = "#ffffff", "#1b2026", "#d5dae0"
LEGEND_COLUMNS = ((4, 24), (3, 36), (2, 1_000))  # so many fit, of labels up to so many letters
PIXEL = 0.8  # points of 1/72 inch that a pixel of the page becomes
_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "cross": "P",
    "x": "x",
    "triangle-up": "^",
    "triangle-down": "v",
    "star": "*",
    "hexagon": "h",
    "pentagon": "p",
    "bowtie": "d",
}
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def write_pngs(folder: Path, figures: Sequence[Figure]) -> list[Path]:
    """One file a figure, ``folder``/figures/KEY.png, 1600 x 900 pixels.

    Raises:
        StorageError: the file system refuses.
    """
    written = []
    for figure in figures:
        path = folder / FOLDER / f"{figure.key}.png"
        write_bytes(path, drawn(figure))
        written.append(path)
    return written


def drawn(figure: Figure) -> bytes:
    """The figure as a PNG, light, with its title."""
    from io import BytesIO

    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with rc_context({"font.size": 13, "font.family": "sans-serif", "text.color": TEXT, "axes.labelcolor": TEXT}):
        canvas = Canvas(figsize=INCHES, dpi=DOTS_PER_INCH, facecolor=PAPER)
        FigureCanvasAgg(canvas)
        axes = canvas.subplots()
        places = _categories(figure)
        for order, trace in enumerate(figure.data):
            _box(axes, trace, order) if trace["type"] == "box" else _scatter(axes, trace, order, places)
        _fill_between(axes, figure.data)
        _axis(axes, figure.layout.get("xaxis") or {}, "x")
        _axis(axes, figure.layout.get("yaxis") or {}, "y")
        axes.set_title(_plain(figure.title), loc="left", pad=14, fontsize=16)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        handles, labels = axes.get_legend_handles_labels()
        longest = max(map(len, labels), default=0)
        columns = next(count for count, letters in LEGEND_COLUMNS if longest <= letters)
        rows = -(-len(labels) // columns)
        if labels:
            legend = canvas.legend(handles, labels, loc="lower left", ncols=columns, frameon=False, fontsize=11)
            legend.set_bbox_to_anchor((0.08, 0.005))
        canvas.subplots_adjust(left=0.09, right=0.98, top=0.9, bottom=0.13 + 0.045 * rows)
        stream = BytesIO()
        canvas.savefig(stream, format="png", pil_kwargs={"compress_level": 3})
        return stream.getvalue()


def _scatter(axes: "Axes", trace: Mapping[str, Any], order: int, places: Mapping[str, int]) -> None:
    mode = trace.get("mode", "lines")
    x, y = _numbers(trace["x"], places), _numbers(trace["y"], {})
    line, marker = trace.get("line") or {}, trace.get("marker") or {}
    colour = line.get("color") or marker.get("color") or INK
    label = _plain(trace.get("name", "")) if trace.get("showlegend", True) and trace.get("name") else None
    opacity = trace.get("opacity", 1.0)
    if trace.get("fill") == "toself":
        fill, alpha = _colour(trace["fillcolor"])
        axes.fill(x, y, color=fill, alpha=alpha, linewidth=0, label=label, zorder=order / 100)
        label = None
    if trace.get("error_y"):
        bars = trace["error_y"]
        below = _numbers(bars.get("arrayminus", bars["array"]), {})
        reach = [below, _numbers(bars["array"], {})]
        axes.errorbar(x, y, yerr=reach, fmt="none", ecolor=bars.get("color", INK), elinewidth=1, zorder=2 + order / 100)
    width = line.get("width", 2)
    if "lines" in mode and width:
        style = _DASHES[line.get("dash", "solid")]
        drawstyle = "steps-post" if line.get("shape") == "hv" else "default"
        axes.plot(
            x,
            y,
            color=colour,
            linestyle=style,
            linewidth=PIXEL * width,
            drawstyle=drawstyle,
            alpha=opacity,
            label=label,
            zorder=2 + order / 100,
        )
        label = None
    if "markers" in mode:
        _markers(axes, x, y, marker, colour, opacity, label, order)
    if "text" in mode:
        _texts(axes, x, y, trace)


def _markers(
    axes: "Axes",
    x: Sequence[float],
    y: Sequence[float],
    marker: Mapping[str, Any],
    colour: str,
    opacity: float,
    label: str | None,
    order: int,
) -> None:
    symbols = marker.get("symbol", "circle")
    if not isinstance(symbols, str):  # a symbol a point
        for each in dict.fromkeys(symbols):
            held = [k for k, symbol in enumerate(symbols) if symbol == each]
            one = {**marker, "symbol": each}
            _markers(axes, [x[k] for k in held], [y[k] for k in held], one, colour, opacity, label, order)
            label = None
        return
    symbol = symbols
    face = "none" if symbol.endswith("-open") else marker.get("color", colour)
    shape = _MARKERS[symbol.removesuffix("-open")]
    axes.plot(
        x,
        y,
        linestyle="none",
        marker=shape,
        markersize=PIXEL * float(marker.get("size", 6)),
        markerfacecolor=face,
        markeredgecolor=marker.get("color", colour),
        markeredgewidth=(marker.get("line") or {}).get("width", 1),
        alpha=opacity * marker.get("opacity", 1.0),
        clip_on=False,
        label=label,
        zorder=3 + order / 100,
    )


def _texts(axes: "Axes", x: Sequence[float], y: Sequence[float], trace: Mapping[str, Any]) -> None:
    sides = trace.get("textposition", "top center")
    for k, text in enumerate(trace.get("text", ())):
        side = sides if isinstance(sides, str) else sides[k]
        vertical, horizontal = side.split()
        axes.annotate(
            _plain(text),
            (x[k], y[k]),
            xytext=({"left": -4, "center": 0, "right": 4}[horizontal], {"top": 5, "middle": 0, "bottom": -5}[vertical]),
            textcoords="offset points",
            ha={"left": "right", "center": "center", "right": "left"}[horizontal],
            va={"top": "bottom", "middle": "center", "bottom": "top"}[vertical],
            fontsize=10,
            color=(trace.get("textfont") or {}).get("color", TEXT),
        )


def _fill_between(axes: "Axes", traces: Sequence[Mapping[str, Any]]) -> None:
    """A trace that fills to the one before it."""
    for before, trace in itertools.pairwise(traces):
        if trace.get("fill") == "tonexty":
            fill, alpha = _colour(trace["fillcolor"])
            low, high = _numbers(before["y"], {}), _numbers(trace["y"], {})
            label = _plain(trace["name"]) if trace.get("showlegend", True) and trace.get("name") else None
            axes.fill_between(
                _numbers(trace["x"], {}), low, high, color=fill, alpha=alpha, linewidth=0, label=label, zorder=1
            )


def _box(axes: "Axes", trace: Mapping[str, Any], order: int) -> None:
    values = _numbers(trace["y"], {})
    style = {"color": INK, "linewidth": 1.5}
    axes.boxplot(
        [values],
        positions=[order],
        widths=0.5,
        showfliers=False,
        boxprops=style,
        whiskerprops=style,
        capprops=style,
        medianprops=style,
        manage_ticks=False,
    )
    marker = trace["marker"]
    spread = [order + 0.3 * ((k * 0.618034) % 1.0 - 0.5) for k in range(len(values))]  # the golden ratio: no clumps
    axes.plot(
        spread,
        values,
        linestyle="none",
        marker="o",
        markersize=PIXEL * marker["size"],
        color=marker["color"],
        alpha=marker["opacity"],
    )


def _axis(axes: "Axes", axis: Mapping[str, Any], which: Literal["x", "y"]) -> None:
    of = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(_plain((axis.get("title") or {}).get("text", "")))
    limits = axes.set_xlim if which == "x" else axes.set_ylim
    ends = axis.get("range")
    if axis.get("type") == "log":
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        ends = [10.0**end for end in ends] if ends else None
        of.set_minor_locator(_no_ticks())
    if axis.get("type") == "category":
        names = axis.get("categoryarray", ())
        of.set_ticks(range(len(names)), [_plain(name) for name in names])
        limits(-0.6, len(names) - 0.4)
    if ends:
        limits(*ends)
    if axis.get("tickvals"):
        of.set_ticks(axis["tickvals"], [_plain(text) for text in axis["ticktext"]])
    axes.tick_params(axis=which, colors=TEXT, length=0 if which == "y" else 3)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _categories(figure: Figure) -> dict[str, int]:
    names = (figure.layout.get("xaxis") or {}).get("categoryarray", ())
    return {name: place for place, name in enumerate(names)}


def _numbers(values: Sequence[Any], places: Mapping[str, int]) -> list[float]:
    """Gaps as NaN, names as their places."""
    return [nan if value is None else float(places.get(value, value)) for value in values]


def _plain(text: object) -> str:
    """Without the escapes that plotly's texts need; a dollar sign begins no formula."""
    return unescape(str(text)).replace("<br>", "\n").replace("$", r"\$")


def _colour(text: str) -> tuple[tuple[float, float, float], float]:
    """Red, green, blue and opacity of "rgba(r, g, b, a)"."""
    red, green, blue, opacity = (float(part) for part in text[text.index("(") + 1 : -1].split(","))
    return (red / 255, green / 255, blue / 255), opacity
