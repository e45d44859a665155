"""A storage that is only read: nothing is made where there is none."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archopt.campaign.storage import open_storage, opening_faults
from archopt.campaign.storage_url import masked, refuse_missing_file, sqlite_file
from archopt.errors import StorageError

if TYPE_CHECKING:
    from archopt.campaign.patient_storage import PatientStorage

CONNECT_SECONDS = 10  # a host that does not answer is not waited for any longer
_DRIVERS_THAT_WAIT = ("psycopg", "psycopg2", "pymysql", "mysqldb")  # those that take a connect_timeout


def open_to_read(url: str, tell: Callable[[str], None] | None = None) -> "PatientStorage":
    """Open a storage that holds studies; ``tell`` as for `open_storage`.

    Raises:
        StorageError: there is none, it holds no studies, or it cannot be opened.
    """
    refuse_missing_file(url)
    if not has_studies(url):
        raise StorageError(f"storage {masked(url)} is empty: give the URL of one that holds a study")
    return open_storage(url, heartbeats=False, tell=tell)


def has_studies(url: str) -> bool:
    """Whether a database has Optuna's tables, which opening a storage would make.

    Raises:
        StorageError: it does not answer, or its driver is missing.
    """
    from sqlalchemy import create_engine, inspect

    with opening_faults(url):
        driver = _driver(url)
        waiting: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS} if driver in _DRIVERS_THAT_WAIT else {}
        engine = create_engine(url, connect_args=waiting)
        try:
            return bool(inspect(engine).has_table("studies"))
        finally:
            engine.dispose()


def missing_file(url: str) -> Path | None:
    """The SQLite file of a URL, where it does not exist."""
    path = sqlite_file(url)
    return path if path is not None and not path.exists() else None


def _driver(url: str) -> str:
    from sqlalchemy.engine import make_url

    return str(make_url(url).get_driver_name())
