"""Head weightings compared where nothing else differs: the same heads, settings and seed."""

from collections.abc import Sequence
from statistics import fmean, stdev

from archopt.report.numbers import MISSING, decimals_for, fixed, printable
from archopt.report.tables import Table, finished
from archopt.report.wording import TrialRow, allocation_of

USUAL = "uniform"


def paired_table(rows: Sequence[TrialRow], metric: str) -> Table | None:
    """Each scheme against uniform weights, over pairs of finished trials that differ in it alone; None without pairs.

    Args:
        rows: one a trial, with "params" (all of them) and "replicate".
        metric: its name.
    """
    runs: dict[tuple[str, ...], dict[str, float]] = {}
    for row in finished(rows):
        params = row.get("params") or {}
        if params.get("weighting") and (allocation_of(row) or (1, 1))[0] > 1:
            others = sorted(f"{name}={value!r}" for name, value in params.items() if name != "weighting")
            key = (*others, str(row.get("replicate")))
            runs.setdefault(key, {})[str(params["weighting"])] = float(row["value"])
    schemes = sorted({scheme for values in runs.values() for scheme in values} - {USUAL})
    pairs = {
        scheme: [values[scheme] - values[USUAL] for values in runs.values() if {scheme, USUAL} <= values.keys()]
        for scheme in schemes
    }
    if not any(pairs.values()):
        return None
    decimals = decimals_for([], min((stdev(found) for found in pairs.values() if len(found) > 1), default=None))
    cells = tuple(
        (
            printable(scheme, most=40),
            f"{len(found):,}",
            f"{fmean(found):+.{decimals}f}" if found else MISSING,
            fixed(stdev(found) / len(found) ** 0.5, decimals) if len(found) > 1 else MISSING,
        )
        for scheme, found in pairs.items()
    )
    caption = (
        "Against uniform weights, over pairs of finished trials with the same heads, settings and seed: mean "
        "difference and its standard error."
    )
    return Table(caption, ("weighting", "pairs", f"{metric}, difference", "standard error"), cells, frozenset({0}))
