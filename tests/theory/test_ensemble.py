"""Theorem 3.1's exact terms against plain loops, against simulated noise, and against closed forms."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.errors import DegenerateHeadError, OptionError
from archopt.theory import (
    ensemble_mse,
    ensemble_mse_from_draws,
    head_diversity_index,
    head_error_covariance,
    head_estimates,
    head_smoothers,
)

TERMS = ("bias_squared", "variance", "covariance", "mse")
NOISES = {
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "two-point": lambda rng, shape: rng.choice([-1.0, 1.0], size=shape),
    "skewed": lambda rng, shape: rng.exponential(size=shape) - 1.0,
}  # each with mean 0 and variance 1


def truth(x):
    return np.sin(2.0 * x[:, 0]) + x[:, 1] * x[:, 2]


def example(seed=0, n_heads=3, m=8, n=20):
    """Smoothers (H, m, n) of Nadaraya-Watson heads with the truth at both kinds of rows, and uneven weights."""
    rng = np.random.default_rng(seed)
    X, x, W = rng.normal(size=(n, 6)), rng.normal(size=(m, 6)), rng.normal(size=(n_heads, 6, 2))
    weights = rng.uniform(0.2, 1.0, size=n_heads)
    return head_smoothers(W, x, X, temperature=0.3), truth(X), truth(x), weights / weights.sum()


def drawn_estimates(rng, S, at_inputs, noise_variance, draws, noise="gaussian"):
    """(R, H, m): the heads' estimates under noise drawn anew."""
    y = at_inputs + sqrt(noise_variance) * NOISES[noise](rng, (draws, S.shape[2]))
    return np.einsum("hmn,rn->rhm", S, y)


# ---- exact terms


def naive_terms(S, at_inputs, at_queries, noise_variance, alpha):
    """(3.1) as printed, with every covariance in an H x H x m array and no algebra."""
    n_heads, m, n = S.shape
    bias = np.array([[sum(S[h, x, i] * at_inputs[i] for i in range(n)) - at_queries[x] for x in range(m)]
                     for h in range(n_heads)])  # fmt: skip
    C = np.array([[[noise_variance * sum(S[h, x, i] * S[g, x, i] for i in range(n)) for x in range(m)]
                   for g in range(n_heads)] for h in range(n_heads)])  # fmt: skip
    bias_squared = sum(alpha[h] * bias[h] for h in range(n_heads)) ** 2
    variance = sum(alpha[h] ** 2 * C[h, h] for h in range(n_heads))
    covariance = sum(alpha[h] * alpha[g] * C[h, g] for h in range(n_heads) for g in range(n_heads) if h != g)
    return bias_squared, variance, covariance, bias, C


@pytest.mark.parametrize("weights", [None, [0.5, 0.2, 0.3], [1.5, 0.0, -0.5]])
def test_exact_terms_are_the_theorem_as_printed(weights):
    S, at_inputs, at_queries, _ = example()
    exact = ensemble_mse(S, at_inputs, at_queries, 0.7, weights)
    alpha = [1 / 3] * 3 if weights is None else weights
    bias_squared, variance, covariance, bias, C = naive_terms(S, at_inputs, at_queries, 0.7, alpha)
    assert exact.bias_squared == pytest.approx(bias_squared, rel=1e-10, abs=1e-14)
    assert exact.variance == pytest.approx(variance, rel=1e-12)
    assert exact.covariance == pytest.approx(covariance, rel=1e-11, abs=1e-14)
    assert exact.mse == pytest.approx(bias_squared + variance + covariance, rel=1e-11)
    assert exact.integrated.covariance == pytest.approx(np.mean(covariance), rel=1e-11)
    assert exact.integrated.mse == pytest.approx(np.mean(bias_squared + variance + covariance), rel=1e-11)
    Sigma = head_error_covariance(S, at_inputs, at_queries, 0.7)
    assert Sigma == pytest.approx((bias[:, None] * bias[None] + C).mean(axis=2), rel=1e-11)


@given(seed=st.integers(0, 10**6), n_heads=st.integers(1, 6), noise_variance=st.floats(0.0, 5.0))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_contracted_with_any_weights_the_heads_covariance_is_the_integrated_mse(seed, n_heads, noise_variance):
    rng = np.random.default_rng(seed)
    S, at_inputs, at_queries = rng.normal(size=(n_heads, 5, 9)), rng.normal(size=9), rng.normal(size=5)
    alpha = rng.normal(size=n_heads)
    alpha[-1] = 1.0 - alpha[:-1].sum()  # of either sign: the theorem does not ask for more than sum 1
    Sigma = head_error_covariance(S, at_inputs, at_queries, noise_variance)
    exact = ensemble_mse(S, at_inputs, at_queries, noise_variance, alpha).integrated.mse
    scale = np.abs(alpha) @ np.abs(Sigma) @ np.abs(alpha)  # the size of what cancels
    assert alpha @ Sigma @ alpha == pytest.approx(exact, abs=1e-12 * scale)
    assert (Sigma == Sigma.T).all()
    assert np.linalg.eigvalsh(Sigma).min() >= -1e-12 * np.trace(Sigma)


