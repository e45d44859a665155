"""The tables of a campaign over several sizes, a row a cell or a law."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from archopt.laws.families import DESCRIPTIONS
from archopt.report.numbers import MISSING, decimals_for, finite, fixed, printable, probability, short, step_time
from archopt.report.pruning import share_saved
from archopt.report.tables import Table, loss_decimals, values_by_weighting
from archopt.report.wording import Recommendation, TrialRow, allocation_of, metric_name, ties

if TYPE_CHECKING:
    from archopt.laws import ScalingLaw

Rows = Mapping[tuple[int, int], Sequence[TrialRow]]


def cells_table(grid: Mapping[str, Any]) -> Table | None:
    """What to use in each cell, how sure, what it costs and what ties; None without cells."""
    rows = []
    for cell in grid["cells"]:
        found = cell["recommendation"]
        where = (MISSING if cell["n_samples"] is None else f"{cell['n_samples']:,}", f"{cell['d_model']:,}")
        if found is None:
            reason = printable(cell["reason"] or "no trial finished", most=160)
            rows.append((*where, f"{cell['n_trials']:,}", MISSING, MISSING, MISSING, MISSING, MISSING, reason))
            continue
        split = allocation_of(found) or (0, 0)
        estimate = _estimate(found, split)
        seconds = finite(estimate.get("seconds_per_step"))
        tied = [f"{heads} x {width}{_cost(found, (heads, width), seconds)}" for heads, width in ties(found)]
        theory = finite((found.get("theory") or {}).get("head_dim"))
        rows.append(
            (
                *where,
                f"{cell['n_trials']:,}",
                f"{split[0]} x {split[1]}",
                probability(found.get("p_best")),
                fixed(estimate.get("mean"), loss_decimals(found)),
                step_time(seconds),
                short(theory),
                ", ".join(tied) or "none",
            )
        )
    if not rows:
        return None
    known = [cell["recommendation"] for cell in grid["cells"] if cell["recommendation"] is not None]
    metric = metric_name(known[0]) if known else "loss"
    columns = ("n", "D", "trials", "use", "P(best)", metric, "step time", "closed form", "cannot be told apart")
    caption = (
        "use: recommended, heads x head_dim. P(best): that no other allowed allocation is better. closed form: the "
        "head_dim that it suggests. In brackets: step time relative to the recommendation's."
    )
    return Table(caption, columns, tuple(rows), frozenset({3, 8}))


def law_table(law: "ScalingLaw") -> Table | None:
    """The fitted laws, best first; None without any."""
    if not law.fits:
        return None
    rows = tuple(
        (
            DESCRIPTIONS[fit.name],
            fit.in_words.replace("_", " "),
            f"{fit.scatter:.2f}",
            f"{fit.delta:.1f}",
            f"{fit.weight:.2f}",
            MISSING if fit.largest_n_error is None else f"{fit.largest_n_error:.2f}",
            "rejected" if fit.rejected else "",
        )
        for fit in law.fits
    )
    columns = ("law", "parameters", "scatter", "AICc +", "weight", "misses", "verdict")
    caption = (
        f"Laws of the best head_dim, parameters with {100 * law.confidence:.0f} % intervals, best first. scatter: of "
        "cells about the law, octaves. AICc +: behind the best. misses: octaves by which it misses the largest n when "
        "fitted without."
    )
    return Table(caption, columns, rows, frozenset({0, 1, 6}))


def weighting_by_cell(rows: Rows, metric: str) -> Table | None:
    """The median of each weighting's finished trials in each cell; None where no cell has two."""
    groups = {size: values_by_weighting(of_cell) for size, of_cell in sorted(rows.items())}
    held = {size: found for size, found in groups.items() if len(found) > 1}
    if not held:
        return None
    schemes = list(dict.fromkeys(scheme for found in held.values() for scheme in found))
    decimals = decimals_for([value for found in held.values() for values in found.values() for value in values])
    cells = tuple(
        (
            f"{n:,}",
            f"{width:,}",
            *(f"{fixed(median(found[s]), decimals)} ({len(found[s])})" if s in found else MISSING for s in schemes),
        )
        for (n, width), found in held.items()
    )
    caption = (
        f"Median {metric} of the finished trials with several heads, and how many there are; their other settings "
        "differ, so this is a look and not a test."
    )
    return Table(caption, ("n", "D", *(printable(scheme, most=24) for scheme in schemes)), cells)


def pruning_by_cell(grid: Mapping[str, Any], rows: Rows) -> Table | None:
    """Trials by how they ended, steps saved, and what head diversity was worth, in each cell; None without trials."""
    cells = []
    for cell in grid["cells"]:
        found = cell["recommendation"]
        of_cell = rows.get((cell["n_samples"], cell["d_model"]))
        if found is None or not of_cell:
            continue
        states = [row.get("state") for row in of_cell]
        worth, saved = found.get("diversity_worth") or {}, share_saved(of_cell)
        gain, low, high = (finite(worth.get(key)) for key in ("gain", "low", "high"))
        tau, error = finite(worth.get("tau")), finite(worth.get("tau_error"))
        cells.append(
            (
                f"{cell['n_samples']:,}",
                f"{cell['d_model']:,}",
                f"{states.count('complete'):,}",
                f"{states.count('pruned'):,}",
                f"{states.count('failed'):,}",
                MISSING if saved is None else f"{100 * saved:.0f} %",
                printable(worth.get("helped") or MISSING, most=24),
                MISSING
                if gain is None or low is None or high is None
                else f"{100 * gain:.1f} % [{100 * low:.1f}, {100 * high:.1f}]",
                MISSING if tau is None or error is None else f"{tau:+.2f} ± {error:.2f}",
            )
        )
    columns = ("n", "D", "finished", "pruned", "failed", "steps saved", "HDI helped", "gain", "tau")
    caption = (
        "gain: how much reading head diversity with the curve lowered the squared error of forecasts of left-out "
        "trials, 90 % interval. tau: Kendall's, between the z-score of HDI and the final value at equal numbers of "
        "heads, ± what chance gives."
    )
    return Table(caption, columns, tuple(cells), frozenset({6})) if cells else None


def _estimate(found: Recommendation, split: tuple[int, int]) -> Mapping[str, Any]:
    entries: Sequence[Mapping[str, Any]] = found.get("allocations") or ()
    return next((entry for entry in entries if allocation_of(entry) == split), {})


def _cost(found: Recommendation, split: tuple[int, int], seconds: float | None) -> str:
    own = finite(_estimate(found, split).get("seconds_per_step"))
    return f" ({own / seconds:.2f}x)" if own is not None and seconds else ""
