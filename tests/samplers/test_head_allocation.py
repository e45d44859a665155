"""The sampler in studies of every shape: Optuna's own suites, users' parameter names, noise, reproducibility."""

import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)

import archopt
from archopt.allocation import HeadAllocation
from archopt.errors import AllocationError, OptionError
from archopt.search_space import ATTRIBUTES, HeadParameter

HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]


def _sampler(**options: Any) -> archopt.HeadAllocationSampler:
    defaults: dict[str, Any] = {"d_model": 48, "n_samples": 1000, "family": "table", "seed": 0}
    return archopt.HeadAllocationSampler(**{**defaults, **options})


class TestOptunaSuites(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return _sampler


class TestOptunaSuitesWithAHeadNamedX(BasicSamplerTestCase, MultiObjectiveSamplerTestCase):
    """The suites call their parameter x: here it is the head parameter."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: _sampler(d_model=60, head_param="x")


def _bowl(trial: optuna.Trial, noise: float = 0.02, best: float = 3.0, seed: int = 0) -> float:
    n_heads = trial.suggest_categorical("n_heads", HEADS)
    weighting = trial.suggest_categorical("weighting", ["uniform", "geometric", "fibonacci"])
    replicate = archopt.replicate(trial)
    trial.set_user_attr(ATTRIBUTES.replicate, replicate)
    rng = np.random.default_rng([seed, trial.number])
    return 0.03 * (np.log2(48 / n_heads) - best) ** 2 + 0.03 * (weighting == "geometric") + noise * rng.normal()


def _run(n_trials: int, sampler: BaseSampler | None = None, **bowl: Any) -> optuna.Study:
    study = optuna.create_study(sampler=sampler or _sampler())
    study.optimize(lambda trial: _bowl(trial, **bowl), n_trials=n_trials)
    return study


def test_the_first_proposals_are_the_closed_form_and_its_neighbours() -> None:
    study = _run(8)
    # 12 (log 1000)^(1/6) = 16.6: head_dim 16, 12 and 24 under each weighting; two heads have no fibonacci of their own
    first = [(48 // t.params["n_heads"], t.params["weighting"]) for t in study.trials]
    assert first[0][0] == 16
    assert set(first) == {(w, s) for w in (12, 16, 24) for s in ("uniform", "geometric", "fibonacci")} - {
        (24, "fibonacci")
    }


def test_it_goes_where_the_optimum_is() -> None:
    study = _run(50, best=1.0)  # head_dim 2, eight times below the prior
    later = [48 // t.params["n_heads"] for t in study.trials[30:]]
    assert np.mean([width <= 4 for width in later]) > 0.7
    assert archopt.recommend(study).allocation.head_dim in (1, 2, 3)


def test_it_repeats_contenders_and_not_losers() -> None:
    study = _run(60)
    counts: dict[int, int] = {}
    for trial in study.trials:
        counts[48 // trial.params["n_heads"]] = counts.get(48 // trial.params["n_heads"], 0) + 1
    assert sum(counts.get(width, 0) for width in (4, 6, 8, 12)) > 35
    assert max(counts.get(1, 0), counts.get(48, 0)) < 8


def test_an_objective_without_noise_gets_no_replicates() -> None:
    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", HEADS)
        return float((np.log2(48 / n_heads) - 2.9) ** 2)

    study = optuna.create_study(sampler=_sampler())
    for n_heads in (4, 4, 6, 6):
        study.enqueue_trial({"n_heads": n_heads})
    study.optimize(objective, n_trials=12)
    after = [trial.params["n_heads"] for trial in study.trials[4:]]
    assert sorted({4, 6, *after}) == HEADS
    assert len(set(after)) == len(after)


@pytest.mark.parametrize(
    ("options", "suggest", "read"),
    [
        (
            {"head_param": "model.heads", "d_model": 64},
            lambda trial: trial.suggest_int("model.heads", 1, 16),
            lambda params: (params["model.heads"], 64),
        ),
        (
            {"head_param": "heads", "d_model": 96},
            lambda trial: trial.suggest_int("heads", 4, 24, step=4),
            lambda params: (params["heads"], 96),
        ),
        (
            {"head_param": "d_head", "head_param_kind": "head_dim", "d_model": 60},
            lambda trial: trial.suggest_int("d_head", 1, 60),
            lambda params: (params["d_head"], 60),
        ),
        (
            {"head_param": "split", "head_param_kind": "allocation", "d_model": None},
            lambda trial: trial.suggest_categorical("split", ["1x64", "2x32", "4x16", "8x8"]),
            lambda params: (HeadAllocation.parse(params["split"]).n_heads, 64),
        ),
        (
            {"head_param": "heads", "d_model": "hidden"},
            lambda trial: (
                trial.suggest_int("hidden", 48, 480, step=48),
                trial.suggest_int("heads", 4, 24, step=4),
            ),
            lambda params: (params["heads"], params["hidden"]),
        ),
    ],
)
def test_users_names_and_kinds_and_only_pairs_that_divide(
    options: dict[str, Any],
    suggest: Callable[[optuna.Trial], Any],
    read: Callable[[dict[str, Any]], tuple[int, int]],
) -> None:
    def objective(trial: optuna.Trial) -> float:
        suggest(trial)
        trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        number, width = read(trial.params)
        assert width % number == 0
        return float(np.log(number) ** 2 + np.random.default_rng(trial.number).normal())

    study = optuna.create_study(sampler=_sampler(**options))
    study.optimize(objective, n_trials=15)
    assert all("lr" in trial.params for trial in study.trials)


def test_other_parameters_are_left_to_the_base_sampler() -> None:
    def objective(trial: optuna.Trial) -> float:
        trial.suggest_categorical("n_heads", HEADS)
        return (trial.suggest_float("lr", 0.0, 1.0) - 0.7) ** 2

    study = optuna.create_study(sampler=_sampler(base_sampler=optuna.samplers.CmaEsSampler(seed=1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CMA-ES says that it samples a single parameter independently
        study.optimize(objective, n_trials=8)
    assert all(0.0 <= trial.params["lr"] <= 1.0 for trial in study.trials)


def test_without_heads_it_is_its_base_sampler() -> None:
    def objective(trial: optuna.Trial) -> float:
        return (trial.suggest_float("x", -1, 1) - 0.3) ** 2

    ours = optuna.create_study(sampler=_sampler(base_sampler=optuna.samplers.TPESampler(seed=7)))
    theirs = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7))
    for study in (ours, theirs):
        study.optimize(objective, n_trials=20)
    assert [t.params for t in ours.trials] == [t.params for t in theirs.trials]


def test_draws_depend_on_seed_and_trial_number_alone() -> None:
    first, second = _run(20), _run(20)
    assert [t.params for t in first.trials] == [t.params for t in second.trials]
    used = _sampler()
    _run(7, used)
    third = _run(20, used)  # a sampler that served another study before
    assert [t.params for t in third.trials] == [t.params for t in first.trials]
    assert [t.params for t in _run(20, _sampler(seed=1)).trials] != [t.params for t in first.trials]


def test_it_pickles() -> None:
    copy = pickle.loads(pickle.dumps(_sampler()))
    assert [t.params for t in _run(15, copy).trials] == [t.params for t in _run(15).trials]


def test_threads_share_it() -> None:
    study = optuna.create_study(sampler=_sampler())
    study.optimize(_bowl, n_trials=24, n_jobs=4)
    assert len(study.trials) == 24
    assert all(48 % trial.params["n_heads"] == 0 for trial in study.trials)
    assert threading.active_count() < 12


def test_failed_and_infeasible_trials_are_avoided() -> None:
    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", HEADS)
        if n_heads >= 24:
            trial.set_user_attr(ATTRIBUTES.fault, "infeasible")
            raise MemoryError
        return 0.03 * float(np.log2(48 / n_heads)) + 0.01 * np.random.default_rng(trial.number).normal()

    study = optuna.create_study(sampler=_sampler(constant=0.8))
    study.optimize(objective, n_trials=40, catch=(MemoryError,))
    failed = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.FAIL]
    assert 0 < len(failed) <= 2  # each of the two once: the device will not grow


def test_plain_failures_teach_it_to_stay_away() -> None:
    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", HEADS)
        rng = np.random.default_rng(trial.number)
        return float("nan") if n_heads <= 2 else 0.1 * abs(np.log2(48 / n_heads) - 4.5) + 0.01 * rng.normal()

    study = optuna.create_study(sampler=_sampler())
    study.optimize(objective, n_trials=40)
    later = [trial for trial in study.trials[15:] if trial.state == optuna.trial.TrialState.FAIL]
    assert len(later) <= 5  # the best lie right beside them, so it looks again now and then
    assert archopt.recommend(study).allocation.n_heads > 2


def test_widths_that_change_within_a_study_keep_their_history() -> None:
    def objective(trial: optuna.Trial) -> float:
        d_model = trial.suggest_categorical("d_model", [64, 96])
        allocation = archopt.suggest_allocation(trial, d_model)
        return (np.log2(allocation.head_dim) - 3.5) ** 2 + 0.1 * np.random.default_rng(trial.number).normal()

    study = optuna.create_study(sampler=_sampler(d_model="d_model"))
    study.optimize(objective, n_trials=50)
    found = archopt.recommend(study)
    assert sum(e.n_trials for e in found.estimates) == 50
    assert 6 <= found.allocation.head_dim <= 24
    assert {trial.params["d_model"] for trial in study.trials[30:]} <= {64, 96}


@pytest.mark.parametrize("heads_first", [True, False])
def test_heads_and_width_that_are_both_sampled_divide_in_whichever_order(heads_first: bool) -> None:
    def objective(trial: optuna.Trial) -> float:
        suggest = [
            lambda: trial.suggest_categorical("n_heads", [1, 2, 3, 4, 6, 8]),
            lambda: trial.suggest_categorical("d_model", [48, 64]),
        ]
        for each in suggest if heads_first else reversed(suggest):
            each()
        return abs(trial.params["d_model"] / trial.params["n_heads"] - 16)

    study = optuna.create_study(sampler=_sampler(d_model="d_model"))
    study.optimize(objective, n_trials=12)
    pairs = {(trial.params["d_model"], trial.params["n_heads"]) for trial in study.trials}
    assert all(width % n_heads == 0 for width, n_heads in pairs)
    assert {width for width, _ in pairs} == {48, 64}


def test_independent_parameters_of_one_trial_are_different_draws() -> None:
    study = optuna.create_study(sampler=_sampler())
    trial = study.ask()
    assert len({trial.suggest_float(name, 0.0, 1.0) for name in ("a", "b", "c")}) == 3


def test_a_conditional_parameter_does_not_cost_the_history() -> None:
    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", HEADS)
        if n_heads > 4:
            trial.suggest_int("extra", 0, 3)
        return 0.05 * (np.log2(48 / n_heads) - 1.0) ** 2 + 0.01 * np.random.default_rng(trial.number).normal()

    study = optuna.create_study(sampler=_sampler())
    study.optimize(objective, n_trials=30)
    found = archopt.recommend(study)
    assert sum(e.n_trials for e in found.estimates) == 30
    assert found.allocation.head_dim in (1, 2, 3)


def test_recommendation_needs_no_word_about_the_width() -> None:
    study = _run(12)
    assert study.user_attrs["archopt:head_parameter"] == HeadParameter("n_heads", "n_heads", 48).to_dict()
    assert archopt.recommend(study).allocation.d_model == 48


def test_heads_under_another_name_are_pointed_out() -> None:
    study = optuna.create_study(sampler=_sampler(d_model=64))
    with pytest.warns(UserWarning, match="looks for 'n_heads' but the study has 'heads': pass head_param='heads'"):
        study.optimize(lambda trial: float(trial.suggest_categorical("heads", [1, 2, 4])), n_trials=3)
    assert archopt.recommend(study).params == {"heads": 1}  # the name is recognised, the width was recorded


def test_a_head_parameter_without_a_width_warns_once_and_goes_on() -> None:
    study = optuna.create_study(sampler=archopt.HeadAllocationSampler(seed=0))
    with pytest.warns(UserWarning, match="needs d_model to place 'n_heads'"):
        study.optimize(lambda trial: float(trial.suggest_categorical("n_heads", [1, 2, 4])), n_trials=3)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"head_param_kind": "width"}, OptionError, "head_param_kind must be one of"),
        ({"seed": -1}, OptionError, "seed must be at least 0 but got -1"),
        ({"d_model": 0}, AllocationError, "d_model must be a whole number"),
        ({"family": "image"}, OptionError, "image"),
        ({"constant": -1.0}, OptionError, "constant"),
        ({"n_samples": 0}, OptionError, "n_samples"),
    ],
)
def test_bad_arguments_fail_at_once(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        _sampler(**options)


@pytest.mark.parametrize("base", [None, optuna.samplers.RandomSampler(seed=0)])
def test_under_hyperband_which_shows_samplers_a_view_of_the_study(base: optuna.samplers.BaseSampler | None) -> None:
    study = optuna.create_study(
        sampler=archopt.HeadAllocationSampler(d_model=48, n_samples=1_000, family="table", seed=0, base_sampler=base),
        pruner=optuna.pruners.HyperbandPruner(1, 9, 3),
    )

    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8])
        loss = abs(n_heads - 4) / 4 + trial.suggest_float("decay", 0.0, 0.1)
        for step in range(1, 10):
            trial.report(loss + 1 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return loss

    study.optimize(objective, n_trials=40)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE", "PRUNED"}
    assert archopt.recommend(study).params["n_heads"] == 4
