"""The penalty, its gradient and the orthogonal start against loops over pairs, differences and closed forms."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from archopt.errors import AllocationError, DegenerateHeadError, OptionError
from archopt.theory import (
    block_orthogonal_projections,
    decorrelation_gradient,
    decorrelation_penalty,
    head_diversity_index,
)


def random_heads(seed, n_heads, d_model, head_dim):
    return np.random.default_rng(seed).normal(size=(n_heads, d_model, head_dim))


def projector(head):
    return head @ np.linalg.pinv(head)


def overlap_by_pairs(W):
    """The definition with projectors from pseudo-inverses: ||Q_h^T Q_g||_F^2 = tr(P_h P_g)."""
    pairs = [np.trace(projector(W[h]) @ projector(W[g])) for h, g in combinations(range(len(W)), 2)]
    return np.mean(pairs) / W.shape[2]


def differences(W, step):
    """Central differences of the loop over pairs, entry by entry."""
    gradient = np.zeros_like(W)
    for index in np.ndindex(*W.shape):
        moved = [W.copy(), W.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        gradient[index] = (overlap_by_pairs(moved[0]) - overlap_by_pairs(moved[1])) / (2 * step)
    return gradient


shapes = {"n_heads": st.integers(2, 5), "head_dim": st.integers(1, 4), "extra": st.integers(0, 5)}


# ---- the penalty


@given(**shapes, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_penalty_is_the_mean_overlap_of_pairs_and_one_minus_the_index(n_heads, head_dim, extra, seed):
    W = random_heads(seed, n_heads, head_dim + extra, head_dim)
    penalty = decorrelation_penalty(W)
    assert penalty == pytest.approx(overlap_by_pairs(W), abs=1e-9)  # a badly conditioned head costs digits in pinv
    assert penalty == pytest.approx(1.0 - head_diversity_index(W), abs=1e-15)


def test_identical_heads_one_orthogonal_ones_zero_one_shared_axis_of_two_a_half():
    assert decorrelation_penalty(np.repeat(random_heads(0, 1, 12, 3), 4, axis=0)) == pytest.approx(1.0, abs=1e-13)
    assert decorrelation_penalty(block_orthogonal_projections(12, 4)) == pytest.approx(0.0, abs=1e-14)
    axes = np.eye(3)
    assert decorrelation_penalty(np.stack([axes[:, [0, 1]], axes[:, [0, 2]]])) == pytest.approx(0.5, abs=1e-15)


def test_a_single_head_has_nothing_to_penalise():
    W = random_heads(0, 1, 6, 6)
    assert decorrelation_penalty(W) == 0.0
    gradient = decorrelation_gradient(W)
    assert gradient.shape == W.shape
    assert not gradient.any()


# ---- the gradient


@given(**shapes, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_gradient_equals_central_differences(n_heads, head_dim, extra, seed):
    # d_k = 1, d_k = D (extra = 0) and H d_k > D are among the shapes. A random subspace in a skew basis with singular
    # values near 1 to 3: differences of step s err by s^2 times the third derivative, which grows with their inverse.
    Q = np.linalg.qr(random_heads(seed, n_heads, head_dim + extra, head_dim))[0]
    skew = np.triu(np.random.default_rng(seed).uniform(-0.5, 0.5, (n_heads, head_dim, head_dim)), 1)
    W = Q @ (skew + np.diag(np.linspace(1.0, 3.0, head_dim)))
    gradient = decorrelation_gradient(W)
    # step 1e-5: truncation ~ 1e-10, rounding ~ 1e-15 / 1e-5 = 1e-10 of a penalty below 1
    np.testing.assert_allclose(gradient, differences(W, 1e-5), atol=2e-9, rtol=0)
    # W_h^T dJ/dW_h = 0: a change of basis inside the subspace changes nothing
    np.testing.assert_allclose(W.transpose(0, 2, 1) @ gradient, 0.0, atol=1e-12)


def test_two_lines_at_an_angle_have_a_gradient_in_closed_form():
    # J = cos^2(a) for unit vectors at angle a: dJ/dw_2 points along the tangent with -sin(2a), and 1/length scales it
    angle, length = 0.3, 4.0
    lines = np.array([[[1.0], [0.0]], [[length * np.cos(angle)], [length * np.sin(angle)]]])
    gradient = decorrelation_gradient(lines)
    tangent = np.array([-np.sin(angle), np.cos(angle)])
    np.testing.assert_allclose(gradient[1, :, 0], -np.sin(2 * angle) / length * tangent, rtol=1e-13)
    np.testing.assert_allclose(gradient[0, :, 0], [0.0, np.sin(2 * angle)], atol=1e-15, rtol=1e-13)


def test_heads_that_span_everything_cannot_be_moved_apart():
    assert decorrelation_penalty(random_heads(0, 3, 4, 4)) == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(decorrelation_gradient(random_heads(0, 3, 4, 4)), 0.0, atol=1e-13)


@given(seed=st.integers(0, 99), exponent=st.integers(-200, 200))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_penalty_sees_subspaces_only_and_the_gradient_follows(seed, exponent):
    rng = np.random.default_rng(seed)
    W, rotation = rng.normal(size=(3, 7, 2)), block_orthogonal_projections(7, 1, seed=seed)[0]
    mix = np.eye(2) + np.tril(rng.uniform(-0.5, 0.5, (3, 2, 2)), -1)  # invertible, condition below 2
    gradient, scale = decorrelation_gradient(W), 10.0**exponent
    # J(W R) = J(W), hence dJ/dW at W R is dJ/dW R^{-T}
    moved = decorrelation_gradient(W @ mix)
    np.testing.assert_allclose(moved, gradient @ np.linalg.inv(mix).transpose(0, 2, 1), atol=1e-11)
    assert decorrelation_penalty(W @ mix) == pytest.approx(decorrelation_penalty(W), abs=1e-12)
    # J(O W) = J(W) and dJ/dW turns with W; J(c W) = J(W) and dJ/dW shrinks by c
    np.testing.assert_allclose(decorrelation_gradient(rotation @ W), rotation @ gradient, atol=1e-11)
    np.testing.assert_allclose(decorrelation_gradient(scale * W) * scale, gradient, atol=1e-11)


# ---- the orthogonal start


@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 1), (12, 3), (12, 12), (1, 1), (60, 5)])
def test_the_blocks_are_orthonormal_and_apart(d_model, n_heads):
    W = block_orthogonal_projections(d_model, n_heads, seed=3)
    assert W.shape == (n_heads, d_model, d_model // n_heads)
    assert W.dtype == np.float64
    columns = np.concatenate(list(W), axis=1)
    np.testing.assert_allclose(columns.T @ columns, np.eye(d_model), atol=1e-14)  # D^(1/2) roundings of 1e-16


def test_the_seed_decides_and_the_split_does_not():
    first = block_orthogonal_projections(12, 3, seed=5)
    np.testing.assert_array_equal(first, block_orthogonal_projections(12, 3, seed=5))
    np.testing.assert_array_equal(first, block_orthogonal_projections(12, 3, seed=np.random.default_rng(5)))
    assert np.abs(first - block_orthogonal_projections(12, 3, seed=6)).max() > 0.1
    whole = block_orthogonal_projections(12, 1, seed=5)[0]
    np.testing.assert_array_equal(np.concatenate(list(first), axis=1), whole)
    generator = np.random.default_rng(5)
    block_orthogonal_projections(12, 3, seed=generator)
    assert np.abs(first - block_orthogonal_projections(12, 3, seed=generator)).max() > 0.1  # the stream has moved on


def test_the_matrix_is_haar():
    # Haar: E O_ij = 0, E O_ij^2 = 1/D, E O_ij^4 = 3/(D(D+2)), and tr O has mean 0 and variance 1. A QR whose signs are
    # left as they come has each diagonal entry mostly negative: its mean trace is far below 0.
    D, draws = 4, 4000
    rng = np.random.default_rng(0)
    drawn = np.stack([block_orthogonal_projections(D, 1, seed=rng)[0] for _ in range(draws)])
    # five standard errors: sd of O^2 is sqrt(3/24 - 1/16) = 0.25, that of O^4 below 0.2, of O 0.5; 16 cells looked at
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=5 * 0.5 / draws**0.5)
    np.testing.assert_allclose((drawn**2).mean(axis=0), 1 / D, atol=5 * 0.25 / draws**0.5)
    np.testing.assert_allclose((drawn**4).mean(axis=0), 3 / (D * (D + 2)), atol=5 * 0.2 / draws**0.5)
    trace = np.trace(drawn, axis1=1, axis2=2)
    assert trace.mean() == pytest.approx(0.0, abs=5 / draws**0.5)
    assert trace.var() == pytest.approx(1.0, abs=5 * 2**0.5 / draws**0.5)  # tr O is near N(0, 1)
    assert np.mean(np.linalg.det(drawn) > 0) == pytest.approx(0.5, abs=5 * 0.5 / draws**0.5)  # both components of O(D)


# ---- Theorem 5.1: the optimum of the penalty


@pytest.mark.parametrize(("n_heads", "d_model", "head_dim"), [(3, 6, 2), (4, 4, 1), (2, 9, 3), (6, 12, 2)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_any_random_start_descends_to_orthogonal_heads(n_heads, d_model, head_dim, seed):
    shape = (n_heads, d_model, head_dim)

    def value_and_slope(flat):
        W = flat.reshape(shape)
        return decorrelation_penalty(W), decorrelation_gradient(W).ravel()

    start = random_heads(seed, *shape)
    assert decorrelation_penalty(start) > 0.03  # random heads average head_dim / d_model
    found = minimize(value_and_slope, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-7})
    assert found.fun < 1e-10  # near the minimum J is about the gradient squared
    W = found.x.reshape(shape)
    bases = np.linalg.qr(W)[0]
    across = [np.abs(bases[h].T @ bases[g]).max() for h, g in combinations(range(n_heads), 2)]
    assert max(across) < 1e-4  # W_h^T W_g ~ 0, Theorem 5.1


def test_plain_gradient_descent_lowers_the_penalty_at_every_step():
    W = random_heads(4, 4, 8, 2)
    penalties = [decorrelation_penalty(W)]
    for _ in range(300):
        W = W - 2.0 * decorrelation_gradient(W)
        penalties.append(decorrelation_penalty(W))
    assert (np.diff(penalties) < 1e-12).all()
    assert penalties[-1] < 1e-3 * penalties[0]


@pytest.mark.parametrize("seed", range(5))
def test_leaving_orthogonal_heads_raises_the_penalty_with_the_square_of_the_step(seed):
    W, direction = block_orthogonal_projections(12, 4, seed=seed), random_heads(seed + 100, 4, 12, 3)
    np.testing.assert_allclose(decorrelation_gradient(W), 0.0, atol=1e-14)
    # to second order P_h W_g and P_g W_h move by D_h^T W_g + W_h^T D_g, and J by its mean square over pairs / d_k
    slopes = [direction[h].T @ W[g] + W[h].T @ direction[g] for h, g in combinations(range(4), 2)]
    curvature = np.mean([np.sum(slope**2) for slope in slopes]) / 3
    for step in (1e-2, 1e-3):
        raised = decorrelation_penalty(W + step * direction)
        assert raised == pytest.approx(curvature * step**2, rel=20 * step)  # the next term is a factor of step smaller


@given(**shapes, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_heads_are_below_the_floor_of_their_shape(n_heads, head_dim, extra, seed):
    d_model = head_dim + extra
    floor = max(0.0, (n_heads * head_dim / d_model - 1) / (n_heads - 1))
    assert decorrelation_penalty(random_heads(seed, n_heads, d_model, head_dim)) >= floor - 1e-12


def test_three_lines_in_the_plane_reach_the_floor_at_60_degrees():
    angles = np.arange(3) * np.pi / 3
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, np.newaxis]
    assert decorrelation_penalty(lines) == pytest.approx(1 / 4, abs=1e-15)  # cos^2(60 degrees) = (3/2 - 1) / 2
    np.testing.assert_allclose(decorrelation_gradient(lines), 0.0, atol=1e-15)


# ---- Theorem 5.1: what the optimum does to the three terms of Theorem 3.1


def heads_between(start, end, share):
    """From identical heads (share 0) to orthogonal ones (share 1), its columns moving in straight lines."""
    return (1.0 - share) * start + share * end


def exact_terms(W, truth, noise_variance):
    """bias^2, variance and covariance of m = sum_h P_h y / H at D design points, from the covariance of all fits."""
    H, D, _ = W.shape
    smoothers = np.stack([projector(head) for head in W])
    fits = smoothers.reshape(H * D, D)
    joint = noise_variance * fits @ fits.T  # Cov of every head at every point
    pointwise = np.einsum("hxgx->hgx", joint.reshape(H, D, H, D)) / H**2
    own = np.einsum("hhx->x", pointwise)
    bias = smoothers.mean(axis=0) @ truth - truth
    return np.mean(bias**2), np.mean(own), np.mean(pointwise.sum(axis=(0, 1)) - own)


@pytest.mark.parametrize(("n_heads", "head_dim"), [(3, 2), (4, 3), (12, 1)])
def test_the_covariance_of_projecting_heads_is_the_penalty_and_least_at_orthogonal_heads(n_heads, head_dim):
    D, noise_variance = 12, 0.7
    end = block_orthogonal_projections(D, D // head_dim, seed=1)[:n_heads]
    start = np.repeat(end[:1], n_heads, axis=0)
    covariances, variances, indices = [], [], []
    for share in np.linspace(0.0, 1.0, 11):
        W = heads_between(start, end, share)
        _, variance, covariance = exact_terms(W, np.zeros(D), noise_variance)
        closed = noise_variance * (n_heads - 1) / n_heads * head_dim / D * decorrelation_penalty(W)
        assert covariance == pytest.approx(closed, abs=1e-14)
        covariances.append(covariance)
        variances.append(variance)
        indices.append(head_diversity_index(W))
    assert indices[0] == pytest.approx(0.0, abs=1e-13)
    assert indices[-1] == pytest.approx(1.0, abs=1e-13)
    assert (np.diff(covariances) < 0).all()  # down all the way, to 0
    assert covariances[-1] == pytest.approx(0.0, abs=1e-15)
    # the variance term does not move: sigma^2 d_k / (H D), whatever the heads' directions
    np.testing.assert_allclose(variances, noise_variance * head_dim / (n_heads * D), rtol=1e-12)


@pytest.mark.parametrize("seen", [True, False])
def test_the_bias_can_rise_or_fall_with_diversity_and_take_the_total_with_it(seen):
    # The truth lies inside (seen) or outside the subspace that the identical heads read. Identical heads then have
    # bias^2 0 or ||m||^2 / D; at orthogonal heads that fill R^D sum_h P_h = I, so bias = -(1 - 1/H) m in either case.
    D, n_heads, noise_variance = 12, 4, 0.1
    end = block_orthogonal_projections(D, n_heads, seed=2)
    start = np.repeat(end[:1], n_heads, axis=0)
    truth = 3.0 * (end[0, :, 0] if seen else end[1, :, 0])
    together, apart = exact_terms(start, truth, noise_variance), exact_terms(end, truth, noise_variance)
    assert together[0] == pytest.approx(0.0 if seen else 9.0 / D, abs=1e-13)
    assert apart[0] == pytest.approx((1 - 1 / n_heads) ** 2 * 9.0 / D, abs=1e-13)
    assert apart[2] < together[2]  # the covariance falls either way
    # against the theorem where the shared subspace already holds the truth, with it where it does not
    assert (sum(apart) > sum(together)) == seen


# ---- bad input


@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 5), (0, 1), (12, 0), (12, 2.0), (True, 1)])
def test_a_width_that_does_not_divide_is_refused(d_model, n_heads):
    with pytest.raises(AllocationError, match=r"d_model|n_heads"):
        block_orthogonal_projections(d_model, n_heads)


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "0"])
def test_a_seed_is_a_whole_number_or_a_generator(seed):
    with pytest.raises(OptionError, match="seed must be a whole number"):
        block_orthogonal_projections(4, 2, seed=seed)


@pytest.mark.parametrize("measure", [decorrelation_penalty, decorrelation_gradient])
def test_heads_without_a_subspace_are_refused_by_index(measure):
    W = random_heads(0, 3, 6, 2)
    W[1, :, 1] = -2.0 * W[1, :, 0]
    with pytest.raises(DegenerateHeadError, match="head 1 lacks full column rank") as error:
        measure(W)
    assert error.value.head == 1
    W[2, 0, 0] = np.nan
    with pytest.raises(DegenerateHeadError, match="head 2 has a key projection that is not finite") as error:
        measure(W)
    assert error.value.head == 2
    with pytest.raises(DegenerateHeadError, match="head 0"):
        measure(np.full((1, 3, 2), np.inf))
    # singular in float32, though not in the float64 that it is read as
    nearly = np.array([[[1.0, 1.0], [1.0, 1.0 + 2e-7]]] * 2, dtype=np.float32)
    with pytest.raises(DegenerateHeadError, match="head 0 lacks full column rank"):
        measure(nearly)


@pytest.mark.parametrize("measure", [decorrelation_penalty, decorrelation_gradient])
def test_other_shapes_are_refused(measure):
    with pytest.raises(AllocationError, match="head_dim must be at most"):
        measure(random_heads(0, 2, 3, 4))
    for values in (np.ones((2, 3)), np.ones((2, 0, 1)), "heads", np.ones((2, 3, 1), dtype=complex)):
        with pytest.raises(OptionError, match="key_projections must"):
            measure(values)


def test_a_gradient_beyond_the_floats_is_refused():
    with pytest.raises(DegenerateHeadError, match="head 0 has a gradient of the decorrelation penalty"):
        decorrelation_gradient(random_heads(0, 2, 4, 1) * 1e-310)
