"""Kernel weights against the definition written out, SciPy's softmax, and at the ends of the floats."""

from itertools import pairwise
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from archopt.errors import DegenerateHeadError, OptionError
from archopt.theory import (
    KERNELS,
    attention_weights,
    effective_neighbours,
    head_estimates,
    head_smoothers,
    left_out_errors,
)


def rows(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def naive_weights(q, k, kernel, temperature):
    """One head, by loops in plain floats."""
    tau = sqrt(q.shape[1]) * temperature
    weights = []
    for query in q:
        if kernel == "gaussian":
            kernels = [exp(-sum((a - b) ** 2 for a, b in zip(query, key, strict=True)) / (2 * tau)) for key in k]
        else:
            kernels = [exp(sum(a * b for a, b in zip(query, key, strict=True)) / tau) for key in k]
        weights.append([value / sum(kernels) for value in kernels])
    return np.array(weights)


# ---- the weights


def test_the_exponential_kernel_at_temperature_one_is_dot_product_attention():
    q, k = rows(0, 3, 7, 4), rows(1, 3, 11, 4)
    expected = softmax(q @ k.transpose(0, 2, 1) / sqrt(4), axis=-1)
    assert attention_weights(q, k, kernel="exponential") == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 20.0])
def test_weights_are_the_definition(kernel, temperature):
    q, k = rows(2, 6, 3), rows(3, 9, 3)
    expected = naive_weights(q, k, kernel, temperature)
    assert attention_weights(q, k, kernel=kernel, temperature=temperature) == pytest.approx(expected, rel=1e-12)


def test_each_head_has_its_own_temperature():
    q, k, temperatures = rows(4, 3, 5, 2), rows(5, 3, 8, 2), [0.2, 1.0, 7.0]
    expected = np.stack([naive_weights(q[h], k[h], "gaussian", T) for h, T in enumerate(temperatures)])
    assert attention_weights(q, k, temperature=temperatures) == pytest.approx(expected, rel=1e-12)


@given(seed=st.integers(0, 10**6), kernel=st.sampled_from(KERNELS), temperature=st.floats(0.05, 20.0))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_weights_average_and_follow_the_keys(seed, kernel, temperature):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    weights = attention_weights(q, k, kernel=kernel, temperature=temperature)
    assert (weights >= 0).all()
    assert weights.sum(axis=1) == pytest.approx(1.0, abs=1e-14)
    order = rng.permutation(6)
    # logits up to about 1e3 in size magnify rounding by as much
    again = attention_weights(q, k[order], kernel=kernel, temperature=temperature)
    assert again == pytest.approx(weights[:, order], rel=1e-11)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turned = attention_weights(q @ rotation, k @ rotation, kernel=kernel, temperature=temperature)
    assert turned == pytest.approx(weights, rel=1e-10)


def test_the_gaussian_kernel_sees_differences_only_and_the_exponential_one_does_not():
    q, k, shift = rows(6, 4, 3), rows(7, 6, 3), np.array([1.0, -2.0, 3.0])
    assert attention_weights(q + shift, k + shift) == pytest.approx(attention_weights(q, k), rel=1e-12)
    moved = attention_weights(q + shift, k + shift, kernel="exponential")
    assert np.abs(moved - attention_weights(q, k, kernel="exponential")).max() > 0.1


# ---- leaving out


@pytest.mark.parametrize("kernel", KERNELS)
def test_leaving_the_own_row_out_is_deleting_it(kernel):
    q, k, own = rows(8, 2, 4, 3), rows(9, 2, 7, 3), [6, 0, 3, 3]
    weights = attention_weights(q, k, kernel=kernel, temperature=0.7, own_rows=own)
    for query, row in enumerate(own):
        others = [i for i in range(7) if i != row]
        expected = attention_weights(q[:, [query]], k[:, others], kernel=kernel, temperature=0.7)[:, 0]
        assert weights[:, query, others] == pytest.approx(expected, rel=1e-13)
        assert (weights[:, query, row] == 0.0).all()


def test_the_own_row_leaves_even_where_it_is_all_that_counts():
    k = rows(10, 5, 2)
    weights = attention_weights(k, k, temperature=1e-6, own_rows=np.arange(5))
    distances = ((k[:, None] - k[None]) ** 2).sum(-1) + np.diag(np.full(5, np.inf))
    assert (weights.argmax(axis=1) == distances.argmin(axis=1)).all()
    assert weights.sum(axis=1) == pytest.approx(1.0)


# ---- the ends of the floats


