"""The best width of curves whose vertex is known."""

import numpy as np
import pytest
from scipy.stats import t

from archopt.laboratory.vertex import best_head_dim

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)


def parabola(centre, replicates=5, noise=0.0, seed=0):
    x = np.log2(WIDTHS)
    scatter = np.random.default_rng(seed).normal(0.0, noise, (replicates, len(WIDTHS)))
    return np.exp(0.1 * (x - centre) ** 2 - 2.0 + scatter)


@pytest.mark.parametrize("centre", [1.2, 2.0, 2.8, 3.3, 4.4])
def test_a_parabola_in_log_width_is_found_exactly(centre):
    found = best_head_dim(parabola(centre), WIDTHS)
    assert found.log2_head_dim == pytest.approx(centre, abs=1e-9)
    assert found.head_dim == pytest.approx(2.0**centre)
    assert (found.edge_share, found.standard_error) == (0.0, pytest.approx(0.0, abs=1e-9))


@pytest.mark.parametrize(("centre", "edge"), [(-1.0, 1.0), (7.0, 48.0)])
def test_an_optimum_beyond_the_edge_is_flagged(centre, edge):
    found = best_head_dim(parabola(centre), WIDTHS)
    assert found.head_dim == pytest.approx(edge)
    assert found.edge_share == 1.0


def test_a_parabola_over_more_widths_agrees_where_the_curve_is_one():
    found = best_head_dim(parabola(2.8), WIDTHS)
    assert found.wider == pytest.approx(found.log2_head_dim, abs=1e-9)


def test_a_curve_that_is_no_parabola_shows_in_the_difference():
    x = np.log2(WIDTHS)
    steep_left = np.exp(np.where(x < 3.3, 0.5, 0.05) * (x - 3.3) ** 2)[np.newaxis].repeat(5, axis=0)
    found = best_head_dim(steep_left, WIDTHS)
    assert abs(found.wider - found.log2_head_dim) > 0.05
    assert found.log2_head_dim == pytest.approx(3.3, abs=0.3)


@pytest.mark.parametrize("replicates", [10, 20])
def test_students_interval_with_the_bootstraps_error_covers_at_its_rate(replicates):
    inside = []
    for seed in range(100):
        found = best_head_dim(parabola(2.8, replicates=replicates, noise=0.02, seed=seed), WIDTHS)
        reach = t.ppf(0.95, replicates - 1) * found.standard_error
        inside.append(abs(found.log2_head_dim - 2.8) <= reach)
    # 90 % of 100 with standard deviation 3
    assert 80 <= sum(inside) <= 99


def test_equal_seeds_pair_the_resamples():
    errors = parabola(3.0, replicates=20, noise=0.02)
    assert np.array_equal(
        best_head_dim(errors, WIDTHS, seed=3).resampled, best_head_dim(errors, WIDTHS, seed=3).resampled
    )
    assert not np.array_equal(
        best_head_dim(errors, WIDTHS, seed=3).resampled, best_head_dim(errors, WIDTHS, seed=4).resampled
    )


def test_one_width_is_its_own_edge():
    found = best_head_dim(np.ones((4, 1)), (1,))
    assert (found.head_dim, found.edge_share) == (1.0, 1.0)


def test_a_flat_curve_does_not_move_off_the_grid():
    assert best_head_dim(np.ones((4, 3)), (1, 2, 4)).head_dim in (1.0, 2.0, 4.0)
