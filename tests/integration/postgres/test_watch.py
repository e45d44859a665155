"""`archopt watch` on PostgreSQL: it waits while the server is away, and makes no tables in an empty database."""

import json
from typing import Any

import optuna
import pytest

SETTINGS = {"data": "t.csv", "d_model": 8, "n_trials": 4, "timeout_seconds": None, "confidence": 0.9, "replicates": 1}
AWAY = "the storage cannot be reached: waiting, for 300 s at most"


@pytest.fixture
def begun(optuna_storage: Any) -> optuna.Study:
    """A campaign that no process trains for."""
    study = optuna.create_study(study_name="w", storage=optuna_storage)
    study.set_user_attr("archopt:settings", {"d_model": 8})
    recorded = {"campaign": "w", "settings": SETTINGS, "d_models": [], "n_samples": []}
    study.set_user_attr("archopt:campaign", recorded)
    return study


def test_it_waits_for_a_server_that_is_away(
    server: Any, database: str, begun: optuna.Study, optuna_storage: Any, start: Any, wait_for: Any
) -> None:
    watch = start("watch", "w", "--storage", database, "--json", **{"watch:REFRESH_SECONDS": 0.2})
    wait_for(lambda: watch.said("waiting for one"))
    server.stop()
    wait_for(lambda: watch.said(AWAY))
    server.start()
    wait_for(lambda: watch.said("the storage is back"))
    optuna_storage.engine.dispose()  # its connections broke, too
    begun.set_user_attr("archopt:stopped", {"limits": [4, None, 0.9, 1], "because": "enough"})
    assert watch.wait() == 0, watch.stderr()
    found = json.loads(watch.stdout())
    assert (found["over"], found["because"]) == (True, "the campaign is over: enough")


@pytest.mark.parametrize("command", [("watch", "w"), ("doctor", "--head-dims", "4")])
def test_an_empty_database_stays_empty(command: tuple[str, ...], database: str, start: Any) -> None:
    from sqlalchemy import create_engine, inspect

    looked = start(*command, "--storage", database)
    looked.wait()
    said = looked.stderr() + looked.stdout()
    assert "is empty" in said
    engine = create_engine(database)
    assert inspect(engine).get_table_names() == []
    engine.dispose()
