"""Head weights against exact fractions, closed forms, a grid and another solver, and what every weighting has."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from archopt.errors import AllocationError, DegenerateHeadError, OptionError
from archopt.theory import (
    WEIGHTING_SCHEMES,
    error_covariance,
    head_weights,
    heads_by_quality,
    learned_weights,
    minimum_variance_weights,
)


def exact_fibonacci(n_heads):
    """alpha_h = F_{H+1-h} / (F_{H+2} - 1) in whole numbers of any size."""
    numbers = [1, 1]  # F_1, F_2
    while len(numbers) < n_heads + 2:
        numbers.append(numbers[-1] + numbers[-2])
    return [float(Fraction(numbers[n_heads - h], numbers[n_heads + 1] - 1)) for h in range(1, n_heads + 1)]


def test_fibonacci_of_five_heads():
    assert head_weights("fibonacci", 5) == pytest.approx(np.array([5, 3, 2, 1, 1]) / 12, rel=1e-15)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 16, 91, 92, 93, 128, 1000])
def test_fibonacci_equals_whole_number_arithmetic(n_heads):
    # One rounding per factor of the running product: at most n_heads * 1.2e-16 each for factor and product.
    assert head_weights("fibonacci", n_heads) == pytest.approx(exact_fibonacci(n_heads), rel=3e-16 * n_heads + 1e-15)


@pytest.mark.parametrize("n_heads", [1477, 4096])
def test_fibonacci_beyond_the_floats_stays_a_weighting(n_heads):
    weights = head_weights("fibonacci", n_heads)
    assert np.isfinite(weights).all()
    assert weights[0] == pytest.approx(2 - (1 + 5**0.5) / 2, rel=1e-14)  # limit of F_H / (F_{H+2} - 1): 1 / phi^2
    assert weights[-1] >= 0


def test_at_two_heads_fibonacci_is_exactly_uniform():
    assert head_weights("fibonacci", 2).tolist() == head_weights("uniform", 2).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("scheme", WEIGHTING_SCHEMES)
def test_one_head_has_all_the_weight(scheme):
    assert head_weights(scheme, 1).tolist() == [1.0]


def test_geometric_weights_fall_by_the_ratio():
    # (1 - r) r^{h-1} / (1 - r^H) at r = 1/2, H = 3
    assert head_weights("geometric", 3, ratio=0.5) == pytest.approx([4 / 7, 2 / 7, 1 / 7], rel=1e-15)
    weights = head_weights("geometric", 10)
    assert weights[1:] / weights[:-1] == pytest.approx(np.full(9, 0.8), rel=1e-14)


@given(
    scheme=st.sampled_from(WEIGHTING_SCHEMES),
    n_heads=st.integers(1, 2000),
    ratio=st.floats(0, 1, exclude_min=True, exclude_max=True),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_every_weighting_is_on_the_simplex_and_ordered(scheme, n_heads, ratio):
    weights = head_weights(scheme, n_heads, ratio)
    assert weights.shape == (n_heads,)
    assert weights.dtype == np.float64
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(weights) <= 0).all()


def test_unknown_scheme_suggests_the_nearest():
    with pytest.raises(OptionError, match="did you mean 'fibonacci'") as error:
        head_weights("fibonaci", 4)
    assert "'geometric'" in str(error.value)


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.5, 1.5, float("nan"), float("inf"), "0.8", True, None])
def test_a_ratio_outside_the_open_unit_interval_is_refused(ratio):
    with pytest.raises(OptionError, match="ratio must"):
        head_weights("geometric", 4, ratio=ratio)


@pytest.mark.parametrize("n_heads", [0, -1, 2.0, True, "4"])
def test_n_heads_must_be_a_positive_whole_number(n_heads):
    with pytest.raises(AllocationError, match="n_heads must be a whole number"):
        head_weights("uniform", n_heads)


# ---- learned


def test_learned_weights_are_the_softmax():
    assert learned_weights([0.0, np.log(2.0), np.log(5.0)]) == pytest.approx(np.array([1, 2, 5]) / 8, rel=1e-15)


@pytest.mark.parametrize("n_heads", [1, 2, 7, 128])
def test_equal_logits_weigh_uniformly(n_heads):
    assert learned_weights(np.zeros(n_heads)) == pytest.approx(head_weights("uniform", n_heads), rel=1e-15)


@given(seed=st.integers(0, 999), n_heads=st.integers(1, 128), spread=st.sampled_from([1.0, 1e4, 1.7e308]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_learned_weights_are_on_the_simplex_whatever_the_logits(seed, n_heads, spread):
    logits = spread * np.random.default_rng(seed).uniform(-1.0, 1.0, n_heads)
    weights = learned_weights(logits)
    assert weights.shape == (n_heads,)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert weights.argmax() == logits.argmax()


def test_a_shift_of_all_logits_changes_nothing():
    logits = np.random.default_rng(0).normal(size=128)
    # 1e4 + logit is rounded by up to 1e-12, and the weights' relative change is as large
    np.testing.assert_allclose(learned_weights(logits + 1e4), learned_weights(logits), rtol=1e-11)


def test_far_logits_give_all_or_nothing():
    assert learned_weights([1e4, -1e4, 1e4]).tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_logit_that_is_not_finite_is_refused(bad):
    with pytest.raises(DegenerateHeadError, match="head 1 has a logit that is not finite") as error:
        learned_weights([0.0, bad])
    assert error.value.head == 1


@pytest.mark.parametrize("logits", [1.0, [], [[0.0]], ["a"], [1j], [True]])
def test_logits_are_one_real_number_a_head(logits):
    with pytest.raises(OptionError, match="logits must"):
        learned_weights(logits)


# ---- minimum variance


def random_covariance(rng, n_heads, rows, common=0.0):
    errors = rng.normal(size=(n_heads, rows)) * rng.uniform(0.5, 2.0, (n_heads, 1))
    return errors @ errors.T / rows + common * np.ones((n_heads, n_heads))


def unconstrained(Sigma):
    direction = np.linalg.solve(Sigma, np.ones(len(Sigma)))
    return direction / direction.sum()


def assert_optimal(Sigma, weights, tolerance):
    """KKT of the convex problem: Sigma alpha is alpha' Sigma alpha where alpha_h > 0, and no less elsewhere."""
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    gradient = Sigma @ weights
    variance = weights @ gradient
    assert (gradient >= variance - tolerance).all()
    assert gradient[weights > 0] == pytest.approx(variance, abs=tolerance)


