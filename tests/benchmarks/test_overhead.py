"""What a proposal costs beside the trial that it proposes: a ratio in one run, medians of several."""

import time
from statistics import median

import numpy as np
import optuna
import pytest

import archopt
from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.evaluation import TrialSpec
from archopt.evaluation.recipe import default_recipe

pytest.importorskip("torch")
pytestmark = [pytest.mark.bench, pytest.mark.torch]

HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]
N_TRIALS = 150  # about what a default search of digits reaches


def _seconds_to_propose(sampler: optuna.samplers.BaseSampler) -> float:
    """Median seconds of ask, suggest and tell, over the last 20 of `N_TRIALS` trials."""
    study = optuna.create_study(sampler=sampler)
    rng, spent = np.random.default_rng(0), []
    for _ in range(N_TRIALS):
        begun = time.perf_counter()
        trial = study.ask()
        n_heads = trial.suggest_categorical("n_heads", HEADS)
        trial.suggest_categorical("weighting", ["uniform", "geometric", "fibonacci", "learned"])
        trial.suggest_categorical("decorrelation", [0.0, 0.1])
        trial.suggest_categorical("learning_rate", [0.001, 0.003, 0.01, 0.03])
        study.tell(trial, float((np.log2(48 / n_heads) - 3) ** 2 + rng.normal()))
        spent.append(time.perf_counter() - begun)
    return median(spent[-20:])


def test_a_proposal_costs_a_small_part_of_a_trial() -> None:
    import torch

    from archopt.evaluation.training import train

    torch.set_num_threads(1)
    dataset = load_dataset("sklearn:digits")
    recipe = default_recipe(dataset, d_model=48)
    trials = []
    for n_heads in (2, 8, 16):
        spec = TrialSpec(HeadAllocation(n_heads, 48 // n_heads), "uniform", 0.0, 0.003, replicate=0)
        begun = time.perf_counter()
        train(dataset, spec, recipe, lambda report: False)
        trials.append(time.perf_counter() - begun)
    ours = _seconds_to_propose(archopt.HeadAllocationSampler(d_model=48, n_samples=1000, family="table", seed=0))
    theirs = _seconds_to_propose(optuna.samplers.TPESampler(seed=0))
    share = ours / median(trials)
    print(
        f"\npropose {1e3 * ours:.1f} ms (TPE {1e3 * theirs:.1f} ms), {share:.1%} of a trial of {median(trials):.2f} s"
    )
    assert share <= 0.10
