"""A search as it might have gone, with numbers that follow from a stated landscape: loss 0.2 + 0.02 log2(d_k/10)^2."""

import math
import random

import pytest

RUNGS = (20, 60, 180, 360)
DIMS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)
SCHEMES = ("uniform", "geometric", "fibonacci")


def true_loss(head_dim):
    return 0.2 + 0.02 * math.log2(head_dim / 10) ** 2


def step_seconds(head_dim):
    return 0.004 + 0.001 * (48 // head_dim)


def trial_row(number, head_dim, rng, state="complete"):
    learning_rate = round(10 ** rng.uniform(-3, -1.5), 5)
    final = true_loss(head_dim) + 0.02 * (math.log10(learning_rate) + 2.2) ** 2 + rng.gauss(0, 0.01)
    rungs = {"complete": RUNGS, "pruned": RUNGS[: rng.choice((1, 2, 3))], "failed": ()}[state]
    curve = [[step, final + 1.5 * math.exp(-step / 60)] for step in rungs]
    n_heads = 48 // head_dim
    hdi = 1 - head_dim / 48 - rng.uniform(0, 0.05)
    diversity = [[step, hdi, 0.9 - 0.1 * rng.random()] for step in rungs]
    if n_heads == 1:
        diversity = [[step, math.nan, None] for step in rungs]
    return {
        "number": number,
        "state": state,
        "n_heads": n_heads,
        "head_dim": head_dim,
        "weighting": "uniform" if n_heads == 1 else rng.choice(SCHEMES),
        "decorrelation": rng.choice((0.0, 0.01)),
        "learning_rate": learning_rate,
        "replicate": 0,
        "value": curve[-1][1] if state == "complete" else None,
        "seconds_per_step": None if state == "failed" else step_seconds(head_dim),
        "curve": curve,
        "diversity": diversity,
        "reason": {"complete": None, "pruned": "5 % chance to be best", "failed": "loss became NaN at step 12"}[state],
        "train_seconds": step_seconds(head_dim) * rungs[-1] if rungs else 0.4,
    }


@pytest.fixture
def make_rows():
    """Rows of n trials: a fifth pruned, one in twenty failed, the others complete."""

    def made(n_trials=60, seed=0):
        rng = random.Random(seed)
        states = ["failed" if k % 20 == 19 else "pruned" if k % 5 == 3 else "complete" for k in range(n_trials)]
        return [trial_row(k, DIMS[k % 10 - k // 10 % 10], rng, state) for k, state in enumerate(states)]

    return made


@pytest.fixture
def rows(make_rows):
    return make_rows()


@pytest.fixture
def recommendation():
    tied = {8, 12, 16}
    p_best = {8: 0.27, 12: 0.58, 16: 0.1, 6: 0.04, 24: 0.01}
    allocations = [
        {
            "n_heads": 48 // dim,
            "head_dim": dim,
            "mean": true_loss(dim),
            "low": true_loss(dim) - 0.008 - 0.002 * abs(math.log2(dim / 10)),
            "high": true_loss(dim) + 0.008 + 0.002 * abs(math.log2(dim / 10)),
            "p_best": p_best.get(dim, 0.0),
            "n_trials": 3 + 4 * (dim in tied),
            "seconds_per_step": step_seconds(dim),
            "in_confidence_set": dim in tied,
        }
        for dim in DIMS
    ]
    params = {"n_heads": 4, "weighting": "uniform", "decorrelation": 0.0, "learning_rate": 0.0063}
    confidence_set = [
        {
            "allocation": {"n_heads": 48 // dim, "head_dim": dim},
            "params": {**params, "n_heads": 48 // dim},
            "mean": true_loss(dim),
            "sd": 0.005,
            "p_best": p_best[dim],
            "n_trials": 7,
        }
        for dim in (12, 8, 16)
    ]
    comparison = [
        ("recommended", 12, 0.2087, 0.0041),
        ("8 heads", 6, 0.2213, 0.0058),
        ("head_dim 16", 16, 0.2101, 0.0037),
        ("head_dim 64 or nearest", 48, 0.3104, 0.0069),
        ("closed form", 16, 0.2101, 0.0037),
    ]
    return {
        "schema": "archopt.recommendation/1",
        "allocation": {"n_heads": 4, "head_dim": 12},
        "weighting": "uniform",
        "params": params,
        "p_best": 0.58,
        "metric": "log_loss",
        "direction": "minimize",
        "confidence": 0.9,
        "noise_sd": 0.01,
        "tolerance": 0.001,
        "allocations": allocations,
        "confidence_set": confidence_set,
        "theory": {
            "law": "log",
            "head_dim": 16.6,
            "n_heads": 2.9,
            "nearest": {"n_heads": 3, "head_dim": 16},
            "constant": 12.0,
            "intrinsic_dim": 7.7,
            "intrinsic_dim_range": [5.2, 7.7],
            "sd_octaves": 1.5,
        },
        "comparison": [
            {
                "label": label,
                "allocation": {"n_heads": 48 // dim, "head_dim": dim},
                "weighting": "uniform",
                "learning_rate": 0.0063,
                "test": test,
                "test_sd": sd,
                "n": 3,
                "gain": comparison[0][2] - test,
                "gain_se": 0.004,
                "seconds_per_step": step_seconds(dim),
            }
            for label, dim, test, sd in comparison
        ],
        "search": {
            "stopped_because": "certain enough: the best two allocations differ by less than the tolerance",
            "complete": 45,
            "pruned": 12,
            "failed": 3,
            "wall_seconds": 214.0,
        },
        "data": {
            "name": "sklearn:digits",
            "kind": "table",
            "hash": "ab" * 32,
            "n_samples": 1078,
            "n_available": 1078,
            "notes": ["classification: 10 classes", "split 60/20/20 at random, seed 0"],
        },
        "reason": "12 trials at 3 allocations near the posterior's minimum; the closed form was the prior.",
        "caveats": [
            "A small proxy's best allocation need not be the big model's.",
            "Only n = 1,078 training rows and d_model 48 were tried.",
        ],
        "settings": {"d_model": 48, "seed": 0, "trials": 60, "head_dim_max": None, "learning_rate": [0.001, 0.03]},
        "versions": {"archopt": "0.1.0", "torch": "2.13.0"},
    }


@pytest.fixture
def nothing():
    """What there is before any trial has finished."""
    return {
        "schema": "archopt.recommendation/1",
        "allocation": None,
        "weighting": None,
        "params": {},
        "p_best": None,
        "metric": "rmse",
        "allocations": [],
        "confidence_set": [],
        "theory": None,
        "comparison": [],
        "search": {"stopped_because": "interrupted", "complete": 0, "pruned": 0, "failed": 2, "wall_seconds": 3.2},
        "data": {"name": "my.csv", "kind": "table", "n_samples": 90, "n_available": 90, "notes": []},
        "reason": "",
        "caveats": [],
        "settings": {},
        "versions": {},
    }
