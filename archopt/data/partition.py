"""Rows of one or two tables to training, validation and test, under the group or time rule asked for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from archopt.data.kinds import ColumnType, convert, labels_of, plain_values, recognise
from archopt.data.splits import HALVES, SHARES, Rows, group_split, random_split, reorder, stratified_order, time_split
from archopt.data.wording import counted, shown
from archopt.errors import DataError

MIN_TRAIN_ROWS = 10


@dataclass(frozen=True, eq=False)
class Partition:
    """Row numbers in the order in which they are to be kept.

    Args:
        train: rows of the first table.
        valid, test: rows of the second table where there is one, else of the first.
        notes: how they were split, and what was left out.
    """

    train: Rows
    valid: Rows
    test: Rows
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Key:
    """A column that rules how rows are split.

    Args:
        name: the column's name.
        rule: "group" or "time".
        values: per table, shape (rows,): labels with None (group), or numbers or dates with NaN/NaT (time).
    """

    name: str
    rule: str
    values: tuple[NDArray[Any], ...]

    def present(self, table: int) -> NDArray[np.bool_]:
        """Rows of a table whose key is there."""
        return ~np.asarray(pd.isna(self.values[table]))


def read_key(name: str, rule: str, columns: list[Any]) -> Key:
    """Read a group or time column of one or two tables.

    Raises:
        DataError: a time column that holds neither numbers nor dates.
    """
    declared, plain = plain_values(columns[0])
    column_type = ColumnType("category") if rule == "group" else recognise(declared, plain)
    if rule == "time" and column_type.kind not in ("number", "date"):
        example = next((value for value in plain if value is not None), "nothing")
        raise DataError(f"time column {shown(name)} must hold numbers or dates but holds {shown(example)}")
    if rule == "group" and declared.kind == "nested":
        raise DataError(f"group column {shown(name)} must hold text, numbers or dates but holds lists or bytes")
    values = [convert(*plain_values(column), column_type) for column in columns]
    return Key(name, rule, tuple(labels_of(v) if rule == "group" else v for v in values))


def partition(
    classes: list[NDArray[np.int64]] | None,
    usable: list[Rows],
    key: Key | None,
    rng: np.random.Generator,
) -> Partition:
    """Split the usable rows 60/20/20; with a second table, that one half and half.

    Args:
        classes: per table, class index of every row, or None for regression.
        usable: per table, the rows whose target (and key) is there.
        key: the rule, or None for a random split.

    Raises:
        DataError: too few groups or times.
    """
    notes: list[str] = []
    split_rows, at = usable[-1], len(usable) - 1
    shares = SHARES if len(usable) == 1 else HALVES
    train = usable[0]
    if len(usable) == 2 and key is not None:
        train, split_rows = _apart(key, usable, notes)
    of_rows = None if classes is None else classes[at]
    parts, how = _split(split_rows, of_rows, key, at, shares, rng)
    if len(usable) == 2:
        train = reorder(train, None if classes is None else classes[0], rng)
        parts = [train, *parts]
        notes.append(f"all rows of the first file train; the second file is halved {how} into validation and test")
    else:
        notes.append(f"split 60/20/20 {how}")
    sizes = " / ".join(f"{len(part):,}" for part in parts)
    notes.append(f"rows for training / validation / test: {sizes}")
    return Partition(parts[0], parts[1], parts[2], tuple(notes))


def _split(
    rows: Rows,
    classes: NDArray[np.int64] | None,
    key: Key | None,
    table: int,
    shares: tuple[float, ...],
    rng: np.random.Generator,
) -> tuple[list[Rows], str]:
    of_rows = None if classes is None else classes[rows]
    if key is None:
        compact = None if of_rows is None else np.unique(of_rows, return_inverse=True)[1]
        order = stratified_order(compact, len(rows), rng)
        return [rows[part] for part in random_split(order, shares)], (
            "at random" if classes is None else "at random, stratified by class"
        )
    values = key.values[table][rows]
    if key.rule == "group":
        groups = np.unique(values.astype(str), return_inverse=True)[1]
        parts = group_split(groups, of_rows, shares, rng)
        how, n_distinct = (
            f"by whole groups of {shown(key.name)} ({counted(len(np.unique(groups)), 'group')})",
            len(np.unique(groups)),
        )
    else:
        parts = time_split(values, shares)
        how, n_distinct = f"by time {shown(key.name)}, earlier rows first, equal times together", len(np.unique(values))
    if parts is None:
        what = f"{key.rule} column {shown(key.name)} has {counted(n_distinct, 'distinct value')}"
        raise DataError(f"{what}; at least {len(shares)} are needed to split by it")
    return [reorder(rows[part], classes, rng) for part in parts], how


def _apart(key: Key, usable: list[Rows], notes: list[str]) -> tuple[Rows, Rows]:
    """Training rows and second-file rows between which nothing leaks."""
    first, second = (key.values[table][usable[table]] for table in (0, 1))
    name = shown(key.name)
    if key.rule == "group":
        known = np.isin(second.astype(str), np.unique(first.astype(str)))
        if known.all():
            raise DataError(f"every row of the second file has a {name} that is in the first too: none can check it")
        if known.any():
            notes.append(f"left out {counted(int(known.sum()), 'row')} of the second file: the {name} is in the first")
        return usable[0], usable[1][~known]
    late = first >= second.min() if len(second) else np.zeros(len(first), dtype=bool)
    if (~late).sum() < MIN_TRAIN_ROWS:
        early = counted(int((~late).sum()), "row")
        raise DataError(
            f"{early} of the first file before the second's first {name}; at least {MIN_TRAIN_ROWS} are needed"
        )
    if late.any():
        notes.append(
            f"left out {counted(int(late.sum()), 'row')} of the first file: not before the second's first {name}"
        )
    return usable[0][~late], usable[1]
