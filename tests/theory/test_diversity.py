"""The diversity index against closed forms, simulation and SciPy's principal angles."""

import tracemalloc
from itertools import combinations
from math import isnan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from archopt.errors import AllocationError, DegenerateHeadError, OptionError
from archopt.theory import (
    diversity_z_score,
    excess_diversity,
    excess_from_index,
    head_diversity_index,
    principal_angles,
    random_excess_sd,
    z_score_from_index,
)


def random_heads(seed, n_heads, d_model, head_dim):
    return np.random.default_rng(seed).normal(size=(n_heads, d_model, head_dim))


def axes(d_model, *heads):
    """One head per group of coordinate axes."""
    return np.stack([np.eye(d_model)[:, list(head)] for head in heads])


# ---- end points, both forms


def test_orthogonal_heads_are_one_identical_heads_are_zero():
    assert head_diversity_index(axes(6, (0, 1), (2, 3), (4, 5))) == 1.0
    identical = np.repeat(random_heads(0, 1, 12, 3), 4, axis=0)
    assert head_diversity_index(identical) == pytest.approx(0.0, abs=1e-13)


def test_one_shared_axis_of_two_is_a_half():
    assert head_diversity_index(axes(4, (0, 1), (1, 2))) == pytest.approx(0.5, abs=1e-15)


def test_two_lines_at_an_angle_have_its_squared_sine():
    lines = np.array([[[1.0], [0.0]], [[np.cos(0.3)], [np.sin(0.3)]]])
    assert head_diversity_index(lines) == pytest.approx(np.sin(0.3) ** 2, abs=1e-15)


@pytest.mark.parametrize(("n_heads", "d_model", "head_dim"), [(3, 20, 2), (4, 12, 3), (5, 9, 4), (2, 6, 6)])
def test_the_index_is_the_mean_squared_cosine_over_pairs(n_heads, d_model, head_dim):
    # SciPy's angles, pair by pair; the shapes take the index through both of its Gram matrices
    W = random_heads(1, n_heads, d_model, head_dim)
    overlaps = [np.mean(np.cos(subspace_angles(W[h], W[g])) ** 2) for h, g in combinations(range(n_heads), 2)]
    assert head_diversity_index(W) == pytest.approx(1.0 - np.mean(overlaps), abs=1e-13)


@pytest.mark.parametrize(("n_heads", "d_model", "head_dim"), [(3, 20, 2), (4, 12, 3), (5, 9, 4)])
def test_the_paper_form_is_the_printed_formula(n_heads, d_model, head_dim):
    W = random_heads(2, n_heads, d_model, head_dim)
    printed = sum(np.sum((W[h].T @ W[g] / head_dim) ** 2) for h, g in combinations(range(n_heads), 2))
    expected = 1.0 - 2.0 / (n_heads * (n_heads - 1)) * printed
    assert head_diversity_index(W, form="paper") == pytest.approx(expected, rel=1e-12)


# ---- trap 1: scale


@pytest.mark.parametrize(("n_heads", "expected"), [(2, 0.953), (16, 0.730)])
def test_the_paper_form_calls_identical_heads_at_initialisation_diverse(n_heads, expected):
    # W with N(0, 1/D) entries: E ||W^T W||_F^2 / d_k^2 = 1/d_k + 1/D + 1/(d_k D), so 0.953 and 0.730 at D = 64
    d_model, head_dim, draws = 64, 64 // n_heads, 400
    assert 1 - (1 / head_dim + 1 / d_model + 1 / (head_dim * d_model)) == pytest.approx(expected, abs=5e-4)
    indices = []
    for seed in range(draws):
        W = np.repeat(random_heads(seed, 1, d_model, head_dim) / sqrt(d_model), n_heads, axis=0)
        indices.append(head_diversity_index(W, form="paper"))
        assert head_diversity_index(W) == pytest.approx(0.0, abs=1e-12)
    standard_error = np.std(indices) / sqrt(draws)
    assert np.mean(indices) == pytest.approx(expected, abs=4 * standard_error + 5e-4)


