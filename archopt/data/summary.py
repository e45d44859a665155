"""What the theory needs to know of a data set: n, the inputs' intrinsic dimension, noise, signal to noise."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archopt.data.dataset import Dataset, TableDataset
from archopt.errors import OptionError

MAX_POINTS = 2_000
MIN_POINTS = 30  # fewer distinct points give TwoNN and MLE no neighbourhoods
N_NEIGHBOURS = 10
MIN_SHARE, MAX_SHARE = 0.01, 0.95  # of noise; at 300 smooth rows the sd over draws is 0.001-0.003 and 0.05 there
_WARNED_OF = "(Dropping .* points with zero distance|n_neighbors >= len|divide by zero|invalid value)"


@dataclass(frozen=True)
class DatasetSummary:
    """What a data set looks like to the closed form.

    Args:
        n_samples: training rows, or bytes.
        family: which constants of ``archopt.theory.FAMILY_DEFAULTS`` apply.
        intrinsic_dim: geometric mean of the range; a convention for texts.
        intrinsic_dim_range: lowest and highest estimate.
        noise_variance: share of the target's variance that no function of the inputs can explain, in [0, 1]; None for
            texts, and where there are too few rows. Too large rather than too small: see ``noise_share``.
        bias_to_noise: B / sigma^2 of the law "bound", above 0: ``signal_to_noise`` of the data where it can be
            estimated, else the family's default; a note says which.
        notes: one line on where each figure comes from.
    """

    n_samples: int
    family: Literal["table", "text"]
    intrinsic_dim: float
    intrinsic_dim_range: tuple[float, float]
    noise_variance: float | None
    bias_to_noise: float
    notes: tuple[str, ...]


def summarise(dataset: Dataset, *, seed: int = 0) -> DatasetSummary:
    """Estimate intrinsic dimension and noise from at most 2,000 training rows.

    Args:
        dataset: from ``load_dataset``.
        seed: of the subsample, 0 or more.

    Raises:
        OptionError: a negative seed.
    """
    if isinstance(seed, bool) or seed < 0:
        raise OptionError(f"seed must be a whole number of at least 0 but got {seed}")
    if not isinstance(dataset, TableDataset):
        middle, span, reason = _convention("text")
        ratio, ratio_note = signal_to_noise(None, "text")
        return DatasetSummary(dataset.n_samples, "text", middle, span, None, ratio, (reason, ratio_note))
    rows = np.arange(dataset.n_samples)
    if len(rows) > MAX_POINTS:
        rows = np.sort(np.random.default_rng([seed, 1]).choice(rows, MAX_POINTS, replace=False))
    inputs = dataset.train.inputs[rows].astype(np.float64)
    span, dimension_note = intrinsic_dim_range(inputs)
    noise, noise_note = noise_share(inputs, dataset.train.targets[rows], classes=dataset.task == "classification")
    middle, notes = float(np.sqrt(span[0] * span[1])), (dimension_note, noise_note)
    ratio, ratio_note = signal_to_noise(noise, "table")
    return DatasetSummary(dataset.n_samples, "table", middle, span, noise, ratio, (*notes, ratio_note))


def intrinsic_dim_range(inputs: NDArray[np.float64]) -> tuple[tuple[float, float], str]:
    """The lower and the higher of TwoNN (Facco et al. 2017) and MLE (Levina and Bickel 2005; Haro et al. 2008).

    Equal rows are taken once (they would drive TwoNN to 0). Estimates are kept within 1 and the number of columns. Rows
    on a lattice (counts, one-hot columns) have many equal distances, which biases both estimators.

    Args:
        inputs: shape (n, p).

    Returns:
        (low, high), and a line that says how it came about.
    """
    points = np.unique(inputs, axis=0)
    n_features = inputs.shape[1]
    if n_features == 1:
        return (1.0, 1.0), "intrinsic dimension 1: there is one input column"
    estimates = _estimates(points) if len(points) >= MIN_POINTS else {}
    found = {name: float(np.clip(value, 1.0, n_features)) for name, value in estimates.items() if np.isfinite(value)}
    if not found:
        _, (low, high), _ = _convention("table")
        span = (low if low < n_features else 1.0, min(high, float(n_features)))
        return span, (
            f"intrinsic dimension not measurable from {len(points):,} distinct rows: the default of tables, at most "
            f"the {n_features} input columns"
        )
    text = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    capped = [name for name, value in estimates.items() if np.isfinite(value) and not 1.0 <= value <= n_features]
    limits = f" ({', '.join(capped)} kept within 1 and {n_features} columns)" if capped else ""
    return (min(found.values()), max(found.values())), (
        f"intrinsic dimension by {text}{limits}, from {len(points):,} distinct training rows"
    )


def noise_share(inputs: NDArray[np.float64], targets: NDArray[Any], *, classes: bool) -> tuple[float | None, str]:
    """The share of the target's variance that is noise, from differences between near neighbours.

    Half the mean squared difference of the targets of k-th nearest neighbours, gamma(k), is the noise variance plus
    what the regression function changes over their distance. Regression: the line of gamma(k) on the mean squared
    distance delta(k), k = 1...10, is followed to distance 0 (the Gamma test: Stefansson, Koncar and Jones 1997; Evans
    and Jones 2002). Classes: with one-hot targets gamma(1) is the rate at which nearest neighbours disagree, which
    tends to the mean of 1 - sum_c p(c|x)^2 (Cover and Hart 1967); divided by the rate for random pairs.

    Bias: upwards. With few rows or many dimensions neighbours are far apart, the function's own variation is taken for
    noise, and the answer tends to 1; rows that occur twice with the same target are taken once.

    Args:
        inputs: shape (n, p).
        targets: shape (n,), numbers or class indices.
        classes: targets are class indices.

    Returns:
        The share in [0, 1], or None where fewer than 30 rows differ or the target does not vary; and a line on it.
    """
    from sklearn.neighbors import NearestNeighbors

    kept = np.unique(np.column_stack([inputs, targets]), axis=0)
    points, values = kept[:, :-1], kept[:, -1]
    variance = 1.0 - float(((np.unique(values, return_counts=True)[1] / len(values)) ** 2).sum())
    if not classes:
        variance = float(values.var())
    if len(kept) < MIN_POINTS or variance == 0.0:
        return None, f"noise not estimated: {len(kept):,} distinct rows, at least {MIN_POINTS} that vary are needed"
    n_neighbours = 1 if classes else N_NEIGHBOURS
    distances, neighbours = NearestNeighbors(n_neighbors=n_neighbours).fit(points).kneighbors()
    differences = values[neighbours] - values[:, None]
    if classes:
        share = float((differences != 0).mean()) / variance
        return min(1.0, share), (
            f"noise: nearest neighbours differ in class {min(1.0, share):.0%} as often as random pairs do, from "
            f"{len(kept):,} rows; an upper bound when rows are few"
        )
    delta = (distances**2).mean(axis=0)
    gamma = (differences**2).mean(axis=0) / 2
    spread = float(((delta - delta.mean()) ** 2).sum())
    slope = float(((delta - delta.mean()) * gamma).sum()) / spread if spread > 0 else 0.0
    intercept = gamma.mean() - slope * delta.mean()
    share = float(np.clip(min(intercept, gamma[0]) / variance, 0.0, 1.0))
    return share, f"noise: {share:.0%} of the target's variance by the Gamma test on {len(kept):,} rows; biased upwards"


def signal_to_noise(share: float | None, family: Literal["table", "text"]) -> tuple[float, str]:
    """The ratio B / sigma^2 of the law "bound", from the share of noise.

    Ours. B is the squared bias at head_dim 1, and a head that averages everything predicts the mean: its integrated
    squared bias is the variance of the regression function, so B is read as that variance, its largest value, and
    B / sigma^2 as (1 - s) / s. This holds for classes too: Cover and Hart's share is the noise's part of the summed
    variance of the one-hot targets, so it is their ratio under squared error (the Brier score).

    Bias: downwards, as the share is biased upwards; but for shares above 0.8 of smooth functions of 1-2 inputs, which
    came out low by 0.01-0.03 on made data. The ratio enters head_dim by a power between 2/(d + 6) and
    2/(d + 4) only (beta = 2).

    Args:
        share: from ``noise_share``; None where it cannot be estimated.
        family: whose default stands in where the share is None, or so near 1 that nothing but noise was seen. A share
            below ``MIN_SHARE`` counts as that.

    Returns:
        Above 0, and a line on where it comes from.
    """
    from archopt.theory.scaling import FAMILY_DEFAULTS

    if share is not None and share <= MAX_SHARE:
        ratio = (1.0 - max(share, MIN_SHARE)) / max(share, MIN_SHARE)
        least = "at least " if share < MIN_SHARE else ""
        return (
            ratio,
            f"bias-to-noise ratio {least}{ratio:.2g}: signal to noise at that share of noise; biased downwards",
        )
    default = FAMILY_DEFAULTS[family]
    why = "" if share is None else f" (a noise share of {share:.0%} may only mean that neighbours are far apart)"
    return default.bias_to_noise, (
        f"bias-to-noise ratio {default.bias_to_noise:g}, not estimated{why}: {default.bias_to_noise_reason}"
    )


def _estimates(points: NDArray[np.float64]) -> dict[str, float]:
    """TwoNN and MLE of scikit-dimension; NaN where one fails on these points."""
    from skdim import id as estimators

    results = {}
    made: dict[str, Callable[[], Any]] = {"TwoNN": estimators.TwoNN, "MLE": estimators.MLE}
    for name, estimator in made.items():
        with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
            warnings.filterwarnings("ignore", message=_WARNED_OF)
            try:
                results[name] = float(estimator().fit(points).dimension_)
            except ValueError:  # too few distinct distance ratios: that is an answer, and the note says so
                results[name] = float("nan")
    return results


def _convention(family: Literal["table", "text"]) -> tuple[float, tuple[float, float], str]:
    from archopt.theory.scaling import FAMILY_DEFAULTS

    default = FAMILY_DEFAULTS[family]
    low, high = default.intrinsic_dim_range
    figures = f"{default.intrinsic_dim:g} ({low:g}-{high:g})"
    return (
        default.intrinsic_dim,
        (low, high),
        f"intrinsic dimension {figures}: a convention for {family}s, not a measurement",
    )
