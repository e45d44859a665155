"""The report of a campaign over several sizes, and the law that it shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archopt.campaign.grid_result import GridResult
from archopt.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from archopt.laws import ScalingLaw


@dataclass(frozen=True)
class GridReport:
    """What the report is made from.

    Attributes:
        rows: trials as `results.trial_rows` gives them, by (n, D).
        command: that repeats the campaign; None where it is not on record.
    """

    result: GridResult
    rows: Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]
    command: str | None


def fitted_law(
    frame: "pd.DataFrame", facts: Sequence[Mapping[str, Any]], *, source: str, plan: bool = False
) -> "ScalingLaw | None":
    """The law of a campaign's cells; None where no cell has two allocations to compare.

    Args:
        frame: as `cells_frame` gives it.
        facts: of the cells, as recorded; those of the largest n say what the data are.
        source: name of the campaign.
        plan: whether to work out how many more cells would tell laws apart, which takes a while.
    """
    from archopt.laws import fit_scaling_law

    known = [fact for fact in facts if fact.get("data") and fact.get("theory")]
    largest = max(known, key=lambda fact: fact["data"]["n_samples"], default=None)
    try:
        return fit_scaling_law(
            frame,
            family="table" if largest is None or largest["data"]["kind"] != "text" else "text",
            intrinsic_dim=None if largest is None else largest["theory"]["intrinsic_dim"],
            confidence=next((fact["confidence"] for fact in facts if fact.get("confidence")), 0.9),
            plan=plan,
            source=source,
        )
    except DataError:
        return None


def write_grid_report(report: GridReport, *, pictures: bool = True) -> list[Path]:
    """report.html of the campaign, with the pictures of its figures.

    Raises:
        StorageError: the file system refuses.
    """
    from archopt.report.grid_page import grid_page
    from archopt.report.write import write_page

    result = report.result
    page = grid_page(result.to_dict(), result.law, report.rows, command=report.command)
    return write_page(result.folder, page, pictures=pictures)
