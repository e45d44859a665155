"""Where a command takes runs from: a file with its columns mapped, or a campaign's storage."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from archopt.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd


def runs_of_file(path: str, *, columns: dict[str, str | None], direction: str | None) -> "pd.DataFrame":
    """The runs in a file, their columns renamed; ``direction`` must be there for a metric that is not called loss."""
    from archopt.laws.columns import map_columns, read_table

    return map_columns(read_table(path), columns, direction)


def storage_of_campaign(name: str, storage: str | None, otherwise: str = "") -> str:
    """The URL of a campaign's storage: as given, or of the file in the folder that a search here makes.

    Args:
        otherwise: what else may be given; for the message.

    Raises:
        OptionError: none was given, and there is no such file.
    """
    from archopt.campaign.settings import RESULTS_FOLDER

    if storage is not None:
        return storage
    path = Path(RESULTS_FOLDER) / name / "study.db"
    if not path.exists():
        raise OptionError(
            f"there is no campaign {name[:100]!r} in {RESULTS_FOLDER} here: give its --storage{otherwise}"
        )
    return f"sqlite:///{path.absolute()}"


def runs_of_campaign(name: str, storage: str | None) -> "tuple[pd.DataFrame, str]":
    """One row a cell and allocation of a campaign, from its storage; and whether its data are a table or a text."""
    from archopt.campaign.cells_table import load_campaign_cells
    from archopt.campaign.storage import storage_faults

    storage = storage_of_campaign(name, storage, ", or a FILE of runs")
    with storage_faults("while the campaign was read"):
        return load_campaign_cells(storage, name)


def runs_of_studies(given: Sequence[str], storage: str | None) -> "pd.DataFrame":
    """One row a study and allocation of any Optuna studies, each given as NAME=N or NAME=N,D.

    Raises:
        OptionError: no storage, a size that is no number, or a study that the storage does not hold.
        StorageError: the storage cannot be opened.
    """
    from archopt.campaign.cells_table import cells_frame
    from archopt.campaign.storage import load_studies, storage_faults

    url = storage_of_studies(storage)
    sizes = [_sizes(text) for text in given]
    with storage_faults("while the studies were read"):
        studies = load_studies(url, [name for name, _, _ in sizes])
        return cells_frame(studies, n_samples=[n for _, n, _ in sizes], d_models=[width for _, _, width in sizes])


def storage_of_studies(storage: str | None) -> str:
    """The storage that `--study` needs.

    Raises:
        OptionError: none was given.
    """
    if storage is None:
        raise OptionError("--study needs --storage, the URL of the Optuna storage that holds it")
    return storage


def _sizes(text: str) -> tuple[str, float | None, int | None]:
    """Name, n and D of NAME, NAME=N or NAME=N,D."""
    name, _, rest = text.rpartition("=") if "=" in text else (text, "", "")
    n, _, width = rest.partition(",")
    try:
        return name, float(n) if n else None, int(float(width)) if width else None
    except ValueError:
        raise OptionError(f"--study must be NAME=N or NAME=N,D but got {text[:60]!r}") from None


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
