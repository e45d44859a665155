"""The estimators inside scikit-learn's own tools."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from archopt.sklearn import MultiHeadNWClassifier, MultiHeadNWRegressor

pytestmark = pytest.mark.torch

Array = NDArray[Any]

REGRESSOR = MultiHeadNWRegressor(d_model=12, n_heads=3, n_steps=60, random_state=0)
CLASSIFIER = MultiHeadNWClassifier(d_model=12, n_heads=3, n_steps=60, random_state=0)


def test_a_grid_over_heads_fits_every_split_and_keeps_the_best(inputs: Array, numbers: Array) -> None:
    grid = GridSearchCV(REGRESSOR, {"n_heads": [1, 3, 12]}, cv=3).fit(inputs, numbers)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
    assert len(set(grid.cv_results_["mean_test_score"])) == 3
    assert grid.best_estimator_.allocation_.n_heads == grid.best_params_["n_heads"]
    assert grid.best_estimator_.allocation_.d_model == 12


def test_a_grid_goes_on_where_heads_do_not_divide(inputs: Array, numbers: Array) -> None:
    grid = GridSearchCV(REGRESSOR, {"n_heads": [3, 5]}, cv=3)
    with (
        pytest.warns(FitFailedWarning, match="d_model = 12 does not divide into 5 heads"),
        pytest.warns(UserWarning, match="test scores are non-finite"),
    ):
        grid.fit(inputs, numbers)
    assert grid.best_params_ == {"n_heads": 3}


def test_a_pipeline_brings_what_is_no_number(inputs: Array, labels: Array) -> None:
    frame = pd.DataFrame(inputs, columns=list("abcd")).assign(colour=np.where(inputs[:, 2] > 5, "red", "blue"))
    frame.loc[::7, "a"] = np.nan
    columns = ColumnTransformer([("text", OneHotEncoder(), ["colour"])], remainder=SimpleImputer())
    pipeline = make_pipeline(columns, CLASSIFIER)
    assert cross_val_score(pipeline, frame, labels, cv=3).mean() > 0.6  # the largest class is half of the rows
    pipeline.set_params(multiheadnwclassifier__n_heads=6).fit(frame, labels)
    assert pipeline[-1].allocation_.n_heads == 6


def test_names_of_columns_are_kept_and_checked(inputs: Array, numbers: Array) -> None:
    frame = pd.DataFrame(inputs, columns=list("abcd"))
    regressor = clone(REGRESSOR).fit(frame, numbers)
    assert regressor.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert regressor.predict(frame).tolist() == clone(REGRESSOR).fit(inputs, numbers).predict(inputs).tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="X has 3 features, but MultiHeadNWRegressor is expecting 4"):
        clone(REGRESSOR).fit(inputs, numbers).predict(inputs[:, :3])


def test_folds_in_other_processes_give_the_same_scores(inputs: Array, numbers: Array) -> None:
    here = cross_val_score(REGRESSOR, inputs, numbers, cv=2)
    assert cross_val_score(REGRESSOR, inputs, numbers, cv=2, n_jobs=2) == pytest.approx(here, rel=1e-4)


def test_targets_can_be_transformed(inputs: Array, numbers: Array) -> None:
    in_logs = TransformedTargetRegressor(clone(REGRESSOR), func=np.log, inverse_func=np.exp).fit(inputs, numbers)
    assert in_logs.score(inputs, numbers) > 0.8


def test_clones_carry_the_parameters_alone(inputs: Array, numbers: Array) -> None:
    fitted = clone(REGRESSOR).fit(inputs, numbers)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() == REGRESSOR.get_params()
    assert not hasattr(copy, "model_")
    assert is_regressor(copy)
    assert is_classifier(CLASSIFIER)
