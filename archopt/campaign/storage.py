"""A campaign's storage: opened, its settings compared, its trials counted."""

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from archopt.errors import CampaignFailed, OptionError, StorageError

if TYPE_CHECKING:
    import optuna

HEARTBEAT_SECONDS = 15
GRACE_SECONDS = 60  # a running trial without a heartbeat for so long belongs to a process that died
MAX_RETRIES = 2
LOCK_SECONDS = 60
CREATE_ATTEMPTS = 5  # the last after 3 s

SETTINGS_KEY = "archopt:settings"
SPENT_KEY = "archopt:spent_seconds"
STOPPED_KEY = "archopt:stopped"  # why, and with which limits (budget, confidence, replicates)
COMPARISON_KEY = "archopt:comparison"


def open_storage(url: str, *, heartbeats: bool = True, locks: bool = False) -> "optuna.storages.RDBStorage":
    """Open, or create, an Optuna storage.

    Args:
        heartbeats: whether trials have a process behind them that shows it is alive; stale ones are queued again with
            the same parameters.
        locks: whether SQLite, too, lets one process at a time take a queued trial, or end a running one. The file must
            be writable.

    Raises:
        StorageError: the URL has no known form, its driver is missing, or the database does not answer.
    """
    from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

    engine = {"connect_args": {"timeout": LOCK_SECONDS}} if url.startswith("sqlite") else None  # wait, do not fail
    try:
        for attempt in range(CREATE_ATTEMPTS):
            try:
                storage = _connect(url, engine, heartbeats)
                if locks:
                    _lock_from_the_start(storage)
                return storage
            except (IntegrityError, OperationalError) as error:
                # another process is creating the same tables at this moment
                racing = isinstance(error, IntegrityError) or "already exists" in str(error)
                if not racing or attempt == CREATE_ATTEMPTS - 1:
                    raise
                time.sleep(0.2 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")
    except (ImportError, ModuleNotFoundError) as error:
        raise StorageError(f"storage {masked(url)} needs a database driver that is not installed: {error}") from None
    except (SQLAlchemyError, ValueError, RuntimeError, OSError) as error:
        cause = " ".join(str(getattr(error, "orig", None) or error).split())[:120].replace(url, masked(url))
        raise StorageError(
            f"storage {masked(url)} cannot be opened ({cause}): give a URL such as sqlite:///study.db or "
            "postgresql+psycopg://user@host/database"
        ) from None


def _connect(url: str, engine: dict[str, Any] | None, heartbeats: bool) -> "optuna.storages.RDBStorage":
    import optuna

    if not heartbeats:
        return optuna.storages.RDBStorage(url, engine_kwargs=engine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats are, in Optuna 5
        return optuna.storages.RDBStorage(
            url,
            engine_kwargs=engine,
            heartbeat_interval=HEARTBEAT_SECONDS,
            grace_period=GRACE_SECONDS,
            heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(MAX_RETRIES),
        )


def _lock_from_the_start(storage: "optuna.storages.RDBStorage") -> None:
    """Optuna reads a trial's state FOR UPDATE before it writes it, which SQLite ignores: two would read the same."""
    from sqlalchemy import event

    if storage.engine.dialect.name == "sqlite":
        event.listen(storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))


def refuse_missing_file(url: str) -> None:
    """To read from a SQLite file that is not there, or holds something else, would make it one of Optuna's."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return  # `open_storage` says what is wrong
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return
    if not Path(parsed.database).is_file():
        raise StorageError(f"storage {masked(url)} does not exist: give the URL of one that holds a study")
    engine = create_engine(parsed, connect_args={"timeout": LOCK_SECONDS})
    try:
        is_optuna_s = inspect(engine).has_table("version_info")
    except SQLAlchemyError:
        return
    finally:
        engine.dispose()
    if not is_optuna_s:
        raise StorageError(f"storage {masked(url)} holds no Optuna studies: give the URL of one that holds a study")


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
    """Within, what Optuna raises where a storage stops answering is a CampaignFailed of one line."""
    import optuna

    try:
        yield
    except optuna.exceptions.StorageInternalError as error:
        cause = " ".join(str(error.__cause__ or error).split())[:100]
        raise CampaignFailed(
            f"the storage failed {when} ({cause}): every finished trial is kept; "
            "make room or restore the connection, then run the same command again"
        ) from None


def masked(url: str) -> str:
    """The URL without its password, at most 100 characters of it."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        shown = make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        shown = url.rsplit("@", 1)[-1]  # what precedes an @ may be a password
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def load_settings(storage: "optuna.storages.RDBStorage", name: str) -> dict[str, Any] | None:
    """The settings that the campaign was started with; None where there is no such campaign.

    Raises:
        StorageError: a study of that name exists that archopt did not make.
    """
    import optuna

    if name not in optuna.get_all_study_names(storage):
        return None
    attributes = optuna.load_study(study_name=name, storage=storage).user_attrs
    if SETTINGS_KEY not in attributes:
        raise StorageError(f"the storage holds a study {name!r} that archopt did not make: give another --name")
    return dict(attributes[SETTINGS_KEY])


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


def prepare_folder(folder: Path) -> list[Path]:
    """Make the output folder and check that it can be written.

    Returns:
        The folders that it made, the innermost first.

    Raises:
        StorageError: it cannot; nothing is left behind.
    """
    probe = folder / f".archopt-{uuid4().hex}"
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        remove_folders(made)
        raise StorageError(
            f"output folder {str(folder)[-120:]!r} cannot be written ({error.strerror}): give another with --out"
        ) from None
    return made


def remove_folders(folders: Sequence[Path]) -> None:
    """Take back folders that were made, innermost first; one that somebody has put something into stays."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def requeue_stale(study: "optuna.Study") -> None:
    """Trials of a process that died become failed, and wait to be run again with the same parameters."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
