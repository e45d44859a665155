"""Where the best head_dim lies in one cell (n, D): a likelihood of the vertex of the loss in log2 head_dim.

In a cell the mean losses y_k at x_k = log2 head_dim are read, within `WINDOW` of the lowest and those tied with it, as
(ours)

(L1)  y_k = a + b ((x_k - v)^2 + k (x_k - v)^3 / w) + e_k,    e_k ~ N(0, s^2 / r_k + m^2)

with r_k runs, the noise s of one run and a misfit m, since losses are no polynomials; w is the distance of v to the
farthest x_k read. The level a has a flat prior. The curvature b > 0 has a normal one, cut at 0, whose mean b0 and sd
take the parabola from the lowest to the highest loss read. The skew k is one of `SKEWS`, up to 2/3 either way, beyond
which the curve would turn down again: wide heads need not cost what narrow ones do, and a parabola's vertex would owe
to which head_dims D happens to have. All three are integrated out, a and b in closed form:

(L2)  L(v) = sum_k exp(P q^2 / 2) Phi(q sqrt(P)) / sqrt(P),    P = S(v, k) + 1/b0^2,    q = (C(v, k) + 1/b0) / P

with S the weighted variance (times the sum of weights) of the bracket in (L1), and C its covariance with y. Both are
polynomials in v whose coefficients are weighted moments, so that thousands of resampled cells cost no more than one.
No curve is extrapolated: below the lowest head_dim tried L is flat, at the highest it comes to there, and so
above the highest one. An optimum on the edge of what was tried is thereby censored: it says "there or beyond", though
no farther than heads can be, from d_k = 1 to D, give or take an octave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from archopt.laws.records import place

Array = npt.NDArray[np.float64]

STEP = 0.125  # octaves
GRID: Array = np.arange(-1.0, 13.0 + STEP / 2, STEP)  # of the vertex: head_dim 0.5 to 8,192
WINDOW = 2.0  # octaves around the lowest losses that are read: farther out losses are no parabola
SKEWS = (-2.0 / 3.0, -1.0 / 3.0, 0.0, 1.0 / 3.0, 2.0 / 3.0)
TIED = 1.645  # standard errors of a difference up to which losses are not told apart: one-sided, 5 %
MIN_READ = 4  # head_dims that are read all the same, where there are as many
LEAST_MISFIT = 0.02  # share of the losses' range that a parabola leaves at best
UNKNOWN_MISFIT = 0.2  # the same where the noise is not known, and too few losses are left over to show it
ENOUGH_DEGREES = 5
EDGE_WEIGHT = 0.1  # probability at an edge of the tried range from which an optimum counts as censored
BOUNDING = 0.6  # of a likelihood, at an edge of the tried range, below which a cell says that the optimum is not beyond
_LEAST_RANGE = 1e-9  # of a cell's losses, in units: less are equal
_MOST_NOISE = 1e100  # in units: its square is a float
_OWN_NOISE = 4.0  # degrees of freedom that the other cells' noise counts for beside a cell's own


@dataclass(frozen=True)
class Cell:
    """The runs of one data set size and width.

    Attributes:
        n_samples, d_model: n and D.
        group: further columns' values, by name.
        log2_head_dim: (K,) tried, rising.
        loss: (K,) means over runs; lower is better.
        runs: (K,) how many each mean is worth, which need not be whole; without a part where ``loss_sd`` tells.
        residuals: (N,) of single runs about their head_dim's (and seed's) mean, scaled to be unbiased; empty without
            repeated runs.
        degrees: of freedom behind them.
        loss_sd: (K,) standard errors of ``loss`` where the user gave them, else None.
    """

    n_samples: float
    d_model: int
    group: tuple[tuple[str, object], ...]
    log2_head_dim: Array
    loss: Array
    runs: Array
    residuals: Array
    degrees: int
    loss_sd: Array | None = None

    @property
    def label(self) -> str:
        """Which cell it is."""
        return place(self.n_samples, self.d_model, self.group)


@dataclass(frozen=True)
class Stack:
    """Cells side by side, padded to one length K; what does not exist has variance infinity.

    Attributes:
        x: (C, K) log2 head_dim.
        loss: (C, K).
        noise: (C, K) variance of a mean loss over its runs; ``inf`` in padding.
        misfit: share of the range of the losses read that a parabola leaves, sd.
        ends: (C, 2) lowest and highest log2 head_dim tried.
        widest: (C,) log2 D.
        noise_known: whether the noise was given, or came from repeated runs.

    Losses are in units of the widest range of any cell, so that none is too small or too large to square.
    """

    x: Array
    loss: Array
    noise: Array
    misfit: float
    ends: Array
    widest: Array
    noise_known: bool


@dataclass(frozen=True)
class Vertex:
    """Where a cell's best head_dim lies, by (L2) and a flat prior over the tried range.

    Attributes:
        head_dim, low, high: median and central 90 % interval.
        censored: "below" or "above" where the best may well lie beyond the lowest or highest head_dim tried, "both"
            where either, "" elsewhere.
        best_tried: head_dim with the lowest mean loss.
        tied: the head_dims whose loss is not told apart from that one; none where the noise is not known.
    """

    head_dim: float
    low: float
    high: float
    censored: str
    best_tried: float
    tied: tuple[float, ...]


def stack(cells: Sequence[Cell], noise_sd: float | None) -> Stack:
    """Cells side by side, with the noise that they tell of.

    A cell's own repeated runs say how noisy it is, drawn towards what all cells say (a small data set is noisier than a
    large one); where there are none and ``noise_sd`` is not given, what parabolas leave counts as misfit.

    Args:
        noise_sd: standard deviation of one run; None where not known.
    """
    longest = max(len(cell.loss) for cell in cells)
    x, loss, noise = (np.full((len(cells), longest), fill) for fill in (np.nan, np.nan, np.inf))
    unit = max(float(np.ptp(cell.loss)) for cell in cells) or 1.0
    variances = _run_variances(cells, noise_sd, unit)
    for row, cell in enumerate(cells):
        size = len(cell.loss)
        x[row, :size], loss[row, :size] = cell.log2_head_dim, (cell.loss - cell.loss[0]) / unit
        if cell.loss_sd is None:
            noise[row, :size] = variances[row] / cell.runs
        else:
            noise[row, :size] = (np.minimum(cell.loss_sd, _MOST_NOISE * unit) / unit) ** 2
    x, loss = _padded(x), _padded(loss)
    ends = np.array([[cell.log2_head_dim[0], cell.log2_head_dim[-1]] for cell in cells])
    known = noise_sd is not None or any(cell.degrees > 0 or cell.loss_sd is not None for cell in cells)
    widest = np.log2([float(cell.d_model) for cell in cells])
    return Stack(x, loss, noise, _misfit(x, loss, noise), ends, widest, known)


def log_likelihood(cells: Stack, loss: Array) -> Array:
    """(R, C, grid) of the vertex for R sets of losses (R, C, K), by (L2); 0 at the likeliest head_dim from 1 to D."""
    weight, b0 = _weights(cells, loss)
    total = weight.sum(axis=-1)
    centre = (weight * cells.x).sum(axis=-1) / total
    x = cells.x - centre[..., None]
    y = loss - ((weight * loss).sum(axis=-1) / total)[..., None]
    powers = weight * x ** np.arange(7)[:, None, None, None]  # (7, R, C, K)
    of_x, of_y = powers.sum(axis=-1), (powers[:4] * y).sum(axis=-1)
    v = GRID - centre[..., None]  # (R, C, grid)
    m2, m3, m4, m5, m6 = (_about(v, of_x[: power + 1]) for power in (2, 3, 4, 5, 6))
    c2, c3 = _about(v, of_y[:3]), _about(v, of_y)
    total, b0 = total[..., None], b0[..., None]
    s22, s23, s33 = m4 - m2**2 / total, m5 - m2 * m3 / total, m6 - m3**2 / total
    read = weight > 0.0
    first, last = (np.where(read, cells.x, fill) for fill in (np.inf, -np.inf))
    farthest = np.maximum(GRID - first.min(axis=-1)[..., None], last.max(axis=-1)[..., None] - GRID)
    found = np.full_like(v, -np.inf)
    for skew in SKEWS:
        share = skew / farthest
        precision = np.maximum(s22 + share * (2.0 * s23 + share * s33), 0.0) + 1.0 / b0**2
        mean = (c2 + share * c3 + 1.0 / b0) / precision
        term = 0.5 * precision * mean**2 - 0.5 * np.log(precision) + log_ndtr(mean * np.sqrt(precision))
        found = np.logaddexp(found, term)  # (L2)
    # equal losses say nothing of where the lowest is
    found = np.where((b0 * farthest**2 > 2.0 * _LEAST_RANGE) | (cells.noise.min(axis=-1) > 0.0)[:, None], found, 0.0)
    low, high = cells.ends[:, :1], cells.ends[:, 1:]
    lowest = np.where(low + 1e-9 >= GRID, found, -np.inf).max(axis=-1, keepdims=True)
    highest = np.where(high - 1e-9 <= GRID, found, -np.inf).max(axis=-1, keepdims=True)
    found = np.where(low + 1e-9 >= GRID, lowest, np.where(high - 1e-9 <= GRID, highest, found))
    outside = np.maximum(np.maximum(GRID - cells.widest[:, None], -GRID), 0.0)
    return np.asarray(found - found.max(axis=-1, keepdims=True) - 0.5 * outside**2)


def _about(v: Array, moments: Array) -> Array:
    """Weighted moment about v (R, C, grid) of order len(moments) - 1, from those about the centre (order + 1, R, C)."""
    order = len(moments) - 1
    found = np.zeros_like(v)
    for power in range(order + 1):  # Horner's rule in -v
        found = found * -v + comb(order, power) * moments[power][..., None]
    return found


def bounding(likelihood: Array, stacked: Stack) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """(C,) which cells say that the best head_dim lies above the lowest tried, and below the highest tried.

    Args:
        likelihood: (C, grid).
    """
    low = (stacked.ends[:, :1] + 1e-9 >= GRID).sum(axis=1) - 1  # the last at or below it, where L is flat
    high = (stacked.ends[:, 1:] - 1e-9 > GRID).sum(axis=1)
    at = np.arange(len(likelihood))
    return likelihood[at, low] < BOUNDING, likelihood[at, high] < BOUNDING


def curvatures(cells: Stack) -> Array:
    """(C,) b at each cell's likeliest vertex, for simulations."""
    weight, b0 = _weights(cells, cells.loss[None])
    at = GRID[log_likelihood(cells, cells.loss[None])[0].argmax(axis=-1)]
    bowl = (cells.x - at[:, None]) ** 2
    weight, b0 = weight[0], b0[0]
    total = weight.sum(axis=-1)
    bowl = bowl - ((weight * bowl).sum(axis=-1) / total)[:, None]
    precision = (weight * bowl**2).sum(axis=-1) + 1.0 / b0**2
    mean = ((weight * bowl * cells.loss).sum(axis=-1) + 1.0 / b0) / precision
    ratio = mean * np.sqrt(precision)
    mills = np.exp(-0.5 * ratio**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(ratio))
    return np.asarray(mean + mills / np.sqrt(precision))  # mean of a normal cut at 0


