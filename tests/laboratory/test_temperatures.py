"""Smoothers at many temperatures against one at a time, and what the named temperatures are."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.laboratory import Setting
from archopt.laboratory.design import draw_design
from archopt.laboratory.heads import independent_heads, orthogonal_heads
from archopt.laboratory.temperatures import TEMPERATURES, fixed_temperature, smoother_blocks, unit_keys
from archopt.theory import effective_neighbours, head_diversity_index, head_smoothers

SETTING = Setting(function="additive", intrinsic_dim=2, d_model=12, n_heads=3, n_samples=60, n_queries=20)
DESIGN = draw_design(SETTING, 0)
HEADS = orthogonal_heads(DESIGN.axes, 3)


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("left_out", [False, True])
def test_squaring_equals_halving_the_temperature(kernel, left_out, monkeypatch):
    monkeypatch.setattr("archopt.laboratory.temperatures._BLOCK_ELEMENTS", 3 * 60 * 7)  # 7 points at a time, unevenly
    points = DESIGN.inputs[5:25] if left_out else DESIGN.queries
    own_rows = np.arange(5, 25) if left_out else None
    got = np.full((len(TEMPERATURES), 3, 20, 60), np.nan)
    setting = replace(SETTING, kernel=kernel)
    for where, index, smoothers in smoother_blocks(setting, HEADS, points, DESIGN.inputs, TEMPERATURES, own_rows):
        got[index, :, where] = smoothers
    heads = unit_keys(HEADS, DESIGN.inputs)
    for index, temperature in enumerate(TEMPERATURES):
        direct = head_smoothers(heads, points, DESIGN.inputs, kernel=kernel, temperature=temperature, own_rows=own_rows)
        # 26 squarings double a rounding error of 1e-16 each time: 1e-8 at the last
        assert got[index] == pytest.approx(direct, abs=1e-7)


def test_the_temperatures_go_from_the_mean_to_the_nearest_neighbour():
    heads = unit_keys(HEADS, DESIGN.inputs)
    for temperature, low, high in ((TEMPERATURES[0], 59.0, 60.0), (TEMPERATURES[-1], 1.0, 1.05)):
        smoothers = head_smoothers(heads, DESIGN.queries, DESIGN.inputs, temperature=temperature)
        assert low <= effective_neighbours(smoothers).mean() <= high
    assert TEMPERATURES[:-1] == pytest.approx(2.0 * TEMPERATURES[1:])


def test_keys_at_unit_scale_have_unit_variance_and_the_same_subspaces():
    heads = independent_heads(12, 3, np.random.default_rng(0)) * np.array([1e-3, 1.0, 1e3])[:, None, None]
    scaled = unit_keys(heads, DESIGN.inputs)
    assert (DESIGN.inputs @ scaled).var(axis=1).mean(axis=1) == pytest.approx(np.ones(3))
    assert head_diversity_index(scaled) == pytest.approx(head_diversity_index(heads))


def test_a_head_that_reads_nothing_is_not_blown_up():
    flat = draw_design(replace(SETTING, embedding="linear", axes="aligned"), 0)  # 2 of 12 directions are filled
    heads = orthogonal_heads(flat.axes, 3)
    scaled = unit_keys(heads, flat.inputs)
    assert scaled[1:] == pytest.approx(heads[1:])
    assert abs(flat.inputs @ scaled[1:]).max() < 1e-9


def test_the_literal_temperature_is_the_papers_bandwidth():
    # exp(-|q - k|^2 / (2 sqrt(d_k) T)) with bandwidth h = 1 / sqrt(d_k): sqrt(d_k) T = h^2
    literal = replace(SETTING, temperature="literal")
    for head_dim in (1, 4, 48):
        assert fixed_temperature(literal, head_dim) * head_dim**0.5 == pytest.approx(1 / head_dim)
    assert fixed_temperature(replace(SETTING, temperature=0.3), 4) == 0.3
