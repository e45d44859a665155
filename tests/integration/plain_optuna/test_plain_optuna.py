"""Somebody's own study: two changed lines, or none; then `archopt recommend` from a shell."""

import json
import math
from pathlib import Path
from typing import Any

import optuna
import pytest

import archopt
from archopt.cli import run

HEADS = [1, 2, 4, 8, 16]
BEST = 4


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'study.db'}"


def _recommended(url: str, capfd: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capfd.readouterr()
    assert run(["recommend", "--storage", url, "--study", "theirs", *options, "--json"]) == 0
    return dict(json.loads(capfd.readouterr().out))


def _loss(n_heads: int, learning_rate: float, step: int) -> float:
    """Least at BEST heads and a rate of 1e-3; falls with the steps."""
    return 1.0 + 0.2 * math.log2(n_heads / BEST) ** 2 + 0.1 * math.log10(learning_rate / 1e-3) ** 2 + 1.0 / step


def _objective(trial: optuna.Trial, sign: float = 1.0) -> float:
    """Knows nothing of archopt."""
    n_heads = trial.suggest_categorical("num_heads", HEADS)
    learning_rate = trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
    for step in range(1, 5):
        trial.report(sign * _loss(n_heads, learning_rate, step), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return sign * _loss(n_heads, learning_rate, step)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_sampler_and_pruner_are_all_it_takes(url: str, capfd: pytest.CaptureFixture[str], direction: str) -> None:
    sign = -1.0 if direction == "maximize" else 1.0
    study = optuna.create_study(
        study_name="theirs",
        storage=url,
        direction=direction,
        sampler=archopt.HeadAllocationSampler(d_model=64, n_samples=2e6, head_param="num_heads", seed=0),
        pruner=archopt.HDIPruner(seed=0),
    )
    study.optimize(lambda trial: _objective(trial, sign), n_trials=20)
    assert {trial.state.name for trial in study.trials} <= {"COMPLETE", "PRUNED"}
    found = _recommended(url, capfd)  # the sampler left a note of d_model
    assert found["allocation"] == {"n_heads": BEST, "head_dim": 16}
    assert (found["params"]["num_heads"], found["direction"]) == (BEST, direction)
    assert found["p_best"] > 0.5


def test_a_study_that_never_saw_archopt(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Widths and heads are drawn apart, as people do, and pairs that do not divide are given up."""

    def objective(trial: optuna.Trial) -> float:
        width = trial.suggest_int("model.hidden_size", 64, 192, step=64)
        n_heads = trial.suggest_categorical("model.num_attention_heads", [1, 2, 3, 4, 8, 16])
        if width % n_heads:
            raise optuna.TrialPruned
        return abs(math.log2(width / n_heads / 16)) + 64 / width

    sampler = optuna.samplers.TPESampler(seed=0)
    study = optuna.create_study(study_name="theirs", storage=url, sampler=sampler)
    study.optimize(objective, n_trials=45)
    found = _recommended(url, capfd)
    width, n_heads = found["params"]["model.hidden_size"], found["params"]["model.num_attention_heads"]
    assert found["allocation"] == {"n_heads": n_heads, "head_dim": width // n_heads}
    assert objective(optuna.trial.FixedTrial(found["params"])) == pytest.approx(study.best_value, abs=0.1)
    assert {(row["n_heads"] * row["head_dim"]) for row in found["allocations"]} <= {64, 128, 192}


def test_a_width_that_the_study_does_not_hold_is_given(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    study = optuna.create_study(study_name="theirs", storage=url, sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(_objective, n_trials=30)
    assert run(["recommend", "--storage", url, "--study", "theirs"]) == 2
    assert "give d_model beside 'num_heads'" in capfd.readouterr().err
    found = _recommended(url, capfd, "--d-model", "64")
    assert found["allocation"] == {"n_heads": BEST, "head_dim": 16}
