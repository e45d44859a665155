"""What passes by waiting, and operations that are done again although their first attempt had been committed."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, PendingRollbackError

from archopt.campaign.patient_storage import PatientStorage, is_away


class _Broken(Exception):
    """A driver's error, with the code that the server gave."""

    def __init__(self, sqlstate: str | None = None) -> None:
        self.sqlstate = sqlstate


class _BrokenPsycopg2(Exception):
    pgcode = "53100"


def _within_a_transaction(error: DBAPIError) -> BaseException:
    """What Optuna raises where a second query of the same transaction follows the one that failed."""
    try:
        try:
            try:
                raise error
            except OperationalError:
                raise PendingRollbackError("please rollback() fully")  # noqa: B904  (as SQLAlchemy does)
        except PendingRollbackError as found:
            raise optuna.exceptions.StorageInternalError from found
    except optuna.exceptions.StorageInternalError as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (OperationalError("", None, _Broken()), True),  # no connection
        (OperationalError("", None, _Broken("08006")), True),  # connection failure
        (OperationalError("", None, _Broken("57P01")), True),  # the administrator stops the server
        (OperationalError("", None, _Broken("53100")), False),  # disk full
        (OperationalError("", None, _BrokenPsycopg2()), False),
        (OperationalError("", None, _Broken("40P01")), False),  # deadlock
        (_within_a_transaction(OperationalError("", None, _Broken("57P01"))), True),
        (_within_a_transaction(OperationalError("", None, _Broken("53100"))), False),
        (IntegrityError("", None, _Broken()), False),
        (DBAPIError("", None, _Broken(), connection_invalidated=True), True),
        (OperationalError("", None, sqlite3.OperationalError("database is locked")), False),
        (ValueError("of ours"), False),
        (None, False),
    ],
)
def test_what_passes_by_waiting(error: BaseException | None, away: bool) -> None:
    assert is_away(error) is away


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def storage(tmp_path: Path, said: list[str]) -> Iterator[PatientStorage]:
    made = PatientStorage(f"sqlite:///{tmp_path / 'study.db'}", engine_kwargs={}, tell=said.append)
    yield made
    made.remove_session()
    made.engine.dispose()


def _break(storage: PatientStorage, when: str) -> None:
    """Let the connection break once, before or after the database has committed."""
    dialect = storage.engine.dialect
    commit = dialect.do_commit

    def fail(connection: Any) -> None:
        dialect.do_commit = commit  # type: ignore[method-assign]
        if when == "after_commit":
            commit(connection)
        raise OperationalError("COMMIT", None, _Broken())

    dialect.do_commit = fail  # type: ignore[method-assign]


@pytest.mark.parametrize("when", ["before_commit", "after_commit"])
def test_an_end_is_told_once_whenever_the_connection_breaks(
    when: str, storage: PatientStorage, said: list[str]
) -> None:
    study = optuna.create_study(storage=storage)
    for state, values in ((TrialState.COMPLETE, [0.25]), (TrialState.FAIL, None)):
        trial = study.ask()
        _break(storage, when)
        assert storage.set_trial_state_values(trial._trial_id, state, values)
        assert storage.get_trial(trial._trial_id).state == state
    assert study.best_value == 0.25
    assert said == ["the storage cannot be reached: waiting, for 300 s at most", "the storage is back"] * 2
    assert storage.back_since > 0.0


def test_another_end_than_the_one_told_is_an_error(storage: PatientStorage) -> None:
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)  # taken for dead
    _break(storage, "before_commit")
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [1.0])
    for late in (
        lambda: trial.suggest_int("n", 1, 9),
        lambda: trial.report(0.5, step=1),
        lambda: trial.set_user_attr("a", 1),
        lambda: study._storage.set_trial_system_attr(trial._trial_id, "a", 1),
    ):
        _break(storage, "before_commit")
        with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
            late()


@pytest.mark.parametrize("when", ["before_commit", "after_commit"])
def test_parameters_and_attributes_are_set_once(when: str, storage: PatientStorage) -> None:
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    _break(storage, when)
    number = trial.suggest_int("n", 1, 9)
    _break(storage, when)
    trial.set_user_attr("a", [1])
    _break(storage, when)
    study.set_user_attr("b", 2)
    _break(storage, when)
    storage.record_heartbeat(trial._trial_id)
    (found,) = optuna.load_study(study_name=study.study_name, storage=storage).trials
    assert (found.params, found.user_attrs, study.user_attrs) == ({"n": number}, {"a": [1]}, {"b": 2})


def test_a_study_that_was_made_as_the_connection_broke_is_loaded(storage: PatientStorage) -> None:
    _break(storage, "after_commit")
    study = optuna.create_study(storage=storage, study_name="s", load_if_exists=True)
    assert optuna.get_all_study_names(storage) == [study.study_name]


def test_after_waiting_in_vain_the_next_operation_does_not_wait(
    storage: PatientStorage, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archopt.campaign.patient_storage.MAX_OUTAGE_SECONDS", 0.0)
    study = optuna.create_study(storage=storage)
    for _ in range(2):
        _break(storage, "before_commit")
        with pytest.raises(optuna.exceptions.StorageInternalError):
            study.set_user_attr("a", 1)
    assert len(said) == 1
    study.set_user_attr("a", 1)  # back
    _break(storage, "before_commit")
    with pytest.raises(optuna.exceptions.StorageInternalError):
        study.set_user_attr("a", 2)
    assert len(said) == 2  # patient again


def test_only_trials_without_a_heartbeat_get_one(storage: PatientStorage) -> None:
    study = optuna.create_study(storage=storage)
    beating, silent, over = study.ask(), study.ask(), study.ask()
    study.tell(over, 1.0)
    storage.record_heartbeat(beating._trial_id)
    with storage.engine.begin() as connection:
        connection.execute(sqlalchemy.text("update trial_heartbeats set heartbeat = '2000-01-01 00:00:00'"))
    storage.start_heartbeats(study._study_id)
    with storage.engine.connect() as connection:
        rows = connection.execute(sqlalchemy.text("select trial_id, heartbeat from trial_heartbeats")).all()
    found = {row[0]: row[1] for row in rows}
    assert set(found) == {beating._trial_id, silent._trial_id}
    assert str(found[beating._trial_id]).startswith("2000")
    assert not str(found[silent._trial_id]).startswith("2000")
