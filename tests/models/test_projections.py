"""The penalty against a loop over pairs and the index of archopt.theory."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from archopt.models.projections import initial_heads, mean_overlap, subspace_overlap  # noqa: E402
from archopt.theory.decorrelation import decorrelation_gradient, decorrelation_penalty  # noqa: E402
from archopt.theory.diversity import head_diversity_index  # noqa: E402

pytestmark = pytest.mark.torch


def _random(n_heads, d_model, head_dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_heads, d_model, head_dim, generator=generator, dtype=torch.float64)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(n_heads=st.integers(2, 6), head_dim=st.integers(1, 5), extra=st.integers(0, 9), seed=st.integers(0, 99))
def test_overlap_is_the_mean_over_pairs_and_one_minus_the_index(n_heads, head_dim, extra, seed):
    projections = _random(n_heads, head_dim + extra, head_dim, seed)
    bases = torch.linalg.qr(projections)[0]
    pairs = [(bases[h].T @ bases[g]).square().sum() / head_dim for h in range(n_heads) for g in range(n_heads) if h < g]
    overlap = subspace_overlap(projections)
    torch.testing.assert_close(overlap, torch.stack(pairs).mean())
    assert 1 - overlap.item() == pytest.approx(head_diversity_index(projections.numpy()), abs=1e-9)


def test_identical_heads_overlap_fully_and_orthogonal_ones_not_at_all():
    one = _random(1, 12, 3)
    assert subspace_overlap(one.expand(4, 12, 3)).item() == pytest.approx(1.0)
    assert subspace_overlap(initial_heads(12, 4, torch.Generator().manual_seed(0))).item() == pytest.approx(0, abs=1e-6)
    axes = torch.eye(3)
    shared = torch.stack([axes[:, [0, 1]], axes[:, [0, 2]]])  # one axis of two in common
    assert subspace_overlap(shared).item() == pytest.approx(0.5)


def test_a_single_head_has_no_overlap():
    assert subspace_overlap(_random(1, 6, 6)).item() == 0.0


@pytest.mark.parametrize(("n_heads", "head_dim"), [(2, 3), (6, 1), (3, 2)])
def test_gradient_is_exact(n_heads, head_dim):
    projections = _random(n_heads, 6, head_dim).requires_grad_()
    assert torch.autograd.gradcheck(subspace_overlap, (projections,))


@pytest.mark.parametrize(
    ("n_heads", "d_model", "head_dim"), [(1, 6, 3), (2, 6, 3), (6, 6, 1), (3, 6, 2), (4, 5, 3), (2, 4, 4), (8, 48, 6)]
)
def test_value_and_gradient_are_the_theory_s(n_heads, d_model, head_dim):
    projections = _random(n_heads, d_model, head_dim).requires_grad_()
    overlap = subspace_overlap(projections)
    assert overlap.item() == pytest.approx(decorrelation_penalty(projections), abs=1e-13)
    if n_heads == 1:  # a constant: nothing to differentiate
        assert not overlap.requires_grad
        assert not decorrelation_gradient(projections).any()
        return
    (gradient,) = torch.autograd.grad(overlap, projections)
    # 1e-12: rounding times the condition number of a head's columns, below 1e2 at this seed
    torch.testing.assert_close(gradient, torch.from_numpy(decorrelation_gradient(projections)), rtol=0, atol=1e-12)


def test_the_orthogonal_start_has_a_finite_gradient():
    heads = initial_heads(48, 8, torch.Generator().manual_seed(0)).requires_grad_()
    subspace_overlap(heads).backward()
    assert heads.grad.isfinite().all()


def test_descending_the_penalty_separates_heads():
    projections = _random(4, 8, 2).requires_grad_()
    start = subspace_overlap(projections).item()
    for _ in range(200):
        (gradient,) = torch.autograd.grad(subspace_overlap(projections), projections)
        projections = (projections - 2.0 * gradient).detach().requires_grad_()
    assert subspace_overlap(projections).item() < 0.05 * start  # 4 * 2 = 8: orthogonal heads exist


def test_layers_are_averaged():
    layers = [_random(2, 6, 2, seed) for seed in (0, 1)]
    expected = sum(subspace_overlap(layer).item() for layer in layers) / 2
    assert mean_overlap(layers).item() == pytest.approx(expected)
