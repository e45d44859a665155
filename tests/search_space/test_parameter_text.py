"""Parameters as they are typed."""

import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from archopt.errors import OptionError
from archopt.search_space import read_parameter


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("a=1e-4:1e-2:log", FloatDistribution(1e-4, 1e-2, log=True)),
        ("a = 0 : 1 ", FloatDistribution(0.0, 1.0)),
        ("a=-1:1", FloatDistribution(-1.0, 1.0)),
        ("a=2:6:int", IntDistribution(2, 6)),
        ("a=1:1e3:log:int", IntDistribution(1, 1000, log=True)),
        ("a=1:1000:int:log", IntDistribution(1, 1000, log=True)),
        ("a=0,0.1,0.2", CategoricalDistribution([0.0, 0.1, 0.2])),
        ("a=4, 8,16", CategoricalDistribution([4, 8, 16])),
        ("a=adam,sgd", CategoricalDistribution(["adam", "sgd"])),
        ("a=1,two", CategoricalDistribution(["1", "two"])),
        ("a=x:y,z", CategoricalDistribution(["x:y", "z"])),
        ("a=nan,1", CategoricalDistribution(["nan", "1"])),
        ("a=b=c", CategoricalDistribution(["b=c"])),
        ("a=64", CategoricalDistribution([64])),
    ],
)
def test_a_range_or_choices(text: str, distribution: BaseDistribution) -> None:
    assert read_parameter(text) == ("a", distribution)


def test_whole_numbers_stay_whole() -> None:
    _, distribution = read_parameter("a=4,8")
    assert isinstance(distribution, CategoricalDistribution)
    assert [type(choice) for choice in distribution.choices] == [int, int]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("learning_rate", "NAME=LOW:HIGH"),
        ("=1:2", "NAME=LOW:HIGH"),
        ("a=", "NAME=LOW:HIGH"),
        ("a=1:0", "to a larger one"),
        ("a=1:1", "to a larger one"),
        ("a=0:inf", "to a larger one"),
        ("a=nan:1", "to a larger one"),
        ("a=0:1:log", "starts above 0"),
        ("a=0:1.5:int", "whole ends"),
        ("a=0:1e30:int", "whole ends of at most"),
        ("a=0:1:lin", ":log, :int or both"),
        ("a=1:2:log:log", "each once"),
        ("a=low:high", "such as 1e-4:1e-2"),
        ("a=1,1.0", "distinct"),
        ("a=1,,2", "one comma"),
        ("n_heads=1,2", "come from d_model"),
        ("n_heads_d64=1,2", "come from d_model"),
        ("a" * 101 + "=1:2", "at most 100 characters"),
    ],
)
def test_what_is_neither_is_refused_in_one_line(text: str, hint: str) -> None:
    with pytest.raises(OptionError, match=hint) as caught:
        read_parameter(text)
    assert "\n" not in str(caught.value)
