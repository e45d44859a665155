"""What a storage's URL names: shown without its secrets, refused where it is no database of Optuna's."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from archopt.errors import StorageError

LOCK_SECONDS = 60
_SQLITE_HEAD = b"SQLite format 3\0"
_SHOWN_OF_QUERY = {"host", "port", "dbname", "user", "sslmode", "charset", "mode", "uri"}  # others may be secret

# A machine or a network that is gone says nothing: by the system's own limits an operation would hang for hours.
_LIBPQ_LIMITS = {
    "connect_timeout": 10,  # seconds, as the next two
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # ms
}


def masked(url: str) -> str:
    """The URL without its password, or what else in its query may be secret, at most 100 characters of it."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
        shown = parsed.difference_update_query(parsed.query.keys() - _SHOWN_OF_QUERY).render_as_string()
    except (ArgumentError, ValueError):
        return _cut(url.rsplit("@", 1)[-1])  # what precedes an @ may be a password
    return _cut(shown.rsplit("@", 1)[-1] if "@" in (parsed.host or "") else shown)


def _cut(shown: str) -> str:
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite URL, also of one such as sqlite:///file:study.db?mode=ro&uri=true."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "sqlite" or not parsed.database:
            return None
        return Path(unquote(urlsplit(parsed.database).path) if "uri" in parsed.query else parsed.database)
    except (ArgumentError, ValueError):
        return None  # `open_storage` says what is wrong


def refuse_unescaped(url: str) -> None:
    """A password with an @ in it would end up in the name of the host, for all to see."""
    if not url.startswith("sqlite") and url.split("?")[0].count("@") > 1:
        raise StorageError(f"storage {masked(url)} has more than one @: write one that belongs to the password as %40")


def refuse_foreign_file(url: str) -> None:
    """Optuna would add its tables to any SQLite file, and SQLite writes over a file that is too short to be one."""
    from optuna.storages._rdb.models import BaseModel

    path = sqlite_file(url)
    if path is None or not path.is_file():
        return
    with suppress(OSError), path.open("rb") as stream:
        head = stream.read(len(_SQLITE_HEAD))
        if head and head != _SQLITE_HEAD:
            raise StorageError(f"storage {masked(url)} is no SQLite file: give the URL of one, or of a file to make")
    tables, ours = _tables(path) or set(), set(BaseModel.metadata.tables)
    foreign = sorted(tables - ours - {"alembic_version"})
    if foreign and not ours <= tables:
        raise StorageError(
            f"storage {masked(url)} holds something else (table {foreign[0][:40]!r}): give the URL of a file of its own"
        )


def refuse_missing_file(url: str) -> None:
    """To read from a SQLite file that is not there, or holds no studies, would make a storage of it."""
    path = sqlite_file(url)
    if path is None:
        return
    if not path.is_file():
        raise StorageError(f"storage {masked(url)} does not exist: give the URL of one that holds a study")
    refuse_foreign_file(url)
    if not path.stat().st_size or _tables(path) == set():
        raise StorageError(f"storage {masked(url)} is empty: give the URL of one that holds a study")


def _tables(path: Path) -> set[str] | None:
    """Names of the tables in a SQLite file; None where it cannot be read, of which `open_storage` says why."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCK_SECONDS)) as file:
            return {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return None


def network_limits(url: str) -> dict[str, int]:
    """How soon a connection to PostgreSQL is known to be broken, where the URL does not say so itself."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql" or parsed.get_driver_name() not in ("psycopg", "psycopg2"):
        return {}
    return {name: value for name, value in _LIBPQ_LIMITS.items() if name not in parsed.query}
