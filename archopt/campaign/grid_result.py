"""What a campaign over several sizes comes to: a recommendation a cell, and one table for a law to be fitted to."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archopt.campaign.cells_table import CELL_COLUMNS
from archopt.recommendation import Recommendation

if TYPE_CHECKING:
    import pandas as pd

    from archopt.laws import ScalingLaw


@dataclass(frozen=True)
class GridCell:
    """One cell.

    Attributes:
        n_samples: training rows or bytes; None where the data could not be read to say.
        d_model: D.
        n_trials: that ended: finished, pruned and failed ones.
        recommendation: None where there is none.
        reason: why there is none; None where there is one.
    """

    n_samples: int | None
    d_model: int
    n_trials: int
    recommendation: Recommendation | None
    reason: str | None


@dataclass(frozen=True, eq=False)
class GridResult:
    """A campaign over several sizes.

    Attributes:
        name: of the campaign; its studies are NAME-n1000-d48 and so on.
        cells: in order of n and D, those that could not be searched last.
        frame: one row for each cell and allocation that was tried, as `archopt.campaign.cells_frame` gives it.
        law: fitted to ``frame``; None where no cell has two allocations to compare.
        folder: where results are written, the law as law.json.
        search: why it stopped, trials, seconds, whether it was interrupted; ``not_written`` says what the file system
            refused.
    """

    name: str
    cells: tuple[GridCell, ...]
    frame: "pd.DataFrame"
    law: "ScalingLaw | None"
    folder: Path
    search: dict[str, Any]

    @property
    def interrupted(self) -> bool:
        """Whether it was; the same call goes on."""
        return bool(self.search["interrupted"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.grid/1"."""
        return {
            "schema": "archopt.grid/1",
            "name": self.name,
            "folder": str(self.folder),
            "cells": [
                {
                    "n_samples": cell.n_samples,
                    "d_model": cell.d_model,
                    "n_trials": cell.n_trials,
                    "reason": cell.reason,
                    "recommendation": None if cell.recommendation is None else cell.recommendation.to_dict(),
                }
                for cell in self.cells
            ],
            "frame": [
                {name: getattr(row, name) for name in CELL_COLUMNS} for row in self.frame.itertuples(index=False)
            ],
            "verdict": [] if self.law is None else self.law.verdict().split("\n"),
            "search": dict(self.search),
        }