def test_an_underflowing_row_keeps_its_nearest_key_and_duplicates_share():
    k = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [100.0, 0.0]])
    weights = attention_weights([[2.9, 4.1], [55.0, 1.0], [0.1, 0.1]], k, temperature=1e-6)
    expected = np.array([[0, 0.5, 0.5, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    assert (weights == expected).all()  # exact: the others are e^-(10^5) and less


@pytest.mark.parametrize("temperature", [1e-12, 1e-300])
def test_duplicates_share_evenly_at_any_temperature(temperature):
    k = np.repeat(rows(11, 3, 5) + 7.0, 2, axis=0)
    expected = np.kron(np.eye(3), [[0.5, 0.5], [0.5, 0.5]])
    assert (attention_weights(k, k, temperature=temperature) == expected).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-200, 1e200, 1e308])
@pytest.mark.parametrize("temperature", [1e-308, 1.0, 1e308])
def test_weights_stay_weights_at_any_scale(kernel, scale, temperature):
    q, k = np.clip(rows(12, 4, 3), -1, 1) * scale, np.clip(rows(13, 5, 3), -1, 1) * scale
    weights = attention_weights(q, k, kernel=kernel, temperature=temperature, own_rows=[0, 1, 2, 4])
    assert np.isfinite(weights).all()
    assert weights.sum(axis=1) == pytest.approx(1.0, abs=1e-14)
    assert (weights[[0, 1, 2, 3], [0, 1, 2, 4]] == 0.0).all()
    assert (weights <= 1.0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_scaling_rows_and_temperature_together_changes_nothing(kernel):
    # 2^500: exact, and the product of two such rows' squares with anything of size would leave the floats
    q, k, scale = rows(14, 4, 3), rows(15, 5, 3), 2.0**500
    expected = attention_weights(q, k, kernel=kernel)
    assert (attention_weights(q * scale, k * scale, kernel=kernel, temperature=scale**2) == expected).all()
    assert (attention_weights(q / scale, k / scale, kernel=kernel, temperature=scale**-2) == expected).all()


# ---- effective neighbours


def test_effective_neighbours_of_known_weights():
    assert effective_neighbours(np.full(7, 1 / 7)) == pytest.approx(7.0)
    assert effective_neighbours(np.eye(4)) == pytest.approx(np.ones(4))
    assert effective_neighbours([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]]) == pytest.approx([2.0, 8 / 3])
    assert effective_neighbours(np.full((2, 3, 5), 0.2)).shape == (2, 3)


def test_temperature_takes_effective_neighbours_from_one_to_n():
    q, k = rows(16, 5, 2), rows(17, 20, 2)
    counts = [effective_neighbours(attention_weights(q, k, temperature=T)) for T in (1e-9, 0.1, 1.0, 10.0, 1e9)]
    assert counts[0] == pytest.approx(1.0)
    assert counts[-1] == pytest.approx(20.0)
    assert all(low.mean() < high.mean() for low, high in pairwise(counts))


# ---- heads


def test_a_head_is_its_projected_rows_weights_times_targets():
    W, x, X, y = rows(18, 3, 6, 2), rows(19, 4, 6), rows(20, 9, 6), rows(21, 9)
    smoothers = head_smoothers(W, x, X, kernel="gaussian", temperature=0.4)
    expected = np.stack([naive_weights(x @ W_h, X @ W_h, "gaussian", 0.4) for W_h in W])
    assert smoothers == pytest.approx(expected, rel=1e-11)
    assert head_estimates(smoothers, y) == pytest.approx(
        np.array([[row @ y for row in head] for head in expected]), rel=1e-10
    )


def test_smoothers_reproduce_constants_and_stay_within_the_targets():
    W, X, y = rows(22, 3, 6, 2), rows(23, 9, 6), rows(24, 9)
    S = head_smoothers(W, X, X, own_rows=np.arange(9))
    assert head_estimates(S, np.full(9, 4.0)) == pytest.approx(4.0)
    assert (head_estimates(S, y) <= y.max()).all()
    assert (head_estimates(S, y) >= y.min()).all()
    assert (S[:, np.arange(9), np.arange(9)] == 0).all()


# ---- bad input

W, X = rows(25, 2, 6, 3), rows(26, 5, 6)


def with_one(value, row, column):
    bad = X.copy()
    bad[row, column] = value
    return bad


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((rows(0, 4), rows(0, 5, 3)), {}, "queries must have shape"),
        ((rows(0, 4, 3), rows(0, 5, 2)), {}, "width d_k"),
        ((rows(0, 2, 4, 3), rows(0, 3, 5, 3)), {}, "number of axes, heads"),
        ((rows(0, 4, 3), rows(0, 2, 5, 3)), {}, "number of axes"),
        ((np.zeros((0, 3)), rows(0, 5, 3)), {}, "nothing empty"),
        ((rows(0, 4, 3) * 1j, rows(0, 5, 3)), {}, "queries must hold real numbers"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"kernel": "gausian"}, "kernel must be .* did you mean 'gaussian'"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"temperature": 0.0}, "temperature must be a finite number above 0"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"temperature": True}, "temperature must be"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"temperature": "1"}, "temperature must be"),
        ((rows(0, 2, 4, 3), rows(0, 2, 5, 3)), {"temperature": [1.0, -2.0]}, "temperature must .* -2 for head 1"),
        ((rows(0, 2, 4, 3), rows(0, 2, 5, 3)), {"temperature": [1.0, np.nan]}, "temperature must .* nan for head 1"),
        ((rows(0, 2, 4, 3), rows(0, 2, 5, 3)), {"temperature": [1.0] * 3}, r"temperature must have shape \(H,\)"),
        ((rows(0, 4, 3), rows(0, 1, 3)), {"own_rows": [0] * 4}, "own_rows .* at least 2 keys but got 1"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"own_rows": [0, 1, 2]}, r"own_rows must have shape \(m,\) = \(4\)"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"own_rows": [0, 1, 2, 5]}, "own_rows must be whole .* n - 1 = 4 but got 5"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"own_rows": [0, 1, 2, -1]}, "own_rows must be whole numbers .* got -1"),
        ((rows(0, 4, 3), rows(0, 5, 3)), {"own_rows": [0, 1, 2, 1.5]}, "own_rows must be whole numbers .* got 1.5"),
    ],
)
def test_weights_refuse(arguments, options, message):
    with pytest.raises(OptionError, match=message) as caught:
        attention_weights(*arguments, **options)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((W[0], X, X), r"key_projections must have shape \(H, D, d_k\)"),
        ((W, X[:, :5], X), r"queries must have shape \(m, D\) = \(any, 6\)"),
        ((W, X, X[:, :5]), r"inputs must have shape \(n, D\) = \(any, 6\)"),
        ((W, X, X[:1]), "inputs must have at least 2 rows"),
        ((W, X, with_one(np.inf, 3, 2)), r"inputs must be finite but holds inf at index \[3, 2\]"),
        ((W, with_one(np.nan, 1, 0), X), r"queries must be finite but holds nan at index \[1, 0\]"),
    ],
)
def test_smoothers_refuse(arguments, message):
    with pytest.raises(OptionError, match=message):
        head_smoothers(*arguments)


