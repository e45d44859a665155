"""What the terminal prints when a campaign over several sizes ends: a line a cell."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from archopt.report.numbers import MISSING, duration, encoded, probability
from archopt.report.tables import Table
from archopt.report.text import drawn_table
from archopt.report.wording import allocation_of, ties

CAPTION = (
    "best: recommended, heads x head_dim. P(best): that no other allowed allocation is better. tied: cannot be told "
    "apart from it."
)


def grid_table(grid: Mapping[str, Any]) -> Table:
    """A row for each cell that was searched, from `GridResult.to_dict`."""
    rows = []
    for cell in grid["cells"]:
        found = cell["recommendation"]
        if found is None and not cell["n_trials"]:
            continue
        best = None if found is None else allocation_of(found["allocation"])
        tied = [] if found is None else [f"{heads}x{width}" for heads, width in ties(found)]
        rows.append(
            (
                MISSING if cell["n_samples"] is None else f"{cell['n_samples']:,}",
                str(cell["d_model"]),
                f"{cell['n_trials']:,}",
                MISSING if best is None else f"{best[0]}x{best[1]}",
                MISSING if found is None else probability(found["p_best"]),
                " ".join(tied) or MISSING,
            )
        )
    return Table(CAPTION, ("n", "D", "trials", "best", "P(best)", "tied"), tuple(rows), text_columns=frozenset({5}))


def grid_summary(grid: Mapping[str, Any], *, encoding: str = "utf-8") -> Group:
    """The campaign for a terminal of 80 columns or more."""
    search = grid["search"]
    parts: list[RenderableType] = [
        drawn_table(grid_table(grid), encoding),
        Text(encoded(CAPTION, encoding), style="dim"),
        Text(""),
    ]
    for cell in grid["cells"]:
        if cell["n_trials"] and cell["recommendation"] is None:
            where = f"n = {cell['n_samples']:,}, D = {cell['d_model']}"
            parts.append(Text(encoded(f"No answer at {where}: {cell['reason']}.", encoding)))
    parts += [Text(encoded(f"Left out {line}.", encoding)) for line in search["left_out"]]
    searched = [cell["recommendation"] for cell in grid["cells"] if cell["recommendation"] is not None]
    n_compared = sum(bool(found["comparison"]) for found in searched)
    if n_compared < len(searched):
        parts.append(Text(f"Compared with today's practices on the test split: {n_compared} of {len(searched)} cells."))
    parts += [Text(""), *(Text(encoded(line, encoding)) for line in grid["verdict"]), Text("")]
    parts.append(Text(encoded(f"Stopped: {search['stopped_because']}.", encoding)))
    parts.append(Text(f"Trials: {search['n_trials']:,} in {duration(search['wall_seconds'])}."))
    return Group(*parts)


def print_grid_summary(grid: Mapping[str, Any], console: Console | None = None) -> None:
    """Print `grid_summary`, on standard output unless another console is given."""
    console = console or Console(highlight=False)
    console.print(grid_summary(grid, encoding=console.encoding))