def test_independent_heads_are_weighed_by_their_precision():
    # alpha_h ~ 1 / variance_h
    assert minimum_variance_weights(np.diag([1.0, 2.0, 4.0])) == pytest.approx(np.array([4, 2, 1]) / 7, rel=1e-13)
    wide = minimum_variance_weights(np.diag([1e-12, 1.0, 1e12]))  # 24 decades, each weight to its last digits
    assert wide == pytest.approx(np.array([1.0, 1e-12, 1e-24]) / (1 + 1e-12), rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_where_the_closed_form_is_positive_it_is_the_answer(seed):
    rng = np.random.default_rng(seed)
    Sigma = np.diag(rng.uniform(1.0, 3.0, 6)) + 0.3  # one common part: the closed form is positive
    assert (unconstrained(Sigma) > 0).all()
    assert minimum_variance_weights(Sigma) == pytest.approx(unconstrained(Sigma), rel=1e-12)


def test_a_worse_and_correlated_head_gets_nothing():
    Sigma = np.array([[1.0, 1.5], [1.5, 4.0]])  # the closed form is [1.25, -0.25]
    assert unconstrained(Sigma)[1] < 0
    assert minimum_variance_weights(Sigma).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("seed", range(6))
def test_three_heads_against_every_point_of_a_grid(seed):
    rng = np.random.default_rng(seed)
    Sigma = random_covariance(rng, 3, 4, common=2.0)
    first, second = (axis.ravel() for axis in np.meshgrid(np.arange(201), np.arange(201)))
    inside = first + second <= 200
    grid = np.stack([first, second, 200 - first - second])[:, inside] / 200
    variances = np.einsum("hp,hg,gp->p", grid, Sigma, grid)
    weights = minimum_variance_weights(Sigma)
    variance = weights @ Sigma @ weights
    assert variance <= variances.min() + 1e-14
    # a grid point lies within 1/200 of the optimum in each weight; there the variance is above by at most
    # |gradient . step| + step' Sigma step
    assert variances.min() - variance <= np.abs(Sigma).max() * (2 * 3 / 200 + (3 / 200) ** 2)
    assert np.abs(grid[:, variances.argmin()] - weights).max() < 0.05


@pytest.mark.parametrize("n_heads", [4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_another_solver_finds_the_same_minimum(n_heads, seed):
    rng = np.random.default_rng(seed)
    loading = rng.uniform(0.5, 2.0, n_heads)  # of an error that the heads share to different degrees
    Sigma = random_covariance(rng, n_heads, 3 * n_heads) + 4.0 * np.outer(loading, loading)
    assert (unconstrained(Sigma) < 0).any()
    found = minimize(
        lambda a: a @ Sigma @ a,
        np.full(n_heads, 1 / n_heads),
        jac=lambda a: 2 * Sigma @ a,
        method="SLSQP",
        bounds=[(0, 1)] * n_heads,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert found.success
    weights = minimum_variance_weights(Sigma)
    assert weights @ Sigma @ weights == pytest.approx(found.fun, rel=1e-9)
    assert weights == pytest.approx(found.x, abs=1e-5)  # SLSQP's weights: about the root of its ftol


@given(
    seed=st.integers(0, 9999),
    n_heads=st.integers(1, 24),
    rows=st.integers(2, 40),
    common=st.sampled_from([0.0, 1.0, 100.0]),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_the_optimality_conditions_hold_singular_or_not(seed, n_heads, rows, common, scale):
    Sigma = random_covariance(np.random.default_rng(seed), n_heads, rows, common) * scale
    # rounding of Sigma alone moves the gradient by H * 1e-16 of the largest entry; the solver's tolerance is some
    # hundred times that
    assert_optimal(Sigma, minimum_variance_weights(Sigma), 1e-11 * np.abs(Sigma).max())


@pytest.mark.parametrize("value", [0.0, 1e-300, 3.0, 1e300])
def test_one_head_has_all_of_the_weight(value):
    assert minimum_variance_weights([[value]]).tolist() == [1.0]


def test_duplicate_heads_share_any_way_and_the_variance_is_right():
    twins = minimum_variance_weights(np.full((2, 2), 3.0))
    assert_optimal(np.full((2, 2), 3.0), twins, 1e-14)
    assert twins @ np.full((2, 2), 3.0) @ twins == pytest.approx(3.0, rel=1e-14)
    # twins of variance 1 beside an independent head of variance 2: 2/3 to the twins together, variance 2/3
    Sigma = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    weights = minimum_variance_weights(Sigma)
    assert weights[:2].sum() == pytest.approx(2 / 3, rel=1e-12)
    assert weights @ Sigma @ weights == pytest.approx(2 / 3, rel=1e-12)


def test_opposite_heads_cancel():
    weights = minimum_variance_weights([[1.0, -2.0], [-2.0, 4.0]])  # e_2 = -2 e_1: 2/3 e_1 + 1/3 e_2 = 0
    assert weights == pytest.approx([2 / 3, 1 / 3], rel=1e-12)


def test_heads_that_never_err_share_the_weight():
    assert minimum_variance_weights(np.diag([2.0, 0.0, 1.0, 0.0])).tolist() == [0.0, 0.5, 0.0, 0.5]
    assert minimum_variance_weights(np.zeros((3, 3))) == pytest.approx(np.full(3, 1 / 3), rel=1e-15)


@pytest.mark.parametrize("rows", [64, 640])
@pytest.mark.parametrize("common", [0.0, 1e6])
def test_128_heads_even_where_almost_all_of_the_error_is_common(rows, common):
    own = random_covariance(np.random.default_rng(0), 128, rows)
    Sigma = own + common
    weights = minimum_variance_weights(Sigma)
    # the common part is the same for all, so the conditions must hold for what the heads have of their own, up to what
    # is left of it after rounding at 1e6: 128 roundings of 1e-10
    assert_optimal(own, weights, 1e-7 if common else 1e-11)
    assert (weights > 0).sum() > 10  # not a corner


def test_128_identical_heads():
    weights = minimum_variance_weights(np.full((128, 128), 7.0))
    assert_optimal(np.full((128, 128), 7.0), weights, 1e-12)


@given(seed=st.integers(0, 999), n_heads=st.integers(2, 12))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_neither_scale_nor_a_common_part_nor_the_order_matters(seed, n_heads):
    rng = np.random.default_rng(seed)
    Sigma = random_covariance(rng, n_heads, 4 * n_heads)
    weights = minimum_variance_weights(Sigma)
    for scale in (1e-300, 1e-12, 1e12, 1e300):
        assert minimum_variance_weights(Sigma * scale) == pytest.approx(weights, abs=1e-12)
    # adding c loses log10(c) digits of Sigma to rounding, which the condition number (up to about 1e3) multiplies
    for common, tolerance in ((1.0, 1e-11), (1e4, 1e-8)):
        assert minimum_variance_weights(Sigma + common) == pytest.approx(weights, abs=tolerance)
    order = rng.permutation(n_heads)
    assert minimum_variance_weights(Sigma[np.ix_(order, order)]) == pytest.approx(weights[order], abs=1e-11)


@pytest.mark.parametrize(
    ("Sigma", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "be symmetric but has 0.5 at \\[0, 1\\] and 0.4"),
        ([[1.0, 2.0], [2.0, 1.0]], "be positive semi-definite, .* has 2 at"),
        ([[1.0, 0.5], [0.5, -1.0]], "at least 0 on its diagonal but head 1 has -1"),
        ([[0.0, 0.1], [0.1, 1.0]], "be positive semi-definite"),
        ([[1.0, -0.9, -0.9], [-0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]], "smallest eigenvalue is -0.8"),
        (np.ones((2, 3)), "be square"),
        ([1.0, 2.0], "have shape"),
        (np.ones((0, 0)), "nothing empty"),
        ([["a"]], "real numbers"),
        ([[1j]], "real numbers"),
    ],
)
def test_what_is_no_error_covariance_is_refused(Sigma, message):
    with pytest.raises(OptionError, match=f"error_covariance must .*{message}") as error:
        minimum_variance_weights(Sigma)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_only_rounding_is_forgiven():
    # three heads correlated by -1/2 - x have a smallest eigenvalue of -2x
    def correlated(excess):
        return np.full((3, 3), -0.5 - excess) + (1.5 + excess) * np.eye(3)

    assert minimum_variance_weights(correlated(1e-16)) == pytest.approx(np.full(3, 1 / 3), rel=1e-6)
    with pytest.raises(OptionError, match="smallest eigenvalue is -2e-09"):
        minimum_variance_weights(correlated(1e-9))


@pytest.mark.parametrize("measure", [minimum_variance_weights, heads_by_quality])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_covariance_that_is_not_finite_names_the_head(measure, bad):
    Sigma = np.eye(3)
    Sigma[1, 2] = bad
    with pytest.raises(DegenerateHeadError, match="head 1 has a row of error_covariance that is not finite") as error:
        measure(Sigma)
    assert error.value.head == 1


# ---- the error covariance and the order by quality


def test_the_error_covariance_is_the_mean_product_not_centred():
    errors = [[1.0, 2.0, 3.0], [0.0, -1.0, 1.0]]
    assert error_covariance(errors) == pytest.approx(np.array([[14, 1], [1, 2]]) / 3, rel=1e-15)
    constant = error_covariance([[2.0, 2.0], [1.0, 1.0]])  # biases count: centred moments would be 0
    assert constant == pytest.approx(np.array([[4.0, 2.0], [2.0, 1.0]]), rel=1e-15)


@given(seed=st.integers(0, 999), n_heads=st.integers(1, 8), rows=st.integers(2, 20))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_its_quadratic_form_is_the_ensembles_mean_squared_error(seed, n_heads, rows):
    rng = np.random.default_rng(seed)
    errors, weights = rng.normal(size=(n_heads, rows)), rng.dirichlet(np.ones(n_heads))
    assert weights @ error_covariance(errors) @ weights == pytest.approx(np.mean((weights @ errors) ** 2), abs=1e-14)


def test_weights_from_held_out_errors_beat_uniform_on_those_rows():
    rng = np.random.default_rng(1)
    errors = rng.normal(size=500) + rng.normal(size=(6, 500)) * np.array([[0.2], [0.5], [1.0], [1.0], [2.0], [3.0]])
    weights = minimum_variance_weights(error_covariance(errors))
    best_in_sample = np.mean((weights @ errors) ** 2)
    for other in (head_weights("uniform", 6), *np.eye(6), *rng.dirichlet(np.ones(6), size=200)):
        assert best_in_sample <= np.mean((other @ errors) ** 2) + 1e-12
    # noisy targets: the errors get one common part -eps; with cross terms gone it moves no minimiser
    assert minimum_variance_weights(error_covariance(errors) + 9.0) == pytest.approx(weights, abs=1e-11)


def test_squares_beyond_the_floats_are_refused():
    with pytest.raises(OptionError, match=r"errors must have squares within the floats but the largest is 1\.0e\+200"):
        error_covariance([[1e200, 1.0], [1.0, 1.0]])


def test_a_heads_error_that_is_not_finite_is_named():
    with pytest.raises(DegenerateHeadError, match="head 1 has a held-out error that is not finite") as error:
        error_covariance([[0.0, 1.0], [np.nan, 1.0]])
    assert error.value.head == 1


@pytest.mark.parametrize(
    "errors", [[[1.0], [2.0]], [1.0, 2.0], [[]], np.ones((2, 2, 2)), [[1.0, 2.0], [3.0]], [["a", "b"]]]
)
def test_errors_are_heads_by_at_least_two_rows(errors):
    with pytest.raises(OptionError, match="errors must"):
        error_covariance(errors)


def test_heads_are_ordered_by_mean_squared_error_ties_as_they_come():
    assert heads_by_quality(np.diag([3.0, 1.0, 2.0, 1.0, 0.0])).tolist() == [4, 1, 3, 2, 0]
    # many heads of three qualities: an unstable sort would mix them
    tied = [*range(1, 60, 3), *range(0, 60, 3), *range(2, 60, 3)]
    assert heads_by_quality(np.diag([2.0, 1.0, 3.0] * 20)).tolist() == tied
    assert heads_by_quality([[0.0]]).tolist() == [0]


def test_the_order_places_structured_weights_on_the_best_heads():
    Sigma = np.diag([3.0, 1.0, 2.0])
    weights = np.empty(3)
    weights[heads_by_quality(Sigma)] = head_weights("geometric", 3, ratio=0.5)
    assert weights == pytest.approx([1 / 7, 4 / 7, 2 / 7], rel=1e-15)


@pytest.mark.parametrize("Sigma", [np.ones((2, 3)), [1.0], [[1.0, 0.0], [0.5, 1.0]], [[-1.0]]])
def test_no_order_without_a_covariance(Sigma):
    with pytest.raises(OptionError, match="error_covariance must"):
        heads_by_quality(Sigma)


def test_in_sample_the_least_variance_flatters_itself_and_on_rows_of_its_own_it_does_not():
    random = np.random.default_rng(10)
    root = random.normal(size=(6, 6)) / 6**0.5 + np.eye(6)
    true = root @ root.T
    promised, on_others = [], []
    for _ in range(200):
        seen, others = (root @ random.normal(size=(6, 20)) for _ in range(2))
        weights = minimum_variance_weights(error_covariance(seen))
        promised.append(weights @ error_covariance(seen) @ weights / (weights @ true @ weights))
        on_others.append(weights @ error_covariance(others) @ weights / (weights @ true @ weights))
    # Unbiased on other rows (sd of a mean square of 20 is sqrt(2/20), of 200 such 2 %); about 1 - 5/20 in sample.
    assert np.mean(on_others) == pytest.approx(1.0, abs=0.07)
    assert np.mean(promised) < 0.9
