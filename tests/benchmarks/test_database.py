"""What a search costs on PostgreSQL: throughput of four processes, work per trial among ten thousand. Run by name."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import optuna
import pytest

import archopt

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore::UserWarning")]

N_HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]
RATES = [0.001, 0.003, 0.01, 0.03]
N_REPORTS = 5

_SLEEPER = """
import sys, time
import optuna, archopt

optuna.logging.set_verbosity(optuna.logging.ERROR)
url, n_trials = sys.argv[1], int(sys.argv[2])

def objective(trial):
    n_heads = trial.suggest_categorical("n_heads", {heads})
    rate = trial.suggest_categorical("learning_rate", {rates})
    for step in range(1, 6):
        time.sleep(0.6)
        trial.report(abs(n_heads - 4) + rate + 1 / step, step)
        trial.should_prune()  # asked, and not followed: every trial takes its three seconds
    return abs(n_heads - 4) + rate + archopt.replicate(trial)

storage = optuna.storages.RDBStorage(url)
sampler = archopt.HeadAllocationSampler(d_model=48, seed=0)
study = optuna.load_study(study_name="sleep", storage=storage, sampler=sampler, pruner=archopt.HDIPruner(seed=0))
study.trials
print("ready", flush=True)
sys.stdin.readline()
study.optimize(objective, n_trials=n_trials)
"""


@contextmanager
def opened(url: str) -> Iterator[optuna.storages.RDBStorage]:
    storage = optuna.storages.RDBStorage(url)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def test_four_processes_train_nearly_four_times_as_much_as_one(
    new_database: Callable[[str], str], tmp_path: Path
) -> None:
    script = tmp_path / "sleeper.py"
    script.write_text(_SLEEPER.format(heads=N_HEADS, rates=RATES))

    def trials_per_second(n_processes: int, n_each: int) -> float:
        url = new_database(f"sleep{n_processes}")
        with opened(url) as storage:
            optuna.create_study(study_name="sleep", storage=storage)
        processes = [
            subprocess.Popen(
                [sys.executable, script, url, str(n_each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(n_processes)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        began = time.perf_counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=300)
        assert [process.returncode for process in processes] == [0] * n_processes
        return n_processes * n_each / (time.perf_counter() - began)

    ratio = trials_per_second(4, 12) / trials_per_second(1, 12)
    print(f"four processes: {ratio:.2f} times the throughput of one")
    assert ratio >= 0.9 * 4


@pytest.mark.timeout(1200)  # most of it to put ten thousand trials there
def test_work_per_trial_among_ten_thousand(new_database: Callable[[str], str]) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def work(
        url: str, n_finished: int, sampler: optuna.samplers.BaseSampler, pruner: optuna.pruners.BasePruner
    ) -> float:
        """Median seconds of ask, suggest, five reports with a pruner's decision each, and tell."""
        seconds = []
        with opened(url) as storage:
            study = optuna.create_study(storage=storage, sampler=sampler, pruner=pruner)
            study.add_trials(_finished(n_finished))
            study.trials  # noqa: B018  (read once, as any search has)
            for _ in range(60):
                began = time.perf_counter()
                trial = study.ask()
                n_heads = trial.suggest_categorical("n_heads", N_HEADS)
                value = float(n_heads) + trial.suggest_categorical("learning_rate", RATES)
                for step in range(1, N_REPORTS + 1):
                    trial.report(value + 1 / step, step)
                    trial.should_prune()
                study.tell(trial, value)
                seconds.append(time.perf_counter() - began)
        return median(seconds[10:])

    def ours() -> tuple[optuna.samplers.BaseSampler, optuna.pruners.BasePruner]:
        return archopt.HeadAllocationSampler(d_model=48, n_samples=1_000, family="table", seed=0), archopt.HDIPruner(
            seed=0
        )

    theirs = work(new_database("tpe"), 100, optuna.samplers.TPESampler(seed=0), optuna.pruners.MedianPruner())
    at_hundred = work(new_database("small"), 100, *ours())
    at_ten_thousand = work(new_database("large"), 10_000, *ours())
    print(
        f"a trial: archopt {1000 * at_ten_thousand:.0f} ms among 10,000 and {1000 * at_hundred:.0f} ms among 100; "
        f"TPE with MedianPruner {1000 * theirs:.0f} ms among 100; ratio {at_ten_thousand / theirs:.2f}"
    )
    assert at_ten_thousand <= 3 * theirs


def _finished(count: int) -> list[optuna.trial.FrozenTrial]:
    rng = np.random.default_rng(0)
    distributions = {
        "n_heads": optuna.distributions.CategoricalDistribution(N_HEADS),
        "learning_rate": optuna.distributions.CategoricalDistribution(RATES),
    }
    trials = []
    for _ in range(count):
        params = {"n_heads": int(rng.choice(N_HEADS)), "learning_rate": float(rng.choice(RATES))}
        value = (
            abs(np.log2(params["n_heads"] / 4)) + abs(np.log10(params["learning_rate"] / 0.003)) + rng.normal(0, 0.1)
        )
        curve = {step: float(value + 1 / step) for step in range(1, N_REPORTS + 1)}
        trials.append(
            optuna.create_trial(params=params, distributions=distributions, value=value, intermediate_values=curve)
        )
    return trials
