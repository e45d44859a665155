"""Optuna's gRPC proxy in front of a database: workers that cannot reach the database itself."""

import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna
import pytest

import archopt

pytest.importorskip("grpc", reason="pip install grpcio")

SERVER = """
import sys
from optuna.storages import RDBStorage, run_grpc_proxy_server
run_grpc_proxy_server(RDBStorage(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]))
"""
BEST = 4


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Of a proxy in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = int(free.getsockname()[1])
    server = subprocess.Popen([sys.executable, "-c", SERVER, f"sqlite:///{tmp_path / 'study.db'}", str(found)])
    try:
        yield found
    finally:
        server.terminate()
        server.wait(30)


def _storage(port: int) -> optuna.storages.GrpcStorageProxy:
    storage = optuna.storages.GrpcStorageProxy(host="127.0.0.1", port=port)
    storage.wait_server_ready(timeout=60)
    return storage


def _objective(trial: optuna.Trial) -> float:
    n_heads = trial.suggest_categorical("n_heads", [1, 2, 4, 8, 16])
    for step in (1, 2, 3):
        loss = 0.2 * math.log2(n_heads / BEST) ** 2 + 1.0 / step
        archopt.report_diversity(trial, step, loss, 0.1)
        if trial.should_prune():
            raise optuna.TrialPruned
        time.sleep(0.01)  # so that the workers overlap
    return loss


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_workers_behind_a_proxy_share_sampler_pruner_and_recommendation(port: int) -> None:
    first = _storage(port)
    optuna.create_study(study_name="heads", storage=first)

    def work(_: int) -> None:
        storage = _storage(port)
        sampler = archopt.HeadAllocationSampler(d_model=64, n_samples=2e6, seed=0)
        study = optuna.load_study(study_name="heads", storage=storage, sampler=sampler, pruner=archopt.HDIPruner())
        study.optimize(_objective, n_trials=10)
        storage.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    study = optuna.load_study(study_name="heads", storage=first)
    assert [trial.number for trial in study.trials] == list(range(30))
    assert {trial.state.name for trial in study.trials} <= {"COMPLETE", "PRUNED"}
    assert archopt.recommend(study).allocation == archopt.HeadAllocation(BEST, 16)
    first.close()
