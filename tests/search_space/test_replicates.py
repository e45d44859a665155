"""No two trials are the same run: replicate numbers in one process, in many, and after an interruption."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import optuna
import pytest
from optuna.trial import TrialState

import archopt
from archopt.search_space import ATTRIBUTES, HEAD_PARAMETER_KEY, INTERRUPTED, KILLED, HeadParameter
from archopt.search_space import replicates as module

HEAD = HeadParameter("n_heads", "n_heads", 24)


def _study(storage: optuna.storages.BaseStorage | None = None) -> optuna.Study:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), storage=storage, study_name="s")
    study.set_user_attr(HEAD_PARAMETER_KEY, HEAD.to_dict())
    return study


def _ask(study: optuna.Study, n_heads: int | None = None, **attributes: object) -> optuna.Trial:
    if n_heads is not None:
        study.enqueue_trial({"n_heads": n_heads}, user_attrs=attributes)
    trial = study.ask()
    trial.suggest_categorical("n_heads", [1, 2, 3])
    return trial


def test_numbers_rise_by_configuration_and_stay_with_the_trial() -> None:
    study = _study()
    trials = [_ask(study, n_heads) for n_heads in (1, 2, 1, 1, 2)]
    assert [archopt.replicate(trial) for trial in trials] == [0, 0, 1, 2, 1]
    assert [archopt.replicate(trial) for trial in trials] == [0, 0, 1, 2, 1]  # asked again
    assert [trial.user_attrs[ATTRIBUTES.replicate] for trial in study.trials] == [0, 0, 1, 2, 1]


@pytest.mark.parametrize("in_a_file", [False, True])
def test_trials_that_start_at_the_same_moment_are_different_replicates(
    open_file: Callable[[], optuna.storages.RDBStorage], in_a_file: bool
) -> None:
    study = _study(open_file() if in_a_file else None)
    n_threads, n_each = (4, 3) if in_a_file else (8, 6)
    barrier = threading.Barrier(n_threads)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(n_each):
                barrier.wait(30)
                trial = _ask(study)
                archopt.replicate(trial)
                study.tell(trial, 1.0)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    counts = Counter((trial.params["n_heads"], trial.user_attrs[ATTRIBUTES.replicate]) for trial in study.trials)
    assert set(counts.values()) == {1}
    assert len(counts) == n_threads * n_each


def test_of_two_that_claim_the_same_the_lower_number_keeps_it() -> None:
    study = _study()
    lower, higher = _ask(study, 1), _ask(study, 1)
    # both wrote before either read
    lower.set_user_attr(ATTRIBUTES.replicate, 0)
    higher.set_user_attr(ATTRIBUTES.replicate, 0)
    assert archopt.replicate(higher) == 1
    assert archopt.replicate(lower) == 0


@pytest.fixture
def time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets this process's."""

    def become(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield become
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone_there", ["UTC", "UTC+8", "UTC-5:45"])
def test_waits_for_a_lower_number_that_has_not_claimed_yet(zone_there: str, time_zone: Callable[[str], None]) -> None:
    study = _study()
    time_zone(zone_there)
    lower = _ask(study, 1)
    time_zone("UTC")
    higher = _ask(study, 1)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(archopt.replicate(higher)))
    thread.start()
    time.sleep(0.2)
    assert not seen
    assert archopt.replicate(lower) == 0
    thread.join(10)
    assert seen == [1]


def test_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLAIM_SECONDS", 0.2)
    study = _study()
    _ask(study, 1)  # never claims: its process is gone
    started = time.monotonic()
    assert archopt.replicate(_ask(study, 1)) == 0
    assert time.monotonic() - started < 5


def test_a_trial_that_is_run_again_gives_its_number_back_and_a_failed_one_does_not() -> None:
    study = _study()
    for fault, number in ((INTERRUPTED, 0), (KILLED, 0), ("diverged", 0), (None, 1)):
        trial = _ask(study, 1)
        assert archopt.replicate(trial) == number
        if fault is not None:
            trial.set_user_attr(ATTRIBUTES.fault, fault)
        study.tell(trial, state=TrialState.FAIL)
    assert archopt.replicate(_ask(study, 1)) == 2


def test_a_trial_that_is_queued_again_keeps_its_number_while_it_waits() -> None:
    study = _study()
    study.enqueue_trial({"n_heads": 1}, user_attrs={ATTRIBUTES.replicate: 0})
    waiting = study.get_trials(deepcopy=False)[0]
    assert waiting.state == TrialState.WAITING
    space = {"n_heads": optuna.distributions.CategoricalDistribution([1, 2, 3])}
    # another process has a trial of its own
    study.add_trial(optuna.create_trial(state=TrialState.RUNNING, params={"n_heads": 1}, distributions=space))
    other = optuna.Trial(study, study.trials[1]._trial_id)
    assert archopt.replicate(other) == 1
    assert archopt.replicate(_ask(study)) == 0


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # what archopt uses of Optuna
def test_a_retry_of_a_dead_trial_is_the_same_replicate() -> None:
    study = _study()
    dead = _ask(study, 2)
    assert archopt.replicate(dead) == 0
    study.tell(dead, state=TrialState.FAIL)
    optuna.storages.RetryHeartbeatStaleTrialCallback(2)(study, study.trials[0])
    assert archopt.replicate(_ask(study)) == 0
