"""Enumerated configurations: feasible, distinct, with the numbers that a model needs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from archopt.search_space import HeadParameter, TrialRecord, canonical_params, search_space_of
from archopt.search_space.candidates import MAX_CANDIDATES

OURS = {
    "n_heads": CategoricalDistribution([1, 2, 3, 4]),
    "weighting": CategoricalDistribution(["uniform", "geometric", "fibonacci"]),
    "decorrelation": CategoricalDistribution([0.0, 0.1]),
    "learning_rate": CategoricalDistribution([0.001, 0.01]),
}


def _record(params: dict[str, object]) -> TrialRecord:
    return TrialRecord(number=0, state="complete", params=params, allocation=None, value=0.0)


def test_duplicates_are_one_configuration() -> None:
    space = search_space_of(OURS, HeadParameter(d_model=12))
    assert space is not None
    # per learning rate: H = 1 has one, H = 2 has uniform and geometric, H = 3 and 4 have all three; times 2 penalties
    assert len(space.candidates) == 2 * (1 + 2 * 2 + 2 * 3 + 2 * 3)
    assert len(space.index) == len(space.candidates)


def test_features_of_each_configuration() -> None:
    space = search_space_of(OURS, HeadParameter(d_model=12))
    assert space is not None
    assert set(space.log2_head_dim) == {math.log2(12 / n_heads) for n_heads in (1, 2, 3, 4)}
    by_name = dict(zip([n for n in space.names if n != "n_heads"], space.ordered, strict=True))
    assert by_name == {"weighting": False, "decorrelation": True, "learning_rate": True}
    assert space.levels.min() == 0.0
    assert np.unique(space.levels[:, list(by_name).index("learning_rate")]).tolist() == [0.0, 1.0]


def test_uniform_need_not_be_among_the_choices() -> None:
    choices = {**OURS, "weighting": CategoricalDistribution(["geometric", "fibonacci"])}
    space = search_space_of(choices, HeadParameter(d_model=12))
    assert space is not None
    assert {candidate.params["weighting"] for candidate in space.candidates} == {"geometric", "fibonacci"}


def test_width_as_a_parameter_leaves_only_pairs_that_divide() -> None:
    # field notes 2: D in 48..512 step 48 and H in 4..24 step 4
    space = search_space_of(
        {"hidden": IntDistribution(48, 480, step=48), "heads": IntDistribution(4, 24, step=4)},
        HeadParameter("heads", "n_heads", "hidden"),
    )
    assert space is not None
    pairs = {(c.params["hidden"], c.params["heads"]) for c in space.candidates}
    assert pairs == {(d, h) for d in range(48, 481, 48) for h in range(4, 25, 4) if d % h == 0}


@pytest.mark.parametrize(
    "distributions",
    [
        {"depth": IntDistribution(1, 4)},
        {"n_heads": IntDistribution(7, 7)},
        {"n_heads": FloatDistribution(1, 8)},
        {"n_heads": CategoricalDistribution(["many"])},
    ],
)
def test_nothing_to_enumerate(distributions: dict[str, IntDistribution]) -> None:
    assert search_space_of(distributions, HeadParameter(d_model=48)) is None


def test_continuous_and_too_many_parameters_are_left_out() -> None:
    many = {f"p{k}": IntDistribution(0, 9) for k in range(6)}
    space = search_space_of(
        {"n_heads": IntDistribution(1, 8), "lr": FloatDistribution(0.1, 1.0), **many}, HeadParameter(d_model=64)
    )
    assert space is not None
    assert len(space.candidates) <= MAX_CANDIDATES
    assert "lr" not in space.names
    assert set(space.names) == {"n_heads", "p0", "p1"}  # 4 feasible splits x 10 x 10, a third would be 4,000


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    n_heads=st.sampled_from([1, 2, 3, 4]),
    weighting=st.sampled_from(["uniform", "geometric", "fibonacci"]),
    decorrelation=st.sampled_from([0, 0.0, 0.1]),
    learning_rate=st.sampled_from([0.001, 0.01]),
)
def test_every_trial_finds_its_configuration(
    n_heads: int, weighting: str, decorrelation: float, learning_rate: float
) -> None:
    head = HeadParameter(d_model=12)
    space = search_space_of(OURS, head)
    assert space is not None
    params: dict[str, object] = {"n_heads": n_heads, "weighting": weighting}
    params |= {"decorrelation": decorrelation, "learning_rate": learning_rate}
    position = space.position(_record(canonical_params(params, head.allocation(params))))
    assert position is not None
    assert space.candidates[position].allocation == head.allocation(params)


def test_stepped_floats_match_whatever_their_rounding() -> None:
    space = search_space_of(
        {"n_heads": CategoricalDistribution([1, 2]), "dropout": FloatDistribution(0.0, 0.5, step=0.1)},
        HeadParameter(d_model=8),
    )
    assert space is not None
    for dropout in (0.3, 0.1 + 0.2):
        assert space.position(_record({"n_heads": 2, "dropout": dropout})) is not None
        # what the space does not fix does not matter
        assert space.position(_record({"n_heads": 2, "dropout": dropout, "momentum": 0.9})) is not None
    assert space.position(_record({"n_heads": 2, "momentum": 0.9})) is None
    assert space.position(_record({"n_heads": 2})) is None
