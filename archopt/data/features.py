"""Which columns can be learned from, and as what: decided by the training rows alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archopt.data.kinds import LARGEST, ColumnType, convert, labels_of, plain_values, recognise
from archopt.data.wording import counted, listed, shown
from archopt.errors import DataError

_MONTHS_PER_YEAR = 12
_ROW_NUMBER_NAMES = ("", "index", "id", "row", "rowid", "unnamed: 0")
_MIN_ROWS_FOR_IDENTIFIER = 10

Values = NDArray[Any]


@dataclass(frozen=True)
class Feature:
    """One input of a model before scaling and one-hot encoding.

    Args:
        name: the column's name, with ": month (sin)" and the like for parts of a date.
        role: "number" (imputed, scaled), "unit" (already of size one: truth values, cyclic parts of dates) or
            "category" (one-hot).
        column: the table's column that it is made from.
        column_type: how that column is read.
        part: the part of a date, else "".
    """

    name: str
    role: str
    column: str
    column_type: ColumnType
    part: str = ""

    def values(self, column: Any) -> Values:
        """The feature from a pyarrow column: float64 with NaN, or object array of str with None."""
        declared, plain = plain_values(column)
        values = convert(declared, plain, self.column_type)
        if self.role == "category":
            return labels_of(values)
        return _DATE_PARTS[self.part](values) if self.part else values


def choose_features(table: Any, names: list[str], *, time_column: str | None) -> tuple[list[Feature], list[str]]:
    """Read the columns of the training rows and keep those that can tell one row from another.

    Args:
        table: pyarrow.Table of the training rows.
        names: the candidate columns.
        time_column: if among them, only its cyclic parts are kept: later rows lie outside the range trained on.

    Returns:
        The features, and a line for each thing found.

    Raises:
        DataError: no column is left.
    """
    features: list[Feature] = []
    notes: list[str] = []
    dropped: dict[str, list[str]] = {}
    for name in names:
        declared, plain = plain_values(table.column(name))
        column_type = recognise(declared, plain)
        if column_type.kind == "nested":
            dropped.setdefault("lists, structs or bytes", []).append(name)
            continue
        values = convert(declared, plain, column_type)
        if column_type.kind == "category":
            values = labels_of(values)
        reason = _useless(name, column_type, values)
        if reason:
            dropped.setdefault(reason, []).append(name)
            continue
        notes += _reading_notes(name, declared, plain, column_type, values)
        made = _features_of(name, column_type, values, whole=name != time_column)
        if name == time_column and not made:
            dropped.setdefault("orders the rows, and later rows lie beyond the training range", []).append(name)
        features += made
    notes += [
        f"dropped {counted(len(some), 'column')} ({reason}): {listed(some, 8)}" for reason, some in dropped.items()
    ]
    if not features:
        why = "; ".join(f"{listed(some, 2)}: {reason}" for reason, some in dropped.items())[:160]
        raise DataError(f"no column is left to learn from{f' ({why})' if why else ': the table holds only the target'}")
    return features, notes


def _useless(name: str, column_type: ColumnType, values: Values) -> str:
    missing = _is_missing(values)
    there = values[~missing]
    if not len(there):
        return "no value in any training row"
    distinct = len(set(there.tolist()))
    if distinct == 1 and not missing.any():
        return "the same value in every training row"
    if distinct == len(values) and len(values) >= _MIN_ROWS_FOR_IDENTIFIER:
        if column_type.kind == "category":
            return "a different text in every training row, like an identifier"
        if column_type.kind == "number" and name.casefold() in _ROW_NUMBER_NAMES and np.all(there == np.rint(there)):
            return "row numbers"
    return ""


def _features_of(name: str, column_type: ColumnType, values: Values, *, whole: bool) -> list[Feature]:
    """The features that a usable column gives; ``whole`` is False for the column that orders the rows by time."""
    if column_type.kind != "date":
        role = {"number": "number", "boolean": "unit", "category": "category"}[column_type.kind]
        return [Feature(name, role, name, column_type)] if whole else []
    made = [Feature(f"{name}: days", "number", name, column_type, "days")] if whole else []
    for part, of_dates in _DATE_PARTS.items():
        if part == "days":
            continue
        numbers = of_dates(values)
        if np.ptp(numbers[~np.isnan(numbers)]) > 1e-9:  # weekdays of monthly data, hours of daily data
            made.append(Feature(f"{name}: {part}", "unit", name, column_type, part))
    return made


def _reading_notes(
    name: str, declared: ColumnType, plain: Values, column_type: ColumnType, values: Values
) -> list[str]:
    notes = []
    if column_type.kind in ("number", "date"):
        lost = ~_is_missing(plain) & _is_missing(values)
        infinite = int((lost & (np.abs(plain) > LARGEST)).sum()) if declared.kind == "number" else 0
        if infinite:
            notes.append(f"{shown(name)}: {counted(infinite, 'infinite value')} taken as missing")
        if lost.sum() > infinite:
            example = plain[lost][0]
            what = "date" if column_type.kind == "date" else "finite number"
            what = f"{counted(int(lost.sum()) - infinite, 'value')}, no {what} (such as {shown(example, 20)}),"
            notes.append(f"{shown(name)}: {what} taken as missing")
        if column_type.decimal_comma:
            notes.append(f"{shown(name)}: commas read as decimal points")
    if column_type.kind == "date":
        how = "" if column_type.date_format in (None, "ISO8601") else f" as {column_type.date_format}"
        notes.append(
            f"{shown(name)}: dates read{how}, into days and month, weekday and hour on a circle where they vary"
        )
    return notes


def _is_missing(values: Values) -> NDArray[np.bool_]:
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def _days(dates: Values) -> NDArray[np.float64]:
    seconds = (dates - np.datetime64("1970-01-01T00:00:00", "us")) / np.timedelta64(1, "s")
    return np.asarray(seconds / 86_400.0, dtype=np.float64)


def _months(dates: Values) -> NDArray[np.float64]:
    month = dates.astype("datetime64[M]").astype(np.int64) % _MONTHS_PER_YEAR
    return np.where(np.isnat(dates), np.nan, month / _MONTHS_PER_YEAR)


def _circle(turns: Callable[[Values], NDArray[np.float64]], wave: Any) -> Callable[[Values], NDArray[np.float64]]:
    return lambda dates: np.asarray(wave(2 * np.pi * turns(dates)), dtype=np.float64)


_TURNS: dict[str, Callable[[Values], NDArray[np.float64]]] = {
    "month": _months,
    "weekday": lambda dates: np.floor(_days(dates)) % 7 / 7,
    "hour": lambda dates: _days(dates) % 1.0,
}
_DATE_PARTS: dict[str, Callable[[Values], NDArray[np.float64]]] = {
    "days": _days,
    **{
        f"{cycle} ({wave})": _circle(turns, function)
        for cycle, turns in _TURNS.items()
        for wave, function in (("sin", np.sin), ("cos", np.cos))
    },
}
