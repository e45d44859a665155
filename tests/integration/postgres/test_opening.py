"""A database is opened: with limits for what never answers, and while another process makes its tables."""

from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.storages._rdb.models import BaseModel

from archopt.campaign.storage import open_storage


def test_tables_that_another_process_makes_meanwhile_are_taken(database: str) -> None:
    opened = []

    def open_another(*_: Any, **__: Any) -> None:
        opened.append(open_storage(database))

    # once the first has seen that there are no tables, and before it makes any
    sqlalchemy.event.listen(BaseModel.metadata, "before_create", open_another, insert=True, once=True)
    opened.append(open_storage(database))
    assert len(opened) == 2
    study = optuna.create_study(study_name="s", storage=opened[0])
    assert optuna.get_all_study_names(opened[1]) == [study.study_name]
    for storage in opened:
        storage.remove_session()
        storage.engine.dispose()


@pytest.mark.parametrize(("given", "connect_timeout"), [("", "10"), ("&connect_timeout=3", "3")])
def test_a_server_that_is_gone_is_found_within_a_minute(given: str, connect_timeout: str, database: str) -> None:
    storage = open_storage(database + given)
    with storage.engine.connect() as connection:
        found = connection.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
    storage.remove_session()
    storage.engine.dispose()
    assert found["connect_timeout"] == connect_timeout
    assert int(found["keepalives_idle"]) + int(found["keepalives_interval"]) * int(found["keepalives_count"]) <= 60
    assert found["tcp_user_timeout"] == "60000"