def test_the_paper_form_of_identical_orthonormal_heads():
    identical = axes(8, (0, 1, 2, 3), (0, 1, 2, 3))
    assert head_diversity_index(identical, form="paper") == pytest.approx(1 - 1 / 4)
    # and the one scale at which the stated 0 holds: W^T W = sqrt(d_k) I
    assert head_diversity_index(identical * 4**0.25, form="paper") == pytest.approx(0.0, abs=1e-14)


@given(seed=st.integers(0, 10**6), shape=st.sampled_from([(2, 8, 4), (3, 8, 2), (6, 8, 3), (4, 4, 1)]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_subspace_form_depends_on_the_subspaces_only(seed, shape):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=shape)
    left, _, right = np.linalg.svd(rng.normal(size=(shape[0], shape[2], shape[2])))
    R = left * rng.uniform(0.01, 100.0, size=(shape[0], 1, shape[2])) @ right  # invertible, condition at most 1e4
    index = head_diversity_index(W)
    assert 0.0 <= index <= 1.0
    assert head_diversity_index(W @ R) == pytest.approx(index, abs=1e-9)  # condition 1e4 * 1e2 times rounding
    rotation, _ = np.linalg.qr(rng.normal(size=(shape[1], shape[1])))
    assert head_diversity_index(rotation @ W) == pytest.approx(index, abs=1e-12)
    assert head_diversity_index(W[rng.permutation(shape[0])]) == pytest.approx(index, abs=1e-12)


# ---- trap 2: baseline and its spread


@pytest.mark.parametrize(("n_heads", "d_model", "head_dim"), [(4, 24, 6), (12, 24, 2), (3, 8, 3), (2, 6, 3), (6, 6, 1)])
def test_baseline_and_spread_of_random_heads(n_heads, d_model, head_dim):
    draws = 1500
    rng = np.random.default_rng(3)
    index = [head_diversity_index(rng.normal(size=(n_heads, d_model, head_dim))) for _ in range(draws)]
    excess = np.array([excess_from_index(i, d_model=d_model, head_dim=head_dim) for i in index])
    spread = random_excess_sd(d_model=d_model, n_heads=n_heads, head_dim=head_dim)
    assert np.mean(index) == pytest.approx(1 - head_dim / d_model, abs=4 * np.std(index) / sqrt(draws))
    # standard error of a variance from its own fourth moment; within 4 of them
    squares = (excess - excess.mean()) ** 2
    assert squares.mean() == pytest.approx(spread**2, abs=4 * np.std(squares) / sqrt(draws))


@pytest.mark.parametrize("n_heads", [2, 3, 4, 8, 16, 48])
def test_the_spread_is_close_to_the_rule_of_thumb_when_heads_tile_the_width(n_heads):
    # 2 sqrt((H-1)/H) / D, exact up to sqrt((D-1)(D+2)) for D: 1 % at D = 48
    exact = random_excess_sd(d_model=48, n_heads=n_heads, head_dim=48 // n_heads)
    assert exact == pytest.approx(2 * sqrt((n_heads - 1) / n_heads) / 48, rel=0.011)


def test_excess_of_orthogonal_and_identical_heads():
    tiling = axes(6, (0, 1), (2, 3), (4, 5))
    assert excess_diversity(tiling) == pytest.approx(1.0)
    assert excess_diversity(np.repeat(tiling[:1], 3, axis=0)) == pytest.approx(1 - 6 / 2)
    spread = 2 * sqrt(2 / 3) / sqrt(5 * 8)
    assert diversity_z_score(tiling) == pytest.approx(1 / spread)


def test_scalar_forms_equal_the_array_forms():
    W = random_heads(4, 4, 24, 6)
    index = head_diversity_index(W)
    assert excess_from_index(index, d_model=24, head_dim=6) == excess_diversity(W)
    assert z_score_from_index(index, d_model=24, n_heads=4, head_dim=6) == diversity_z_score(W)
    assert z_score_from_index(0.75, d_model=24, n_heads=4, head_dim=6) == 0.0


def test_heads_as_wide_as_what_they_read_have_no_z_score():
    W = random_heads(5, 2, 4, 4)
    assert excess_diversity(W) == pytest.approx(0.0, abs=1e-12)
    assert isnan(diversity_z_score(W))


@pytest.mark.parametrize(
    "hdi",
    [1.5, -0.2, float("inf"), "0.5", None, True, 0.5j, 10**400, [0.5], np.array([0.5, 0.5]), np.array([])],
    ids=repr,
)
def test_an_index_outside_the_unit_interval_is_refused(hdi):
    with pytest.raises(OptionError, match="hdi must be from 0 to 1"):
        z_score_from_index(hdi, d_model=24, n_heads=4, head_dim=6)


def test_an_index_that_rounding_moved_past_one_is_accepted():
    assert excess_from_index(1.004, d_model=24, head_dim=6) == pytest.approx(1.0, abs=0.02)


# ---- trap 3: one head


def test_one_head_is_neither_low_nor_high():
    single = random_heads(6, 1, 8, 8)
    assert isnan(head_diversity_index(single))
    assert isnan(head_diversity_index(single, form="paper"))
    assert isnan(excess_diversity(single))
    assert isnan(diversity_z_score(single))
    assert isnan(random_excess_sd(d_model=8, n_heads=1, head_dim=8))
    assert isnan(excess_from_index(float("nan"), d_model=8, head_dim=8))
    assert isnan(z_score_from_index(float("nan"), d_model=8, n_heads=1, head_dim=8))


# ---- what is read, what is refused


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_torch_tensors_with_gradients(dtype):
    torch = pytest.importorskip("torch")
    W = random_heads(7, 4, 16, 4)
    tensor = torch.tensor(W, dtype=getattr(torch, dtype), requires_grad=True)
    rounded = tensor.detach().double().numpy()
    assert head_diversity_index(tensor) == head_diversity_index(rounded)
    assert diversity_z_score(tensor) == diversity_z_score(rounded)


def test_single_precision_gives_the_same_index():
    W = random_heads(8, 8, 48, 6).astype(np.float32)
    assert head_diversity_index(W) == head_diversity_index(W.astype(np.float64))


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_a_head_without_full_rank_is_named(precision):
    W = random_heads(9, 4, 64, 8)
    W[2] = W[2][:, :7] @ np.random.default_rng(0).normal(size=(7, 8))  # rank 7 up to rounding
    with pytest.raises(DegenerateHeadError, match="head 2 lacks full column rank") as error:
        head_diversity_index(W.astype(precision))
    assert error.value.head == 2
    assert "\n" not in str(error.value)


def test_a_nearly_dependent_head_is_not_degenerate_in_double_precision():
    W = random_heads(10, 2, 16, 2)
    W[0][:, 1] = W[0][:, 0] + 1e-9 * W[0][:, 1]
    assert 0.0 < head_diversity_index(W) < 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_a_head_that_is_not_finite_is_named(value, n_heads):
    W = random_heads(11, n_heads, 8, 2)
    W[-1, 3, 1] = value
    with pytest.raises(DegenerateHeadError, match=f"head {n_heads - 1} .* not finite") as error:
        diversity_z_score(W)
    assert error.value.head == n_heads - 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((4, 4)), r"key_projections must have shape \(H, D, d_k\), nothing empty, but got shape \(4, 4\)"),
        (np.ones((0, 4, 2)), "nothing empty"),
        (np.ones((2, 4, 2), dtype=complex), "real numbers"),
        ([[[1.0], [2.0]], [[1.0]]], "one array of shape"),
        ("heads", "real numbers"),
    ],
)
def test_other_shapes_and_types_are_refused(values, message):
    with pytest.raises(OptionError, match=message):
        head_diversity_index(values)


