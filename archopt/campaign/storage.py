"""A campaign's storage: opened, its settings compared, its trials counted."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from archopt.campaign import stale
from archopt.campaign.file_systems import locks_warning
from archopt.campaign.storage_url import (
    LOCK_SECONDS,
    masked,
    network_limits,
    refuse_foreign_file,
    refuse_missing_file,
    refuse_unescaped,
)
from archopt.errors import CampaignFailed, OptionError, StorageError
from archopt.search_space import reading_note

if TYPE_CHECKING:
    import optuna

    from archopt.campaign.patient_storage import PatientStorage

CREATE_ATTEMPTS = 5  # the last after 3 s

_opened: "ContextVar[list[PatientStorage] | None]" = ContextVar("opened within `storage_faults`", default=None)

SETTINGS_KEY = "archopt:settings"
SPENT_KEY = "archopt:spent_seconds"
STOPPED_KEY = "archopt:stopped"  # why, and with which limits (budget, confidence, replicates)
COMPARISON_KEY = "archopt:comparison"


def open_storage(
    url: str, *, heartbeats: bool = True, locks: bool = False, tell: Callable[[str], None] | None = None
) -> "PatientStorage":
    """Open, or create, an Optuna storage; see `PatientStorage` for what it does while the database is away.

    Args:
        heartbeats: whether trials have a process behind them that shows it is alive; stale ones are queued again with
            the same parameters.
        locks: whether SQLite, too, lets one process at a time take a queued trial, or end a running one. The file must
            be writable.
        tell: called with a line when the database is away, when it is back, and where it is a SQLite file on a network
            file system.

    Raises:
        StorageError: the URL has no known form, its driver is missing, the database does not answer, or another Optuna
            made it.
    """
    from sqlalchemy.exc import DBAPIError, IntegrityError

    refuse_foreign_file(url)
    with opening_faults(url):
        for attempt in range(CREATE_ATTEMPTS):
            try:
                storage = _connect(url, heartbeats, tell)
                if (opened := _opened.get()) is not None:
                    opened.append(storage)
                if locks:
                    _lock_from_the_start(storage)
                if tell is not None and (warning := locks_warning(url)) is not None:
                    tell(warning)
                return storage
            except DBAPIError as error:
                # another process is creating the same tables at this moment: each database says so in its own way
                racing = isinstance(error, IntegrityError) or "already exists" in str(error)
                if not racing or attempt == CREATE_ATTEMPTS - 1:
                    raise
                time.sleep(0.2 * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def opening_faults(url: str) -> Iterator[None]:
    """Within, what goes wrong while a database is opened is a StorageError of one line."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    refuse_unescaped(url)
    try:
        yield
    except (ImportError, ModuleNotFoundError) as error:
        raise StorageError(f"storage {masked(url)} needs a database driver that is not installed: {error}") from None
    except RuntimeError as error:  # Optuna's, of the tables' version
        cause = " ".join(str(error).split())
        todo = (
            "run `optuna storage upgrade --storage URL` with that URL"
            if "storage upgrade" in cause
            else "update optuna (pip install -U optuna)"
        )
        raise StorageError(f"storage {masked(url)} was made by another version of Optuna: {todo}") from None
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, ValueError, OSError) as error:
        cause = _cause(error).replace(url, masked(url))
        cause = cause if len(cause) <= 75 else f"...{cause[-72:]}"  # what failed, and last why
        raise StorageError(
            f"storage {masked(url)} cannot be opened ({cause}): give a URL such as sqlite:///study.db or "
            "postgresql+psycopg://user@host/database"
        ) from None


