"""A soak: after a thousand short trials no process holds more than after the first few hundred. Run by name."""

import gc
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import optuna
import psutil
import pytest
import sqlalchemy

import archopt

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(3600)]

N_TRIALS = 1_000
WARM, LATE = (200, 300), (900, 1_000)  # ended trials; in between 700 more
SECONDS_BETWEEN_READINGS = 0.5

# As the command runs it, but for one thing: after some fifty trials it would call itself certain and stop.
_COMMAND = """
import sys
from archopt.campaign import stopping
stopping.SURE_CHECKS_TO_STOP = 10**9
from archopt.cli import main
main(sys.argv[1:])
"""
_COUNT = sqlalchemy.text("select count(*) from trials where state in ('COMPLETE', 'PRUNED', 'FAIL')")
_CONNECTIONS = sqlalchemy.text(
    "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend' "
    "and pid <> pg_backend_pid()"
)


@dataclass(frozen=True)
class Held:
    """What one command and the processes that train for it hold at one moment."""

    n_ended: int  # trials of the campaign
    own_mb: float
    workers_mb: float
    n_files: int
    n_threads: int
    workers: frozenset[int]
    n_connections: int


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 rows in which there is nothing to learn."""
    path = tmp_path_factory.mktemp("data") / "noise.csv"
    rows = np.random.default_rng(0).normal(size=(60, 4))
    path.write_text("a,b,c,y\n" + "".join(",".join(f"{cell:.4f}" for cell in row) + "\n" for row in rows))
    return path


def _search(noise: Path, out: Path, n_workers: int) -> list[str]:
    options = f"--target y --d-model 12 --steps 8 --learning-rate 0.01 --trials {N_TRIALS} --name soak --quiet"
    return ["search", str(noise), *options.split(), "--workers", str(n_workers), "--out", str(out)]


def _soaked(commands: Sequence[Sequence[str]], url: str, folder: Path) -> list[list[Held]]:
    """What each command held, read twice a second from the first ended trial to the last but one."""
    temporary = folder / "tmp"
    temporary.mkdir()
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    running: list[subprocess.Popen[bytes]] = []
    held: list[list[Held]] = [[] for _ in commands]
    began = time.monotonic()
    try:
        for command in commands:
            running.append(subprocess.Popen([sys.executable, "-c", _COMMAND, *command], cwd=folder, env=environment))
            while running[-1].poll() is None and not _ended_trials(engine):
                time.sleep(SECONDS_BETWEEN_READINGS)  # the second joins what the first has begun
        while any(process.poll() is None for process in running):
            n_ended, n_connections = _ended_trials(engine), _connections(engine)
            for process, readings in zip(running, held, strict=True):
                with suppress(psutil.NoSuchProcess):
                    if 0 < n_ended < N_TRIALS:
                        readings.append(_held(psutil.Process(process.pid), n_ended, n_connections))
            time.sleep(SECONDS_BETWEEN_READINGS)
        assert [process.wait() for process in running] == [0] * len(running)
        print(f"\n{_ended_trials(engine)} trials in {time.monotonic() - began:.0f} s")
        assert _connections(engine) == 0
    finally:
        for process in running:
            process.kill()
    pids = {pid for readings in held for reading in readings for pid in reading.workers}
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert {path.name.partition("_")[0] for path in temporary.iterdir()} <= {"torchinductor"}  # torch's own, empty
    return held


def _ended_trials(engine: sqlalchemy.Engine) -> int:
    try:
        with engine.connect() as connection:
            return int(connection.execute(_COUNT).scalar_one())
    except sqlalchemy.exc.DBAPIError:  # no tables yet
        return 0


def _connections(engine: sqlalchemy.Engine) -> int:
    if engine.dialect.name == "sqlite":
        return 0
    with engine.connect() as connection:
        return int(connection.execute(_CONNECTIONS).scalar_one())


def _held(process: psutil.Process, n_ended: int, n_connections: int) -> Held:
    workers = process.children(recursive=True)
    return Held(
        n_ended=n_ended,
        own_mb=process.memory_info().rss / 2**20,
        workers_mb=sum(worker.memory_info().rss for worker in workers) / 2**20,
        n_files=process.num_fds() + sum(worker.num_fds() for worker in workers),
        n_threads=process.num_threads() + sum(worker.num_threads() for worker in workers),
        workers=frozenset(worker.pid for worker in workers),
        n_connections=n_connections,
    )


def _check(held: list[Held], kept_mb: float) -> None:
    """Nothing grows but the search's own memory, by what it has to keep of a trial.

    Args:
        kept_mb: that, of one trial.
    """
    warm, late = ([each for each in held if low <= each.n_ended < high] for low, high in (WARM, LATE))
    n_between = LATE[0] - WARM[0]

    def growth(name: str) -> float:
        return float(median(getattr(each, name) for each in late) - median(getattr(each, name) for each in warm))

    mb = {name: median(getattr(each, name) for each in late) for name in ("own_mb", "workers_mb")}
    print(
        f"the command {mb['own_mb']:.1f} MB, {growth('own_mb'):+.1f} over {n_between} trials, of which it has to keep "
        f"{n_between * kept_mb:.1f}; its processes {mb['workers_mb']:.1f} MB, {growth('workers_mb'):+.1f}; "
        f"{late[0].n_files} files, {late[0].n_threads} threads, {late[0].n_connections} connections"
    )
    assert [growth(name) for name in ("n_files", "n_threads", "n_connections")] == [0, 0, 0]
    assert len({each.workers for each in [*warm, *late]}) == 1  # none died, none was started anew
    # An allocator takes more than is asked of it, in many small pieces: 1.4 times as much was measured.
    assert growth("own_mb") <= 2 * n_between * kept_mb + 1
    assert growth("workers_mb") <= 2  # a process that trains keeps nothing: 3 kB a trial would show


def _kept_mb(url: str) -> float:
    """What Optuna's cache and archopt's records hold of one trial, by the interpreter's own account."""
    for _ in range(2):  # the first loads modules, which stay
        storage = optuna.storages.RDBStorage(url)
        tracemalloc.start()
        study = optuna.load_study(study_name="soak", storage=storage)
        archopt.recommend(study)
        n_trials = len(study.get_trials(deepcopy=False))
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        storage.remove_session()
        storage.engine.dispose()
    return kept / 2**20 / n_trials