def test_one_head_and_no_noise():
    S, at_inputs, at_queries, _ = example()
    one = ensemble_mse(S[:1], at_inputs, at_queries, 0.7)
    assert (one.covariance == 0.0).all()
    assert one.variance == pytest.approx(0.7 * (S[0] ** 2).sum(axis=1), rel=1e-13)
    silent = ensemble_mse(S, at_inputs, at_queries, 0.0)
    assert (silent.variance == 0.0).all()
    assert (silent.covariance == 0.0).all()
    assert silent.mse == pytest.approx((head_estimates(S, at_inputs).mean(axis=0) - at_queries) ** 2, rel=1e-11)


def test_identical_heads_gain_nothing_and_disjoint_ones_have_no_covariance():
    S, at_inputs, at_queries, _ = example(n_heads=1)
    alone = ensemble_mse(S, at_inputs, at_queries, 0.7).integrated
    four = ensemble_mse(np.repeat(S, 4, axis=0), at_inputs, at_queries, 0.7).integrated
    assert four.mse == pytest.approx(alone.mse, rel=1e-12)
    assert four.variance == pytest.approx(alone.variance / 4, rel=1e-12)
    assert four.covariance == pytest.approx(alone.variance * 3 / 4, rel=1e-12)
    disjoint = np.zeros((2, 3, 8))
    disjoint[0, :, :4], disjoint[1, :, 4:] = 0.25, 0.25  # two means of four rows each
    apart = ensemble_mse(disjoint, np.ones(8), np.ones(3), 2.0)
    assert apart.covariance == pytest.approx(np.zeros(3), abs=1e-16)
    assert apart.mse == pytest.approx(np.full(3, 2.0 / 8))


@pytest.mark.parametrize(("n_heads", "m", "head_dim"), [(2, 12, 3), (5, 20, 4), (4, 16, 4)])
def test_projection_heads_have_the_covariance_that_their_diversity_says(n_heads, m, head_dim):
    # least squares in a subspace: S_h = Q_h Q_h', so sum_x S_h(x).S_g(x) = ||Q_h' Q_g||_F^2, what HDI averages
    Q, _ = np.linalg.qr(np.random.default_rng(4).normal(size=(n_heads, m, head_dim)))
    exact = ensemble_mse(Q @ Q.transpose(0, 2, 1), np.zeros(m), np.zeros(m), 1.3).integrated
    share = 1.3 * head_dim / m
    overlap = 1.0 - head_diversity_index(Q)
    assert exact.covariance == pytest.approx(share * (n_heads - 1) / n_heads * overlap, rel=1e-12)
    assert exact.variance == pytest.approx(share / n_heads, rel=1e-12)


# ---- simulated noise against the exact terms


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_simulated_noise_gives_the_exact_terms(noise):
    S, at_inputs, at_queries, alpha = example(seed=5)
    exact = ensemble_mse(S, at_inputs, at_queries, 0.7, alpha).integrated
    estimates = drawn_estimates(np.random.default_rng(6), S, at_inputs, 0.7, 20_000, noise)
    drawn = ensemble_mse_from_draws(estimates, at_queries, alpha)
    for term in TERMS:
        estimate, value = getattr(drawn, term), getattr(exact, term)
        assert estimate.value == pytest.approx(value, abs=4 * estimate.standard_error)  # 12 comparisons: 1 in 1,300
        assert 0.0 < estimate.standard_error < 0.04 * value  # else nothing would have been tested
    # and the left side of the theorem, without any of this module
    error = np.einsum("h,rhm->rm", alpha, estimates) - at_queries
    by_draw = (error**2).mean(axis=1)
    assert by_draw.mean() == pytest.approx(exact.mse, abs=4 * by_draw.std() / sqrt(len(by_draw)))
    assert drawn.mse.value == pytest.approx(by_draw.mean(), rel=1e-12)
    # the mean's jackknife is its classical standard error
    assert drawn.mse.standard_error == pytest.approx(by_draw.std(ddof=1) / sqrt(len(by_draw)), rel=1e-9)


