"""What a setting refuses, in one line that names the argument and what is allowed."""

import pytest

from archopt.errors import AllocationError, ArchoptError, OptionError
from archopt.laboratory import Setting

BAD = [
    ({"function": "freidman"}, "did you mean 'friedman'"),
    ({"function": 3}, "function must be one of"),
    ({"kernel": "box"}, "'gaussian', 'exponential'"),
    ({"embedding": "curve"}, "did you mean 'curved'"),
    ({"axes": "principal"}, "'random', 'aligned'"),
    ({"intrinsic_dim": 0}, "intrinsic_dim must be a whole number of at least 1"),
    ({"intrinsic_dim": 2.5}, "intrinsic_dim"),
    ({"intrinsic_dim": 65}, "at most 64"),
    ({"intrinsic_dim": 2}, "functions for fewer: additive, radial, sparse, rough"),
    ({"n_samples": 1}, "n_samples must be a whole number of at least 2"),
    ({"n_samples": 10**9}, "at most 20,000"),
    ({"n_samples": True}, "n_samples"),
    ({"n_samples": "many"}, "many"),
    ({"d_model": 0}, "d_model must be a whole number of at least 1"),
    ({"d_model": 4096}, "at most 512"),
    ({"n_queries": 0}, "n_queries"),
    ({"replicates": 2}, "replicates must be a whole number of at least 3"),
    ({"seed": -1}, "seed"),
    ({"noise_sd": -0.1}, "noise_sd must be a number from 0"),
    ({"noise_sd": float("nan")}, "noise_sd"),
    ({"temperature": 0.0}, "temperature must be a number above 0, 'best'"),
    ({"temperature": float("inf")}, "temperature"),
    ({"temperature": "bset"}, "a number above 0, 'best' or 'literal'"),
    ({"temperature": None}, "temperature"),
    ({"temperature": "literal", "kernel": "exponential"}, "Gaussian kernel's bandwidth"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[str(options) for options, _ in BAD])
def test_bad_values_are_one_line_that_names_them(options, message):
    with pytest.raises(OptionError, match=message) as error:
        Setting(**options)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("n_heads", [7, 0, -8, 2.0, 96])
def test_heads_must_divide_the_width(n_heads):
    with pytest.raises(AllocationError, match="n_heads"):
        Setting(n_heads=n_heads)


def test_every_refusal_is_archopts():
    for options, _ in BAD:
        with pytest.raises(ArchoptError):
            Setting(**options)


def test_derived_values():
    assert Setting(noise_sd=0.2).noise_variance == pytest.approx(0.04)
