"""Exact errors at the best temperature against a search that spares nothing."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.laboratory import Setting
from archopt.laboratory.design import draw_design
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure
from archopt.laboratory.temperatures import unit_keys
from archopt.theory import ensemble_mse, head_smoothers

SETTING = Setting(n_samples=150, n_queries=25)


def directly(setting, design, heads, temperature):
    smoothers = head_smoothers(
        unit_keys(heads, design.inputs), design.queries, design.inputs, kernel=setting.kernel, temperature=temperature
    )
    terms = ensemble_mse(smoothers, design.truth_at_inputs, design.truth_at_queries, setting.noise_variance)
    return terms.integrated


@pytest.mark.parametrize("function", ["friedman", "rough"])
@pytest.mark.parametrize("axes", ["random", "aligned"])
@pytest.mark.parametrize("n_heads", [1, 2, 8, 48])
def test_the_best_temperature_is_the_best(function, axes, n_heads):
    setting = replace(SETTING, function=function, axes=axes, n_heads=n_heads)
    for replicate in range(3):
        design = draw_design(setting, replicate)
        heads = orthogonal_heads(design.axes, n_heads)
        found = measure(setting, design, heads)
        finest = min(directly(setting, design, heads, 2.0**octave).mse for octave in np.arange(-20.0, 6.1, 0.25))
        # What a parabola over three octaves can miss: the error is flat there, its curvature a few percent an octave.
        assert found.mse.mse <= finest * 1.01
        assert found.mse.mse >= finest * 0.99


def test_a_fixed_temperature_is_taken_as_it_is():
    setting = replace(SETTING, temperature=0.2, n_heads=4, kernel="exponential")
    design = draw_design(setting, 0)
    heads = orthogonal_heads(design.axes, 4)
    found, expected = measure(setting, design, heads), directly(setting, design, heads, 0.2)
    assert found.temperature == 0.2
    assert found.mse.mse == pytest.approx(expected.mse)
    assert found.mse.covariance == pytest.approx(expected.covariance)


def test_pure_noise_is_best_averaged_over_everything_and_says_that_this_is_the_edge():
    setting = replace(SETTING, noise_sd=1e3, n_heads=4)
    design = draw_design(setting, 0)
    found = measure(setting, design, orthogonal_heads(design.axes, 4))
    assert found.at_edge
    assert found.neighbours > 0.99 * 150
