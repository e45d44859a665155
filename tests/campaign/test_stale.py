"""Trials whose process died: found, queued again with the same parameters, barred after three deaths."""

import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from archopt import replicate
from archopt.campaign.patient_storage import PatientStorage
from archopt.campaign.stale import n_deaths, queue_again, requeue_stale
from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import open_storage
from archopt.search_space import ATTRIBUTES

SPACE = {
    "n_heads": optuna.distributions.CategoricalDistribution([1, 2, 4]),
    "rate": optuna.distributions.FloatDistribution(0.1, 1.0),
}

# of the trials of other processes: their heartbeats stand still
pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed to be used with")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[PatientStorage]:
    made = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    yield made
    made.remove_session()
    made.engine.dispose()


@pytest.fixture
def study(storage: PatientStorage) -> optuna.Study:
    return optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))


def _grow_old(storage: PatientStorage) -> None:
    """Heartbeats were an hour ago."""
    with storage.engine.begin() as connection:
        connection.execute(sqlalchemy.text("update trial_heartbeats set heartbeat = datetime('now', '-1 hour')"))


def _die(study: optuna.Study, storage: PatientStorage) -> FrozenTrial:
    """The process of the next trial dies in training, and another finds it."""
    trial = study.ask(SPACE)
    replicate(trial)
    storage.record_heartbeat(trial._trial_id)
    _grow_old(storage)
    requeue_stale(study, storage)
    return study.trials[trial.number]


def _states(study: optuna.Study) -> list[str]:
    return [trial.state.name for trial in study.get_trials(deepcopy=False)]


def test_a_dead_trial_is_queued_again_with_its_parameters_and_its_replicate(
    study: optuna.Study, storage: PatientStorage
) -> None:
    dead = _die(study, storage)
    assert _states(study) == ["FAIL", "WAITING"]
    again = study.ask(SPACE)
    assert again.params == dead.params
    assert replicate(again) == dead.user_attrs[ATTRIBUTES.replicate]
    assert count_trials(study).n_ended == 0  # it cost the campaign's budget nothing


def test_one_that_died_before_its_first_heartbeat_is_found_after_the_grace_period(
    study: optuna.Study, storage: PatientStorage
) -> None:
    trial = study.ask(SPACE)
    requeue_stale(study, storage)
    assert _states(study) == ["RUNNING"]  # its process may live
    _grow_old(storage)
    requeue_stale(study, storage)
    assert _states(study) == ["FAIL", "WAITING"]
    assert study.ask(SPACE).params == trial.params


def test_one_that_died_as_it_took_a_queued_trial_is_queued_again(study: optuna.Study, storage: PatientStorage) -> None:
    study.enqueue_trial({"n_heads": 4, "rate": 0.5})
    study.ask()  # no parameter was written
    requeue_stale(study, storage)
    _grow_old(storage)
    requeue_stale(study, storage)
    assert study.ask(SPACE).params == {"n_heads": 4, "rate": 0.5}


def test_one_that_died_before_it_had_any_parameters_has_nothing_to_repeat(
    study: optuna.Study, storage: PatientStorage
) -> None:
    study.ask()
    requeue_stale(study, storage)
    _grow_old(storage)
    requeue_stale(study, storage)
    assert _states(study) == ["FAIL"]


def test_processes_that_join_do_not_keep_a_dead_trial_alive(study: optuna.Study, storage: PatientStorage) -> None:
    trial = study.ask(SPACE)
    storage.record_heartbeat(trial._trial_id)
    _grow_old(storage)
    other = open_storage(storage.url)
    requeue_stale(optuna.load_study(study_name=study.study_name, storage=other), other)
    other.remove_session()
    other.engine.dispose()
    assert _states(study) == ["FAIL", "WAITING"]


def test_after_an_outage_others_get_time_to_show_that_they_live(study: optuna.Study, storage: PatientStorage) -> None:
    trial = study.ask(SPACE)
    storage.record_heartbeat(trial._trial_id)
    _grow_old(storage)
    storage.back_since = time.monotonic()
    requeue_stale(study, storage)
    assert _states(study) == ["RUNNING"]


def test_the_third_death_bars_the_configuration(study: optuna.Study, storage: PatientStorage) -> None:
    first, _, _ = (_die(study, storage) for _ in range(3))
    assert _states(study) == ["FAIL"] * 4  # nothing is queued
    barred = study.trials[-1]
    assert barred.params == first.params
    assert barred.user_attrs[ATTRIBUTES.fault] == "infeasible"
    assert barred.user_attrs[ATTRIBUTES.reason] == "its process died, for the 3rd time (at last as trial 2)"
    assert count_trials(study).n_failed == 1


def test_deaths_of_the_training_process_and_of_all_of_it_count_alike(
    study: optuna.Study, storage: PatientStorage
) -> None:
    trial = study.ask(SPACE)
    replicate(trial)
    study.tell(trial, state=TrialState.FAIL)
    queue_again(study, study.trials[0], died=True)
    _die(study, storage)
    assert n_deaths(study.trials[-1]) == 2
    interrupted = study.ask(SPACE)  # Ctrl-C between two deaths
    replicate(interrupted)
    study.tell(interrupted, state=TrialState.FAIL)
    queue_again(study, study.trials[interrupted.number])
    assert n_deaths(study.trials[-1]) == 2
    _die(study, storage)
    assert study.trials[-1].user_attrs[ATTRIBUTES.fault] == "infeasible"
    assert "WAITING" not in _states(study)
