import dataclasses

import numpy as np
import pytest

from archopt.data import load_dataset, summarise
from archopt.data.summary import intrinsic_dim_range, noise_share, signal_to_noise
from archopt.errors import OptionError
from archopt.theory.scaling import FAMILY_DEFAULTS, optimal_allocation

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


def smooth_target(dim, ratio, n_rows, seed):
    """Inputs, and a smooth function of them plus noise, with Var(signal) / Var(noise) = ratio."""
    rng = np.random.default_rng(seed)
    inputs = rng.random((n_rows, dim))
    signal = np.sin(2 * np.pi * inputs[:, 0]) + (np.cos(np.pi * inputs[:, 1]) if dim == 2 else 0.0)
    return inputs, signal / signal.std() + rng.normal(size=n_rows) / np.sqrt(ratio)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0, 19.0])
def test_bias_to_noise_is_the_signal_to_noise_of_smooth_functions(dim, ratio):
    found = []
    for seed in range(5):
        share, _ = noise_share(*smooth_target(dim, ratio, 2_000, seed), classes=False)
        found.append(signal_to_noise(share, "table")[0])
    # sd of the share over draws 0.03 at 0.8, 0.02 at 0.5, 0.004 at 0.1, 0.002 at 0.05, so of the ratio at most 20 %,
    # of the mean of five 9 %; the share itself is off by up to 2 %: 8 % of the ratio 0.25
    assert np.mean(found) == pytest.approx(ratio, rel=0.25 if ratio < 1 else 0.12)


def test_bias_to_noise_of_classes_is_that_of_their_one_hot_targets():
    """p(1|x) = 0.1 left and 0.9 right. Variance of p is 0.16, of the noise 0.09, for each one-hot column."""
    shares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        inputs = rng.random((4_000, 1))
        classes = (rng.random(4_000) < np.where(inputs[:, 0] < 0.5, 0.1, 0.9)).astype(int)
        shares.append(noise_share(inputs, classes, classes=True)[0])
    # sd of a share over draws 0.016 of 0.36, of ten 0.005: 2.1 % of the ratio
    assert signal_to_noise(float(np.mean(shares)), "table")[0] == pytest.approx(0.16 / 0.09, rel=0.08)


@pytest.mark.parametrize(("share", "said"), [(None, "not estimated:"), (1.0, "100% may only mean")])
def test_bias_to_noise_falls_back_on_the_default_of_its_family(share, said):
    for family, default in FAMILY_DEFAULTS.items():
        ratio, note = signal_to_noise(share, family)
        assert ratio == default.bias_to_noise
        assert said in note
        assert default.bias_to_noise_reason in note


def test_a_target_without_noise_has_a_large_ratio_that_says_it_is_a_bound():
    for share in (0.0, 0.005):
        ratio, note = signal_to_noise(share, "table")
        assert ratio == pytest.approx(99.0)  # (1 - 0.01) / 0.01
        assert "at least 99" in note
    assert signal_to_noise(0.011, "table")[0] < 99.0


def test_every_summary_has_a_ratio_that_the_bound_takes():
    data = load_dataset("sklearn:diabetes")
    found = summarise(data)
    assert found.bias_to_noise == pytest.approx((1 - found.noise_variance) / found.noise_variance)
    assert "signal to noise" in found.notes[-1]
    constant = dataclasses.replace(data.train, targets=np.zeros_like(data.train.targets))
    few = dataclasses.replace(data.train, inputs=data.train.inputs[:12], targets=data.train.targets[:12])
    summaries = [summarise(dataclasses.replace(data, train=train)) for train in (constant, few)]
    assert [summary.bias_to_noise for summary in summaries] == [FAMILY_DEFAULTS["table"].bias_to_noise] * 2
    assert all("not estimated" in summary.notes[-1] for summary in summaries)
    summaries += [found, summarise(load_dataset("sklearn:iris")), summarise(load_dataset("text:python-topics"))]
    for summary in summaries:
        asked = optimal_allocation(
            48, summary.n_samples, summary.intrinsic_dim, law="bound", bias_to_noise=summary.bias_to_noise
        )
        assert 1.0 <= asked.head_dim <= 48.0


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
    assert summary.bias_to_noise == FAMILY_DEFAULTS["text"].bias_to_noise
    assert ["convention" in note for note in summary.notes] == [True, True]


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
