"""The sampler in Ray Tune: four trials at a time, in processes of their own."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

import archopt

ray = pytest.importorskip("ray", reason="pip install 'ray[tune]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of many kinds and from its threads


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Four slots, whatever the machine has."""
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def loss(config: dict[str, Any]) -> dict[str, float]:
    """A bowl in log2 of head_dim, best at 16, and of the learning rate."""
    return {
        "loss": 0.1 * math.log2(64 / config["n_heads"] / 16) ** 2 + abs(math.log10(config["learning_rate"] / 1e-3)) / 4
    }


def test_four_concurrent_trials_share_one_sampler_and_the_study_is_read_afterwards(tmp_path: Path) -> None:
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    sampler = archopt.HeadAllocationSampler(d_model=64, n_samples=2_000_000, family="text", seed=0)
    url = f"sqlite:///{tmp_path / 'heads.db'}"
    search = OptunaSearch(sampler=sampler, storage=optuna.storages.RDBStorage(url), study_name="heads")
    space = {"n_heads": tune.choice([1, 2, 4, 8, 16]), "learning_rate": tune.loguniform(1e-4, 1e-2)}
    settings = tune.TuneConfig(metric="loss", mode="min", num_samples=14, max_concurrent_trials=4, search_alg=search)
    results = tune.Tuner(
        loss, param_space=space, tune_config=settings, run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    ).fit()
    assert results.num_errors == 0
    assert len(results) == 14

    study = optuna.load_study(study_name="heads", storage=url)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 14
    # Which trial ends before which is asked for is up to the machine: one of the five may lose its turn.
    assert len({trial.params["n_heads"] for trial in study.trials}) >= 4
    assert archopt.recommend(study).allocation in (archopt.HeadAllocation(4, 16), archopt.HeadAllocation(2, 32))
