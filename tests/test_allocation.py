"""Splits of a width against brute force, the limits of real models, and messages that say what would be right."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.allocation import (
    MAX_D_MODEL,
    HeadAllocation,
    allocation_of,
    divisors,
    feasible_allocations,
    is_prime,
    nearest_allocation,
)
from archopt.errors import AllocationError, ArchoptError, DegenerateHeadError

quickly = settings(max_examples=80, deadline=None, derandomize=True)


def refused(call, *fragments):
    """The one line with which ``call`` is refused holds every fragment."""
    with pytest.raises(AllocationError) as error:
        call()
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 300
    for fragment in fragments:
        assert fragment in message


# ---- one allocation


def test_heads_times_width_is_the_total_width():
    allocation = HeadAllocation(n_heads=8, head_dim=64)
    assert allocation.d_model == 512
    assert (str(allocation), hash(allocation)) == ("8x64", hash(HeadAllocation(8, 64)))


def test_an_allocation_is_frozen_and_pickles():
    allocation = HeadAllocation(8, 64)
    with pytest.raises(FrozenInstanceError):
        allocation.n_heads = 4
    assert pickle.loads(pickle.dumps(allocation)) == allocation


def test_numpy_integers_become_plain_ones():
    allocation = HeadAllocation(np.int64(8), np.uint8(64))
    assert allocation == HeadAllocation(8, 64)
    assert (type(allocation.n_heads), type(allocation.head_dim)) == (int, int)
    assert allocation.d_model == 512  # np.uint8(64) * 8 would overflow


@pytest.mark.parametrize("value", [0, -1, 2.0, np.float64(2), True, False, "8", None, float("nan")])
@pytest.mark.parametrize("name", ["n_heads", "head_dim"])
def test_anything_but_a_positive_whole_number_is_refused(name, value):
    arguments = {"n_heads": 8, "head_dim": 64} | {name: value}
    refused(lambda: HeadAllocation(**arguments), f"{name} must be a whole number of at least 1 but got {value!r}")


@given(n_heads=st.integers(1, 10**6), head_dim=st.integers(1, 10**6))
@quickly
def test_text_form_and_back(n_heads, head_dim):
    allocation = HeadAllocation(n_heads, head_dim)
    assert HeadAllocation.parse(str(allocation)) == allocation


@pytest.mark.parametrize("text", ["8x64", " 8X64 ", "8 x 64", "08x064"])
def test_what_people_type_is_read(text):
    assert HeadAllocation.parse(text) == HeadAllocation(8, 64)


@pytest.mark.parametrize("text", ["", "8", "x64", "8x", "8*64", "8x64x2", "8.0x64", "-8x64", "eight x 64"])
def test_other_text_is_refused(text):
    refused(lambda: HeadAllocation.parse(text), "written like 8x64", repr(text))


def test_text_with_a_zero_is_refused():
    refused(lambda: HeadAllocation.parse("0x64"), "n_heads must be a whole number of at least 1 but got 0")


# ---- divisors


@given(number=st.integers(1, 5000))
@quickly
def test_divisors_and_primes_against_brute_force(number):
    expected = [k for k in range(1, number + 1) if number % k == 0]
    assert divisors(number) == expected
    assert is_prime(number) == (expected == [1, number] and number > 1)


# ---- the feasible set


@given(
    d_model=st.integers(1, 400),
    low=st.integers(1, 20),
    high=st.integers(1, 400),
    dim_multiple=st.integers(1, 8),
    heads_multiple=st.integers(1, 8),
)
@quickly
def test_the_feasible_set_against_brute_force(d_model, low, high, dim_multiple, heads_multiple):
    expected = tuple(
        HeadAllocation(h, k)
        for k in range(1, d_model + 1)
        for h in [d_model // k]
        if h * k == d_model and low <= k <= high and k % dim_multiple == 0 and h % heads_multiple == 0
    )

    def found():
        return feasible_allocations(
            d_model,
            min_head_dim=low,
            max_head_dim=high,
            head_dim_multiple_of=dim_multiple,
            n_heads_multiple_of=heads_multiple,
        )

    if expected:
        assert found() == expected
    else:
        refused(found)


def test_all_splits_of_a_width_by_rising_head_dim():
    assert [str(a) for a in feasible_allocations(12)] == ["12x1", "6x2", "4x3", "3x4", "2x6", "1x12"]
    assert [str(a) for a in feasible_allocations(97)] == ["97x1", "1x97"]
    assert feasible_allocations(1) == (HeadAllocation(1, 1),)


def test_the_small_explicit_set():
    assert [a.head_dim for a in feasible_allocations(60, min_head_dim=8)] == [10, 12, 15, 20, 30, 60]


@pytest.mark.parametrize(
    ("limits", "fragments"),
    [
        ({"head_dim_multiple_of": 8}, ["head_dim a multiple of 8", "d_model = 64 would divide"]),
        ({"min_head_dim": 7, "max_head_dim": 9}, ["head_dim <= 9", "{10, 12, 15, 20, 30, 60}"]),
        ({"n_heads_multiple_of": 7}, ["n_heads a multiple of 7", "d_model = 63 would divide"]),
        ({"min_head_dim": 20, "n_heads_multiple_of": 4}, ["n_heads a multiple of 4", "{20, 30, 60}"]),
    ],
)
def test_an_empty_set_names_the_limit_that_emptied_it(limits, fragments):
    refused(lambda: feasible_allocations(60, **limits), "no split of d_model = 60", *fragments)


@pytest.mark.parametrize("limit", ["min_head_dim", "max_head_dim", "head_dim_multiple_of", "n_heads_multiple_of"])
@pytest.mark.parametrize("value", [0, -4, 1.5, True, "8"])
def test_a_limit_is_a_positive_whole_number(limit, value):
    refused(lambda: feasible_allocations(64, **{limit: value}), f"{limit} must be a whole number", repr(value))


def test_a_minimum_beyond_the_width_says_how_much_is_possible():
    refused(lambda: feasible_allocations(60, min_head_dim=61), "min_head_dim (61)", "at most 60")


def test_crossed_limits_are_refused():
    refused(lambda: feasible_allocations(64, min_head_dim=32, max_head_dim=8), "min_head_dim (32)", "max_head_dim (8)")


def test_a_typing_error_in_the_width_is_refused_at_once():
    assert feasible_allocations(MAX_D_MODEL)[-1] == HeadAllocation(1, MAX_D_MODEL)
    refused(lambda: feasible_allocations(MAX_D_MODEL + 1), "at most 1,048,576", "1,048,577")
    refused(lambda: feasible_allocations(10**30), "at most 1,048,576")


def test_numpy_integers_are_accepted_everywhere():
    assert feasible_allocations(np.int32(12), min_head_dim=np.int64(6)) == (HeadAllocation(2, 6), HeadAllocation(1, 12))
    assert allocation_of(np.int64(512), np.int16(8)) == HeadAllocation(8, 64)


# ---- a given number of heads, and the nearest split


def test_a_width_that_does_not_divide_lists_what_does():
    refused(
        lambda: allocation_of(100, 8),
        "d_model = 100 does not divide into 8 heads",
        "{1, 2, 4, 5, 10, 20, 25, 50, 100}",
        "d_model = 96 or 104",
    )


def test_more_heads_than_dimensions_suggests_the_one_width_above():
    refused(lambda: allocation_of(4, 8), "{1, 2, 4}", "or d_model = 8")


@given(d_model=st.integers(1, 2000), n_heads=st.integers(1, 64))
@quickly
def test_a_given_number_of_heads_divides_or_is_refused(d_model, n_heads):
    if d_model % n_heads:
        refused(lambda: allocation_of(d_model, n_heads), f"d_model = {d_model}")
    else:
        assert allocation_of(d_model, n_heads) == HeadAllocation(n_heads, d_model // n_heads)


def test_nearest_is_on_a_log_scale_and_ties_go_to_fewer_heads():
    splits = feasible_allocations(64)
    assert nearest_allocation(11.0, splits).head_dim == 8  # 8 * sqrt(2) = 11.3 is the middle of 8 and 16
    assert nearest_allocation(11.9, splits).head_dim == 16  # though 8 is as near on a linear scale
    assert nearest_allocation(1e9, splits).head_dim == 64
    assert nearest_allocation(4.0, (HeadAllocation(32, 2), HeadAllocation(8, 8))) == HeadAllocation(8, 8)
    assert nearest_allocation(4.0, (HeadAllocation(8, 8), HeadAllocation(32, 2))) == HeadAllocation(8, 8)


@pytest.mark.parametrize("head_dim", [0, -1.0, float("nan"), float("inf"), True, "8", None])
def test_nearest_refuses_what_is_no_width(head_dim):
    refused(lambda: nearest_allocation(head_dim, feasible_allocations(64)), "head_dim must be a finite number above 0")


def test_nearest_of_nothing_is_refused():
    refused(lambda: nearest_allocation(8, ()), "allocations must hold at least one split")


# ---- errors


def test_bad_input_errors_are_value_errors_of_one_family():
    assert issubclass(AllocationError, ArchoptError)
    assert issubclass(AllocationError, ValueError)


def test_a_degenerate_head_error_keeps_its_head():
    error = DegenerateHeadError("head 3 is not finite", 3)
    assert (error.head, str(error)) == (3, "head 3 is not finite")
    assert isinstance(error, ArchoptError)