def test_what_is_not_finite_is_named_by_its_head():
    with pytest.raises(DegenerateHeadError, match="head 1 has a key projection") as caught:
        head_smoothers(np.stack([W[0], np.full_like(W[0], np.nan)]), X, X)
    assert caught.value.head == 1
    with pytest.raises(DegenerateHeadError, match="head 1 has a query"):  # the product leaves the floats
        head_smoothers(W * np.array([1.0, 1e300])[:, None, None], X * 1e20, X)
    with pytest.raises(DegenerateHeadError, match="head 0 has a key that"):
        attention_weights(X, with_one(np.nan, 0, 0))
    with pytest.raises(DegenerateHeadError, match="head 0 has a smoother"):
        head_estimates(np.full((2, 3, 4), np.nan), np.ones(4))


def test_estimates_and_neighbours_refuse():
    S = head_smoothers(W, X, X)
    with pytest.raises(OptionError, match=r"targets must have shape \(n,\) = \(5\) but got shape \(4,\)"):
        head_estimates(S, np.ones(4))
    with pytest.raises(OptionError, match="targets must be finite"):
        head_estimates(S, [1.0, 2.0, np.nan, 4.0, 5.0])
    for weights in ([0.5, 0.4], [0.5, np.nan]):
        with pytest.raises(OptionError, match="weights must sum to 1"):
            effective_neighbours(weights)


@pytest.mark.parametrize("kernel", KERNELS)
def test_left_out_errors_equal_deleting_every_row_in_turn(kernel):
    random = np.random.default_rng(8)
    W, x, y = random.normal(size=(3, 5, 2)), random.normal(size=(12, 5)), random.normal(size=12)
    errors = left_out_errors(W, x, y, kernel=kernel, temperature=[0.3, 1.0, 2.0])
    for row in range(12):
        others = np.delete(np.arange(12), row)
        S = head_smoothers(W, x[[row]], x[others], kernel=kernel, temperature=[0.3, 1.0, 2.0])
        assert errors[:, row] == pytest.approx((S @ y[others])[:, 0] - y[row], abs=1e-12)


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (np.ones((1, 5)), [1.0], "at least 2"),
        (np.ones((4, 3)), np.ones(4), "inputs"),
        (np.ones((4, 5)), np.ones(3), "targets"),
        (np.ones((4, 5)), [1.0, np.nan, 1.0, 1.0], "targets must be finite"),
    ],
)
def test_left_out_errors_refuse_what_they_cannot_use(inputs, targets, message):
    with pytest.raises(OptionError, match=message):
        left_out_errors(np.ones((2, 5, 2)), inputs, targets)
