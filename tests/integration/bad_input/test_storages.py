"""Storages that are none, that hold something else, and studies that somebody else made."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

Refused = Callable[..., int]

# not shrunk: an example takes tenths of a second
seeded = settings(derandomize=True, database=None, deadline=None, phases=[Phase.generate])

SEARCH = "search good.csv --target price --d-model 8 --workers 1 --quiet --trials 1"
COMMANDS = {
    "search": f"{SEARCH} --name mine --storage",
    "grid": f"{SEARCH} --samples 20,30 --name mine --storage",
    "fit": "fit --study mine=100,16 --no-plan --storage",
    "fit campaign": "fit --name mine --no-plan --storage",
    "recommend": "recommend --study mine --storage",
    "recommend campaign": "recommend --name mine --d-model 64 --samples 1e5 --storage",
    "ask": "ask --study mine --storage",
    "tell": "tell --study mine --trial 0 --value 1 --storage",
    "worker": "worker --name mine --storage",
}
schemes = st.sampled_from(
    [
        "sqlite", "sqlite+pysqlite", "sqlite+nothing", "postgresql+psycopg", "postgresql", "mysql", "mysql+pymysql",
        "oracle", "mssql+pyodbc", "redis", "http", "file", "grpc", "", "SQLITE", "duckdb", "é",
    ]
)  # fmt: skip
places = st.one_of(
    st.sampled_from(["", "/", "//", ":///", ":///folder", ":////no/such/folder/x.db", ":///file", ":///good.csv"]),
    st.sampled_from(
        ["://", "://user:secret@", "://user:secret@127.0.0.1:1/db", "://u:p@[::1", "://h:port/db", "://@:/"]
    ),
    st.sampled_from(["://user:secret@127.0.0.1:99999/db", ":///x.db?mode=ro", ":///a\0b.db", ":///file:x.db?uri=true"]),
    st.text(max_size=8).map(lambda text: f"://{text}"),
)
written = st.sampled_from(["nothing", "songs", "half", "version", "text", "header", "read-only"])


@settings(seeded, max_examples=50)
@given(command=st.sampled_from(sorted(set(COMMANDS) - {"search", "grid"})), scheme=schemes, place=places)
def test_a_url_that_is_none(command: str, scheme: str, place: str, refused: Refused) -> None:
    refused([*COMMANDS[command].split(), f"{scheme}{place}"])


@settings(seeded, max_examples=25)
@given(command=st.sampled_from(sorted(COMMANDS)), what=written)
def test_a_database_of_something_else(command: str, what: str, folder: Path, refused: Refused) -> None:
    path = folder / "else.db"
    path.unlink(missing_ok=True)
    if what in ("text", "header", "nothing"):
        path.write_bytes({"text": b"dear diary", "header": b"SQLite format 3\0" + b"\1" * 200, "nothing": b""}[what])
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE songs (title TEXT)")
            if what == "half":
                connection.execute("CREATE TABLE studies (study_id INTEGER PRIMARY KEY)")
            if what == "version":
                connection.execute("CREATE TABLE version_info (version_info_id INTEGER, schema_version INTEGER)")
                connection.execute("INSERT INTO version_info VALUES (1, 999)")
        connection.close()
    query = "?mode=ro&uri=true" if what == "read-only" else ""
    address = f"sqlite:///file:{path}{query}" if query else f"sqlite:///{path}"
    # a search makes a storage of an empty file
    fresh = what == "nothing" and command in ("search", "grid")
    refused([*COMMANDS[command].split(), address, *(["--metric", "log_loss"] if fresh else [])])