def _connect(url: str, heartbeats: bool, tell: Callable[[str], None] | None) -> "PatientStorage":
    from archopt.campaign.patient_storage import PatientStorage

    if url.startswith("sqlite"):
        engine: dict[str, Any] = {"connect_args": {"timeout": LOCK_SECONDS}}  # wait for a lock, do not fail
    else:  # a connection that broke while nobody used it is made anew
        engine = {"pool_pre_ping": True, "connect_args": network_limits(url)}
    beating = {
        "heartbeat_interval": stale.HEARTBEAT_SECONDS,
        "grace_period": stale.GRACE_SECONDS,
        "heartbeat_stale_trial_callback": stale.on_stale,
    }
    literal = url.replace("{", "{{").replace("}", "}}")  # Optuna takes the URL for a template
    return PatientStorage(literal, engine_kwargs=engine, tell=tell, **(beating if heartbeats else {}))


def _lock_from_the_start(storage: "optuna.storages.RDBStorage") -> None:
    """Optuna reads a trial's state FOR UPDATE before it writes it, which SQLite ignores: two would read the same."""
    from sqlalchemy import event

    if storage.engine.dialect.name == "sqlite":
        event.listen(storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))


def load_studies(url: str, names: Sequence[str], *, locks: bool = False) -> "list[optuna.Study]":
    """Studies that a storage holds; ``locks`` as for `open_storage`.

    Raises:
        OptionError: it holds no study of one of the names.
        StorageError: the storage cannot be opened, or is a file that does not exist.
    """
    import optuna

    refuse_missing_file(url)
    storage = open_storage(url, heartbeats=False, locks=locks)
    held = optuna.get_all_study_names(storage)
    for name in names:
        if name not in held:
            more = f" and {len(held) - 5} more" if len(held) > 5 else ""
            raise OptionError(f"the storage holds no study {name[:60]!r}; it has {', '.join(held[:5]) or 'none'}{more}")
    return [optuna.load_study(study_name=name, storage=storage) for name in names]


@contextmanager
def storage_faults(when: str = "while the search ran") -> Iterator[None]:
    """Within, what Optuna raises where a storage stops answering is a CampaignFailed of one line.

    At the end the storages that were opened within are closed.
    """
    import optuna

    opened: list[PatientStorage] = []
    before = _opened.set(opened)
    try:
        yield
    except optuna.exceptions.StorageInternalError as error:
        cause = _cause(error.__cause__ or error)[:100]
        todo = "make room or restore the connection"
        if cause == "database is locked":
            cause = f"{cause} for {LOCK_SECONDS} s"
            todo = "SQLite bears few processes, and no network file system; use PostgreSQL for more, or fewer workers"
        raise CampaignFailed(
            f"the storage failed {when} ({cause}): every finished trial is kept; {todo}, then run the "
            "same command again"
        ) from None
    finally:
        _opened.reset(before)
        for storage in opened:
            storage.close()


def _cause(error: BaseException) -> str:
    """What the database said, without the SQL that SQLAlchemy adds."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def load_settings(storage: "optuna.storages.RDBStorage", name: str) -> dict[str, Any] | None:
    """The settings that the campaign was started with; None where there is no such campaign.

    Raises:
        StorageError: a study of that name exists that archopt did not make, or another version of it did.
    """
    import optuna

    if name not in optuna.get_all_study_names(storage):
        return None
    found = recorded_settings(optuna.load_study(study_name=name, storage=storage))
    if found is None:
        raise StorageError(f"the storage holds a study {name!r} that archopt did not make: give another --name")
    return found


def recorded_settings(study: "optuna.Study") -> dict[str, Any] | None:
    """The settings of the campaign, or of its cell, whose study it is; None for any other study.

    Raises:
        StorageError: another version of archopt recorded them.
    """
    recorded = study.user_attrs.get(SETTINGS_KEY)
    if recorded is None:
        return None
    with reading_note(study, SETTINGS_KEY):
        return {**recorded, "data_hash": str(recorded["data_hash"])}


def refuse_other_settings(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """One campaign, one set of settings.

    Raises:
        StorageError: they differ; the message says in what.
    """
    differing = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    if differing:
        shown = "; ".join(f"{key} was {_short(before.get(key))}, now {_short(now.get(key))}" for key in differing[:3])
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise StorageError(
            f"campaign {name!r} exists with other settings ({shown}{more}): "
            "use the same to resume it, or another --name"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
