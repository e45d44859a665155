"""Storages: opened or refused in one line, passwords never shown, settings compared."""

import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest

from archopt.campaign.output_folder import prepare_folder, remove_folders
from archopt.campaign.storage import SETTINGS_KEY, load_settings, load_studies, open_storage, refuse_other_settings
from archopt.campaign.storage_url import masked
from archopt.errors import StorageError


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////no/such/folder/study.db",
        "not a url",
        "nosuchdialect://me:secret@host/db",
        "postgresql+nodriver://me:secret@host/db",
        "sqlite:///{folder}",
        "",
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_line_without_its_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(url.format(folder=tmp_path))
    message = str(caught.value)
    assert "secret" not in message
    assert "\n" not in message
    assert len(message) < 300


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("this is no database, though it is long enough to look like one " * 20)
    with pytest.raises(StorageError, match="is no SQLite file"):
        open_storage(f"sqlite:///{tmp_path / 'study.db'}")


def test_a_database_of_somebody_else_s_is_read_without_a_table_of_optuna_s_put_into_it(tmp_path: Path) -> None:
    path = tmp_path / "users.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table users (name text)")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="holds something else"):
        load_studies(f"sqlite:///{path}", ["mine"])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://me:secret@host/db", "postgresql+psycopg://me:***@host/db"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("me:secret@host", "host"),
        ("postgresql+psycopg:///db?host=/run&password=secret&user=me", "postgresql+psycopg:///db?host=%2Frun&user=me"),
        ("postgresql://me@host/db?sslkey=secret&sslmode=require", "postgresql://me@host/db?sslmode=require"),
        ("mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BUID%3Dme%3BPWD%3Dsecret", "mssql+pyodbc:///"),
    ],
)
def test_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_braces_in_a_path_are_braces(tmp_path: Path) -> None:
    path = tmp_path / "a{b}{}{.db"
    open_storage(f"sqlite:///{path}").close()
    assert path.is_file()


def test_settings_of_an_unknown_campaign_and_of_somebody_else_s_study(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    assert load_settings(storage, "new") is None
    optuna.create_study(study_name="theirs", storage=storage)
    with pytest.raises(StorageError, match="archopt did not make"):
        load_settings(storage, "theirs")


def test_a_file_may_be_given_as_a_uri(tmp_path: Path) -> None:
    made = tmp_path / "a study.db"
    optuna.create_study(study_name="mine", storage=f"sqlite:///{made}")
    address = f"sqlite:///file:{tmp_path}/a%2520study.db?mode=ro&uri=true"  # SQLAlchemy decodes once, SQLite again
    assert [study.study_name for study in load_studies(address, ["mine"])] == ["mine"]
    with pytest.raises(StorageError, match="does not exist"):
        load_studies(f"sqlite:///file:{tmp_path}/other.db?uri=true", ["mine"])
    with closing(sqlite3.connect(tmp_path / "songs.db")) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(StorageError, match="holds something else"):
        open_storage(f"sqlite:///file:{tmp_path}/songs.db?uri=true")
    with pytest.raises(StorageError, match="cannot be opened"):
        load_studies("sqlite:///file://[?uri=true", ["mine"])


def test_braces_are_part_of_a_file_s_name(tmp_path: Path) -> None:
    for name in ("{name}.db", "{0}.db", "{.db", "{SCHEMA_VERSION}.db"):
        open_storage(f"sqlite:///{tmp_path / name}")
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize("recorded", [3, [], "x", {}, {"d_model": 8}])
def test_settings_of_another_version_say_so(tmp_path: Path, recorded: object) -> None:
    storage = open_storage(f"sqlite:///{tmp_path / 'study.db'}")
    optuna.create_study(study_name="old", storage=storage).set_user_attr(SETTINGS_KEY, recorded)
    with pytest.raises(StorageError, match=r"study 'old' was begun by another version .*'archopt:settings'"):
        load_settings(storage, "old")


def test_what_differs_is_named() -> None:
    same = {"seed": 0, "metric": None}
    refuse_other_settings("digits", same, dict(same))
    with pytest.raises(StorageError, match=r"seed was 0, now 1\): use the same to resume it, or another --name"):
        refuse_other_settings("digits", same, {"seed": 1, "metric": None})


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        prepare_folder(tmp_path / "file" / "below")
    prepare_folder(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_folders_that_were_made_can_be_taken_back(tmp_path: Path) -> None:
    made = prepare_folder(tmp_path / "new" / "folder")
    assert made == [tmp_path / "new" / "folder", tmp_path / "new"]
    remove_folders(made)
    assert list(tmp_path.iterdir()) == []
    made = prepare_folder(tmp_path / "new" / "folder")
    (tmp_path / "new" / "file").write_text("of somebody else")
    remove_folders(made)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
    assert prepare_folder(tmp_path / "new") == []