def vertices(cells: Sequence[Cell], stacked: Stack) -> tuple[Vertex, ...]:
    """One summary a cell."""
    likelihood = np.exp(log_likelihood(stacked, stacked.loss[None])[0])
    return tuple(_vertex(cell, stacked, row, likelihood[row]) for row, cell in enumerate(cells))


def _vertex(cell: Cell, stacked: Stack, row: int, likelihood: Array) -> Vertex:
    low, high = cell.log2_head_dim[0], cell.log2_head_dim[-1]
    inside = (low - STEP / 2 <= GRID) & (high + STEP / 2 >= GRID)
    weight = np.where(inside, likelihood, 0.0)
    weight /= weight.sum()
    cumulative = np.cumsum(weight)
    at = np.clip(np.interp([0.5, 0.05, 0.95], cumulative - weight / 2, GRID), low, high)
    median, lower, upper = (2.0**at).tolist()
    gaps = np.diff(cell.log2_head_dim)
    below = float(weight[low + gaps[0] / 2 > GRID].sum()) > EDGE_WEIGHT
    above = float(weight[high - gaps[-1] / 2 < GRID].sum()) > EDGE_WEIGHT
    best = int(cell.loss.argmin())
    variance, loss = stacked.noise[row, : len(cell.loss)], stacked.loss[row, : len(cell.loss)]
    known = bool((variance > 0.0).all())
    apart = (loss - loss[best]) > TIED * np.sqrt(variance + variance[best])
    return Vertex(
        head_dim=median,
        low=lower,
        high=upper,
        censored={(True, True): "both", (True, False): "below", (False, True): "above"}.get((below, above), ""),
        best_tried=float(2.0 ** cell.log2_head_dim[best]),
        tied=tuple(float(2.0**each) for each in cell.log2_head_dim[~apart & known]),
    )


