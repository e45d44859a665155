"""Where a command takes runs from: a file with its columns mapped, or a campaign's storage."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from archopt.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

CELLS_FILE = "cells.csv"


def runs_of_file(path: str, *, columns: dict[str, str | None], direction: str | None) -> "tuple[pd.DataFrame, str]":
    """The runs in a file, their columns renamed; and the direction to fit with."""
    from archopt.laws.columns import map_columns, read_table

    return map_columns(read_table(path), columns, direction), direction or "minimize"


def runs_of_campaign(name: str, storage: str | None) -> "pd.DataFrame":
    """One row a cell and allocation of a campaign, from its storage."""
    from archopt.campaign.cells_table import load_campaign_cells
    from archopt.campaign.settings import RESULTS_FOLDER

    if storage is None:
        path = Path(RESULTS_FOLDER) / name / "study.db"
        if not path.exists():
            raise OptionError(
                f"there is no campaign {name!r} in {RESULTS_FOLDER} here: give its --storage, or a FILE of runs"
            )
        storage = f"sqlite:///{path.absolute()}"
    return load_campaign_cells(storage, name)


def exactly_one(given: Sequence[tuple[str, object]]) -> str:
    """The name of the one option that was given.

    Raises:
        OptionError: none, or several.
    """
    named = [name for name, value in given if value is not None]
    if len(named) != 1:
        came = " and ".join(named) if named else "none"
        raise OptionError(f"give one of {', '.join(name for name, _ in given)} but got {came}")
    return named[0]