def test_a_thousand_trials_on_sqlite(noise: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    readable = f"sqlite:///file:{out / 'study.db'}?mode=ro&uri=true"
    (held,) = _soaked([_search(noise, out, 2)], readable, tmp_path)
    _check(held, _kept_mb(f"sqlite:///{out / 'study.db'}"))
    left = {"recommendation.json", "report.html", "rungs.csv", "study.db", "trials.csv"}
    assert {path.name for path in out.iterdir()} == left


def test_a_thousand_trials_on_postgresql(new_database: Callable[[str], str], noise: Path, tmp_path: Path) -> None:
    url = new_database("soak")
    search = [*_search(noise, tmp_path / "out", 1), "--storage", url]
    worker = ["worker", "--storage", url, "--name", "soak", "--workers", "1", "--quiet"]
    held = _soaked([search, worker], url, tmp_path)
    kept_mb = _kept_mb(url)
    done = json.loads((tmp_path / "out" / "recommendation.json").read_text())["search"]
    assert done["complete"] + done["pruned"] + done["failed"] >= N_TRIALS  # the joining process's are read too
    for readings in held:
        _check(readings, kept_mb)


def test_what_is_called_from_python_closes_its_connections(
    new_database: Callable[[str], str], noise: Path, tmp_path: Path
) -> None:
    url = new_database("called")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    once: dict[str, Any] = {"target": "y", "n_steps": 8, "n_trials": 4, "n_workers": 1, "storage": url, "quiet": True}
    before = {thread.name for thread in threading.enumerate()}
    gc.disable()  # which would close them some time
    try:
        archopt.search(noise, 8, out=tmp_path / "one", name="one", **once)
        assert _connections(engine) == 0
        archopt.join_campaign(url, "one", n_workers=1, quiet=True)
        assert _connections(engine) == 0
        archopt.search_grid(noise, [8, 12], [20], out=tmp_path / "grid", name="grid", **once)
        assert _connections(engine) == 0
    finally:
        gc.enable()
    assert psutil.Process().children(recursive=True) == []
    assert {thread.name for thread in threading.enumerate()} == before
