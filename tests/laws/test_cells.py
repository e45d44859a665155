"""A cell's likelihood of the vertex: against quadrature, its invariances, and censoring."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.laws.cells import GRID, SKEWS, Cell, Stack, bounding, log_likelihood, stack, vertices


def cell(log2_head_dim, loss, *, runs=1.0, residuals=(), degrees=0, d_model=64):
    x = np.asarray(log2_head_dim, dtype=float)
    return Cell(
        n_samples=1e3,
        d_model=d_model,
        group=(),
        log2_head_dim=x,
        loss=np.asarray(loss, dtype=float),
        runs=np.full(len(x), float(runs)),
        residuals=np.asarray(residuals, dtype=float),
        degrees=degrees,
    )


def found(one, noise_sd):
    stacked = stack([one], noise_sd)
    return stacked, log_likelihood(stacked, stacked.loss[None])[0, 0]


def test_the_closed_form_is_the_integral_over_level_curvature_and_skew() -> None:
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.05, 1.0, 1.03, 1.2])
    one = cell(x, y)
    stacked = Stack(
        x=x[None],
        loss=y[None],
        noise=np.full((1, 4), 0.03**2),
        misfit=0.1,
        ends=np.array([[1.0, 4.0]]),
        widest=np.array([6.0]),
        noise_known=True,
    )
    closed = log_likelihood(stacked, y[None, None])[0, 0]
    variance = 0.03**2 + (0.1 * 0.2) ** 2  # the range read is 0.2
    b0 = 0.2 / 2.0**2  # from the lowest, at 2, to the farthest, at 4
    # on a fine grid of level and curvature, far beyond their priors and posteriors
    level, curvature = np.meshgrid(np.linspace(0.0, 2.0, 401), np.linspace(0.0, 8 * b0, 2001), indexing="ij")
    edge = np.where(curvature == 0.0, 0.5, 1.0)  # trapezoids
    prior = ((curvature - b0) / b0) ** 2

    def integral_at(v: float) -> float:
        total = 0.0
        for skew in SKEWS:
            shape = (x - v) ** 2 + skew * (x - v) ** 3 / np.abs(x - v).max()
            misfit = sum((y_k - level - curvature * shape_k) ** 2 for shape_k, y_k in zip(shape, y, strict=True))
            total += float((edge * np.exp(-0.5 * (misfit / variance + prior))).sum())
        return total

    at = [int(np.abs(GRID - v).argmin()) for v in (1.5, 2.0, 2.5, 3.5)]
    integral = [integral_at(GRID[i]) for i in at]
    ratio = np.log(integral) - closed[at]
    assert ratio == pytest.approx(np.full(4, ratio[0]), abs=1e-3)
    assert one.label == "n = 1,000, D = 64"


def test_the_vertex_of_an_exact_parabola_is_found() -> None:
    x = np.arange(0.0, 7.0)
    one = cell(x, 0.1 * (x - 2.7) ** 2)
    stacked, _ = found(one, 0.005)
    (where,) = vertices([one], stacked)
    assert np.log2(where.head_dim) == pytest.approx(2.7, abs=0.1)
    assert where.censored == ""
    assert where.low < where.head_dim < where.high


@pytest.mark.parametrize(("slope", "side"), [(1.0, "below"), (-1.0, "above")])
def test_an_optimum_on_the_edge_is_censored_and_flat_beyond(slope: float, side: str) -> None:
    x = np.array([2.0, 3.0, 4.0, 5.0])
    one = cell(x, slope * 0.1 * x, d_model=2**9)
    stacked, likelihood = found(one, 0.01)
    (where,) = vertices([one], stacked)
    assert where.censored == side
    beyond = (GRID >= 0.0) & (GRID <= 2.0) if side == "below" else (GRID >= 5.0) & (GRID <= 9.0)
    assert np.ptp(likelihood[beyond]) == pytest.approx(0.0, abs=1e-12)
    above, below = bounding(np.exp(likelihood)[None], stacked)
    assert (above[0], below[0]) == ((False, True) if side == "below" else (True, False))


def test_no_head_is_wider_than_the_model() -> None:
    x = np.array([1.0, 2.0, 3.0])
    _, likelihood = found(cell(x, -x, d_model=8), 0.01)
    assert likelihood[np.abs(GRID - 5.0).argmin()] == pytest.approx(-0.5 * 2.0**2, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    losses=st.lists(st.floats(0.0, 1.0), min_size=4, max_size=8, unique=True),
    shift=st.floats(-5.0, 5.0),
    scale=st.floats(0.1, 10.0),
)
def test_units_of_the_loss_do_not_matter(losses: list[float], shift: float, scale: float) -> None:
    x = np.arange(float(len(losses)))
    losses = [round(value, 3) for value in losses]
    if len(set(losses)) < len(losses):
        return
    one, other = cell(x, losses), cell(x, [shift + scale * value for value in losses])
    assert found(one, 0.05)[1] == pytest.approx(found(other, 0.05 * scale)[1], abs=1e-4)


def test_ties_need_a_known_noise() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    one = cell(x, [1.0, 0.50, 0.51, 1.0])
    known = vertices([one], stack([one], 0.02))[0]
    unknown = vertices([one], stack([one], None))[0]
    assert known.tied == (4.0, 8.0)
    assert unknown.tied == ()
    assert not stack([one], None).noise_known


def test_a_noisy_cell_is_drawn_towards_the_others() -> None:
    x = np.arange(4.0)
    rng = np.random.default_rng(0)
    quiet = [cell(x, x, runs=3, residuals=0.1 * rng.choice([-1.0, 1.0], 12), degrees=8) for _ in range(9)]
    loud = cell(x, x, runs=3, residuals=1.0 * rng.choice([-1.0, 1.0], 12), degrees=8)
    variances = stack([*quiet, loud], None).noise[:, 0] * 3 * 3.0**2  # three runs; losses in units of their range, 3
    shared = np.exp((9 * np.log(0.01) + np.log(1.0)) / 10)  # the geometric mean, equal degrees
    assert variances[0] == pytest.approx((4 * shared + 8 * 0.01) / 12)
    assert variances[-1] == pytest.approx((4 * shared + 8 * 1.0) / 12)


def test_cells_of_different_lengths_stand_side_by_side() -> None:
    short, long = cell([1.0, 2.0], [0.1, 0.2]), cell(np.arange(6.0), (np.arange(6.0) - 3.0) ** 2)
    together = stack([short, long], 0.1)
    both = log_likelihood(together, together.loss[None])[0]
    alone = Stack(
        x=long.log2_head_dim[None],
        loss=long.loss[None],
        noise=np.full((1, 6), 0.01),
        misfit=together.misfit,
        ends=together.ends[1:],
        widest=together.widest[1:],
        noise_known=True,
    )
    assert both[1] == pytest.approx(log_likelihood(alone, long.loss[None, None])[0, 0], abs=1e-9)


def test_padding_does_not_change_what_is_read() -> None:
    short = cell([2.0, 6.0, 10.0], [1.0, 0.5, 0.9], d_model=2**11)
    long = cell(np.arange(6.0), 0.1 * (np.arange(6.0) - 3.0) ** 2)
    alone, beside = (
        found(short, 0.05)[1],
        log_likelihood(stack([short, long], 0.05), stack([short, long], 0.05).loss[None]),
    )
    assert beside[0, 0] == pytest.approx(alone, abs=1e-6)


def test_equal_losses_say_nothing() -> None:
    one = cell(np.arange(5.0), np.full(5, 2.0))
    stacked, likelihood = found(one, None)
    inside = (GRID >= 0.0) & (GRID <= 6.0)
    assert np.ptp(likelihood[inside]) == 0.0
    assert vertices([one], stacked)[0].censored == "both"
