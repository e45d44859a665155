"""What the report of a campaign over several sizes says, section by section."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archopt.report.cells_figure import cells_against_head_dim
from archopt.report.grid_tables import (
    cells_table,
    law_table,
    pruning_by_cell,
    weighting_by_cell,
)
from archopt.report.numbers import MISSING, count, duration, printable
from archopt.report.optimum_figures import ClosedForm, optimum_figures
from archopt.report.page import Page, Section, section
from archopt.report.tables import pairs_table
from archopt.report.wording import Recommendation, TrialRow, allocation_of, lines_of, metric_name, seed_sentence

if TYPE_CHECKING:
    from archopt.laws import ScalingLaw

Rows = Mapping[tuple[int, int], Sequence[TrialRow]]


def grid_page(grid: Mapping[str, Any], law: "ScalingLaw | None", rows: Rows, *, command: str | None = None) -> Page:
    """The report of a campaign over several sizes.

    Args:
        grid: as `GridResult.to_dict` gives it.
        law: fitted to its cells; None where there is none.
        rows: the trials of each (n, D), one a row.
        command: the command line that made the campaign, shown under how to reproduce it.
    """
    found = [cell for cell in grid["cells"] if cell["recommendation"] is not None]
    metric = metric_name(found[0]["recommendation"]) if found else "loss"
    search = grid["search"]
    numbers = [
        ("cells with an answer", f"{len(found):,} of {len(grid['cells']):,}"),
        ("trials", f"{search['n_trials']:,}"),
        ("time", duration(search.get("wall_seconds"))),
    ]
    every: list[Section | None] = [
        section("cells", "What to use at each size, and what ties", _ended(search), tables=[cells_table(grid)]),
        _law(found, law),
        section(
            "landscape",
            f"{metric} against head_dim by cell",
            figures=[cells_against_head_dim(grid["frame"], metric)],
        ),
        section(
            "weighting",
            "Weighting schemes compared",
            tables=[weighting_by_cell(rows, metric)],
            without="Not compared: in no cell have two weightings finished trials with several heads.",
        ),
        section("pruning", "What the pruner did, and what HDI was worth", tables=[pruning_by_cell(grid, rows)]),
        section(
            "cell-reports",
            "Each cell by itself",
            ["Every trial, loss against time, head diversity and learning curves of one size."] if rows else [],
            links=[(f"n = {n:,}, D = {width}", f"n{n}-d{width}/report.html") for n, width in sorted(rows)],
        ),
        _data(found),
        _reproduce(found, rows, command),
    ]
    return Page(
        name=printable(grid["name"], most=120),
        headline=_headline(found),
        certainty=tuple(grid["verdict"][1:3]),
        numbers=tuple((name, value) for name, value in numbers if value != MISSING),
        sections=tuple(each for each in every if each is not None),
    )


def _headline(found: Sequence[Mapping[str, Any]]) -> str:
    splits = [split for cell in found if (split := allocation_of(cell["recommendation"]))]
    if not splits:
        return "No recommendation: no trial has finished"
    dims, heads = sorted({split[1] for split in splits}), sorted({split[0] for split in splits})
    return f"Over {count(len(found), 'size')}: head_dim {_span(dims)}, {_span(heads)} heads"


def _span(values: Sequence[int]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _ended(search: Mapping[str, Any]) -> list[str]:
    told = [f"Stopped: {printable(search['stopped_because'])}."] if search.get("stopped_because") else []
    return [*told, *(f"Left out {printable(line, most=600)}." for line in search.get("left_out", ()))]


def _law(found: Sequence[Mapping[str, Any]], law: "ScalingLaw | None") -> Section | None:
    if law is None:
        return section("law", LAW, without="No law: no cell has two allocations to compare.")
    theory = [
        ClosedForm(float(cell["n_samples"]), cell["d_model"], float(closed["head_dim"]))
        for cell in found
        if (closed := cell["recommendation"].get("theory") or {}).get("head_dim")
    ]
    told = [printable(line, most=600) for line in law.verdict().split("\n")]
    not_fitted = [f"not fitted: {name}: {printable(why)}" for name, why in law.not_fitted.items()] if law.fits else []
    return section(
        "law",
        LAW,
        told,
        figures=optimum_figures(law, theory),
        tables=[law_table(law)],
        points=[*not_fitted, *(printable(note, most=600) for note in law.notes)],
    )


def _data(found: Sequence[Mapping[str, Any]]) -> Section | None:
    """Of the largest n, and what differs at the others is a matter of which rows."""
    known = [cell["recommendation"] for cell in found if cell["recommendation"].get("data")]
    if not known:
        return None
    data = max(known, key=lambda each: each["data"]["n_samples"])["data"]
    sizes = sorted({each["data"]["n_samples"] for each in known})
    unit = "bytes" if data.get("kind") == "text" else "rows"
    told = (
        f"{printable(data['name'], most=120)}: {', '.join(f'{n:,}' for n in sizes)} training {unit} of "
        f"{data['n_available']:,} available; a smaller n is a part of a larger one. At n = {sizes[-1]:,}:"
    )
    return section("data", "The data", [told], points=lines_of(data, "notes"))


def _reproduce(found: Sequence[Mapping[str, Any]], rows: Rows, command: str | None) -> Section | None:
    first: Recommendation = found[0]["recommendation"] if found else {}
    every = [row for of_cell in rows.values() for row in of_cell]
    hashed = (first.get("data") or {}).get("hash")
    told = [
        seed_sentence({"settings": first.get("settings")}, every),
        f"Data, SHA-256: {printable(hashed)}" if hashed else "",
    ]
    of_cell = ("n_samples", "d_model", "context_rows")
    shared = {name: value for name, value in (first.get("settings") or {}).items() if name not in of_cell}
    tables = [
        pairs_table("Settings that all cells share.", shared, "setting"),
        pairs_table("Versions it ran with.", first.get("versions") or {}, "software"),
    ]
    shown = printable(command, most=1000) if command else None
    return section("reproduce", "How to reproduce it", told, tables=tables, command=shown)


LAW = "How the best head_dim and the number of heads move with n and D"
