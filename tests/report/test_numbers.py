import math

import pytest

from archopt.report.numbers import decimals_for, duration, finite, fixed, printable, probability, short, step_time


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, "3", b"3", True, [1]])
def test_what_is_not_a_finite_number_is_missing(value):
    assert finite(value) is None
    assert fixed(value, 2) == short(value) == probability(value) == step_time(value) == duration(value) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "< 1 %"), (0.0099, "< 1 %"), (0.01, "1 %"), (0.625, "62 %"), (0.99, "99 %"), (1, "> 99 %")],
)
def test_a_probability_never_claims_certainty(value, text):
    assert probability(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00085, "850 us"),
        (0.0123, "12.3 ms"),
        (0.9999, "1 s"),
        (1.24, "1.24 s"),
        (0.0009996, "1 ms"),
        (0.052, "52 ms"),
    ],
)
def test_step_times_have_three_digits_and_a_unit(seconds, text):
    assert step_time(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7800, "2 h 10 min"), (-3, "0 s")],
)
def test_wall_times(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(16.6, "16.6"), (2e6, "2,000,000"), (0.0123, "0.0123"), (0, "0"), (1e-7, "1e-07"), (1e12, "1e+12")],
)
def test_everyday_numbers_have_no_powers_of_ten(value, text):
    assert short(value) == text


def test_decimals_follow_the_smallest_difference_that_means_something():
    assert decimals_for([0.2], resolution=0.0081) == 4
    assert decimals_for([123.4], resolution=12.0) == 0
    assert decimals_for([0.2014]) == 4
    assert decimals_for([1234.5]) == 0
    assert decimals_for([]) == 3
    assert decimals_for([0.2], resolution=1e-12) == 6


def test_a_name_from_outside_cannot_move_the_cursor():
    assert printable("a\x1b[2Jb\nc\rd\udc80") == "a [2Jb c d"
    assert printable("Preis €", "ascii") == "Preis \\u20ac"
    assert len(printable("x" * 1000)) == 300
    assert len(printable("€" * 1000, "ascii")) == 300
