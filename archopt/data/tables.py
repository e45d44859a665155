"""A table to a data set: target, splits, then features read from the training rows alone."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archopt.data.dataset import TableDataset, TableSplit
from archopt.data.encoding import Encoder, fit_encoder
from archopt.data.features import choose_features
from archopt.data.partition import MIN_TRAIN_ROWS, Key, Partition, partition, read_key
from archopt.data.reading import RawTable, read_table
from archopt.data.sources import Source
from archopt.data.splits import Rows
from archopt.data.targets import Target, convert_target, mean_and_scale, present, read_target, sorted_classes
from archopt.data.wording import counted, did_you_mean, listed, shown
from archopt.errors import DataError, OptionError

MIN_ROWS = 20
MIN_CHECK_ROWS = 2
DEFAULT_TRAIN_ROWS = 5_000
MAX_VALID_ROWS = 1_000
MAX_TEST_ROWS = 2_000


@dataclass(frozen=True)
class TableRequest:
    """What was asked of a table; see ``load_dataset``."""

    target: str | None
    task: Literal["auto", "regression", "classification"]
    n_samples: int | None
    group_column: str | None
    time_column: str | None
    seed: int


def load_table(source: Source, request: TableRequest, *, valid_source: Source | None) -> TableDataset:
    """Read, split, subsample and encode a table.

    Raises:
        DataError, OptionError: see ``load_dataset``.
    """
    tables = [read_table(source)]
    if valid_source is not None:
        tables.append(read_table(valid_source))
        if tables[0].digest == tables[1].digest:
            raise OptionError(
                f"{shown(valid_source.name)} has the same content as {shown(source.name)}: it cannot check it"
            )
    target_name = _target_name(tables[0], request.target)
    key_name = request.group_column if request.group_column is not None else request.time_column
    if key_name is not None and key_name == target_name:
        raise OptionError(f"{shown(key_name)} cannot be both the target and the column to split by")
    for name, what in ((target_name, "target"), (key_name, "column to split by")):
        if name is not None:
            _check_column(tables[0], name, what)
    features = [n for n in tables[0].names if n not in (target_name, request.group_column, *tables[0].other_targets)]
    if len(tables) == 2:
        _check_same_columns(tables, [target_name, *features, *([] if key_name is None else [key_name])])

    target = read_target(tables[0].columns.column(target_name), target_name, request.task)
    values = [target.values, *(convert_target(t.columns.column(target_name), target) for t in tables[1:])]
    key = None
    if key_name is not None:
        rule = "group" if request.group_column is not None else "time"
        key = read_key(key_name, rule, [t.columns.column(key_name) for t in tables])
    notes = [*(note for t in tables for note in t.notes), *target.notes]
    usable = _usable_rows(values, target, key, notes)
    classes = _class_indices(values, usable) if target.task == "classification" else None
    rng = np.random.default_rng([request.seed, 0])
    split = partition(classes, usable, key, rng)
    notes += split.notes
    train, valid, test = _subsample(split, classes, request.n_samples, notes)

    train_table = tables[0].columns.take(train)
    check_table = tables[-1].columns
    chosen, found = choose_features(train_table, features, time_column=request.time_column)
    encoder = fit_encoder(train_table, chosen)
    notes += [*found, *encoder.notes]
    names = sorted_classes(values[0][train]) if target.task == "classification" else ()
    mean, scale = _target_scale(values[0][train], target_name) if target.task == "regression" else (0.0, 1.0)
    labelled = [values[0][train], values[-1][valid], values[-1][test]]
    frames = [train_table, check_table.take(valid), check_table.take(test)]
    parts = []
    n_clipped = 0
    for labels, frame in zip(labelled, frames, strict=True):
        part, clipped = _encode(encoder, frame, labels, names, mean, scale)
        parts.append(part)
        n_clipped += clipped
    if n_clipped:
        notes.append(f"{counted(n_clipped, 'value')} clipped at 10 training standard deviations")
    return TableDataset(
        name=source.name,
        content_hash=_content_hash(tables, target_name, target.task, request),
        task=target.task,
        train=parts[0],
        valid=parts[1],
        test=parts[2],
        feature_names=encoder.names,
        class_names=names,
        target_name=target_name,
        target_mean=mean,
        target_scale=scale,
        n_available=len(split.train),
        notes=tuple(notes),
    )


def _target_name(table: RawTable, target: str | None) -> str:
    if target is None:
        if table.default_target is None:
            raise OptionError(f"{shown(table.name)} is a table: name the target column, one of {listed(table.names)}")
        return table.default_target
    if table.other_targets and target not in table.other_targets:
        raise DataError(f"{shown(table.name)} has the targets {listed(table.other_targets)} but got {shown(target)}")
    return target


def _check_column(table: RawTable, name: str, what: str) -> None:
    if name not in table.names:
        hint = did_you_mean(name, table.names)
        raise DataError(
            f"{what} {shown(name, 40)} is not a column of {shown(table.name, 40)}: {listed(table.names)}{hint}"
        )


def _check_same_columns(tables: list[RawTable], names: list[str]) -> None:
    absent = [name for name in names if name not in tables[1].names]
    if absent:
        lacking = f"{shown(tables[1].name)} lacks {counted(len(absent), 'column')}"
        raise DataError(f"{lacking} of {shown(tables[0].name)}: {listed(absent)}")


def _usable_rows(values: list[NDArray[Any]], target: Target, key: Key | None, notes: list[str]) -> list[Rows]:
    """Rows of each table with a target and a key; single rows of a class are left out."""
    usable = []
    for at, column in enumerate(values):
        of = "" if len(values) == 1 else f" of the {('first', 'second')[at]} file"
        keep = present(column)
        if not keep.all():
            notes.append(f"dropped {counted(int((~keep).sum()), 'row')}{of} whose target is missing")
        if key is not None and not (keyed := key.present(at))[keep].all():
            notes.append(f"dropped {counted(int((keep & ~keyed).sum()), 'row')}{of} whose {shown(key.name)} is missing")
            keep = keep & keyed
        usable.append(np.flatnonzero(keep))
    if target.task == "classification":
        names, counts = np.unique(values[0][usable[0]].astype(str), return_counts=True)
        single = names[counts == 1]
        if len(single):
            usable[0] = usable[0][~np.isin(values[0][usable[0]].astype(str), single)]
            notes.append(f"dropped {counted(len(single), 'class')} that had a single row: {listed(single.tolist(), 8)}")
        if len(names) - len(single) < 2:
            raise DataError(f"fewer than two classes have two rows or more: {listed(names.tolist())}")
    needed = MIN_ROWS if len(usable) == 1 else MIN_TRAIN_ROWS
    if len(usable[0]) < needed:
        raise DataError(f"{counted(len(usable[0]), 'usable row')} of {len(values[0]):,}; at least {needed} are needed")
    return usable


def _class_indices(values: list[NDArray[Any]], usable: list[Rows]) -> list[NDArray[np.int64]]:
    """Class index of every row, 0 where it is not usable (and so not looked at)."""
    labels = np.unique(np.concatenate([v[rows].astype(str) for v, rows in zip(values, usable, strict=True)]))
    indices = []
    for column, rows in zip(values, usable, strict=True):
        of_rows = np.zeros(len(column), dtype=np.int64)
        of_rows[rows] = np.searchsorted(labels, column[rows].astype(str))
        indices.append(of_rows)
    return indices


def _subsample(
    split: Partition, classes: list[NDArray[np.int64]] | None, n_samples: int | None, notes: list[str]
) -> tuple[Rows, Rows, Rows]:
    """Prefixes of the three parts, without check rows of classes that training has not seen."""
    n_train = min(len(split.train), DEFAULT_TRAIN_ROWS) if n_samples is None else n_samples
    if n_train > len(split.train):
        raise OptionError(
            f"{n_train:,} training rows wanted but there are {len(split.train):,}: ask for at most that many"
        )
    needed = max(MIN_TRAIN_ROWS, len(np.unique(classes[0][split.train])) if classes is not None else 0)
    if n_train < needed:
        why = f"at least {needed:,} are needed" + (" (one of each class)" if needed > MIN_TRAIN_ROWS else "")
        raise (DataError if n_samples is None else OptionError)(f"{counted(n_train, 'training row')}; {why}")
    train = split.train[:n_train]
    _note_subsample("training", len(split.train), n_train, notes)
    checks = []
    for part, rows, most in (("validation", split.valid, MAX_VALID_ROWS), ("test", split.test, MAX_TEST_ROWS)):
        if classes is not None:
            known = np.isin(classes[-1][rows], classes[0][train])
            if not known.all():
                notes.append(
                    f"left out {counted(int((~known).sum()), f'{part} row')} of classes that training has not seen"
                )
            rows = rows[known]
        if len(rows) < MIN_CHECK_ROWS:
            raise DataError(
                f"{counted(len(rows), f'{part} row')} left after splitting; at least {MIN_CHECK_ROWS} are needed"
            )
        _note_subsample(part, len(rows), min(len(rows), most), notes)
        checks.append(rows[:most])
    return train, checks[0], checks[1]


def _note_subsample(part: str, available: int, kept: int, notes: list[str]) -> None:
    if kept < available:
        hint = " (--samples changes that)" if part == "training" else ""
        notes.append(f"subsampled {available:,} {part} rows to {kept:,}{hint}")


def _target_scale(targets: NDArray[np.float64], name: str) -> tuple[float, float]:
    mean, scale = mean_and_scale(targets)
    if scale == 0.0:
        raise DataError(f"target {shown(name)} is constant over the {len(targets):,} training rows ({targets[0]:.6g})")
    return mean, scale


def _encode(
    encoder: Encoder, frame: Any, labels: NDArray[Any], names: tuple[str, ...], mean: float, scale: float
) -> tuple[TableSplit, int]:
    inputs, n_clipped = encoder(frame)
    if names:
        index = {name: j for j, name in enumerate(names)}
        targets: Any = np.array([index[label] for label in labels], dtype=np.int64)
    else:
        targets = ((labels - mean) / scale).astype(np.float32)
    inputs.flags.writeable = False
    targets.flags.writeable = False
    return TableSplit(inputs, targets), n_clipped


def _content_hash(tables: list[RawTable], target_name: str, task: str, request: TableRequest) -> str:
    selected = [[t.digest for t in tables], target_name, task, request.group_column, request.time_column]
    return hashlib.sha256(json.dumps(selected).encode()).hexdigest()
