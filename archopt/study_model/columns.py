"""Ended trials as arrays, extended as trials end, and the observations that they come to."""

import math
import threading
from collections import Counter
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from archopt.allocation import HeadAllocation
from archopt.final_values import FinalValues
from archopt.search_space import KILLED, SearchSpace, StudyHistory, TrialRecord
from archopt.surrogate import Observations

VALUE, PRUNED, FAILED, SILENT = range(4)  # what a trial says: its value, its curve, that it failed, nothing
KILLS_TO_BAR = 2  # workers that died under one allocation: once may be the machine's doing
REPEATS_OF_COARSE_VALUES = 8

Indices = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]

_KNOWN: "WeakKeyDictionary[StudyHistory, WeakKeyDictionary[SearchSpace, Columns]]" = WeakKeyDictionary()


def columns_of(history: StudyHistory, space: SearchSpace) -> "Columns":
    """The history's ended trials for ``space``, up to date."""
    columns = _KNOWN.setdefault(history, WeakKeyDictionary()).setdefault(space, Columns())
    columns.extend(history, space)
    return columns


@dataclass(frozen=True)
class Rows:
    """N ended trials by number.

    Attributes:
        number, position, replicate, saying, key: (N,) each; position and replicate are -1 where there is none, and two
            trials of the same parameters have the same key.
        value: (N,) of those that say ``VALUE``, else NaN.
    """

    number: Indices
    position: Indices
    replicate: Indices
    saying: Indices
    key: Indices
    value: Array

    def __len__(self) -> int:
        return len(self.number)

    @property
    def finished(self) -> Indices:
        """Positions of the trials with a value, of those that have a position."""
        return np.asarray(self.position[(self.saying == VALUE) & (self.position >= 0)])

    def take(self, which: npt.NDArray[np.bool_] | slice | Indices) -> "Rows":
        """Some of them."""
        return Rows(*(column[which] for column in vars(self).values()))


