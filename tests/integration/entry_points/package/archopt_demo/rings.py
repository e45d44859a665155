"""A data set: which of two or more noisy rings a point in the plane lies on."""

import hashlib

import numpy as np

from archopt.data import TableDataset, TableSplit, Task
from archopt.errors import DataError

MAX_ROWS = 4_000
N_HELD_OUT = 400


def load_rings(argument: str, n_samples: int | None, seed: int) -> TableDataset:
    """``rings:3`` is three rings; a smaller training set is a prefix of a larger one of the same seed."""
    if not argument.isdecimal() or not 2 <= int(argument) <= 9:
        raise DataError(f"rings must be given as a number from 2 to 9, such as rings:3, but got {argument!r}")
    if n_samples is not None and not 10 <= n_samples <= MAX_ROWS:
        raise DataError(f"rings have 10 to {MAX_ROWS:,} training rows but {n_samples:,} were asked for")
    n_rings = int(argument)
    random = np.random.default_rng([seed, n_rings])
    ring = random.integers(0, n_rings, MAX_ROWS + 2 * N_HELD_OUT)
    angle = random.uniform(0, 2 * np.pi, len(ring))
    radius = 1.0 + ring + random.normal(0, 0.2, len(ring))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) / n_rings

    def rows(start: int, count: int) -> TableSplit:
        chosen = slice(start, start + count)
        return TableSplit(points[chosen].astype(np.float32), ring[chosen].astype(np.int64))

    return TableDataset(
        name="rings",
        content_hash=hashlib.sha256(f"rings {n_rings}".encode()).hexdigest(),
        task="classification",
        train=rows(2 * N_HELD_OUT, n_samples or 1_000),
        valid=rows(0, N_HELD_OUT),
        test=rows(N_HELD_OUT, N_HELD_OUT),
        feature_names=("x", "y"),
        class_names=tuple(f"ring {number}" for number in range(n_rings)),
        target_name="ring",
        target_mean=0.0,
        target_scale=1.0,
        n_available=MAX_ROWS,
        notes=(),
    )


RINGS = Task(load=load_rings)
