"""The default recipe: valid for every task, and refusing what cannot run."""

from dataclasses import replace

import numpy as np
import pytest

from archopt.data.dataset import TableDataset, TableSplit, TextDataset
from archopt.errors import OptionError
from archopt.evaluation import METRICS, default_recipe


def _table(task="regression"):
    classes = ("a", "b") if task == "classification" else ()
    dtype = np.int64 if task == "classification" else np.float32
    split = TableSplit(np.zeros((6, 3), np.float32), np.zeros(6, dtype))
    return TableDataset("t", "0", task, split, split, split, ("x", "y", "z"), classes, "target", 0.0, 1.0, 6, ())


def _text():
    data = np.zeros(500, np.uint8)
    return TextDataset("t", "0", data, data, data, 500, ())


DATASETS = [("regression", _table()), ("classification", _table("classification")), ("text", _text())]


@pytest.mark.parametrize(("task", "dataset"), DATASETS)
def test_metrics_of_the_task_only(task, dataset):
    assert default_recipe(dataset, d_model=8).metric == METRICS[task][0]
    assert default_recipe(dataset, d_model=8, metric=METRICS[task][1]).metric == METRICS[task][1]
    with pytest.raises(OptionError, match=f"metric for {task} must be one of {METRICS[task][0]}"):
        default_recipe(dataset, d_model=8, metric="accuracy")


@pytest.mark.parametrize("n_steps", [1, 2, 7, 100])
def test_rungs_rise_to_the_last_step(n_steps):
    recipe = default_recipe(_table(), d_model=8, n_steps=n_steps)
    assert recipe.n_steps == recipe.rungs[-1] == n_steps
    assert len(recipe.rungs) == min(5, n_steps) or n_steps == 7


def test_five_rungs_by_default():
    for _, dataset in DATASETS:
        recipe = default_recipe(dataset, d_model=8)
        assert [rung / recipe.n_steps for rung in recipe.rungs] == [0.1, 0.2, 0.4, 0.7, 1.0]


@pytest.mark.parametrize(("task", "dataset"), DATASETS)
def test_a_width_that_would_not_fit_names_the_largest_that_does(task, dataset):
    with pytest.raises(OptionError, match=r"d_model = 100,000 needs .* use d_model of at most ") as caught:
        default_recipe(dataset, d_model=100_000)
    largest = int(str(caught.value).rsplit(" ", 1)[1].replace(",", ""))
    default_recipe(dataset, d_model=largest)
    with pytest.raises(OptionError, match=f"at most {largest:,}"):
        default_recipe(dataset, d_model=largest + 1)


@pytest.mark.parametrize("other", [{"precision": "bfloat16"}, {"device": "cuda"}])
def test_blocks_are_for_float32_on_a_cpu(other):
    with pytest.raises(OptionError, match=r"'blocked' is for float32 on a CPU but got .*: use auto or sdpa$"):
        default_recipe(_text(), d_model=8, attention="blocked", **other)


def test_xformers_on_a_cpu_is_refused():
    with pytest.raises(OptionError, match="needs a CUDA device"):
        default_recipe(_text(), d_model=8, attention="xformers")


def test_no_steps_are_refused():
    with pytest.raises(OptionError, match="n_steps must be a whole number of at least 1"):
        default_recipe(_text(), d_model=8, n_steps=0)


@pytest.mark.parametrize(("rows", "context_rows"), [(6, 256), (1_078, 269), (5_000, 1_024)])
def test_the_context_is_a_quarter_of_the_rows_within_bounds(rows, context_rows):
    table = _table()
    train = TableSplit(np.zeros((rows, 3), np.float32), np.zeros(rows, np.float32))
    assert default_recipe(replace(table, train=train), d_model=8).context_rows == context_rows
