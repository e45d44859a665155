"""What is set aside, what is left, and by when the comparison ends."""

import time
from datetime import datetime, timedelta

import optuna
import pytest

from archopt.campaign.budget import Budget, SpentTime, earlier_trial_seconds
from archopt.campaign.opening import queue_opening
from archopt.campaign.storage import SPENT_KEY

BUDGET = Budget(
    n_trials=None, seconds=100.0, n_replicates=1, max_seconds_per_step=None, n_comparison_jobs=9, n_workers=2
)


def test_a_reserve_holds_one_trial_and_the_comparison() -> None:
    assert BUDGET.reserve_seconds([]) == 0.0
    assert BUDGET.reserve_seconds([2.0, 4.0]) == 3.0 * (1 + 5)  # nine jobs on two workers: five rounds


def test_time_adds_up_over_runs() -> None:
    study = optuna.create_study()
    study.set_user_attr(SPENT_KEY, 60.0)
    spent = SpentTime.of(study, time.monotonic() - 10.0)
    assert spent.seconds() == pytest.approx(70.0, abs=1.0)
    assert spent.seconds_left(BUDGET, n_ended=30, n_earlier=20) == pytest.approx(30.0, abs=1.0)
    spent.record()
    assert study.user_attrs[SPENT_KEY] == pytest.approx(70.0, abs=1.0)


def test_the_comparison_ends_soon_after_the_time_limit() -> None:
    now = time.monotonic()
    study = optuna.create_study()
    assert SpentTime(study, now, 0.0).comparison_deadline(None) is None
    assert SpentTime(study, now, 0.0).comparison_deadline(100.0) == pytest.approx(now + 115.0, abs=1.0)
    assert SpentTime(study, now, 60.0).comparison_deadline(100.0) == pytest.approx(now + 55.0, abs=1.0)
    assert SpentTime(study, now, 300.0).comparison_deadline(100.0) == pytest.approx(now + 15.0, abs=1.0)


def test_earlier_trials_tell_how_long_one_takes() -> None:
    study = optuna.create_study()
    assert earlier_trial_seconds(study) == []
    begun = datetime(2026, 1, 1)
    for seconds in (30.0, 2.0, 4.0):  # the first one waited for its worker to start
        trial = optuna.trial.create_trial(value=0.0)
        trial.datetime_start, trial.datetime_complete = begun, begun + timedelta(seconds=seconds)
        study.add_trial(trial)
    assert earlier_trial_seconds(study) == [4.0]


def test_an_opening_that_was_killed_half_way_is_completed() -> None:
    opening = [{"x": number} for number in range(4)]
    study = optuna.create_study()
    queue_opening(study, opening[:2])
    queue_opening(study, opening)
    queue_opening(study, opening)
    assert [trial.system_attrs["fixed_params"] for trial in study.trials] == opening
