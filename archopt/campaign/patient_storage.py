"""Optuna's storage, with patience: while its database cannot be reached it waits, where Optuna's would raise."""

import logging
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import TrialState
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

MAX_OUTAGE_SECONDS = 300.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0

# SQLSTATE of an OperationalError that passes: class 08, connections; 57P, the server stops or starts. Without one the
# connection could not be made. Others, such as a full disk (53100), do not pass by waiting.
_PASSING = ("08", "57P")

# Of an attempt that failed Optuna would show the SQL, each time.
logging.getLogger("optuna.storages._rdb.storage").addFilter(
    lambda record: not record.getMessage().startswith("Caught an error from sqlalchemy")
)

_Method = TypeVar("_Method", bound=Callable[..., Any])


class PatientStorage(RDBStorage):
    """An RDBStorage whose operations wait for a database that is away, five minutes at most, and are done again.

    To do one again is safe, also where the first attempt had been committed as the connection broke: values and
    attributes are set, not added to, and an end is recognised. A trial that was made or taken from the queue in that
    moment has no process; it is found stale and queued again.

    Args:
        url, engine_kwargs, options: as RDBStorage has them.
        tell: called with a line when waiting begins and when it ends.

    Attributes:
        back_since: monotonic time at which the last outage ended; minus infinity without one.
        away: whether the last operation did not reach the database, and waited in vain or was interrupted: the next one
            does not wait.
    """

    def __init__(
        self, url: str, *, engine_kwargs: dict[str, Any], tell: Callable[[str], None] | None = None, **options: Any
    ) -> None:
        self.tell = tell or (lambda line: None)
        self.back_since = -float("inf")
        self.away = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats are, in Optuna 5
            try:
                super().__init__(url, engine_kwargs=engine_kwargs, **options)
            except BaseException:
                if hasattr(self, "engine"):
                    self.engine.dispose()  # nobody else could close its connections
                raise

    def __getstate__(self) -> dict[Any, Any]:
        return {**super().__getstate__(), "tell": None}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        super().__setstate__(state)
        self.tell = lambda line: None

    def close(self) -> None:
        """Let go of the connections of this thread, which would stay open until Python collects its garbage."""
        with suppress(SQLAlchemyError):  # of a connection that is broken there is nothing to close
            self.remove_session()
        self.engine.dispose()

    def start_heartbeats(self, study_id: int) -> None:
        """Give each running trial that has no heartbeat its first."""
        with _create_scoped_session(self.scoped_session, True) as session:
            silent = (
                session.query(models.TrialModel.trial_id)
                .outerjoin(models.TrialModel.heartbeats)
                .filter(models.TrialModel.study_id == study_id, models.TrialModel.state == TrialState.RUNNING)
                .filter(models.TrialHeartbeatModel.trial_id.is_(None))
                .order_by(models.TrialModel.trial_id)  # in one order everywhere: else two processes can deadlock
            )
            session.add_all([models.TrialHeartbeatModel(trial_id=trial_id) for (trial_id,) in silent.all()])


def is_away(error: BaseException | None) -> bool:
    """Whether an error comes of a server that cannot be reached now.

    Of a connection that breaks within a transaction Optuna raises what followed from it, "please rollback fully".
    """
    while error is not None and not isinstance(error, DBAPIError):
        error = error.__cause__ or error.__context__
    if not isinstance(error, DBAPIError) or "sqlite" in type(error.orig).__module__:
        return False
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)  # psycopg, psycopg2
    broken = isinstance(error, OperationalError) and (state is None or state.startswith(_PASSING))
    return broken or error.connection_invalidated


def _patient(method: _Method) -> _Method:
    @wraps(method)
    def waiting(self: PatientStorage, *args: Any, **kwargs: Any) -> Any:
        until, pause = None, _FIRST_PAUSE_SECONDS
        while True:
            try:
                result = method(self, *args, **kwargs)
            except UpdateFinishedTrialError:
                if until is None or not _is_ended_so(self, *args, **kwargs):
                    raise
                result = True
            except (StorageInternalError, DBAPIError) as error:
                if not is_away(error) or (until is None and self.away):
                    raise
                if until is None:
                    self.away, until = True, time.monotonic() + MAX_OUTAGE_SECONDS
                    self.tell(f"the storage cannot be reached: waiting, for {MAX_OUTAGE_SECONDS:.0f} s at most")
                if time.monotonic() >= until:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            self.away = False
            if until is not None:
                self.back_since = time.monotonic()
                self.tell("the storage is back")
            return result

    return waiting  # type: ignore[return-value]  # it has the method's signature


def _is_ended_so(storage: PatientStorage, trial_id: int, state: object = None, *others: object, **more: object) -> bool:
    """Whether a trial has ended as it was to: the attempt during which the connection broke had been committed."""
    return isinstance(state, TrialState) and storage.get_trial(trial_id).state == state


# What studies, trials and Optuna's cache call; the rest of RDBStorage is made of these.
for _name in (
    "create_new_study",
    "set_study_user_attr",
    "set_study_system_attr",
    "get_study_id_from_name",
    "get_study_name_from_id",
    "get_study_directions",
    "get_study_user_attrs",
    "get_study_system_attrs",
    "get_all_studies",
    "_create_new_trial",
    "_set_trial_param",
    "_get_best_trial_id",
    "_get_trials",
    "get_trial",
    "get_trial_id_from_study_id_trial_number",
    "set_trial_state_values",
    "set_trial_intermediate_value",
    "set_trial_user_attr",
    "set_trial_system_attr",
    "record_heartbeat",
    "_get_stale_trial_ids",
    "start_heartbeats",
):
    setattr(PatientStorage, _name, _patient(getattr(PatientStorage, _name)))
