"""Which rows train, select and test: at random, by whole groups, or by time.

Every split returns index arrays whose order matters: a prefix of one is a smaller sample of the same make-up, so that
training sets of different sizes are nested.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

SHARES = (0.6, 0.2, 0.2)  # training, validation, test
HALVES = (0.5, 0.5)  # validation, test of a second file
_GROUP_SHUFFLES = 32


def stratified_order(classes: NDArray[np.int64] | None, n_rows: int, rng: np.random.Generator) -> Rows:
    """A random order in which every stretch holds each class at nearly its overall share.

    Systematic sampling: the k-th row (in random order) of a class of c rows stands at (k + u)/c, u uniform and one per
    class. One row of every class comes first, so that any prefix of at least as many rows as classes has them all.

    Args:
        classes: shape (n_rows,), class index from 0; None for a plain shuffle.
    """
    shuffled = rng.permutation(n_rows)
    if classes is None or n_rows == 0:
        return shuffled
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    counts = np.bincount(classes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    of_row = classes[by_class]
    rank = np.arange(n_rows) - starts[of_row]
    position = (rank + rng.random(len(counts))[of_row]) / counts[of_row]
    position[rank == 0] -= 1.0
    return by_class[np.argsort(position, kind="stable")]


def random_split(order: Rows, shares: Sequence[float]) -> list[Rows]:
    """Cut an order into parts of the given shares."""
    bounds = np.rint(np.cumsum([0.0, *shares]) * len(order)).astype(int)
    return [order[start:end] for start, end in pairwise(bounds)]


def group_split(
    groups: NDArray[np.int64], classes: NDArray[np.int64] | None, shares: Sequence[float], rng: np.random.Generator
) -> list[Rows] | None:
    """Whole groups to each part: the best of 32 shuffles of the groups.

    Best is nearest to the shares in rows, with as few classes as possible absent from the first part and no part of
    a single row.

    Args:
        groups: shape (n,), group index from 0.

    Returns:
        The rows of each part, or None where there are fewer groups than parts.
    """
    sizes = np.bincount(groups)
    if len(sizes) < len(shares):
        return None
    targets = np.cumsum(shares)[:-1] * len(groups)
    best: tuple[float, NDArray[np.int64]] | None = None
    for _ in range(_GROUP_SHUFFLES):
        shuffled = rng.permutation(len(sizes))
        ends = np.cumsum(sizes[shuffled])
        cuts = [int(np.argmin(np.abs(ends - target))) + 1 for target in targets]
        for j in range(len(cuts)):  # every part holds at least one group
            cuts[j] = min(max(cuts[j], cuts[j - 1] + 1 if j else 1), len(sizes) - len(cuts) + j)
        part_of_group = np.empty(len(sizes), dtype=np.int64)
        part_of_group[shuffled] = np.searchsorted(cuts, np.arange(len(sizes)), side="right")
        part = part_of_group[groups]
        counts = np.bincount(part, minlength=len(shares))
        badness = float(np.abs(counts / len(groups) - shares).sum() + (counts < 2).sum())
        if classes is not None:
            badness += float((np.bincount(classes[part == 0], minlength=classes.max() + 1) == 0).sum())
        if best is None or badness < best[0]:
            best = (badness, part)
    assert best is not None  # the loop ran
    return [np.flatnonzero(best[1] == j) for j in range(len(shares))]


def time_split(times: NDArray[Any], shares: Sequence[float]) -> list[Rows] | None:
    """Earlier rows to earlier parts; rows of the same time stay together.

    Args:
        times: shape (n,), sortable, nothing missing.

    Returns:
        The rows of each part by rising time, or None where there are fewer distinct times than parts.
    """
    order = np.argsort(times, kind="stable")
    changes = np.flatnonzero(times[order][1:] != times[order][:-1]) + 1
    n_cuts = len(shares) - 1
    if len(changes) < n_cuts:
        return None
    cuts: list[int] = []
    for j, target in enumerate(np.cumsum(shares)[:-1] * len(times)):
        chosen = int(np.argmin(np.abs(changes - target)))
        cuts.append(min(max(chosen, cuts[-1] + 1 if cuts else 0), len(changes) - n_cuts + j))
    bounds = [0, *changes[cuts].tolist(), len(times)]
    return [order[start:end] for start, end in pairwise(bounds)]


def reorder(rows: Rows, classes: NDArray[np.int64] | None, rng: np.random.Generator) -> Rows:
    """``rows`` in an order whose prefixes are stratified samples of them."""
    kept = None if classes is None else np.unique(classes[rows], return_inverse=True)[1]
    return rows[stratified_order(kept, len(rows), rng)]
