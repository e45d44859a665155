"""scikit-learn's own checks of what an estimator must do, all of them."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

from sklearn.utils.estimator_checks import parametrize_with_checks

from archopt.sklearn import MultiHeadNWClassifier, MultiHeadNWRegressor

pytestmark = pytest.mark.torch

N_STEPS = 60  # the checks ask for little accuracy; with the default of 300 they pass as well, in a minute


@parametrize_with_checks([MultiHeadNWRegressor(n_steps=N_STEPS), MultiHeadNWClassifier(n_steps=N_STEPS)])
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
