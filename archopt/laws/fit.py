"""A law fitted to cells by maximum likelihood, many resampled sets of cells at a time.

The best log2 head_dim of cell c scatters about the law, with Student's t so that a few odd cells do not decide:

(L9)  v_c = law(n_c, D_c; theta) + tau e_c,    e_c ~ t(4),    log likelihood = sum_c log M_c(law(n_c, D_c; theta); tau)

where M_c is the cell's likelihood (L2) convolved with the density of tau e_c. For each tau on a grid M_c is tabulated
once for all laws; theta then climbs by damped Newton steps. tau is the one with the largest restricted likelihood
(REML), which does not take the fewer cells that are left after theta for less scatter.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archopt.laws.cells import GRID, STEP
from archopt.laws.families import Curve

Array = npt.NDArray[np.float64]

DEGREES = 4.0  # of Student's t
SCATTERS: Array = np.array([0.12, 0.2, 0.3, 0.45, 0.65, 0.95, 1.4, 2.0])  # tau, octaves
_ITERATIONS = 40
_LONGEST_STEP = 1.5  # octaves of any cell
_LEAST_BEND = 1e-3
_SMALL = 1e-9


@dataclass(frozen=True)
class Tables:
    """log M_c and its first two derivatives on the grid, for one tau: each (R, C, grid)."""

    scatter: float
    value: Array
    slope: Array
    bend: Array


@dataclass(frozen=True)
class Fitted:
    """A law fitted to R sets of cells.

    Attributes:
        theta: (R, p).
        scatter: (R,) tau, octaves.
        log_likelihood: (R,) the largest over theta and tau.
    """

    theta: Array
    scatter: Array
    log_likelihood: Array


def tabulate(log_likelihood: Array, scatter: float) -> Tables:
    """Cells' log likelihoods (R, C, grid) of the vertex to those of the law's value, for one tau."""
    off = (GRID[:, None] - GRID) / scatter
    kernel = 0.375 * (1.0 + off**2 / DEGREES) ** -2.5 / scatter * STEP  # Student's density at 4 degrees of freedom
    kernel /= np.maximum(kernel.sum(axis=0), 1e-3)  # over v, also where it is narrow or cut at the grid's end
    value = np.log(np.maximum(np.exp(log_likelihood) @ kernel, 1e-300))
    slope = np.gradient(value, STEP, axis=-1)
    return Tables(scatter, value, slope, np.gradient(slope, STEP, axis=-1))


def climb(tables: Tables, law: Curve, start: Array) -> tuple[Array, Array, Array]:
    """theta (R, p) from ``start`` to a maximum; its log likelihood (R,), and what REML takes off it (R,).

    That is half the log determinant of the information, up to a constant: p/2 times the log of a cell's own. The
    design's part is left out, since it is the same at every tau, and at the bound's floor, d_k = d, where the
    parameter does nothing, it would be without limit.
    """
    theta = start.copy()
    value, slope, bend = _look_up(tables, law.values(theta))
    total = value.sum(axis=-1)
    damping = np.full(len(theta), 1e-2)
    identity = np.eye(theta.shape[1])
    for _ in range(_ITERATIONS):
        jacobian = law.jacobian(theta)
        gradient = np.einsum("rc,rcp->rp", slope, jacobian)
        information = np.einsum("rc,rcp,rcq->rpq", np.maximum(-bend, _LEAST_BEND), jacobian, jacobian)
        scale = np.maximum(np.einsum("rpp->rp", information), _SMALL)
        step = np.linalg.solve(
            information + (damping[:, None] * scale)[..., None] * identity + _SMALL * identity, gradient[..., None]
        )[..., 0]
        moved = np.abs(np.einsum("rcp,rp->rc", jacobian, step)).max(axis=-1)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(moved, _SMALL))[:, None]
        tried = theta + step
        tried[:, 0] = np.maximum(tried[:, 0], law.least)
        found = _look_up(tables, law.values(tried))
        better = found[0].sum(axis=-1) > total
        theta = np.where(better[:, None], tried, theta)
        slope, bend = (np.where(better[:, None], new, old) for new, old in zip(found[1:], (slope, bend), strict=True))
        total = np.where(better, found[0].sum(axis=-1), total)
        damping = np.clip(np.where(better, damping / 4.0, damping * 8.0), 1e-6, 1e6)
        if not (better & (moved > 1e-3)).any() and (damping > 1.0).all():
            break
    of_a_cell = np.maximum(-bend, _LEAST_BEND).mean(axis=-1)
    return theta, total, 0.5 * theta.shape[1] * np.log(of_a_cell)


def log_density(tables: Tables, law: Curve, theta: Array) -> tuple[Array, Array]:
    """Log likelihood (R,) of theta (R, p) and its information (R, p, p), for one tau."""
    value, _, bend = _look_up(tables, law.values(theta))
    jacobian = law.jacobian(theta)
    return value.sum(axis=-1), np.einsum("rc,rcp,rcq->rpq", np.maximum(-bend, _LEAST_BEND), jacobian, jacobian)


def fit_law(by_scatter: list[Tables], law: Curve, starts: Array) -> Fitted:
    """The best of several starts and of every tau.

    Args:
        by_scatter: tables of the same R sets of cells, one a tau.
        starts: (S, R, p).
    """
    n_sets = starts.shape[1]
    best = Fitted(starts[0].copy(), np.zeros(n_sets), np.full(n_sets, -np.inf))
    theta, scatter, largest = best.theta, best.scatter, best.log_likelihood
    restricted = np.full(n_sets, -np.inf)
    for tables in by_scatter:
        climbed = [climb(tables, law, start) for start in starts]
        totals = np.array([total for _, total, _ in climbed])  # (S, R)
        first = totals.argmax(axis=0)
        at = np.arange(n_sets)
        found, total, loss = (np.array([item[i] for item in climbed])[first, at] for i in range(3))
        better = total - loss > restricted
        theta = np.where(better[:, None], found, theta)
        scatter = np.where(better, tables.scatter, scatter)
        restricted = np.maximum(restricted, total - loss)
        largest = np.maximum(largest, total)
    return Fitted(theta, scatter, largest)


def starts(law: Curve, centres: Array, rng: np.random.Generator, count: int) -> Array:
    """(S, 1, p) places to start from, over what any cell could have as its best head_dim.

    Args:
        centres: (C,) rough vertices, log2 head_dim.
    """
    size = len(law.parameters)
    if law.parameters == ("log2_bias_to_noise",):
        scan = np.linspace(law.least, law.least + 150.0, 301)[:, None]
        gap = ((law.values(scan) - centres) ** 2).sum(axis=-1)
        nearest = scan[int(gap.argmin()), 0]
        places = np.maximum(nearest + 4.0 * (np.arange(count) - count // 3), law.least)  # about half an octave each
        return np.concatenate([[nearest], places[1:]])[:, None, None]
    design = law.jacobian(np.zeros((1, size)))[0]
    least_squares = np.linalg.lstsq(design, centres - law.values(np.zeros((1, size)))[0], rcond=None)[0]
    spread = np.concatenate([[2.0], np.full(size - 1, 1.0)])
    places = least_squares + spread * rng.standard_normal((count, size))
    places[0] = least_squares
    return np.asarray(places[:, None, :])


def _look_up(tables: Tables, at: Array) -> tuple[Array, Array, Array]:
    """Value, slope and bend (R, C) at the law's values, by a parabola about the nearest grid point."""
    position = np.clip((at - GRID[0]) / STEP, 0.0, len(GRID) - 1.0)
    nearest = np.rint(position).astype(np.int64)
    off = np.clip(at, GRID[0], GRID[-1]) - GRID[nearest]
    sets = np.arange(len(tables.value))[:, None] if len(tables.value) > 1 else 0  # one set serves any number of thetas
    where = sets, np.arange(at.shape[1]), nearest
    value, slope, bend = tables.value[where], tables.slope[where], tables.bend[where]
    outside = at - np.clip(at, GRID[0], GRID[-1])  # no law leaves the grid for nothing
    return value + slope * off + 0.5 * bend * off**2 - outside**2, slope + bend * off - 2.0 * outside, bend
