"""Heads of a chosen diversity against the index that measures it."""

from math import cos, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.laboratory.heads import independent_heads, orthogonal_heads, rotated_heads
from archopt.theory import head_diversity_index, principal_angles
from archopt.theory.decorrelation import block_orthogonal_projections


def basis(d_model, seed=0):
    return block_orthogonal_projections(d_model, 1, seed=seed)[0]


@given(n_heads=st.integers(2, 6), head_dim=st.integers(1, 5), degrees=st.floats(0, 90))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_rotated_heads_have_the_diversity_of_their_angle(n_heads, head_dim, degrees):
    c = cos(degrees * pi / 180)
    heads = rotated_heads(basis(n_heads * head_dim), n_heads, degrees * pi / 180)
    # H - 1 pairs with the first head at cos^2, the other (H-1)(H-2)/2 at cos^4; over H(H-1)/2 pairs
    expected = 1 - (2 * c**2 + (n_heads - 2) * c**4) / n_heads
    assert head_diversity_index(heads) == pytest.approx(expected, abs=1e-9)
    for W in heads:
        assert pytest.approx(np.eye(head_dim), abs=1e-12) == W.T @ W


def test_the_angle_is_the_principal_angle_to_the_first_head():
    heads = rotated_heads(basis(12), 4, 0.4)
    assert principal_angles(heads[0], heads[2]) == pytest.approx(np.full(3, 0.4), abs=1e-9)


def test_the_ends_of_the_path():
    axes = basis(12)
    assert rotated_heads(axes, 3, 0.0) == pytest.approx(np.stack([axes[:, :4]] * 3))
    assert rotated_heads(axes, 3, pi / 2) == pytest.approx(orthogonal_heads(axes, 3), abs=1e-12)
    assert np.array_equal(orthogonal_heads(axes, 3)[1], axes[:, 4:8])


def test_independent_heads_are_at_the_random_baseline():
    random = np.random.default_rng(0)
    indices = [head_diversity_index(independent_heads(24, 4, random)) for _ in range(200)]
    assert np.mean(indices) == pytest.approx(1 - 6 / 24, abs=4 * np.std(indices) / 200**0.5)
