"""What is written beside a trial comes back as it was."""

import math
from collections.abc import Callable

import numpy as np
import optuna
import pytest

import archopt
from archopt.errors import OptionError
from archopt.search_space import HEAD_PARAMETER_KEY, HeadParameter, StudyHistory, read_records, recent_trials

HEAD = HeadParameter(d_model=48)


def _study(**options: object) -> optuna.Study:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), **options)  # type: ignore[arg-type]
    if len(study.directions) == 1:
        study.set_user_attr(HEAD_PARAMETER_KEY, HEAD.to_dict())
    return study


def test_replicates_count_the_same_thing_under_two_names() -> None:
    study = _study()
    seen = []
    for weighting in ("uniform", "fibonacci", "geometric", "uniform"):
        study.enqueue_trial({"n_heads": 2, "weighting": weighting})
        trial = study.ask()
        trial.suggest_categorical("n_heads", [1, 2])
        trial.suggest_categorical("weighting", ["uniform", "fibonacci", "geometric"])
        seen.append(archopt.replicate(trial))
        study.tell(trial, 1.0)
    assert seen == [0, 1, 0, 2]


def test_a_trial_of_another_process_is_not_lost_to_an_older_list_of_trials() -> None:
    study = _study()
    ours, theirs = study.ask(), study.ask()
    for trial in (ours, theirs):
        trial.suggest_categorical("n_heads", [1, 2])
    history = StudyHistory(HEAD)
    history.update(study.get_trials())
    history.update(study.get_trials()[:1])  # as a pruner has them, who read before theirs began
    assert [record.number for record in history.records()] == [0, 1]
    study.tell(theirs, 1.0)
    study.tell(ours, 2.0)
    history.update(study.get_trials())
    assert [(record.number, record.value) for record in history.records()] == [(0, 2.0), (1, 1.0)]


def test_diversity_round_trip_with_one_attribute_a_trial() -> None:
    study = _study()
    trial = study.ask()
    trial.suggest_categorical("n_heads", [4])
    archopt.report_diversity(trial, np.int64(20), 0.5, np.float32(0.75), output_correlation=0.9)
    archopt.report_diversity(trial, 10, 0.7, 0.70)
    archopt.record_diversity(trial, 10, 0.71)  # a second report of a step replaces the first
    archopt.record_diversity(trial, 30, math.nan)
    study.tell(trial, 0.4)
    (record,) = read_records(study, HEAD)
    assert [(report.step, report.hdi) for report in record.diversity[:2]] == [(10, 0.71), (20, 0.75)]
    assert record.diversity[1].output_correlation == 0.9
    assert math.isnan(record.diversity[0].output_correlation)
    assert math.isnan(record.diversity[2].hdi)
    assert record.curve == ((10, 0.7), (20, 0.5))
    assert len(trial.user_attrs) == 1


@pytest.mark.parametrize("step", [-1, 1.5, "late", None])
def test_a_step_must_be_a_whole_number(step: object) -> None:
    trial = _study().ask()
    with pytest.raises(OptionError, match="step must be a whole number of at least 0"):
        archopt.record_diversity(trial, step, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("hdi", [1.5, -0.5])
def test_hdi_outside_its_range_is_refused(hdi: float) -> None:
    with pytest.raises(OptionError, match="hdi must be between 0 and 1"):
        archopt.record_diversity(_study().ask(), 1, hdi)


def test_reports_in_a_multi_objective_study_are_refused_in_one_line() -> None:
    trial = _study(directions=["minimize", "minimize"]).ask()
    with pytest.raises(OptionError, match="record_diversity instead"):
        archopt.report_diversity(trial, 1, 0.5, 0.5)


def test_maximised_values_are_negated_and_non_finite_reports_left_out() -> None:
    study = _study(direction="maximize")
    trial = study.ask()
    trial.suggest_categorical("n_heads", [4])
    trial.report(0.5, 1)
    trial.report(math.nan, 2)
    study.tell(trial, 0.9)
    (record,) = read_records(study, HEAD)
    assert (record.value, record.curve) == (-0.9, ((1, -0.5),))


def test_states() -> None:
    study = _study()
    for state in (optuna.trial.TrialState.PRUNED, optuna.trial.TrialState.FAIL):
        trial = study.ask()
        trial.suggest_categorical("n_heads", [4])
        study.tell(trial, state=state)
    study.ask().suggest_categorical("n_heads", [4])
    assert [record.state for record in read_records(study, HEAD)] == ["pruned", "failed", "running"]
    assert all(record.value is None for record in read_records(study, HEAD))


def test_a_trial_that_an_older_reading_does_not_hold_is_read_once_it_has_ended() -> None:
    study = _study()
    study.tell(_asked(study), 1.0)
    before = study.get_trials(deepcopy=False)  # as the pruner may hold it, for a second
    trials = [_asked(study), _asked(study)]  # another process's
    assert [record.state for record in read_records(study, HEAD)] == ["complete", "running", "running"]
    assert len(read_records(study, HEAD, before)) == 3
    for trial in trials:
        study.tell(trial, 0.5)
    read_records(study, HEAD, before)
    assert [record.value for record in read_records(study, HEAD)] == [1.0, 0.5, 0.5]


def _asked(study: optuna.Study) -> optuna.Trial:
    trial = study.ask()
    trial.suggest_categorical("n_heads", [1, 2])
    return trial


def test_recent_trials_follow_this_process_at_once_and_others_after_a_second(
    open_file: Callable[[], optuna.storages.RDBStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = optuna.create_study(storage=open_file(), study_name="shared")
    study.add_trial(optuna.create_trial(value=1.0))
    study.ask()  # begins to remember
    assert [trial.number for trial in recent_trials(study)] == [0, 1]
    optuna.load_study(storage=open_file(), study_name="shared").add_trial(optuna.create_trial(value=2.0))
    assert len(recent_trials(study)) == 2
    monkeypatch.setattr("archopt.search_space.records.RECENT_SECONDS", -1.0)  # the second has passed
    assert [trial.value for trial in recent_trials(study)] == [1.0, None, 2.0]
    study.tell(1, 3.0)
    assert [trial.value for trial in recent_trials(study)] == [1.0, 3.0, 2.0]
