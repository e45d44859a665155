"""The fit against direct integration, and against laws that are known."""

import numpy as np
import pytest
from scipy.stats import t as student

from archopt.laws.cells import GRID, STEP
from archopt.laws.families import Basis, curve
from archopt.laws.fit import SCATTERS, climb, fit_law, log_density, starts, tabulate
from archopt.laws.posterior import posterior_draws

BASIS = Basis(n_samples=1e3, d_model=48.0, intrinsic_dim=8.0, smoothness=2.0)
N = np.array([1e2, 1e3, 1e4, 1e5, 1e2, 1e3, 1e4, 1e5])
WIDTH = np.array([24.0] * 4 + [96.0] * 4)


def normal_cells(centres, sd):
    return (-0.5 * ((GRID - np.asarray(centres)[:, None]) / sd) ** 2)[None]


def test_a_cells_density_is_its_likelihood_convolved_with_the_scatter() -> None:
    likelihood = normal_cells([4.0], 0.5)
    tables = tabulate(likelihood, 0.65)
    at = int(np.abs(GRID - 5.0).argmin())
    direct = (np.exp(likelihood[0, 0]) * student.pdf((GRID - GRID[at]) / 0.65, 4) / 0.65 * STEP).sum()
    assert tables.value[0, 0, at] == pytest.approx(np.log(direct), abs=1e-3)


@pytest.mark.parametrize("name", ["constant", "log", "power", "power_width"])
def test_parameters_of_exact_cells_come_back(name: str) -> None:
    law = curve(name, BASIS, N, WIDTH)
    truth = np.array([[4.0, 0.3, 0.5]])[:, : len(law.parameters)]
    likelihood = normal_cells(law.values(truth)[0], 0.3)
    tables = [tabulate(likelihood, float(tau)) for tau in SCATTERS]
    places = starts(law, law.values(truth)[0] + 1.0, np.random.default_rng(0), 8)
    fit = fit_law(tables, law, places)
    assert fit.theta[0] == pytest.approx(truth[0], abs=0.03)  # a quarter of a grid step
    assert fit.scatter[0] == SCATTERS[0]


def test_the_bounds_ratio_comes_back() -> None:
    law = curve("bound_independent", BASIS, N, WIDTH)
    likelihood = normal_cells(law.values(np.array([[14.0]]))[0], 0.2)
    tables = [tabulate(likelihood, float(tau)) for tau in SCATTERS]
    fit = fit_law(tables, law, starts(law, np.full(8, 5.0), np.random.default_rng(0), 8))
    assert fit.theta[0, 0] == pytest.approx(14.0, abs=0.2)  # slope 2/14 octave an octave


def test_one_odd_cell_does_not_decide() -> None:
    law = curve("constant", BASIS, N, WIDTH)
    centres = np.array([4.0] * 7 + [9.0])
    tables = [tabulate(normal_cells(centres, 0.2), float(tau)) for tau in SCATTERS]
    fit = fit_law(tables, law, starts(law, centres, np.random.default_rng(0), 8))
    assert fit.theta[0, 0] == pytest.approx(4.0, abs=0.15)  # the mean is 4.6


def test_sets_fitted_together_are_those_fitted_alone() -> None:
    law = curve("power", BASIS, N, WIDTH)
    rng = np.random.default_rng(1)
    sets = np.concatenate([normal_cells(4.0 + rng.standard_normal(8), 0.4) for _ in range(3)])
    start = np.broadcast_to(np.array([4.0, 0.0]), (3, 2)).copy()
    together = climb(tabulate(sets, 0.45), law, start)
    for i in range(3):
        alone = climb(tabulate(sets[i : i + 1], 0.45), law, start[i : i + 1])
        assert together[0][i] == pytest.approx(alone[0][0], abs=1e-2)
        assert together[1][i] == pytest.approx(alone[1][0], abs=1e-3)


def test_the_posterior_of_normal_cells_is_the_textbooks() -> None:
    # eight cells at known places, hardly any scatter possible: mean 4 and sd about sqrt(sd^2 + tau^2) / sqrt(8)
    law = curve("constant", BASIS, N, WIDTH)
    tables = [tabulate(normal_cells(np.full(8, 4.0), 1.0), float(SCATTERS[0]))]
    draws = posterior_draws(tables, law, np.full((1, 1, 1), 4.0), np.random.default_rng(0), 4_000)
    assert draws[:, 0].mean() == pytest.approx(4.0, abs=0.03)
    assert draws[:, 0].std() == pytest.approx(1.0 / np.sqrt(8), rel=0.08)
    assert (draws[:, 1] == SCATTERS[0]).all()


def test_the_information_is_that_of_normal_cells() -> None:
    law = curve("constant", BASIS, N, WIDTH)
    tables = tabulate(normal_cells(np.full(8, 4.0), 1.0), 0.12)
    _, information = log_density(tables, law, np.array([[4.0]]))
    assert information[0, 0, 0] == pytest.approx(8.0, rel=0.06)  # 1 / (1 + 2 * 0.12^2) each
