"""The target column: which task it poses, and its values as numbers or class labels."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archopt.data.kinds import ColumnType, convert, labels_of, plain_values, recognise
from archopt.data.wording import counted, shown
from archopt.errors import DataError

Task = Literal["regression", "classification"]

MAX_CLASSES = 1_000
MIN_ROWS_PER_CLASS = 5  # on average: a target with more classes than a fifth of the rows is a name, not a class
MAX_WHOLE_CLASSES = 20  # whole numbers with more distinct values are taken as quantities


@dataclass(frozen=True, eq=False)
class Target:
    """A target as it is learned.

    Args:
        task: what is learned.
        column_type: how the column was read, for a second file's.
        values: shape (rows,); float64 with NaN (regression), or object array of str with None (classification), where
            missing.
        notes: how the task was told, and what could not be read.
    """

    task: Task
    column_type: ColumnType
    values: NDArray[Any]
    notes: tuple[str, ...]


def read_target(column: Any, name: str, task: Literal["auto", "regression", "classification"]) -> Target:
    """Tell the task from a target column and convert its values.

    Text and truth values are classes; so are two distinct numbers, and whole numbers with at most 20 distinct values
    and five rows a value; other numbers are quantities.

    Args:
        column: pyarrow column, all rows.
        task: "auto" to tell it from the values.

    Raises:
        DataError: nothing but missing values, one distinct value, dates, text where numbers are needed, or too many
            classes.
    """
    declared, plain = plain_values(column)
    column_type = recognise(declared, plain)
    if column_type.kind in ("nested", "date"):
        what = "dates" if column_type.kind == "date" else "lists or bytes"
        raise DataError(f"target {shown(name)} holds {what}: a target must hold numbers or classes")
    values = convert(declared, plain, column_type)
    if column_type.kind == "category":
        values = labels_of(values)
    missing = _is_missing(values)
    if missing.all():
        raise DataError(f"target {shown(name)} holds no usable value in any of the {len(values):,} rows")
    distinct = (
        len(set(values[~missing].tolist())) if column_type.kind == "category" else len(np.unique(values[~missing]))
    )
    if distinct == 1:
        value = (values if column_type.kind == "category" else labels_of(values))[~missing][0]
        raise DataError(f"target {shown(name)} is constant (always {shown(value)}): there is nothing to learn")
    n_rows = int((~missing).sum())
    notes = [_lost_note(name, plain, declared, missing)] if column_type.kind == "number" else []
    told, why = _tell_task(column_type, values[~missing], distinct)
    if task == "auto":
        notes.append(f"task: {told}, as target {shown(name)} holds {why} (--task overrides)")
        task = told
    if task == "regression":
        if column_type.kind == "category":
            example = values[~missing][0]
            raise DataError(f"regression needs numbers but target {shown(name)} holds text such as {shown(example)}")
        return Target(task, column_type, values, tuple(filter(None, notes)))
    limit = min(MAX_CLASSES, max(2, n_rows // MIN_ROWS_PER_CLASS))
    if distinct > limit:
        hint = "" if column_type.kind == "category" else ", or choose regression"
        raise DataError(
            f"target {shown(name)} has {distinct:,} classes in {n_rows:,} rows; at most {limit:,} can be learned: "
            f"name another target{hint}"
        )
    return Target(task, column_type, _labels(column_type, values), tuple(filter(None, notes)))


def convert_target(column: Any, like: Target) -> NDArray[Any]:
    """A second file's target, read as the first file's was: shape (rows,), as ``Target.values``."""
    declared, plain = plain_values(column)
    values = convert(declared, plain, like.column_type)
    return values if like.task == "regression" else _labels(like.column_type, values)


def sorted_classes(labels: NDArray[Any]) -> tuple[str, ...]:
    """Distinct labels: by value where all are numbers, else by name."""
    names = sorted(set(labels.tolist()))
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
        return tuple(names)


def mean_and_scale(targets: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard deviation of targets (rows,); exactly 0 for the latter where they are all the same."""
    mean = float(targets.mean())
    if np.ptp(targets) == 0.0:
        return mean, 0.0
    largest = float(np.abs(targets - mean).max())  # squares of tiny deviations would vanish
    return mean, largest * float(((targets - mean) / largest).std())


def present(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which target values are there."""
    return ~_is_missing(values)


def _labels(column_type: ColumnType, values: NDArray[Any]) -> NDArray[Any]:
    if column_type.kind != "boolean":
        return labels_of(values)
    words = np.array(["False", "True", None], dtype=object)
    return np.asarray(words[np.where(np.isnan(values), 2, values).astype(int)])


def _tell_task(column_type: ColumnType, values: NDArray[Any], distinct: int) -> tuple[Task, str]:
    if column_type.kind != "number":
        what = "text" if column_type.kind == "category" else "truth values"
        return "classification", f"{what} ({distinct:,} distinct)"
    if distinct == 2:
        return "classification", "two distinct numbers"
    whole = bool(np.all(values == np.rint(values)))
    if whole and distinct <= MAX_WHOLE_CLASSES and distinct * MIN_ROWS_PER_CLASS <= len(values):
        return "classification", f"{distinct} distinct whole numbers"
    return "regression", f"{distinct:,} distinct {'whole ' if whole else ''}numbers"


def _lost_note(name: str, plain: NDArray[Any], declared: ColumnType, missing: NDArray[np.bool_]) -> str:
    """Values that were there but are no finite number."""
    there = ~np.isnan(plain) if declared.kind == "number" else np.array([value is not None for value in plain])
    lost = int((missing & there).sum())
    return f"target {shown(name)}: {counted(lost, 'value')}, no finite number, taken as missing" if lost else ""


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype == object:
        return np.array([value is None or value == "" for value in values], dtype=bool)
    return np.asarray(np.isnan(values))
