"""Laws against the closed forms of `archopt.theory`, and their derivatives against differences."""

import numpy as np
import pytest

from archopt.laws.families import DESCRIPTIONS, Basis, curve, design_rank
from archopt.theory import bound_minimiser, optimal_allocation

BASIS = Basis(n_samples=3e3, d_model=60.0, intrinsic_dim=6.0, smoothness=2.0)
N, WIDTH = np.array([300.0, 3e3, 1e6]), np.array([48.0, 96.0, 240.0])


def test_the_theorems_law_is_that_of_the_theory() -> None:
    at_basis = np.log2(10.0 * np.log(3e3) ** BASIS.exponent)
    values = curve("log_theory", BASIS, N, WIDTH).values(np.array([[at_basis]]))[0]
    expected = [optimal_allocation(48, n, 6.0, constant=10.0).unclipped_head_dim for n in N]
    assert 2.0**values == pytest.approx(expected)


def test_the_power_law_is_that_of_the_theory() -> None:
    theta = np.array([[np.log2(2.0 * 3e3**BASIS.exponent), BASIS.exponent]])
    expected = [optimal_allocation(10**6, n, 6.0, constant=2.0, law="power").unclipped_head_dim for n in N]
    assert 2.0 ** curve("power", BASIS, N, WIDTH).values(theta)[0] == pytest.approx(expected)


@pytest.mark.parametrize(("name", "rho"), [("bound_independent", 0.0), ("bound_correlated", 0.9)])
@pytest.mark.parametrize("log2_ratio", [-3.0, 4.0, 20.0])
def test_the_bound_is_minimised_where_the_theory_says(name: str, rho: float, log2_ratio: float) -> None:
    values = curve(name, BASIS, N, WIDTH).values(np.array([[log2_ratio]]))[0]
    expected = [
        bound_minimiser(int(width), n, 6.0, bias_to_noise=2.0**log2_ratio, head_correlation=rho)
        for n, width in zip(N, WIDTH, strict=True)
    ]
    assert values == pytest.approx(np.log2(expected), abs=1e-3)  # a table of 0.05 octaves, interpolated


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_the_jacobian_is_the_slope(name: str) -> None:
    law = curve(name, BASIS, N, WIDTH)
    theta = np.full((1, len(law.parameters)), 9.0 if name.startswith("bound") else 0.7)
    step = 1e-4
    for column in range(theta.shape[1]):
        moved = np.eye(theta.shape[1])[column] * step
        slope = (law.values(theta + moved) - law.values(theta - moved)) / (2 * step)
        assert law.jacobian(theta)[0, :, column] == pytest.approx(slope[0], abs=5e-3)


def test_sizes_that_move_together_leave_exponents_undetermined() -> None:
    n = np.array([1e3, 2e3, 4e3, 8e3])
    assert design_rank("power_width", BASIS, n, n / 10) == (2, 3)
    assert design_rank("power_width", BASIS, n, np.array([24.0, 48.0, 24.0, 48.0])) == (3, 3)
