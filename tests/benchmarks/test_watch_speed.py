"""What one look of `archopt watch` costs on a campaign of 5,000 trials."""

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import optuna
import pytest
from optuna.distributions import CategoricalDistribution

from archopt.campaign.reading import open_to_read
from archopt.campaign.watch import REFRESH_SECONDS, CampaignView

pytestmark = pytest.mark.bench
N_TRIALS = 5_000
HEADS, RATES = CategoricalDistribution([1, 2, 3, 4, 6, 8, 12, 16, 24, 48]), CategoricalDistribution([0.003, 0.01, 0.03])


def _cpu_seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _fill(path: Path, n_trials: int) -> None:
    """Copies of the first trial with other heads, rates and values: through Optuna 5,000 take minutes."""
    draw = random.Random(0)
    with sqlite3.connect(path) as file:
        trial = file.execute("SELECT study_id, state, datetime_start, datetime_complete FROM trials").fetchone()
        spaces = dict(file.execute("SELECT param_name, distribution_json FROM trial_params").fetchall())
        for at in range(1, n_trials):
            heads, rate = draw.randrange(len(HEADS.choices)), draw.randrange(len(RATES.choices))
            value = 1.0 + abs(heads - 3) / 10 + draw.gauss(0.0, 0.05)
            file.execute(
                "INSERT INTO trials (number, study_id, state, datetime_start, datetime_complete) "
                "VALUES (?, ?, ?, ?, ?)",
                (at, *trial),
            )
            file.execute(
                "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?, 0, ?, 'FINITE')",
                (at + 1, value),
            )
            for name, place in (("n_heads", heads), ("learning_rate", rate)):
                file.execute(
                    "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "
                    "VALUES (?, ?, ?, ?)",
                    (at + 1, name, place, spaces[name]),
                )
    file.close()


def test_a_look_costs_little_of_its_interval(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(study_name="big", storage=url)
    study.set_user_attr("archopt:settings", {"d_model": 48})
    settings = {
        "data": "t.csv",
        "d_model": 8,
        "n_trials": 9_999,
        "timeout_seconds": None,
        "confidence": 0.9,
        "replicates": 1,
    }
    recorded = {"campaign": "big", "settings": settings, "d_models": [], "n_samples": []}
    study.set_user_attr("archopt:campaign", recorded)
    spaces = {"n_heads": HEADS, "learning_rate": RATES}
    one = optuna.create_trial(params={"n_heads": 4, "learning_rate": 0.01}, distributions=spaces, value=1.0)
    study.add_trial(one)
    _fill(tmp_path / "study.db", N_TRIALS)
    view = CampaignView.of(open_to_read(url), "big", url)
    assert view.read().n_finished == N_TRIALS
    assert median(_cpu_seconds(view.read) for _ in range(9)) < 0.05 * REFRESH_SECONDS  # measured: 0.007 of it
    looks = []
    for _ in range(3):
        for _ in range(5):
            study.add_trial(one)
        looks.append(_cpu_seconds(lambda: view.read(every_cell=True)))
    assert median(looks) < 0.5 * REFRESH_SECONDS  # with the posterior, which rests ten times as long; measured: 0.15
