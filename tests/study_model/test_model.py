"""When variances are fitted again, and that what is remembered of a study changes nothing."""

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archopt.search_space import ATTRIBUTES, HeadParameter, SearchSpace, StudyHistory, read_history, search_space_of
from archopt.study_model import StudyModel, flat_prior, model_study
from archopt.study_model.curves import REFIT_AFTER, REFIT_GROWTH, refit_at
from archopt.study_model.model import _fitted

HEAD = HeadParameter(d_model=48)
HEADS = optuna.distributions.CategoricalDistribution([1, 2, 4, 8, 16])


@given(st.integers(0, 5_000))
def test_refits_use_all_of_few_trials_and_most_of_many(n_ended: int) -> None:
    used = refit_at(n_ended)
    if n_ended <= REFIT_AFTER:
        assert used == n_ended
    else:
        assert n_ended / REFIT_GROWTH - 1 <= used <= n_ended
    assert refit_at(n_ended + 1) >= used  # never fewer
    assert refit_at(used) == used


def _trial(number: int, *, replicates: bool = True) -> optuna.trial.FrozenTrial:
    n_heads = (1, 2, 4, 8, 16)[number % 5]
    value = abs(np.log2(n_heads) - 2) + 0.1 * np.random.default_rng(number).normal()
    return optuna.create_trial(
        params={"n_heads": n_heads},
        distributions={"n_heads": HEADS},
        value=float(value),
        user_attrs={ATTRIBUTES.replicate: number // 5} if replicates else {},
    )


def _study(n_trials: int, **options: bool) -> optuna.Study:
    study = optuna.create_study()
    study.add_trials([_trial(number, **options) for number in range(n_trials)])
    return study


def _model(history: StudyHistory) -> StudyModel:
    space = _space(history)
    return model_study(history, space, flat_prior(space.log2_head_dim))


def _space(history: StudyHistory) -> SearchSpace:
    space = search_space_of(history.distributions(), HEAD)
    assert space is not None
    return space


def test_a_remembered_fit_is_the_one_that_a_fresh_process_makes() -> None:
    n_trials = REFIT_AFTER + 1  # decided by the first REFIT_AFTER
    _fitted.cache_clear()
    fresh = _model(read_history(_study(n_trials), HEAD)).posterior.mean
    assert _fitted.cache_info().misses == 1
    _model(read_history(_study(REFIT_AFTER), HEAD))  # the same trials decide
    assert _fitted.cache_info().misses == 1
    assert np.array_equal(_model(read_history(_study(n_trials), HEAD)).posterior.mean, fresh)


@pytest.mark.parametrize("replicates", [True, False])
def test_a_history_read_bit_by_bit_is_one_read_at_once(replicates: bool) -> None:
    study = optuna.create_study()
    for number in range(60):
        study.add_trial(_trial(number, replicates=replicates))
        stepwise = _model(read_history(study, HEAD))
    at_once = _model(read_history(_study(60, replicates=replicates), HEAD))
    assert np.array_equal(stepwise.posterior.mean, at_once.posterior.mean)
    assert np.array_equal(stepwise.n_trials, at_once.n_trials)
    assert np.array_equal(stepwise.replicates, at_once.replicates)


def test_the_order_in_which_trials_end_does_not_matter() -> None:
    trials = _study(30).trials
    for number, trial in enumerate(trials):
        trial.number = number
    late = StudyHistory(HEAD)
    open_trial = optuna.create_trial(
        state=optuna.trial.TrialState.RUNNING,
        params=trials[7].params,
        distributions=trials[7].distributions,
    )
    open_trial.number = 7
    late.update([*trials[:7], open_trial, *trials[8:]])
    assert len(late.ended) == 29
    assert [record.number for record in late.open_records()] == [7]
    first = _model(late)  # so that the columns exist before the late one is added
    assert first.n_trials.sum() == 29
    late.update(trials)
    at_once = StudyHistory(HEAD)
    at_once.update(trials)
    assert np.array_equal(_model(late).posterior.mean, _model(at_once).posterior.mean)


def test_the_next_replicate_is_the_lowest_that_a_configuration_has_not_had() -> None:
    model = _model(read_history(_study(12), HEAD))  # 1 and 2 heads three times, the others twice
    by_heads = {c.allocation.n_heads: int(r) for c, r in zip(model.space.candidates, model.replicates, strict=True)}
    assert by_heads == {1: 3, 2: 3, 4: 2, 8: 2, 16: 2}
    assert (_model(read_history(_study(12, replicates=False), HEAD)).replicates == -1).all()


def test_runs_that_differ_in_a_parameter_that_the_model_leaves_out_all_count() -> None:
    rate = optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)
    study = optuna.create_study()
    for number in range(20):
        trial = _trial(number)
        trial.params["learning_rate"] = 1e-4 * 1.2 ** min(number, 10 + number % 5)  # the last five repeat
        trial.distributions["learning_rate"] = rate
        trial.user_attrs[ATTRIBUTES.replicate] = 0
        study.add_trial(trial)
    observed = _model(read_history(study, HEAD)).observed
    assert len(observed) == 15  # of the very same run only one
    numbered = observed.replicate >= 0
    assert sorted(observed.index[numbered]) == [0, 1, 2, 3, 4]  # one of each configuration keeps its number
    assert (observed.replicate[~numbered] == -1).all()


def test_a_run_that_was_queued_again_says_nothing() -> None:
    study = _study(10)
    study.add_trial(
        optuna.create_trial(
            state=optuna.trial.TrialState.FAIL, params={"n_heads": 16}, distributions={"n_heads": HEADS}
        )
    )
    assert len(_model(read_history(study, HEAD)).observed) == 11  # a failure counts as worse than all that finished
    again = optuna.create_trial(
        state=optuna.trial.TrialState.WAITING, system_attrs={"retry_history": [10], "fixed_params": {"n_heads": 16}}
    )
    study.add_trial(again)
    assert len(_model(read_history(study, HEAD)).observed) == 10
