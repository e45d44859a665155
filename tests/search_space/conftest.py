"""A study's storage in a file."""

from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from sqlalchemy.pool import NullPool


@pytest.fixture
def open_file(tmp_path: Path) -> Callable[[], optuna.storages.RDBStorage]:
    """Opens the same SQLite file again at every call; a connection ends with its transaction, so none is left over."""

    def opened() -> optuna.storages.RDBStorage:
        return optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'study.db'}", engine_kwargs={"poolclass": NullPool})

    return opened
