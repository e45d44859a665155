import dataclasses

import numpy as np
import pytest

from archopt.data import load_dataset, summarise
from archopt.data.summary import intrinsic_dim_range, noise_share
from archopt.errors import OptionError
from archopt.theory.scaling import FAMILY_DEFAULTS

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dim", [2, 5])
def test_a_flat_of_known_dimension_in_twenty_columns(dim):
    points = RNG.normal(size=(1_500, dim)) @ RNG.normal(size=(dim, 20))
    (low, high), note = intrinsic_dim_range(points)
    # Both estimators are known to be low by 10-20 % at the edge of a finite sample (Facco et al. 2017, figure 2).
    assert dim * 0.75 < low <= high < dim * 1.2
    assert "TwoNN" in note
    assert "MLE" in note


def test_repeated_rows_do_not_matter():
    points = RNG.normal(size=(300, 4))
    assert intrinsic_dim_range(np.vstack([points, points]))[0] == intrinsic_dim_range(points)[0]


def test_estimates_stay_within_the_columns_and_above_one():
    (low, high), _ = intrinsic_dim_range(RNG.integers(0, 2, size=(500, 9)).astype(float))
    assert 1.0 <= low <= high <= 9.0
    assert intrinsic_dim_range(RNG.normal(size=(100, 1)))[0] == (1.0, 1.0)


def test_a_lattice_and_too_few_rows_give_the_default_and_say_so():
    few, note = intrinsic_dim_range(RNG.normal(size=(12, 6)))
    assert few == (4.0, 6.0)
    assert "not measurable" in note
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
    (low, high), _ = intrinsic_dim_range(grid)
    assert 1.0 <= low <= high <= 2.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_noise_of_a_linear_function_is_found(share):
    inputs = RNG.random((2_000, 3))
    signal = inputs.sum(axis=1)
    targets = signal + signal.std() * np.sqrt(share / (1 - share)) * RNG.normal(size=2_000)
    found, _ = noise_share(inputs, targets, classes=False)
    assert found == pytest.approx(share, abs=0.06)  # sd over draws 0.02-0.03


def test_noise_of_classes_follows_cover_and_hart():
    """p(1|x) = 0.2 left and 0.8 right: neighbours differ with 2 * 0.2 * 0.8 = 0.32, random pairs with 0.5."""
    inputs = RNG.random((4_000, 1))
    classes = (RNG.random(4_000) < np.where(inputs[:, 0] < 0.5, 0.2, 0.8)).astype(int)
    assert noise_share(inputs, classes, classes=True)[0] == pytest.approx(0.64, abs=0.05)


def test_pure_noise_is_all_noise_and_a_clean_split_none():
    inputs = RNG.random((1_000, 2))
    assert noise_share(inputs, RNG.normal(size=1_000), classes=False)[0] == pytest.approx(1.0, abs=0.1)
    assert noise_share(inputs, (inputs[:, 0] > 0.5).astype(int), classes=True)[0] < 0.05


def test_noise_is_none_where_it_cannot_be_estimated():
    assert noise_share(RNG.random((20, 2)), RNG.random(20), classes=False)[0] is None
    assert noise_share(RNG.random((50, 2)), np.ones(50), classes=False)[0] is None


def test_summaries_of_bundled_sets():
    digits = summarise(load_dataset("sklearn:digits"))
    assert digits.n_samples == 1_078
    assert 4.0 < digits.intrinsic_dim_range[0] <= digits.intrinsic_dim <= digits.intrinsic_dim_range[1] < 12.0
    assert digits.intrinsic_dim == pytest.approx(np.sqrt(np.prod(digits.intrinsic_dim_range)))
    assert digits.noise_variance < 0.1
    diabetes = summarise(load_dataset("sklearn:diabetes"))
    assert 0.3 < diabetes.noise_variance < 0.8  # published R2 on this table are 0.4-0.5
    assert summarise(load_dataset("sklearn:linnerud")).noise_variance is None


def test_a_text_has_a_convention():
    summary = summarise(load_dataset("text:python-topics"))
    assert summary.family == "text"
    assert summary.intrinsic_dim == FAMILY_DEFAULTS["text"].intrinsic_dim
    assert summary.noise_variance is None
    assert "convention" in summary.notes[0]


def test_a_large_table_is_subsampled_by_the_seed():
    data = load_dataset("sklearn:diabetes")
    large = dataclasses.replace(
        data.train, inputs=RNG.random((5_000, 3), dtype=np.float32), targets=RNG.random(5_000, dtype=np.float32)
    )
    data = dataclasses.replace(data, train=large)
    assert summarise(data, seed=1) == summarise(data, seed=1)
    assert summarise(data, seed=1).intrinsic_dim != summarise(data, seed=2).intrinsic_dim
    with pytest.raises(OptionError, match="seed"):
        summarise(data, seed=-1)