class Columns:
    """The ended trials of one study, for one space."""

    def __init__(self) -> None:
        self._pruned: dict[int, TrialRecord] = {}  # by number
        self._kills: Counter[HeadAllocation] = Counter()
        self._barred: set[HeadAllocation] = set()
        none = np.empty(0, dtype=np.int64)
        self._rows = Rows(none, none, none, none, none, np.empty(0))
        self._n_read = 0
        self._keys: dict[tuple[tuple[str, str], ...], int] = {}
        self._noisy = False
        self._readings: tuple[FinalValues | None, dict[int, tuple[float, float]]] = (None, {})
        self._early: tuple[bytes, Observations] | None = None
        self._lock = threading.Lock()

    def extend(self, history: StudyHistory, space: SearchSpace) -> None:
        """Add what has ended since the last time."""
        with self._lock:
            new = history.ended[self._n_read :]
            if not new:
                return
            self._n_read += len(new)
            added = [self._row(record, space) for record in new]
            columns = [np.array(column, dtype=np.int64) for column in zip(*added, strict=True)]
            value = np.array(
                [record.value if row[3] == VALUE else math.nan for record, row in zip(new, added, strict=True)]
            )
            both = [np.concatenate(pair) for pair in zip(vars(self._rows).values(), [*columns, value], strict=True)]
            rows = Rows(*both)
            late = (np.diff(rows.number) < 0).any()  # it ended after one with a higher number
            self._rows = rows.take(np.argsort(rows.number)) if late else rows

    def _row(self, record: TrialRecord, space: SearchSpace) -> tuple[int, int, int, int, int]:
        fault = record.fault
        if record.is_finished:
            saying = VALUE
        elif record.state == "pruned":
            saying = PRUNED
        else:
            saying = FAILED if fault in ("diverged", "error") else SILENT
        if saying == PRUNED:
            self._pruned[record.number] = record
        if record.allocation is not None and fault == "infeasible":
            self._barred.add(record.allocation)
        if record.allocation is not None and fault == KILLED:
            self._kills[record.allocation] += 1
        position = space.position(record)
        return (
            record.number,
            -1 if position is None else position,
            -1 if record.replicate is None else record.replicate,
            saying,
            self._keys.setdefault(record.key, len(self._keys)),
        )

    def rows(self, history: StudyHistory) -> Rows:
        """By number, without those that were queued again."""
        rows = self._rows
        return rows.take(~np.isin(rows.number, list(history.retried))) if history.retried else rows

    @property
    def infeasible(self) -> set[HeadAllocation]:
        """Allocations that the device cannot run: neither weighting nor learning rate makes one fit."""
        return self._barred | {split for split, n in self._kills.items() if n >= KILLS_TO_BAR}

    def early(self, rows: Rows, n_early: int, curves: FinalValues) -> Observations:
        """The observations that the first ``n_early`` trials come to, remembered."""
        content = rows.number[:n_early].tobytes()
        known = self._early
        if known is None or known[0] != content:
            known = self._early = content, self.observe(rows.take(slice(n_early)), curves)[0]
        return known[1]

    def observe(self, rows: Rows, curves: FinalValues) -> tuple[Observations, Indices]:
        """What the trials say of the configurations.

        A pruned trial counts with what its curve says of its final value and the variance of that. Of one
        configuration's only the best read one counts: how far its curves mislead is common to them. One that failed, by
        itself or with an error, counts as worse than all that finished. Two runs of the same parameters and replicate
        are one observation. Where they differ in a parameter that the space leaves out, such as a continuous learning
        rate, they are two, of which one keeps the replicate number.

        Returns:
            the observations, and the positions of all trials that finished or whose curve says something.
        """
        value, extra = rows.value.copy(), np.zeros(len(rows))
        placed = rows.position >= 0
        pruned = np.flatnonzero((rows.saying == PRUNED) & placed)
        tried = rows.finished
        if len(pruned):
            found = np.array([self._reading(int(number), curves) for number in rows.number[pruned]])
            tried = np.concatenate([tried, rows.position[pruned[np.isfinite(found[:, 0])]]])
            order = np.lexsort((found[:, 1], rows.position[pruned]))
            first = np.unique(rows.position[pruned][order], return_index=True)[1]
            best = order[first]
            value[pruned[best]], extra[pruned[best]] = found[best].T
        finished = rows.value[rows.saying == VALUE]
        if len(finished):
            value[rows.saying == FAILED] = 2.0 * finished.max() - finished.min()
        used = np.flatnonzero(np.isfinite(value) & placed)
        replicate = rows.replicate[used]
        if (replicate >= 0).any():
            used, replicate = _one_a_replicate(rows, used)
        return Observations(rows.position[used], value[used], replicate, extra[used]), tried

    def _reading(self, number: int, curves: FinalValues) -> tuple[float, float]:
        """What a pruned trial's curve says of its final value and the variance, remembered; NaN where nothing."""
        if curves is not self._readings[0]:
            self._readings = curves, {}
        known = self._readings[1]
        if number not in known:
            found = curves.at(self._pruned[number])
            known[number] = (math.nan, math.inf) if found is None else (found.value, found.variance)
        return known[number]

    def noiseless(self, rows: Rows) -> bool:
        """Whether the objective has no noise, as far as repeats show.

        Every repeated configuration must have given the very same value each time: two of them where no two
        configurations share a value; `REPEATS_OF_COARSE_VALUES` where some do, since values on a coarse scale (an error
        rate on few rows) coincide by chance. Trials whose replicate number is recorded were run with different seeds,
        so they never count.
        """
        which = (rows.saying == VALUE) & (rows.replicate < 0)
        if self._noisy or not which.any():
            return False
        key, value = rows.key[which], rows.value[which]
        _, group, count = np.unique(key, return_inverse=True, return_counts=True)
        low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
        np.minimum.at(low, group, value)
        np.maximum.at(high, group, value)
        if (low < high).any():
            self._noisy = True  # ended trials do not change
            return False
        coarse = len(np.unique(low)) < len(low)
        return int((count > 1).sum()) >= (REPEATS_OF_COARSE_VALUES if coarse else 2)


def _one_a_replicate(rows: Rows, used: Indices) -> tuple[Indices, Indices]:
    """Of rows of the same parameters and replicate the one to keep: one with a value, then the lowest number.

    Returns:
        the rows kept, and their replicates: none twice for a position, the later ones' -1.
    """
    # those without a replicate number are all observations of their own
    same = np.where(rows.replicate[used] < 0, -1 - rows.number[used], rows.replicate[used])
    order = np.lexsort((rows.number[used], rows.saying[used], rows.key[used], same))
    pairs = np.column_stack([rows.key[used], same])[order]
    first = np.ones(len(used), dtype=bool)
    first[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    kept = np.sort(used[order[first]])
    replicate = rows.replicate[kept].copy()
    numbered = np.flatnonzero(replicate >= 0)
    place = rows.position[kept[numbered]] * (replicate.max() + 1) + replicate[numbered]
    later = np.ones(len(numbered), dtype=bool)
    later[np.unique(place, return_index=True)[1]] = False
    replicate[numbered[later]] = -1
    return kept, replicate
