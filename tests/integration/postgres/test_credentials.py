"""A password in a storage's URL stays there: in no log, no file, no answer and no error, whatever is called."""

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import archopt
from archopt.cli import run
from archopt.errors import ArchoptError

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

PASSWORD = "xyzzy-plugh"
LOGGED = {"optuna": logging.DEBUG, "sqlalchemy.engine": logging.INFO, "sqlalchemy.pool": logging.DEBUG}
MISTAKES = [
    "postgresql+psycopg://me:{password}@127.0.0.1:1/db",
    "postgresql+psycopg://me:of{{braces}}{password}@127.0.0.1:1/db",
    "postgresql://me:{password}@127.0.0.1:1/db",
    "postgresql+psycopg://127.0.0.1:1/db?user=me&password={password}",
    "postgresql+psycopg://127.0.0.1:1/db?options={password}",
    "mysql+pymysql://me:{password}@127.0.0.1:1/db?ssl_key={password}",
    "mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3D{password}",
]
COMMANDS = {
    "search": "search sklearn:iris --d-model 8 --trials 1 --name any --out unused",
    "grid": "search sklearn:iris --d-model 8,12 --samples 40,60 --trials 1 --name any --out unused",
    "worker": "worker --name any",
    "ask": "ask --study any --d-model 8",
    "tell": "tell --study any --trial 0 --value 1",
    "recommend": "recommend --study any",
    "recommend campaign": "recommend --name any --d-model 8 --samples 1e5",
    "fit": "fit --study any=100,8 --no-plan",
    "fit campaign": "fit --name any --no-plan",
}


@pytest.fixture
def much_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What one who looks for an error has logged: statements with parameters, connections, what Optuna does."""
    import optuna

    optuna.logging.enable_propagation()
    for name, level in LOGGED.items():
        caplog.set_level(level, name)
    yield caplog
    optuna.logging.disable_propagation()


def test_a_search_and_what_reads_it_show_no_password(
    database: str,
    much_logged: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    one_core: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"{database}&password={PASSWORD}"  # before the host: in test_workers.py
    options = "--d-model 8 --steps 4 --learning-rate 0.01 --trials 3 --workers 1"
    search = f"search sklearn:iris {options} --out out --name one"
    read = ["worker --name one", "recommend --study one", "fit --study one=90,8 --no-plan --out law.json"]
    asked = ["ask --study asked --d-model 8", "tell --study asked --trial 0 --value 1"]
    for line in [search, *read, *asked]:
        assert run([*line.split(), "--storage", url]) == 0, capsys.readouterr().err
    written = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert {"law.json", "recommendation.json", "report.html"} <= {path.name for path in tmp_path.rglob("*")}
    said = capsys.readouterr()
    assert "SELECT studies.study_id" in much_logged.text
    for text in (*written, said.out, said.err, much_logged.text):
        assert PASSWORD not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_no_mistake_shows_a_password_or_more_than_a_line(
    command: str, much_logged: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for mistake in MISTAKES:
        assert run([*COMMANDS[command].split(), "--storage", mistake.format(password=PASSWORD)]) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == len(MISTAKES)
    assert PASSWORD not in said.out + said.err + much_logged.text


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_in_python_shows_none_either(mistake: str) -> None:
    url = mistake.format(password=PASSWORD)
    with pytest.raises(ArchoptError) as error:
        archopt.search("sklearn:iris", 8, n_trials=1, storage=url, out="unused", quiet=True)
    assert PASSWORD not in "".join(traceback.format_exception(error.value))
    assert not Path("unused").exists()
