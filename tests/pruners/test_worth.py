"""The worth of diversity, on trials in which it is known what diversity tells."""

import math

import numpy as np
import optuna
import pytest

import archopt
from archopt.allocation import HeadAllocation
from archopt.pruners import worth_of_diversity
from archopt.search_space import TrialRecord
from archopt.search_space.records import DiversityReport

STEPS = (10, 20, 100)
SPLITS = [HeadAllocation(n_heads, 48 // n_heads) for n_heads in (2, 4, 8)]


def _records(n: int, told_by_diversity: float, seed: int = 0) -> list[TrialRecord]:
    """n finished trials of which the curve says half, and HDI so much of the rest; each its own configuration."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n):
        split = SPLITS[number % 3]
        shown, hidden = 0.05 * rng.normal(size=2)
        final = 1.0 + shown + hidden
        level = 0.8 - 0.02 * split.n_heads  # raw HDI has levels of its own at every number of heads
        hdi = level - 0.2 * (told_by_diversity * hidden + 0.05 * (1 - told_by_diversity) * rng.normal())
        found.append(
            TrialRecord(
                number,
                "complete",
                {"configuration": number},
                split,
                final,
                tuple((step, 1.0 + shown + (step == 100) * hidden) for step in STEPS),
                tuple(DiversityReport(step, hdi, 0.5) for step in STEPS),
            )
        )
    return found


def test_what_the_curve_does_not_know_helps() -> None:
    found = worth_of_diversity(_records(150, told_by_diversity=0.9))
    assert found.helped == "yes"
    # half of the variance is the curve's and nearly all of the rest is told: the priors keep some of it back
    assert found.gain is not None
    assert found.gain > 0.6
    assert found.low is not None
    assert found.low > 0.4
    assert found.tau is not None
    assert found.tau_error is not None
    assert found.tau < -5 * found.tau_error  # more diverse heads, lower loss
    assert (found.n_trials, found.n_rungs) == (150, 2)  # the last rung forecasts nothing


def test_noise_does_not_help() -> None:
    verdicts = [worth_of_diversity(_records(150, 0.0, seed)) for seed in range(10)]
    assert sum(found.helped == "yes" for found in verdicts) <= 1  # 5 % expected
    assert all(found.tau is not None and abs(found.tau) < 4 * (found.tau_error or 0.0) for found in verdicts)


def test_too_few_trials_or_no_diversity_cannot_tell() -> None:
    assert worth_of_diversity([]).helped == "cannot tell"
    few = worth_of_diversity(_records(12, 0.9))
    assert (few.helped, few.gain, few.n_rungs) == ("cannot tell", None, 0)
    one_head = [
        TrialRecord(k, "complete", {}, HeadAllocation(1, 48), 1.0 + k, ((10, 1.0 + k), (20, 1.0 + k)))
        for k in range(40)
    ]
    alone = worth_of_diversity(one_head)
    assert (alone.helped, alone.tau, alone.n_trials) == ("cannot tell", None, 0)


def test_of_any_study_and_missing_or_odd_reports_do_no_harm() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), direction="maximize")

    def objective(trial: optuna.Trial) -> float:
        n_heads = trial.suggest_categorical("n_heads", [1, 2, 4])
        rng = np.random.default_rng(trial.number)
        for step in (1, 2, 3):
            hdi = math.nan if n_heads == 1 or trial.number % 7 == 0 else float(rng.uniform(0.2, 0.9))
            archopt.report_diversity(trial, step, math.nan if trial.number % 11 == 0 else -1.0, hdi)
        return float(rng.normal())

    study.optimize(objective, n_trials=60)
    found = archopt.diversity_worth(study, d_model=48)
    assert found.helped in ("no", "cannot tell")
    assert found == archopt.diversity_worth(study, d_model=48)
    with pytest.raises(archopt.ArchoptError, match="no head parameter"):
        archopt.diversity_worth(optuna.create_study())