@pytest.mark.parametrize(("largest", "tolerance"), [(1e-310, 1e-9), (1e-200, 1e-13), (1e200, 1e-13), (1.7e308, 1e-13)])
def test_the_subspace_form_and_the_angles_have_no_scale_at_all(largest, tolerance):
    # 1e-310 is subnormal: about 14 bits less are left of each entry. At 1.7e308 the norm of a column is no float.
    W = random_heads(16, 3, 12, 4)
    scaled = W / np.abs(W).max() * largest
    assert head_diversity_index(scaled) == pytest.approx(head_diversity_index(W), abs=tolerance)
    assert principal_angles(scaled[0], W[1]) == pytest.approx(principal_angles(W[0], W[1]), abs=tolerance)


@pytest.mark.parametrize("shape", [(3, 12, 4), (3, 6, 4)])  # both Gram matrices
def test_the_paper_form_refuses_a_scale_at_which_it_leaves_the_floats(shape):
    W = np.random.default_rng(17).normal(size=shape) * 1e200
    with pytest.raises(OptionError, match="key_projections must be small enough for form 'paper'") as error:
        head_diversity_index(W, form="paper")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("call", [head_diversity_index, excess_diversity, diversity_z_score])
def test_a_head_of_zeros_is_degenerate_and_named_in_one_line(call):
    W = random_heads(18, 3, 8, 2)
    W[1] = 0.0
    with pytest.raises(DegenerateHeadError, match="head 1 lacks full column rank") as error:
        call(W)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "4", None, 1j, float("nan"), np.ones(2), "x" * 500], ids=repr)
