"""Designs: nested in n, shared across D, with the geometry that the embeddings promise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from archopt.laboratory import Setting
from archopt.laboratory.design import draw_design, filled_directions, noise_draws

SETTING = Setting(function="additive", intrinsic_dim=3, d_model=24, n_heads=4, n_samples=200, n_queries=50)


def test_smaller_samples_are_the_first_rows_of_larger_ones():
    whole, part = draw_design(SETTING, 0), draw_design(SETTING, 0, n_samples=60)
    assert np.array_equal(part.inputs, whole.inputs[:60])
    assert np.array_equal(part.truth_at_inputs, whole.truth_at_inputs[:60])
    assert np.array_equal(part.queries, whole.queries)
    assert np.array_equal(part.axes, whole.axes)


def test_rows_mean_the_same_at_every_width():
    wide, narrow = draw_design(SETTING, 0), draw_design(SETTING, 0, d_model=12)
    assert narrow.inputs.shape == (200, 12)
    assert np.array_equal(wide.truth_at_inputs, narrow.truth_at_inputs)
    assert np.array_equal(wide.truth_at_queries, narrow.truth_at_queries)


def test_a_design_is_a_function_of_seed_and_replicate():
    first, again = draw_design(SETTING, 1), draw_design(SETTING, 1)
    assert np.array_equal(first.inputs, again.inputs)
    for other in (draw_design(SETTING, 2), draw_design(replace(SETTING, seed=1), 1)):
        assert not np.array_equal(first.inputs, other.inputs)
        assert not np.array_equal(first.axes, other.axes)
    assert not set(first.truth_at_queries) & set(first.truth_at_inputs)


def test_query_points_keep_away_from_the_boundary():
    # One dimension, an isometry into one: x = sqrt(3) u up to its sign
    line = replace(SETTING, intrinsic_dim=1, d_model=1, n_heads=1, embedding="linear", n_samples=5000, n_queries=1000)
    design = draw_design(line, 0)
    assert abs(design.inputs).max() / 3**0.5 == pytest.approx(1.0, abs=0.01)
    assert abs(design.queries).max() / 3**0.5 == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("embedding", ["curved", "linear"])
def test_coordinates_have_unit_mean_square(embedding):
    inputs = draw_design(replace(SETTING, embedding=embedding, n_samples=4000), 0).inputs
    assert (inputs**2).mean() == pytest.approx(1.0, abs=0.15)  # 24 cosines of different variance


def test_linear_inputs_are_an_isometry_that_fills_d_directions():
    setting = replace(SETTING, embedding="linear")
    design = draw_design(setting, 0)
    assert np.linalg.matrix_rank(design.inputs) == 3
    assert 2.5 < filled_directions(design.inputs) <= 3.0
    latent = np.linalg.svd(design.inputs, full_matrices=False)[0]  # rows up to a linear map
    assert latent.shape == (200, 24)
    # |x - x'| = sqrt(3 D / d) |u - u'| with u uniform on [-1, 1]^3: mean square distance 3 D / d * 2 d / 3 = 2 D
    assert (pdist(design.inputs) ** 2).mean() == pytest.approx(2 * 24, rel=0.1)


def test_curved_inputs_fill_every_direction_though_not_equally():
    inputs = draw_design(replace(SETTING, n_samples=2000), 0).inputs
    assert np.linalg.matrix_rank(inputs) == 24
    assert 3.0 < filled_directions(inputs) < 24.0


def test_the_participation_ratio_of_white_inputs_is_their_width():
    white = np.random.default_rng(0).standard_normal((20_000, 6))
    assert filled_directions(white) == pytest.approx(6.0, rel=0.01)
    assert filled_directions(white[:, :1]) == pytest.approx(1.0)


def test_fewer_dimensions_than_the_function_has_still_embed():
    design = draw_design(replace(SETTING, embedding="linear", d_model=2, n_heads=1), 0)
    assert design.inputs.shape == (200, 2)
    assert (design.inputs**2).mean() == pytest.approx(1.0, abs=0.2)  # one random plane of three dimensions, 200 rows


@pytest.mark.parametrize("axes", ["random", "aligned"])
def test_axes_are_orthonormal(axes):
    basis = draw_design(replace(SETTING, axes=axes), 0).axes
    assert basis.T @ basis == pytest.approx(np.eye(24), abs=1e-12)


def test_aligned_axes_come_most_variance_first():
    design = draw_design(replace(SETTING, axes="aligned"), 0)
    variances = (design.inputs @ design.axes).var(axis=0)
    assert (np.diff(variances) <= 1e-12).all()
    assert variances[0] == pytest.approx(np.linalg.eigvalsh(np.cov(design.inputs.T, bias=True))[-1])


def test_noise_has_the_settings_size_and_does_not_repeat():
    noise = noise_draws(replace(SETTING, noise_sd=0.5), 0, 500, 40)
    assert noise.shape == (40, 500)
    assert noise.std() == pytest.approx(0.5, rel=0.03)  # sd of the sd: 1 / sqrt(2 * 20,000) = 0.5 %
    assert abs(np.corrcoef(noise[0], noise[1])[0, 1]) < 0.2
    assert not np.array_equal(noise, noise_draws(SETTING, 1, 500, 40))
