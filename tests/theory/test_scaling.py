"""The three laws against the figures in print, independent minimisation and their scaling exponents."""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from archopt import theory
from archopt.allocation import HeadAllocation, divisors, feasible_allocations, nearest_allocation
from archopt.errors import AllocationError, OptionError
from archopt.theory import FAMILY_DEFAULTS, bound_minimiser, family_default, mse_bound, optimal_allocation

WIDE = 2**20  # wide enough that no law is clipped


# Values with two decimals as printed, for n = 10^4 and 10^12 and constant 1.
@pytest.mark.parametrize(("intrinsic_dim", "at_1e4", "at_1e12"), [(1, 2.43, 3.77), (8, 1.45, 1.74), (64, 1.07, 1.10)])
def test_the_log_law_grows_by_less_than_one_power_of_two(intrinsic_dim, at_1e4, at_1e12):
    low, high = (optimal_allocation(1024, n, intrinsic_dim).head_dim for n in (1e4, 1e12))
    assert low == pytest.approx(at_1e4, abs=0.005)
    assert high == pytest.approx(at_1e12, abs=0.005)
    assert high < 2 * low


def test_the_log_law_with_constant_one_asks_for_what_nobody_builds():
    asked = optimal_allocation(96, 10**6, 8)
    assert asked.head_dim == pytest.approx(1.55, abs=0.005)
    assert asked.n_heads == pytest.approx(96 / asked.head_dim)
    assert asked.nearest == HeadAllocation(48, 2)


def test_the_log_law_scales_with_its_constant_and_exponent():
    asked = optimal_allocation(WIDE, 1e9, 3.0, smoothness=1.0, constant=7.0)
    assert asked.head_dim == pytest.approx(7.0 * log(1e9) ** (2 / 5), rel=1e-12)  # 2 / (2 beta + d) = 2/5
    assert (asked.law, asked.constant, asked.smoothness, asked.notes) == ("log", 7.0, 1.0, ())


def test_the_power_law_is_a_power_of_n():
    asked = optimal_allocation(WIDE, 1e6, 8, constant=2.0, law="power")
    assert asked.head_dim == pytest.approx(2.0 * 1e6 ** (2 / 12), rel=1e-12)


@pytest.mark.parametrize("law", ["log", "power", "bound"])
def test_smoothness_is_capped_at_two_and_said_so(law):
    extra = {"bias_to_noise": 3.0} if law == "bound" else {}
    rough, smooth = (optimal_allocation(WIDE, 1e5, 4, beta, law=law, **extra) for beta in (2.0, 5.0))
    assert smooth.head_dim == rough.head_dim
    assert smooth.smoothness == 2.0
    assert rough.notes == ()
    assert "smoothness 5 is used as 2" in smooth.notes[0]


def test_a_law_beyond_the_width_is_kept_to_one_head_and_said_so():
    asked = optimal_allocation(48, 1e9, 1, constant=100.0)
    assert (asked.head_dim, asked.n_heads, asked.nearest) == (48.0, 1.0, HeadAllocation(1, 48))
    assert asked.unclipped_head_dim == pytest.approx(100.0 * log(1e9) ** 0.4)
    assert "kept within 1 to d_model = 48" in asked.notes[0]


def test_a_law_below_one_dimension_is_raised_to_one():
    asked = optimal_allocation(48, 2, 1)  # (log 2)^{2/5} < 1
    assert (asked.head_dim, asked.nearest) == (1.0, HeadAllocation(48, 1))
    assert asked.unclipped_head_dim < 1.0


def test_a_power_beyond_the_floats_is_clipped_too():
    assert optimal_allocation(48, 1e300, 0.01, 0.01, law="power").head_dim == 48.0


# ---- bound minimiser