def _padded(values: Array) -> Array:
    """Padding repeats the first value, which keeps sums finite; its weight is 0."""
    return np.where(np.isnan(values), values[:, :1], values)


def _run_variances(cells: Sequence[Cell], noise_sd: float | None, unit: float) -> Array:
    """(C,) of one run, in squared units."""
    if noise_sd is not None:
        return np.full(len(cells), min(noise_sd / unit, _MOST_NOISE) ** 2)
    own = np.array([float(((cell.residuals / unit) ** 2).sum()) / max(len(cell.residuals), 1) for cell in cells])
    degrees = np.array([float(cell.degrees) for cell in cells])
    if not degrees.any():
        return np.zeros(len(cells))
    shared = float(np.exp(np.average(np.log(np.maximum(own, 1e-300))[degrees > 0], weights=degrees[degrees > 0])))
    return np.asarray((_OWN_NOISE * shared + degrees * own) / (_OWN_NOISE + degrees))


def _reading(cells: Stack, loss: Array) -> npt.NDArray[np.bool_]:
    """(R, C, K) which losses are read: those within `WINDOW` of the lowest or of one tied with it.

    And the nearest `MIN_READ`. Around the lowest alone, noise would look like a bowl: what is lowest by chance has
    higher ones around it.
    """
    there = np.isfinite(cells.noise)
    lowest = np.where(there, loss, np.inf).argmin(axis=-1)[..., None]
    variance = np.where(there, cells.noise, 0.0)
    least = np.take_along_axis(np.broadcast_to(variance, loss.shape), lowest, axis=-1)
    gap = loss - np.take_along_axis(loss, lowest, axis=-1)
    tied = there & (gap <= TIED * np.sqrt(variance + least))
    first, last = (np.where(tied, cells.x, fill) for fill in (np.inf, -np.inf))
    below, above = first.min(axis=-1, keepdims=True) - cells.x, cells.x - last.max(axis=-1, keepdims=True)
    off = np.where(there, np.maximum(np.maximum(below, above), 0.0), np.inf)
    wanted = np.minimum(MIN_READ, there.sum(axis=-1)) - 1
    nearest = np.take_along_axis(np.sort(off, axis=-1), np.broadcast_to(wanted, off.shape[:-1])[..., None], axis=-1)
    return np.asarray(there & (off <= np.maximum(WINDOW, nearest) + 1e-9))


