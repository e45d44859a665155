"""The records: what they refuse, and that they survive JSON."""

import json
from dataclasses import asdict, replace

import pytest

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.evaluation import METRICS, Recipe, TrialSpec

SPEC = TrialSpec(HeadAllocation(2, 3), "uniform", 0.0, 0.01, 0)
RECIPE = Recipe(
    metric="rmse",
    n_steps=10,
    rungs=(5, 10),
    batch_size=4,
    context_rows=8,
    context_length=8,
    n_layers=1,
    warmup_steps=2,
    weight_decay=0.1,
    kernel="gaussian",
    attention="auto",
    device="cpu",
    seed=0,
    max_scored=100,
)


def test_a_recipe_survives_json():
    assert Recipe(**json.loads(json.dumps(asdict(RECIPE)))) == RECIPE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metric": "accuracy"}, "metric must be one of rmse"),
        ({"kernel": "box"}, "kernel must be one of gaussian"),
        ({"attention": "flash"}, "attention must be one of auto"),
        ({"device": "tpu"}, "device must be one of cpu, cuda"),
        ({"precision": "float16"}, "precision must be one of float32, bfloat16"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"rungs": (5, 9)}, "rungs must rise from at least 1 to n_steps = 10"),
        ({"rungs": (5, 5, 10)}, "rungs must rise"),
        ({"rungs": ()}, "rungs must rise"),
        ({"rungs": (0, 10)}, "rungs must rise"),
        ({"warmup_steps": 11}, "warmup_steps must be from 0"),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(change, says):
    with pytest.raises(OptionError, match=says) as caught:
        replace(RECIPE, **change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weighting": "best"}, "weighting must be one of uniform, geometric, fibonacci, learned"),
        ({"decorrelation": -0.1}, "decorrelation must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"learning_rate": float("inf")}, "learning_rate must be"),
        ({"replicate": -1}, "replicate must be"),
        ({"weight_decay": -0.1}, "weight_decay must be a finite number"),
        ({"warmup": 1.5}, "warmup must be a share of the steps"),
    ],
)
def test_a_bad_spec_is_refused(change, says):
    with pytest.raises(OptionError, match=says):
        replace(SPEC, **change)


def test_every_task_has_a_default_metric():
    assert {task: metrics[0] for task, metrics in METRICS.items()} == {
        "regression": "rmse",
        "classification": "log_loss",
        "text": "nats_per_byte",
    }