def numeric_minimiser(d_model, n, d, beta, ratio, rho):
    """The bound minimised directly over log d_k, written out here a second time."""

    def log_bound(t):
        shared = np.logaddexp(
            np.log(rho) if rho > 0 else -np.inf, np.log1p(-rho) + t - np.log(d_model) if rho < 1 else -np.inf
        )
        return np.logaddexp(np.log(ratio) - beta * t, d / 2 * t - np.log(n) + shared)

    # Small d and beta put the minimum as far out as e^300.
    found = minimize_scalar(log_bound, bounds=(-100.0, 400.0), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


@given(
    d_model=st.integers(1, 8192),
    n=st.floats(2, 1e12),
    d=st.floats(0.1, 64),
    beta=st.floats(0.1, 2),
    ratio=st.floats(1e-3, 1e6),
    rho=st.sampled_from([0.0, 1e-6, 0.3, 0.9, 0.999, 1.0]),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_minimiser_agrees_with_direct_minimisation(d_model, n, d, beta, ratio, rho):
    found = bound_minimiser(d_model, n, d, beta, bias_to_noise=ratio, head_correlation=rho)
    # A minimum found from function values is sharp to about sqrt(rounding), 1e-8 of the log, less where it is flat.
    assert found == pytest.approx(max(numeric_minimiser(d_model, n, d, beta, ratio, rho), d), rel=1e-5)


def test_the_closed_form_for_uncorrelated_heads():
    ratio, n, d_model, d = 5.0, 1e8, 512, 8
    expected = (4 * ratio * n * d_model / (d + 2)) ** (2 / (d + 6))
    assert bound_minimiser(d_model, n, d, bias_to_noise=ratio) == pytest.approx(expected, rel=1e-12)
    asked = optimal_allocation(d_model, n, d, law="bound", bias_to_noise=ratio)
    assert asked.head_dim == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rho", [1e-12, 1 - 1e-12])
def test_the_numeric_root_meets_the_closed_forms_at_both_ends(rho):
    at_the_end = bound_minimiser(256, 1e7, 5, 1.5, bias_to_noise=2.0, head_correlation=round(rho))
    assert bound_minimiser(256, 1e7, 5, 1.5, bias_to_noise=2.0, head_correlation=rho) == pytest.approx(at_the_end, 1e-8)


@pytest.mark.parametrize(("rho", "exponent"), [(0.0, 12 / 14), (1.0, 1.0)])
def test_heads_grow_nearly_linearly_with_the_width(rho, exponent):
    # d = 8: H ~ D^{(d+4)/(d+6)} without correlation, H ~ D with identical errors
    few, many = (D / bound_minimiser(D, 1e9, 8, bias_to_noise=100, head_correlation=rho) for D in (256, 1024))
    assert log(many / few) / log(4) == pytest.approx(exponent, rel=1e-9)


def test_with_identical_errors_the_minimiser_is_a_power_law_in_n():
    small, large = (bound_minimiser(96, n, 8, bias_to_noise=100, head_correlation=1.0) for n in (1e8, 1e10))
    power = [optimal_allocation(WIDE, n, 8, law="power").head_dim for n in (1e8, 1e10)]
    assert large / small == pytest.approx(power[1] / power[0], rel=1e-12)


def test_the_minimiser_does_not_go_below_the_intrinsic_dimension():
    assert bound_minimiser(48, 100, 10, bias_to_noise=0.01) == 10.0
    asked = optimal_allocation(48, 100, 10, law="bound", bias_to_noise=0.01)
    assert asked.head_dim == 10.0
    assert "intrinsic_dim = 10" in asked.notes[0]


def test_the_bound_by_hand():
    # 3 * 4^-2 + 4^(4/2) / 100 * (0.5 + 0.5 * 4 / 8)
    value = mse_bound(4.0, 8, 100, 4.0, bias_to_noise=3.0, head_correlation=0.5)
    assert value == pytest.approx(3 / 16 + 0.16 * 0.75, rel=1e-12)


# ---- what comes back, and what is refused


@given(d_model=st.integers(1, 2000), n=st.floats(2, 1e15), d=st.floats(0.1, 100), constant=st.floats(1e-3, 1e3))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_every_answer_is_a_split_of_the_width(d_model, n, d, constant):
    asked = optimal_allocation(d_model, n, d, constant=constant)
    assert 1.0 <= asked.head_dim <= d_model
    assert asked.head_dim * asked.n_heads == pytest.approx(d_model, rel=1e-12)
    assert asked.nearest.d_model == d_model
    gaps = [abs(log(k / asked.head_dim)) for k in divisors(d_model)]
    assert abs(log(asked.nearest.head_dim / asked.head_dim)) == pytest.approx(min(gaps), abs=1e-12)


def test_the_answer_is_frozen():
    asked = optimal_allocation(48, 1000, 8)
    with pytest.raises(FrozenInstanceError):
        asked.head_dim = 3.0


def test_numpy_numbers_are_numbers():
    assert optimal_allocation(np.int64(48), np.float32(1e6), np.int32(8)) == optimal_allocation(48, 1e6, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 1}, "n_samples must be a number of at least 2"),
        ({"n_samples": float("nan")}, "n_samples must be a finite number"),
        ({"n_samples": 10**400}, "n_samples must be a finite number"),
        ({"n_samples": "1e9"}, "n_samples must be a finite number above 0 but got '1e9'"),
        ({"n_samples": True}, "n_samples must be a finite number"),
        ({"intrinsic_dim": 0}, "intrinsic_dim must be a finite number above 0 but got 0"),
        ({"intrinsic_dim": None}, "intrinsic_dim must be a finite number above 0 but got None"),
        ({"smoothness": -1}, "smoothness must be a finite number above 0 but got -1"),
        ({"constant": -2.0}, "constant must be a finite number above 0 but got -2"),
        ({"law": "logs"}, "did you mean 'log'"),
        ({"law": "bound"}, "needs bias_to_noise"),
        ({"law": "bound", "bias_to_noise": 0.0}, "bias_to_noise must be a finite number above 0"),
        ({"law": "bound", "bias_to_noise": 1.0, "constant": 2.0}, "constant must be left at 1"),
        (
            {"law": "bound", "bias_to_noise": 1.0, "head_correlation": 1.5},
            "head_correlation must be a number from 0 to 1",
        ),
        ({"bias_to_noise": 1.0}, "act in law 'bound' only"),
        ({"head_correlation": 0.5}, "act in law 'bound' only"),
    ],
)
def test_bad_arguments_are_named_in_one_line(change, message):
    arguments = {"d_model": 48, "n_samples": 1000, "intrinsic_dim": 8} | change
    with pytest.raises(OptionError, match=message) as error:
        optimal_allocation(**arguments)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_the_nearest_split_under_limits():
    asked = optimal_allocation(240, 1e6, 8, constant=21.0)
    assert asked.head_dim == pytest.approx(32.53, abs=0.005)
    assert asked.nearest == HeadAllocation(8, 30)
    eights = feasible_allocations(asked.d_model, head_dim_multiple_of=8)  # 8, 16, 24, 40, 48, 80, 120, 240
    assert nearest_allocation(asked.head_dim, eights) == HeadAllocation(6, 40)  # log(40/32.5) < log(32.5/24)


