"""Which parameter holds the heads, and which configurations are the same thing."""

import math

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.allocation import HeadAllocation, divisors
from archopt.errors import AllocationError, OptionError, StorageError
from archopt.search_space import (
    HEAD_PARAMETER_KEY,
    OPTIMUM_KEY,
    HeadParameter,
    canonical_params,
    recognise_head_parameter,
    recorded_optimum,
    suggest_allocation,
)


@pytest.mark.parametrize(
    ("head", "params", "expected"),
    [
        (HeadParameter(d_model=48), {"n_heads": 6}, HeadAllocation(6, 8)),
        (HeadParameter("model.num_heads", d_model="width"), {"model.num_heads": 4, "width": 64}, HeadAllocation(4, 16)),
        (HeadParameter("head_dim", "head_dim", 48), {"head_dim": 16}, HeadAllocation(3, 16)),
        (HeadParameter("split", "allocation"), {"split": "8x64"}, HeadAllocation(8, 64)),
        (HeadParameter(d_model=100), {"n_heads": 8}, None),
        (HeadParameter(d_model=48), {"other": 6}, None),
        (HeadParameter(), {"n_heads": 6}, None),
        (HeadParameter("split", "allocation"), {"split": "eight"}, None),
        (HeadParameter(d_model=48), {"n_heads": math.inf}, None),
    ],
)
def test_allocation_read_from_parameters(
    head: HeadParameter, params: dict[str, object], expected: HeadAllocation | None
) -> None:
    assert head.allocation(params) == expected


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(OptionError, match="n_heads, head_dim, allocation but got 'heads'"):
        HeadParameter(kind="heads")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_heads", "params", "expected"),
    [
        (1, {"weighting": "geometric", "decorrelation": 0.1}, {"weighting": "uniform", "decorrelation": 0.0}),
        (2, {"weighting": "fibonacci", "decorrelation": 0.1}, {"weighting": "uniform", "decorrelation": 0.1}),
        (2, {"weighting": "geometric"}, {"weighting": "geometric"}),
        (3, {"weighting": "fibonacci", "decorrelation": 0.1}, {"weighting": "fibonacci", "decorrelation": 0.1}),
        (1, {"learning_rate": 0.1}, {"learning_rate": 0.1}),
    ],
)
def test_the_same_thing_has_one_name(n_heads: int, params: dict[str, object], expected: dict[str, object]) -> None:
    assert canonical_params(params, HeadAllocation(n_heads, 12)) == expected


@pytest.mark.parametrize("stored", [3, "x", [], {}, {"name": "n_heads"}, {"name": "h", "kind": "x", "d_model": 8}])
def test_a_head_parameter_of_another_version_says_so(stored: object) -> None:
    study = optuna.create_study(study_name="old")
    study.set_user_attr(HEAD_PARAMETER_KEY, stored)
    with pytest.raises(StorageError, match=r"study 'old' was begun by another version .*'archopt:head_parameter'"):
        recognise_head_parameter(study)


@pytest.mark.parametrize("stored", [3, "ab", [], [1.0], ["a", "b"], [math.nan, 1.0], [3.0, 0.0], {"d": 1}])
def test_an_optimum_of_another_version_says_so(stored: object) -> None:
    study = optuna.create_study(study_name="old")
    study.set_user_attr(OPTIMUM_KEY, stored)
    with pytest.raises(StorageError, match=r"study 'old' was begun by another version .*'archopt:expected_optimum'"):
        recorded_optimum(study)


def test_recognised_by_name_with_its_width() -> None:
    study = optuna.create_study()
    study.add_trial(_finished({"model.num_attention_heads": 4, "model.hidden_size": 64, "lr": 1}))
    head = recognise_head_parameter(study)
    assert (head.name, head.kind, head.d_model) == ("model.num_attention_heads", "n_heads", "model.hidden_size")


def test_what_the_sampler_recorded_wins_over_names() -> None:
    study = optuna.create_study()
    study.set_user_attr(HEAD_PARAMETER_KEY, HeadParameter("h", "n_heads", 96).to_dict())
    study.add_trial(_finished({"n_heads": 4, "h": 8}))
    assert recognise_head_parameter(study) == HeadParameter("h", "n_heads", 96)


def test_no_head_parameter_and_no_width_are_errors() -> None:
    study = optuna.create_study()
    study.add_trial(_finished({"depth": 4}))
    with pytest.raises(OptionError, match=r"no head parameter among \[depth\]"):
        recognise_head_parameter(study)
    other = optuna.create_study()
    other.add_trial(_finished({"n_heads": 4}))
    with pytest.raises(OptionError, match="give d_model beside 'n_heads'"):
        recognise_head_parameter(other)
    assert recognise_head_parameter(other, 64).d_model == 64


@settings(deadline=None, derandomize=True, max_examples=25)
@given(widths=st.lists(st.integers(2, 200), min_size=1, max_size=4))
def test_only_feasible_splits_are_suggested_whatever_the_widths(widths: list[int]) -> None:
    # field notes 2 and 4: widths that change from trial to trial in one study
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for width in widths:
        allocation = suggest_allocation(study.ask(), width)
        assert allocation.d_model == width
        assert allocation.n_heads in divisors(width)


def test_other_limits_for_the_same_width_are_explained() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    suggest_allocation(study.ask(), 64)
    suggest_allocation(study.ask(), 64, max_head_dim=32)  # takes the second name
    with pytest.raises(AllocationError, match="already searches d_model = 64 with other limits"):
        suggest_allocation(study.ask(), 64, max_head_dim=16)


def _finished(params: dict[str, int]) -> optuna.trial.FrozenTrial:
    distributions = {name: optuna.distributions.IntDistribution(1, 512) for name in params}
    return optuna.create_trial(params=params, distributions=distributions, value=1.0)