def test_pointwise_terms_and_standard_errors_are_their_definitions():
    rng = np.random.default_rng(7)
    estimates, target, alpha = rng.normal(size=(6, 3, 4)), rng.normal(size=4), np.array([0.5, 0.7, -0.2])

    def terms(draws):
        R = len(draws)
        mixed = np.einsum("h,rhm->rm", alpha, draws)
        C = np.array([np.cov(draws[:, :, x].T) for x in range(4)])  # (m, H, H), R - 1
        variance = sum(alpha[h] ** 2 * C[:, h, h] for h in range(3))
        covariance = sum(alpha[h] * alpha[g] * C[:, h, g] for h in range(3) for g in range(3) if h != g)
        bias_squared = (mixed.mean(axis=0) - target) ** 2 - mixed.var(axis=0, ddof=1) / R
        return np.array([bias_squared, variance, covariance, ((mixed - target) ** 2).mean(axis=0)])

    drawn = ensemble_mse_from_draws(estimates, target, alpha)
    without = np.array([terms(np.delete(estimates, r, axis=0)).mean(axis=1) for r in range(6)])
    for term, expected, left_out in zip(TERMS, terms(estimates), without.T, strict=True):
        assert getattr(drawn.pointwise, term) == pytest.approx(expected, rel=1e-12, abs=1e-14)
        jackknife = sqrt(5 / 6 * ((left_out - left_out.mean()) ** 2).sum())
        assert getattr(drawn, term).value == pytest.approx(expected.mean(), rel=1e-12)
        assert getattr(drawn, term).standard_error == pytest.approx(jackknife, rel=1e-10)


def test_without_debiasing_bias_squared_is_too_large_by_the_variance_over_the_draws():
    S, at_inputs, at_queries, alpha = example(seed=8)
    R, repeats, noise_variance = 4, 1500, 4.0
    exact = ensemble_mse(S, at_inputs, at_queries, noise_variance, alpha).integrated
    estimates = drawn_estimates(np.random.default_rng(9), S, at_inputs, noise_variance, R * repeats)
    plain, debiased = np.empty(repeats), np.empty(repeats)
    for i in range(repeats):
        draws = estimates[i * R : (i + 1) * R]
        plain[i] = np.mean((np.einsum("h,rhm->m", alpha, draws) / R - at_queries) ** 2)
        debiased[i] = ensemble_mse_from_draws(draws, at_queries, alpha).bias_squared.value
    excess = (exact.variance + exact.covariance) / R
    four_errors = 4 * plain.std() / sqrt(repeats)
    assert excess > 2 * four_errors  # the two cannot both pass
    assert plain.mean() - exact.bias_squared == pytest.approx(excess, abs=four_errors)
    assert debiased.mean() == pytest.approx(exact.bias_squared, abs=4 * debiased.std() / sqrt(repeats))


def test_an_unbiased_ensemble_has_a_debiased_square_around_zero():
    S, _, _, alpha = example(seed=8)
    rng, nothing = np.random.default_rng(14), (np.zeros(20), np.zeros(8))
    draws = [drawn_estimates(rng, S, nothing[0], 1.0, 5) for _ in range(500)]
    values = np.array([ensemble_mse_from_draws(one, nothing[1], alpha).bias_squared.value for one in draws])
    assert values.min() < 0.0 < values.max()  # negative by chance, and not cut off at 0, which would be a bias again
    assert values.mean() == pytest.approx(0.0, abs=4 * values.std() / sqrt(500))


@pytest.mark.parametrize("noise", ["gaussian", "skewed"])
def test_standard_errors_are_the_spread_of_repeated_estimates(noise):
    S, at_inputs, at_queries, alpha = example(seed=10)
    rng, repeats = np.random.default_rng(11), 300
    drawn = [
        ensemble_mse_from_draws(drawn_estimates(rng, S, at_inputs, 0.7, 40, noise), at_queries, alpha)
        for _ in range(repeats)
    ]
    for term in TERMS:
        spread = np.std([getattr(one, term).value for one in drawn], ddof=1)
        claimed = sqrt(np.mean([getattr(one, term).standard_error ** 2 for one in drawn]))
        # the spread of 300 is known to 1/sqrt(600) = 4 %, and the jackknife is a little too large at 40 draws
        assert claimed == pytest.approx(spread, rel=0.2)


def test_an_estimator_that_is_not_linear_has_its_terms_too():
    # sign(y_1), sign(y_2) under N(0, 1): variance 1 each, independent, no bias against 0
    signs = np.sign(np.random.default_rng(12).normal(size=(5000, 2, 1)))
    drawn = ensemble_mse_from_draws(signs, [0.0])
    for term, expected in (("bias_squared", 0.0), ("variance", 0.5), ("covariance", 0.0), ("mse", 0.5)):
        estimate = getattr(drawn, term)
        # + 1e-3: the variance of a two-point variable hardly varies, so its own standard error is near 0
        assert estimate.value == pytest.approx(expected, abs=4 * estimate.standard_error + 1e-3)
        assert estimate.standard_error < 0.03