NOT_A_NUMBER = [float("nan"), float("inf"), 0, -1.5, True, np.True_, "8", None, 1j, [8.0], np.ones(2), np.array([])]


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 10**400], ids=repr)
@pytest.mark.parametrize(
    ("call", "argument"),
    [(mse_bound, "head_dim")]
    + [
        (call, argument)
        for call in (mse_bound, bound_minimiser)
        for argument in ("n_samples", "intrinsic_dim", "smoothness", "bias_to_noise")
    ],
)
def test_the_bound_refuses_what_is_not_a_positive_number(call, argument, value):
    arguments = {"d_model": 48, "n_samples": 1e6, "intrinsic_dim": 8, "smoothness": 2.0, "bias_to_noise": 2.0}
    if call is mse_bound:
        arguments["head_dim"] = 12.0
    with pytest.raises(OptionError, match=f"^{argument} must be a finite number above 0 but got") as error:
        call(**arguments | {argument: value})
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_a_smoothness_of_any_type_of_number_is_capped():
    assert optimal_allocation(48, 1000, 8, Fraction(7, 2)).notes == optimal_allocation(48, 1000, 8, 3.5).notes


@pytest.mark.parametrize(
    "d_model",
    [0, -48, 48.0, 10**9, 10**400, -(10**5000), "4" * 500],
    ids=["0", "-48", "48.0", "1e9", "1e400", "-1e5000", "text"],
)
def test_a_bad_width_is_an_allocation_error(d_model):
    with pytest.raises(AllocationError, match="d_model") as error:
        optimal_allocation(d_model, 1000, 8).nearest  # noqa: B018
    assert len(str(error.value)) < 300


# ---- defaults per family


@pytest.mark.parametrize(("family", "constant"), [("table", 12.0), ("text", 44.7)])
def test_a_default_constant_is_the_geometric_mean_of_its_range(family, constant):
    default = family_default(family)
    assert default.constant == pytest.approx(constant, abs=0.05)
    assert default.constant == pytest.approx(sqrt(np.prod(default.constant_range)))
    assert default.intrinsic_dim_range[0] < default.intrinsic_dim < default.intrinsic_dim_range[1]
    assert default.sd_octaves == 1.5
    assert len(default.reason) > 40


@pytest.mark.parametrize(("family", "n_samples", "lowest", "highest"), [("table", 400, 6, 48), ("text", 1e8, 32, 160)])
def test_the_ranges_cover_the_head_widths_they_come_from(family, n_samples, lowest, highest):
    default = family_default(family)
    low, high = (optimal_allocation(1024, n_samples, 8, constant=c).head_dim for c in default.constant_range)
    assert low == pytest.approx(lowest, rel=0.15)  # the ranges are rounded to one or two digits
    assert high == pytest.approx(highest, rel=0.15)


def test_a_default_bias_to_noise_says_what_it_rests_on():
    table, text = family_default("table"), family_default("text")
    assert (table.bias_to_noise, text.bias_to_noise) == (1.0, 3.0)
    assert "at d = 8 a factor of 10 moves" in table.bias_to_noise_reason
    for rho, factor in [(0.0, 1.4), (1.0, 1.5)]:  # the figures of that reason
        low, high = (bound_minimiser(48, 1e9, 8, bias_to_noise=r, head_correlation=rho) for r in (1.0, 10.0))
        assert high / low == pytest.approx(factor, abs=0.05)
    assert "(4.03 - 1) / 1" in text.bias_to_noise_reason
    assert text.bias_to_noise == pytest.approx((4.03 - 1) / 1, abs=0.05)


def test_families_are_read_only_and_unknown_ones_are_refused():
    with pytest.raises(TypeError):
        FAMILY_DEFAULTS["image"] = FAMILY_DEFAULTS["text"]
    with pytest.raises(
        OptionError, match="family must be one of 'table', 'text' but got 'tables'; did you mean 'table'"
    ):
        family_default("tables")


def test_importing_the_theory_stays_light():
    heavy = {"scipy", "torch", "pandas", "sklearn", "optuna"}
    code = f"import sys, archopt.theory; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_every_exported_name_exists():
    assert len(theory.__all__) == len(set(theory.__all__))
    assert all(hasattr(theory, name) for name in theory.__all__)
