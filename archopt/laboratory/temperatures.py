"""Temperatures of the kernel, and the heads' smoothers at one or at many of them."""

from collections.abc import Iterator
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from archopt.laboratory.setting import LITERAL, Setting
from archopt.theory.arrays import Array
from archopt.theory.nadaraya_watson import head_smoothers

# From nearly the plain mean of all rows to nearly the nearest one, in octaves; each is half the one before.
TEMPERATURES: Array = 2.0 ** np.arange(6.0, -21.0, -1.0)

_BLOCK_ELEMENTS = 4_000_000  # of smoothers at a time: 32 MB
_LEAST_SPREAD = 1e-6  # of a head's keys, relative to the inputs': less is rounding, and is left as it is


def fixed_temperature(setting: Setting, head_dim: int) -> float:
    """The setting's number, or for "literal" the one that makes the Gaussian kernel's bandwidth 1/sqrt(d_k).

    exp(-|q - k|^2 / (2 tau)) has bandwidth sqrt(tau), in units of keys of unit variance, with tau = sqrt(d_k) T.
    """
    if setting.temperature == LITERAL:
        return 1.0 / (head_dim * sqrt(head_dim))  # tau = 1 / d_k
    return float(setting.temperature)


def unit_keys(key_projections: Array, inputs: Array) -> Array:
    """Every head scaled so that its keys have variance 1 per component over the training rows, on average.

    Scale and temperature are the same thing, so that without this one temperature for all heads would judge them by
    their scale. A head that reads nothing is left alone.

    Args:
        key_projections: shape (H, D, d_k).
        inputs: shape (n, D).

    Returns:
        Shape (H, D, d_k); the subspaces, hence the diversity, are unchanged.
    """
    spread = np.sqrt((inputs @ key_projections).var(axis=1).mean(axis=1))
    size = np.sqrt((key_projections**2).sum(axis=(1, 2)) / key_projections.shape[2] * inputs.var(axis=0).sum())
    reads = spread > _LEAST_SPREAD * size
    scaled: Array = key_projections / np.where(reads, spread, 1.0)[:, np.newaxis, np.newaxis]
    return scaled


def smoother_blocks(
    setting: Setting,
    key_projections: Array,
    queries: Array,
    inputs: Array,
    temperatures: Array,
    own_rows: NDArray[np.intp] | None = None,
) -> Iterator[tuple[slice, int, Array]]:
    """The heads' smoothers, for some query points after others (they stay in the processor's caches meanwhile).

    Halving the temperature squares a kernel's values, so every further temperature costs a square and a division.

    Args:
        setting: its kernel.
        key_projections: shape (H, D, d_k); used at unit scale, see :func:`unit_keys`.
        queries, inputs: shapes (m, D) and (n, D).
        temperatures: shape (T,), each half the one before.
        own_rows: shape (m,), the training row that each query's average leaves out.

    Yields:
        Which query points, which temperature, and smoothers (H, points, n), which the next step overwrites.
    """
    heads = unit_keys(key_projections, inputs)
    block = max(1, _BLOCK_ELEMENTS // (len(heads) * len(inputs)))
    for start in range(0, len(queries), block):
        points = slice(start, start + block)
        smoothers = head_smoothers(
            heads,
            queries[points],
            inputs,
            kernel=setting.kernel,
            temperature=float(temperatures[0]),
            own_rows=None if own_rows is None else own_rows[points],
        )
        yield points, 0, smoothers
        for index in range(1, len(temperatures)):
            smoothers *= smoothers  # K^{1/(T/2)} = (K^{1/T})^2, (1.2) and (1.3)
            smoothers /= smoothers.sum(axis=-1, keepdims=True)  # (1.1)
            yield points, index, smoothers
