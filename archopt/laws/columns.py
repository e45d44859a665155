"""A file of runs to the columns that a fit reads, as the user says which is which."""

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from archopt.data.wording import listed, shown
from archopt.errors import DataError, OptionError

if TYPE_CHECKING:
    import pandas as pd

_PARQUET = {".parquet", ".pq"}


def read_table(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """A CSV, gzip-compressed where it is called .gz, or a Parquet file as it is.

    Raises:
        DataError: it cannot be read as such.
    """
    import pandas as pd

    name, suffix = repr(str(path)[-120:]), Path(path).suffix.lower()
    try:
        if suffix in _PARQUET:
            return _read_parquet(path)
        compression: Literal["gzip"] | None = "gzip" if suffix == ".gz" else None
        frame = pd.read_csv(path, skipinitialspace=True, compression=compression)
        if len(frame.columns) == 1:  # Excel's way in much of Europe, or tabs
            separator = next((mark for mark in (";", "\t") if mark in str(frame.columns[0])), None)
            if separator is not None:
                return pd.read_csv(path, sep=separator, skipinitialspace=True, compression=compression)
        return frame
    except OSError as error:
        raise DataError(f"{name} cannot be read ({error.strerror or error})") from None
    except (EOFError, LookupError, TypeError, ValueError, zlib.error) as error:  # pandas' of a file
        cause = " ".join(str(error).split())[:100]
        raise DataError(f"{name} is no table of runs ({cause}): give a CSV or Parquet file with a header") from None


def _read_parquet(path: str | os.PathLike[str]) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_parquet(path)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def map_columns(frame: "pd.DataFrame", mapping: Mapping[str, str | None], direction: str | None) -> "pd.DataFrame":
    """Columns renamed to what `archopt.fit_scaling_law` reads.

    Args:
        frame: as read.
        mapping: for n_samples, d_model, n_heads, head_dim, loss, loss_sd, seed: the column's name; a number, for
            n_samples and d_model, where it is the same in every row; None where the column has that name, or none.
        direction: of the metric; None where not given, which only a column called "loss" allows.

    Raises:
        OptionError: a column that is not there, or one named twice; no direction for a metric.
    """
    frame = frame.copy()
    names = [str(name) for name in frame.columns]
    frame.columns = names
    renamed: dict[str, str] = {}
    for role, given in mapping.items():
        if given is None or given == role:
            continue
        if given in names:
            if given in renamed:
                raise OptionError(
                    f"column {shown(given)} is named for {renamed[given]} and for {role}: it can be one of them"
                )
            renamed[given] = role
        elif role in ("n_samples", "d_model") and _number(given) is not None:
            frame[role] = _number(given)
        else:
            raise OptionError(f"there is no column {shown(given)} for {role}; the columns are {listed(names)}")
    for role in renamed.values():
        if role in names and role not in renamed:
            frame = frame.drop(columns=role)  # another column was named for it
    frame = frame.rename(columns=renamed)
    metric = mapping.get("loss")
    if metric not in (None, "loss") and direction is None:
        raise OptionError(
            f"is a low or a high {shown(metric)} better? Say direction minimize or maximize{_hint(frame)}"
        )
    return frame


def _hint(frame: "pd.DataFrame") -> str:
    """Where the metric's mean is lowest and highest, which may help to say."""
    import pandas as pd

    by = next((name for name in ("head_dim", "n_heads") if name in frame.columns), None)
    if by is None:
        return ""
    metric = pd.to_numeric(frame["loss"], errors="coerce")
    mean = metric.groupby(frame[by]).mean().dropna()
    if mean.empty or np.isclose(mean.max(), mean.min()):
        return ""
    return f" (its mean is lowest at {by} = {mean.idxmin()}, highest at {mean.idxmax()})"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