def test_a_hair_off_one_is_divided_out_of_the_weights():
    S, at_inputs, at_queries, alpha = example()
    single = alpha.astype(np.float32)  # learned weights come so
    at_far = ensemble_mse(S, at_inputs + 1e6, at_queries + 1e6, 0.7, single)
    assert at_far.mse == pytest.approx(ensemble_mse(S, at_inputs, at_queries, 0.7, alpha).mse, rel=1e-4)


# ---- bad input

S, AT_INPUTS, AT_QUERIES, ALPHA = example()
DRAWS = np.random.default_rng(13).normal(size=(5, 3, 8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((S[0], AT_INPUTS, AT_QUERIES, 1.0), r"smoothers must have shape \(H, m, n\)"),
        ((S, AT_QUERIES, AT_QUERIES, 1.0), r"truth_at_inputs must have shape \(n,\) = \(20\) but got shape \(8,\)"),
        ((S, AT_INPUTS, AT_INPUTS, 1.0), r"truth_at_queries must have shape \(m,\) = \(8\) but got shape \(20,\)"),
        ((S, AT_INPUTS * np.nan, AT_QUERIES, 1.0), "truth_at_inputs must be finite"),
        ((S, AT_INPUTS, AT_QUERIES + np.inf, 1.0), "truth_at_queries must be finite"),
        ((S, AT_INPUTS, AT_QUERIES, -0.1), "noise_variance must be a finite number, 0 or above but got -0.1"),
        ((S, AT_INPUTS, AT_QUERIES, np.nan), "noise_variance must be a finite number"),
        ((S, AT_INPUTS, AT_QUERIES, None), "noise_variance must be a finite number"),
    ],
)
def test_exact_terms_refuse(arguments, message):
    for function in (ensemble_mse, head_error_covariance):
        with pytest.raises(OptionError, match=message) as caught:
            function(*arguments)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.5], r"weights must have shape \(H,\) = \(3\) but got shape \(2,\)"),
        ([0.5, 0.3, 0.1], "weights must sum to 1 .* but got sum 0.9"),
        ([0.5, 0.5, 1e-5], "weights must sum to 1 .* but got sum 1.00001"),
        ([0.5, np.nan, 0.5], "weights must be finite"),
        (["a", "b", "c"], "weights must hold real numbers"),
    ],
)
def test_weights_are_checked(weights, message):
    with pytest.raises(OptionError, match=message):
        ensemble_mse(S, AT_INPUTS, AT_QUERIES, 1.0, weights)
    with pytest.raises(OptionError, match=message):
        ensemble_mse_from_draws(DRAWS, AT_QUERIES, weights)


def test_draws_are_checked():
    with pytest.raises(OptionError, match="estimates must hold at least 3 draws"):
        ensemble_mse_from_draws(DRAWS[:2], AT_QUERIES)
    with pytest.raises(OptionError, match=r"estimates must have shape \(R, H, m\)"):
        ensemble_mse_from_draws(DRAWS[0], AT_QUERIES)
    with pytest.raises(OptionError, match=r"truth must have shape \(m,\) = \(8\) but got shape \(7,\)"):
        ensemble_mse_from_draws(DRAWS, AT_QUERIES[:7])
    bad = DRAWS.copy()
    bad[4, 2, 0] = np.inf
    with pytest.raises(DegenerateHeadError, match="head 2 has a drawn estimate that is not finite") as caught:
        ensemble_mse_from_draws(bad, AT_QUERIES)
    assert caught.value.head == 2


def test_a_smoother_that_is_not_finite_is_named():
    bad = S.copy()
    bad[1, 0, 0] = np.nan
    for function in (ensemble_mse, head_error_covariance):
        with pytest.raises(DegenerateHeadError, match="head 1 has a smoother that is not finite") as caught:
            function(bad, AT_INPUTS, AT_QUERIES, 1.0)
        assert caught.value.head == 1


@pytest.mark.parametrize("scale", [1e200, 1e300])
def test_squares_beyond_the_floats_are_refused_not_returned(scale):
    random = np.random.default_rng(9)
    S, y, q = random.dirichlet(np.ones(6), size=(2, 4)), random.normal(size=6), random.normal(size=4)
    draws = random.normal(size=(5, 2, 4))
    for refused in (
        lambda: ensemble_mse(S, y * scale, q * scale, 0.1),
        lambda: head_error_covariance(S, y * scale, q, 0.1),
        lambda: ensemble_mse_from_draws(draws * scale, q),
    ):
        with pytest.raises(OptionError, match="leave the floats"):
            refused()