@pytest.mark.parametrize("argument", ["d_model", "n_heads", "head_dim"])
def test_widths_and_heads_are_positive_whole_numbers(argument, value):
    arguments = {"d_model": 24, "n_heads": 4, "head_dim": 6} | {argument: value}
    with pytest.raises(AllocationError, match=f"{argument} must be a whole number of at least 1"):
        random_excess_sd(**arguments)
    with pytest.raises(AllocationError, match=f"{argument} must be a whole number of at least 1"):
        z_score_from_index(0.7, **arguments)


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000], ids=["large", "negative", "unprintable"])
@pytest.mark.parametrize("argument", ["d_model", "n_heads", "head_dim"])
def test_whole_numbers_beyond_the_floats_are_refused_in_one_line(argument, value):
    with pytest.raises(AllocationError, match=f"^{argument} must be a whole number") as error:
        z_score_from_index(0.7, **{"d_model": 24, "n_heads": 4, "head_dim": 6} | {argument: value})
    assert len(str(error.value)) < 300


@pytest.mark.torch
def test_torch_tensors_of_the_wrong_kind_are_refused():
    torch = pytest.importorskip("torch")
    for tensor in (torch.ones(4, 4), torch.ones(3, 4, 2) > 0, torch.ones(3, 4, 2) + 0j, torch.ones(0, 4, 2)):
        with pytest.raises(OptionError, match="key_projections must"):
            head_diversity_index(tensor)


def test_heads_wider_than_what_they_read_are_refused():
    with pytest.raises(AllocationError, match="head_dim must be at most the width D = 2 it reads from but got 4"):
        head_diversity_index(random_heads(12, 2, 2, 4))


def test_an_unknown_form_is_refused():
    with pytest.raises(OptionError, match="did you mean 'subspace'"):
        head_diversity_index(random_heads(13, 2, 4, 2), form="subspaces")


def test_large_models_fit_in_memory():
    # 4,096 x 4,096 in blocks of 64: inputs, bases and the Gram matrix, 134 MB each in float64, and copies of them
    W = np.random.default_rng(15).normal(size=(64, 4096, 64)).astype(np.float32)
    tracemalloc.start()
    score = diversity_z_score(W)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert abs(score) < 5
    assert peak_bytes < 2e9


# ---- principal angles


def test_principal_angles_by_hand():
    tilted = np.array([[1.0, 0.0], [0.0, np.cos(0.3)], [0.0, np.sin(0.3)], [0.0, 0.0]])
    assert principal_angles(axes(4, (0, 1))[0], tilted) == pytest.approx([0.0, 0.3], abs=1e-15)
    assert principal_angles(axes(4, (0, 1))[0], axes(4, (3,))[0]) == pytest.approx([pi / 2])


def test_small_principal_angles_keep_their_digits():
    line, near = np.array([[1.0], [0.0]]), np.array([[1.0], [1e-9]])
    assert principal_angles(line, near) == pytest.approx([1e-9], rel=1e-6)  # arccos would say 0


def test_principal_angles_refuse_degenerate_and_mismatched_heads():
    good = random_heads(14, 1, 6, 2)[0]
    with pytest.raises(DegenerateHeadError) as error:
        principal_angles(good, np.ones((6, 2)))
    assert error.value.head == 1
    with pytest.raises(OptionError, match="same width D but got 6 and 5"):
        principal_angles(good, good[:5])
