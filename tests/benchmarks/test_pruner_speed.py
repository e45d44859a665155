"""What a decision of the pruner costs, against a proposal of TPE and the median pruner, at 1,000 and 10,000 trials."""

import math
import time

import numpy as np
import optuna
import pytest

import archopt
from archopt.search_space import ATTRIBUTES

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

STEPS = (15, 30, 60, 105, 150)
SPLITS = {
    "n_heads": optuna.distributions.CategoricalDistribution([1, 2, 3, 4, 6, 8, 12, 16, 24]),
    "weighting": optuna.distributions.CategoricalDistribution(["uniform", "geometric", "fibonacci"]),
}
RATE = {"learning_rate": optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True)}


def _study(n_trials: int, distributions: dict) -> optuna.Study:
    """Three trials in ten pruned at the second rung; 50 replicates, whose shared luck the model has to learn."""
    rng = np.random.default_rng(0)
    study = optuna.create_study(sampler=archopt.HeadAllocationSampler(d_model=48, n_samples=1_000, seed=0))
    for _ in range(n_trials):
        params = {
            name: rng.choice(held.choices).item() if hasattr(held, "choices") else float(10 ** rng.uniform(-4, -1))
            for name, held in distributions.items()
        }
        final = 1.0 + 0.1 * np.log2(params["n_heads"] / 4) ** 2 + 0.05 * rng.normal()
        pruned = rng.random() < 0.3
        steps = STEPS[:2] if pruned else STEPS
        hdi = [math.nan if params["n_heads"] == 1 else float(rng.uniform(0.3, 0.9)) for _ in steps]
        study.add_trial(
            optuna.create_trial(
                params=params,
                distributions=distributions,
                state=optuna.trial.TrialState.PRUNED if pruned else optuna.trial.TrialState.COMPLETE,
                value=None if pruned else final,
                intermediate_values={k: final + 0.3 * math.exp(-k / 30) + 0.02 * rng.normal() for k in steps},
                user_attrs={
                    ATTRIBUTES.diversity: [[k, shown, 0.5] for k, shown in zip(steps, hdi, strict=True)],
                    ATTRIBUTES.replicate: int(rng.integers(50)),
                },
            )
        )
    return study


def _seconds(study: optuna.Study, distributions: dict, pruner: optuna.pruners.BasePruner) -> list[float]:
    """Of each decision of eight trials, by report; the first trial pays for what is fitted once for all of them."""
    rng, spent = np.random.default_rng(1), []
    for _ in range(8):
        trial = study.ask(distributions)
        for step in STEPS[:-1]:
            archopt.report_diversity(trial, step, 1.2 + 0.02 * rng.normal(), 0.6)
            frozen = study._storage.get_trial(trial._trial_id)
            begun = time.perf_counter()
            pruner.prune(study, frozen)
            spent.append(time.perf_counter() - begun)
        study.tell(trial, 1.3)
    return spent


def _proposal_seconds(study: optuna.Study, distributions: dict) -> list[float]:
    """Of TPE's proposals on the same trials."""
    study.sampler = optuna.samplers.TPESampler(seed=0)
    spent = []
    for _ in range(8):
        begun = time.perf_counter()
        trial = study.ask(distributions)
        spent.append(time.perf_counter() - begun)
        study.tell(trial, 1.3)
    return spent


@pytest.mark.parametrize("space", ["enumerated", "with a continuous parameter"])
def test_a_decision_costs_about_a_proposal_of_tpe_and_grows_no_faster_than_the_study(space):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = SPLITS if space == "enumerated" else {**SPLITS, **RATE}
    ours, theirs, median = {}, {}, {}
    for n_trials in (1_000, 10_000):
        study = _study(n_trials, distributions)
        spent = _seconds(study, distributions, archopt.HDIPruner(seed=0))
        ours[n_trials] = float(np.median(spent[4:]))
        median[n_trials] = float(np.median(_seconds(study, distributions, optuna.pruners.MedianPruner())[4:]))
        theirs[n_trials] = float(np.median(_proposal_seconds(study, distributions)))
        print(
            f"\n{space}, {n_trials:,} trials: median {1e3 * ours[n_trials]:.2f} ms, largest of the first trial "
            f"{1e3 * max(spent[:4]):.0f}, of later ones {1e3 * max(spent[4:]):.0f}; MedianPruner "
            f"{1e3 * median[n_trials]:.2f} ms; a proposal of TPE {1e3 * theirs[n_trials]:.1f} ms",
            end="",
        )
    print()
    assert ours[1_000] < 2 * theirs[1_000]
    assert ours[10_000] < 10 * ours[1_000]
