"""What the loop makes of slow steps and of errors."""

import io

import optuna
import pytest
from rich.console import Console

from archopt.campaign.budget import Budget, SpentTime
from archopt.campaign.running import TRACEBACK_KEY, RunningTrial
from archopt.campaign.stopping import Certainty, count_trials
from archopt.campaign.trials import TrialLoop
from archopt.evaluation import TrialOutcome
from archopt.evaluation.workers import Failed, Finished
from archopt.pruners import HDIPruner
from archopt.report.progress import SearchProgress
from archopt.search_space import ATTRIBUTES, HeadParameter, replicate


def _running(trial: optuna.Trial) -> RunningTrial:
    return RunningTrial(trial, trial._cached_frozen_trial, begun=0.0)


@pytest.mark.parametrize(
    ("rungs", "found"),
    [
        ([0.2, 0.01, 0.2, 0.01], None),  # slow now and then: a busy machine
        ([0.2, 0.3], 0.3),
        ([0.01, 0.01, 0.01, 0.2], 0.2),  # the last rung's median is of the whole trial
        ([0.01, 0.01, 0.01, 0.01], None),
    ],
)
def test_too_slow_is_established_not_glimpsed(rungs: list[float], found: float | None) -> None:
    running = _running(optuna.create_study().ask())
    for index, seconds in enumerate(rungs):
        running.note_speed(seconds, 0.1, last=index == 3)
    assert running.too_slow == found
    running = _running(optuna.create_study().ask())
    for index, seconds in enumerate(rungs):
        running.note_speed(seconds, None, last=index == 3)
    assert running.too_slow is None


def _loop(study: optuna.Study, progress: SearchProgress) -> TrialLoop:
    return TrialLoop(
        study=study,
        storage=None,
        pool=None,
        distributions={},
        head=HeadParameter(d_model=8),
        n_steps=10,
        budget=Budget(10, None, 1, None, 3, 1),
        spent=SpentTime(study, 0.0, 0.0),
        certainty=Certainty(lambda: None, 0.9),
        pruner=HDIPruner(seed=0),
        progress=progress,
    )


def test_that_xformers_does_not_run_is_said_once() -> None:
    said = io.StringIO()
    study = optuna.create_study()
    loop = _loop(study, SearchProgress(console=Console(file=said, width=200)))
    outcome = TrialOutcome(1.0, None, 0.01, 10, False, "explicit", 7, None, "it has no kernel for CPUs")
    for number in range(2):
        loop._running[number] = _running(study.ask())
        loop._on_event(Finished(number, outcome))
    assert said.getvalue().count("attention runs without xformers (it has no kernel for CPUs)") == 1
    assert [trial.user_attrs[ATTRIBUTES.attention] for trial in study.trials] == ["explicit", "explicit"]


def test_an_unexpected_error_keeps_its_traceback_and_a_stale_trial_is_let_go() -> None:
    study = optuna.create_study()
    loop = _loop(study, SearchProgress(quiet=True))
    event = Failed(0, "ValueError: boom", "error", "Traceback (most recent call last):\nValueError: boom")
    loop._running[0] = _running(study.ask())
    loop._on_event(event)
    (trial,) = study.trials
    assert trial.user_attrs[TRACEBACK_KEY].endswith("ValueError: boom")
    assert trial.user_attrs[ATTRIBUTES.fault] == "error"

    # the next one was failed by another process, which leaves no fault on record
    loop._running[1] = _running(study.ask())
    study._storage.set_trial_state_values(loop._running[1].trial._trial_id, optuna.trial.TrialState.FAIL)
    loop._on_event(Failed(1, "the worker process was killed", "killed"))
    assert loop._running == {}
    assert count_trials(study).n_failed == 1


def test_parameters_that_kill_what_trains_them_three_times_are_infeasible() -> None:
    study = optuna.create_study()
    loop = _loop(study, SearchProgress(quiet=True))
    space = {"n_heads": optuna.distributions.CategoricalDistribution([1, 2, 4])}
    for number in range(3):
        trial = study.ask(space)
        replicate(trial)
        loop._running[number] = _running(trial)
        loop._on_event(Failed(number, "the worker process was killed by SIGKILL", "killed"))
    trials = study.trials
    assert [trial.state.name for trial in trials] == ["FAIL"] * 3  # and none is queued any more
    assert len({str(trial.params) for trial in trials}) == 1
    assert [trial.user_attrs[ATTRIBUTES.fault] for trial in trials] == ["killed", "killed", "infeasible"]
    assert trials[-1].user_attrs[ATTRIBUTES.reason] == "the worker process was killed by SIGKILL, for the 3rd time"
