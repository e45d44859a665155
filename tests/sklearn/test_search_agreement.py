"""An estimator is what a trial of `archopt.search` trains: the same rows, seed and configuration, the same errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from numpy.typing import NDArray
from sklearn.metrics import log_loss, root_mean_squared_error

from archopt.allocation import HeadAllocation
from archopt.data import TableDataset, load_dataset
from archopt.evaluation import TrialSpec, default_recipe
from archopt.evaluation.training import train
from archopt.sklearn import MultiHeadNWClassifier, MultiHeadNWRegressor

pytestmark = pytest.mark.torch

SPEC = TrialSpec(HeadAllocation(4, 3), "geometric", decorrelation=0.1, learning_rate=0.02, replicate=0, score_test=True)
SAME = {"d_model": 12, "n_heads": 4, "weighting": "geometric", "decorrelation": 0.1, "learning_rate": 0.02}
SEED = 5


def _trial(dataset: TableDataset) -> float:
    outcome = train(dataset, SPEC, default_recipe(dataset, d_model=12, n_steps=60, seed=SEED), lambda _: False)
    assert outcome.test_value is not None
    return outcome.test_value


def _written(folder: Path, inputs: NDArray[Any], target: NDArray[Any]) -> str:
    frame = pd.DataFrame(inputs, columns=[f"x{j}" for j in range(inputs.shape[1])])
    frame.assign(y=target).to_csv(folder / "table.csv", index=False)
    return str(folder / "table.csv")


def _rows(dataset: TableDataset, inputs: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which rows of the file the search trains and tests on, in its order, told from their first column's rank."""
    first = np.concatenate([dataset.train.inputs[:, 0], dataset.valid.inputs[:, 0], dataset.test.inputs[:, 0]])
    rows = np.argsort(inputs[:, 0])[np.argsort(np.argsort(first))]
    return rows[: dataset.n_samples], rows[-len(dataset.test) :]


def test_regression(tmp_path: Path, inputs: NDArray[Any], numbers: NDArray[Any]) -> None:
    dataset = load_dataset(_written(tmp_path, inputs, numbers), target="y", seed=SEED)
    train_rows, test_rows = _rows(dataset, inputs)
    regressor = MultiHeadNWRegressor(**SAME, n_steps=60, random_state=SEED).fit(inputs[train_rows], numbers[train_rows])
    error = root_mean_squared_error(numbers[test_rows], regressor.predict(inputs[test_rows]))
    # trained on the same float32 numbers; the trial predicts in float32, the estimator in float64
    assert error == pytest.approx(_trial(dataset), rel=1e-5)


def test_classification(tmp_path: Path, inputs: NDArray[Any], labels: NDArray[Any]) -> None:
    dataset = load_dataset(_written(tmp_path, inputs, labels), target="y", seed=SEED)
    train_rows, test_rows = _rows(dataset, inputs)
    classifier = MultiHeadNWClassifier(**SAME, n_steps=60, random_state=SEED).fit(
        inputs[train_rows], labels[train_rows]
    )
    loss = log_loss(labels[test_rows], classifier.predict_proba(inputs[test_rows]), labels=classifier.classes_)
    assert loss == pytest.approx(_trial(dataset), rel=1e-5)
