"""A SQLite file that is full, locked, or of another version: one line, finished trials intact, and the way on."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from archopt.campaign.storage import open_storage
from archopt.cli import run
from archopt.errors import StorageError

SEARCH = ["search", "sklearn:iris", "--d-model", "8", "--steps", "20", "--workers", "1", "--quiet", "--trials"]


def _search(folder: Path, n_trials: int) -> int:
    return run([*SEARCH, str(n_trials), "--out", str(folder / "out")])


def _rows(folder: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(folder / "out" / "study.db")
    try:
        with connection:
            return connection.execute(query).fetchall()
    finally:
        connection.close()


def _let_an_hour_pass(folder: Path) -> None:
    """For the trials that were in training, with or without a first heartbeat: they are found stale at once."""
    _rows(folder, "update trial_heartbeats set heartbeat = datetime('now', '-1 hour')")
    _rows(
        folder,
        "insert into trial_heartbeats (trial_id, heartbeat) select trial_id, datetime('now', '-1 hour') from trials"
        " where state = 'RUNNING' and trial_id not in (select trial_id from trial_heartbeats)",
    )


def _complete(folder: Path) -> set[tuple[int, float]]:
    query = "select number, value from trials join trial_values using (trial_id) where state = 'COMPLETE'"
    return set(_rows(folder, query))


@pytest.fixture
def limit_pages() -> Iterator[Any]:
    """Let no SQLite file grow beyond so many pages: what a full disk is to it."""
    listeners = []

    def limit(n_pages: int) -> None:
        def restrict(connection: sqlite3.Connection, _: object) -> None:
            connection.execute(f"pragma max_page_count = {n_pages}")

        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", restrict)
        listeners.append(restrict)

    def lift() -> None:
        while listeners:
            sqlalchemy.event.remove(sqlalchemy.Engine, "connect", listeners.pop())

    limit.lift = lift  # type: ignore[attr-defined]
    yield limit
    lift()


@pytest.mark.torch
def test_a_full_disk_is_one_line_and_the_same_command_goes_on_when_there_is_room(
    tmp_path: Path, limit_pages: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _search(tmp_path, 3) == 0
    before = _complete(tmp_path)
    ((n_pages,),) = _rows(tmp_path, "pragma page_count")
    limit_pages(n_pages + 4)
    capsys.readouterr()
    assert _search(tmp_path, 40) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "(database or disk is full): every finished trial is kept; make room" in line
    assert "run the same command again" in line
    assert len(line) < 300
    kept = _complete(tmp_path)
    assert kept > before  # some more had finished, and are there
    limit_pages.lift()
    _let_an_hour_pass(tmp_path)
    assert _search(tmp_path, len(kept) + 2) == 0
    assert _complete(tmp_path) > kept
    assert _rows(tmp_path, "select number from trials where state = 'RUNNING'") == []


@pytest.mark.torch
def test_a_file_that_stays_locked_is_one_line_that_says_what_to_use_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("archopt.campaign.storage.LOCK_SECONDS", 1)
    assert _search(tmp_path, 2) == 0
    holder = sqlite3.connect(tmp_path / "out" / "study.db", check_same_thread=False, timeout=30.0)

    def hold() -> None:
        while holder.execute("select count(*) from trial_values").fetchone()[0] < 4:
            time.sleep(0.05)
        holder.execute("begin exclusive")

    thread = threading.Thread(target=hold)
    thread.start()
    capsys.readouterr()
    assert _search(tmp_path, 40) == 1
    thread.join()
    holder.rollback()
    holder.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert "(database is locked for 1 s): every finished trial is kept" in line
    assert "use PostgreSQL" in line
    assert len(line) < 300
    kept = _complete(tmp_path)
    _let_an_hour_pass(tmp_path)
    assert _search(tmp_path, 6) == 0
    assert _complete(tmp_path) >= kept


@pytest.mark.torch
def test_a_campaign_of_an_older_archopt_goes_on_and_can_then_be_joined(tmp_path: Path) -> None:
    assert _search(tmp_path, 2) == 0
    before = _complete(tmp_path)
    _rows(tmp_path, "delete from study_user_attributes where key = 'archopt:campaign'")
    assert _search(tmp_path, 3) == 0
    assert _complete(tmp_path) >= before
    assert _rows(tmp_path, "select count(*) from study_user_attributes where key = 'archopt:campaign'") == [(1,)]


@pytest.mark.parametrize(
    ("version", "todo"),
    [("v2.6.0.a", "run `optuna storage upgrade --storage URL` with that URL"), ("v99.0.0.a", "pip install -U optuna")],
)
def test_tables_of_another_optuna_say_what_to_do(version: str, todo: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    url = f"sqlite:///{tmp_path / 'out' / 'study.db'}"
    made = open_storage(url)
    made.remove_session()
    made.engine.dispose()
    _rows(tmp_path, f"update alembic_version set version_num = '{version}'")
    _rows(tmp_path, "update version_info set library_version = '2.6.0'")
    with pytest.raises(StorageError, match="was made by another version of Optuna") as caught:
        open_storage(url)
    assert todo in str(caught.value)
    assert len(str(caught.value)) < 300
