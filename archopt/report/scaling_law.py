"""A fitted law, and a recommendation for a size, as text on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from archopt.laws.families import DESCRIPTIONS
from archopt.report.numbers import printable

if TYPE_CHECKING:
    from archopt.laws import CellSummary, LawFit, ScalingLaw, SizeRecommendation

MOST_CELLS = 40


def print_law(law: "ScalingLaw") -> None:
    """Cells, laws, verdict."""
    rows = [_cell(cell) for cell in law.cells[:MOST_CELLS]]
    _print_table(["cell", "best head_dim", "90 % interval", "censored", "lowest loss", "not told apart"], rows)
    if len(law.cells) > MOST_CELLS:
        _say(f"... and {len(law.cells) - MOST_CELLS} more cells")
    if law.fits:
        print()
        _print_table(
            ["law", "parameters", "scatter", "AICc +", "weight", "", "misses the largest n by"],
            [_law(fit) for fit in law.fits],
        )
    for name, reason in law.not_fitted.items() if law.fits else ():
        _say(f"not fitted: {name} ({DESCRIPTIONS[name]}): {reason}")
    print()
    for line in law.verdict().split("\n"):
        _say(line)
    for note in law.notes:
        _say(f"note: {note}")


def print_size(found: "SizeRecommendation") -> None:
    """The split, its interval, the others that may be best, what it rests on."""
    _say(f"D = {found.d_model}, n = {found.n_samples:,.6g}: {found.reason}")
    low, high = found.interval
    _say(f"best head_dim {found.head_dim:.3g}, {100 * found.confidence:.0f} % interval {low:.3g} to {high:.3g}")
    splits = ", ".join(f"{split} ({100 * share:.0f} %)" for split, share in found.allocations)
    _say(f"splits that hold the best one with {100 * found.confidence:.0f} %: {splits}")
    if found.kernel_friendly is None:
        _say("no split of D has a head_dim that is a multiple of 8 and at most 256, which fused kernels take best")
    elif found.kernel_friendly[0] != found.allocation:
        split, share = found.kernel_friendly
        likely = f"{100 * share:.0f} %" if share >= 0.01 else "< 1 %"
        _say(f"fits fused kernels better (a multiple of 8, at most 256): {split} ({likely})")
    if len(found.sources) > 1:
        for source in found.sources:
            _say(f"{source.name} alone: head_dim {2.0**source.log2_head_dim:.3g}, sd {source.sd:.2f} octaves")
    for caveat in found.caveats:
        _say(f"note: {caveat}")


def _say(line: str) -> None:
    """Names of columns and their values may be in it."""
    print(printable(line, most=2000))


def _cell(cell: "CellSummary") -> list[str]:
    return [
        cell.label,
        f"{cell.head_dim:.3g}",
        f"{cell.low:.3g} to {cell.high:.3g}",
        {"": "", "below": "or lower", "above": "or higher", "both": "or beyond"}[cell.censored],
        str(cell.best_tried),
        ", ".join(map(str, cell.tied)) or "noise unknown",
    ]


def _law(fit: "LawFit") -> list[str]:
    error = "" if fit.largest_n_error is None else f"{fit.largest_n_error:.2f} octaves"
    rejected = "rejected" if fit.rejected else ""
    return [fit.name, fit.in_words, f"{fit.scatter:.2f}", f"{fit.delta:.1f}", f"{fit.weight:.2f}", rejected, error]


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
