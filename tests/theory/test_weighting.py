"""Head weights against exact fractions and the properties that every scheme has."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.errors import AllocationError, OptionError
from archopt.theory import WEIGHTING_SCHEMES, head_weights


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
