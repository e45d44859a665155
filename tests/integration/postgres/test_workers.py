"""`archopt worker` beside a search, on PostgreSQL: cells, interruptions, and passwords that nobody sees."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from archopt.campaign.storage_url import masked

pytestmark = pytest.mark.torch

PASSWORD = "xyzzy-plugh"


def _states(trials: list[tuple[int, str, float | None]]) -> list[str]:
    return [state for _, state, _ in trials]


def test_a_worker_takes_trials_of_every_kind_of_cell(
    database: str, start: Any, wait_for: Any, trials_of: Any, tmp_path: Path
) -> None:
    sizes = ("--samples", "40,80", "--d-model", "8,12", "--steps", "40", "--trials", "40", "--workers", "1")
    where = ("--storage", database, "--name", "grid")
    search = start("search", "sklearn:iris", *sizes, *where, "--out", "grid", "--json")
    wait_for(lambda: trials_of(database, "grid-n40-d8") or search.process.poll() is not None)
    worker = start("worker", *where, "--workers", "1", "--json")
    assert search.wait() == 0, search.stderr()
    assert worker.wait() == 0, worker.stderr()
    done = json.loads(worker.stdout())
    assert done["campaign"] == "grid"
    assert done["n_trials"] > 4  # more than one turn
    assert any(reason in done["stopped_because"] for reason in ("is over", "budget of 40 trials"))
    states = [state for n in (40, 80) for d in (8, 12) for state in _states(trials_of(database, f"grid-n{n}-d{d}"))]
    assert "RUNNING" not in states
    ended = sum(state in ("COMPLETE", "PRUNED") for state in states)
    assert 40 <= ended <= 40 + 4  # two processes may each have begun a last turn
    assert json.loads(search.stdout())["search"]["n_trials"] >= 40
    assert (tmp_path / "grid" / "law.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_worker_queues_its_trials_again(
    number: signal.Signals, database: str, start: Any, wait_for: Any, trials_of: Any, optuna_storage: Any
) -> None:
    options = ("--d-model", "12", "--steps", "4000", "--trials", "6", "--workers", "1", "--learning-rate", "0.01")
    where = ("--storage", database, "--name", "long")
    search = start("search", "sklearn:iris", *options, *where, "--out", "long")
    wait_for(lambda: "RUNNING" in _states(trials_of(database, "long")))
    worker = start("worker", *where, "--workers", "1", "--json")
    wait_for(lambda: _states(trials_of(database, "long")).count("RUNNING") == 2)
    worker.process.send_signal(number)
    assert worker.wait() == 130, worker.stderr()
    done = json.loads(worker.stdout())
    assert done["interrupted"]
    assert done["stopped_because"] == "it was interrupted: its trials were queued again"
    import optuna

    trials = optuna.load_study(study_name="long", storage=optuna_storage).trials
    (cut,) = [trial for trial in trials if trial.user_attrs.get("archopt:fault") == "interrupted"]
    again = [trial for trial in trials if trial.number > cut.number and trial.state.name == "WAITING"]
    assert cut.params in [trial.system_attrs.get("fixed_params") for trial in again]
    search.process.kill()


def test_a_password_is_seen_nowhere(
    server: Any, start: Any, wait_for: Any, trials_of: Any, tmp_path: Path, database: str
) -> None:
    # the server trusts everybody on this machine; it is the URL that must not come out
    url = database.replace("postgres:@", f"postgres:{PASSWORD}@")
    assert PASSWORD in url
    assert PASSWORD not in masked(url)
    options = ("--d-model", "8", "--steps", "20", "--trials", "8", "--workers", "1", "--json")
    search = start("search", "sklearn:iris", *options, "--storage", url, "--name", "secret", "--out", "secret")
    wait_for(lambda: len(trials_of(database, "secret")) > 2)
    worker = start("worker", "--storage", url, "--name", "secret", "--workers", "1", "--json")
    wait_for(lambda: worker.said("joined campaign"))
    server.stop()
    wait_for(lambda: search.said("cannot be reached"))
    late = start("worker", "--storage", url, "--name", "secret")
    assert late.wait() == 2
    server.start()
    assert (search.wait(), worker.wait()) == (0, 0), search.stderr() + worker.stderr()
    written = [path for path in (tmp_path / "secret").rglob("*") if path.is_file()]
    assert {"recommendation.json", "report.html"} <= {path.name for path in written}
    shown = [path.read_bytes().decode("latin-1") for path in written]
    for command in (search, worker, late):
        shown += [command.stdout(), command.stderr()]
    engine = sqlalchemy.create_engine(database, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        for table in ("study_user_attributes", "study_system_attributes", "trial_user_attributes"):
            shown.append(str(connection.execute(sqlalchemy.text(f"select * from {table}")).all()))
    assert all(PASSWORD not in text for text in shown)
    (line,) = late.stderr().splitlines()
    assert "cannot be opened" in line


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:{password}@no-such-host.invalid/db",
        "postgresql+psycopg://me:{password}@127.0.0.1:1/db",
        "postgresql+psycopg://me:{password}@127.0.0.1:port/db",
        "postgresql+psycopg://me:of@{password}@127.0.0.1:1/db",
        "postgresql+psycopg://127.0.0.1:1/db?user=me&password={password}",
        "postgresql+pg9000://me:{password}@127.0.0.1/db",
        "postgresql+asyncpg://me:{password}@127.0.0.1/db",
        "me:{password}@127.0.0.1/db",
        "{socket}&password={password}&connect_timeout=5",
        "{socket}&sslpassword={password}&no_such_option=1",
    ],
)
def test_no_mistake_shows_a_password(url: str, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from archopt.cli import run

    given = url.format(password=PASSWORD, socket=server.url("no_such_database"))
    for command in (["worker"], ["search", "sklearn:iris", "--d-model", "8", "--trials", "1", "--out", "unused"]):
        assert run([*command, "--storage", given, "--name", "any", "--quiet"]) == 2
        captured = capsys.readouterr()
        (line,) = captured.err.splitlines()
        assert PASSWORD not in line + captured.out
        assert len(line) < 300