def _range(cells: Stack, loss: Array, read: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """(R, C) range of the losses read, and the octaves from the lowest to the farthest of them."""
    high, low = np.where(read, loss, -np.inf).max(axis=-1), np.where(read, loss, np.inf).min(axis=-1)
    lowest = np.where(read, loss, np.inf).argmin(axis=-1)
    at = np.take_along_axis(np.broadcast_to(cells.x, loss.shape), lowest[..., None], axis=-1)
    reach = np.where(read, np.abs(cells.x - at), 0.0).max(axis=-1)
    spread = np.maximum(high - low, _LEAST_RANGE)
    return spread, np.maximum(reach, 0.5)


def _weights(cells: Stack, loss: Array) -> tuple[Array, Array]:
    """(R, C, K) precisions of the losses read, 0 elsewhere, and (R, C) the curvature's prior mean b0."""
    read = _reading(cells, loss)
    spread, reach = _range(cells, loss, read)
    variance = cells.noise + (cells.misfit * spread[..., None]) ** 2
    return np.where(read, 1.0 / variance, 0.0), spread / reach**2


def _misfit(x: Array, loss: Array, noise: Array) -> float:
    """What least-squares cubics leave beyond the noise, as a share of the range; pooled over cells."""
    bare = Stack(x, loss, noise, 0.0, np.empty(0), np.empty(0), False)
    read = _reading(bare, loss[None])[0]
    spread, _ = (values[0] for values in _range(bare, loss[None], read[None]))
    excess, degrees = 0.0, 0
    for row in np.flatnonzero(read.sum(axis=-1) > 4):
        at = read[row]
        fitted = np.polynomial.Polynomial.fit(x[row, at], loss[row, at], 3)(x[row, at])
        left = at.sum() - 4
        residual = float(((loss[row, at] - fitted) ** 2).sum())
        excess += (residual - left * float(noise[row, at].mean())) / float(spread[row]) ** 2
        degrees += int(left)
    unknown = not noise[np.isfinite(noise)].any()
    least = UNKNOWN_MISFIT if unknown and degrees < ENOUGH_DEGREES else LEAST_MISFIT
    return max(float(np.sqrt(max(excess, 0.0) / max(degrees, 1))), least)
