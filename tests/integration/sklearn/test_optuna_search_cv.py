"""`optuna_integration.OptunaSearchCV` with archopt's sampler and pruner over the heads of its estimator."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
optuna_integration = pytest.importorskip("optuna_integration")

import optuna  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from optuna.distributions import CategoricalDistribution, FloatDistribution  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import QuantileTransformer  # noqa: E402

import archopt  # noqa: E402
from archopt.sklearn import MultiHeadNWClassifier, MultiHeadNWRegressor  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:OptunaSearchCV is experimental:optuna.exceptions.ExperimentalWarning"),
    # it reports the folds' scores to a module of Optuna's that is on its way out
    pytest.mark.filterwarnings("ignore:`optuna.terminator` module has been deprecated:FutureWarning"),
]

N_HEADS = [1, 2, 3, 4, 6, 12]


def _study(**sampler: Any) -> optuna.Study:
    chosen = archopt.HeadAllocationSampler(d_model=12, n_samples=80, family="table", seed=0, **sampler)
    return optuna.create_study(sampler=chosen, pruner=archopt.HDIPruner(seed=0), direction="maximize")


def _search(estimator: Any, distributions: dict[str, Any], study: optuna.Study, **options: Any) -> Any:
    return optuna_integration.OptunaSearchCV(estimator, distributions, study=study, cv=3, **options)


@pytest.fixture
def inputs() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(120, 4))


@pytest.fixture
def numbers(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sin(2 * inputs[:, 0]) + inputs[:, 1]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


def test_a_search_over_heads_is_recommended_from(inputs: NDArray[Any], numbers: NDArray[Any]) -> None:
    distributions = {
        "n_heads": CategoricalDistribution(N_HEADS),
        "weighting": CategoricalDistribution(["uniform", "geometric"]),
        "learning_rate": CategoricalDistribution([0.003, 0.03]),
    }
    search = _search(MultiHeadNWRegressor(d_model=12, n_steps=30), distributions, _study(), n_trials=20)
    search.fit(inputs, numbers)
    assert len(search.trials_) == 20
    assert {t.state for t in search.trials_} == {optuna.trial.TrialState.COMPLETE}
    assert len({t.params["n_heads"] for t in search.trials_}) > 1
    assert search.best_estimator_.allocation_.n_heads == search.best_params_["n_heads"]
    assert search.score(inputs, numbers) == search.best_estimator_.score(inputs, numbers)

    found = archopt.recommend(search.study_)
    assert set(found.params) == set(distributions)
    assert found.allocation.d_model == 12
    assert found.allocation.n_heads == found.params["n_heads"]
    tried = [t.value for t in search.trials_ if t.params == found.params]
    assert tried  # of the configurations that ran
    taken_over = MultiHeadNWRegressor(d_model=12, n_steps=30, **found.params).fit(inputs, numbers)
    assert taken_over.allocation_ == found.allocation


def test_heads_inside_a_pipeline(inputs: NDArray[Any], numbers: NDArray[Any]) -> None:
    labels = np.where(numbers > 0.5, "high", "low")
    pipeline = make_pipeline(QuantileTransformer(n_quantiles=20), MultiHeadNWClassifier(d_model=12, n_steps=20))
    name = "multiheadnwclassifier__n_heads"
    study = _study(head_param=name)
    search = _search(pipeline, {name: CategoricalDistribution(N_HEADS)}, study, n_trials=6, scoring="neg_log_loss")
    search.fit(inputs, labels)
    found = archopt.recommend(search.study_)
    assert set(found.params) == {name}
    assert search.best_estimator_.set_params(**found.params).fit(inputs, labels)[-1].allocation_ == found.allocation


def test_what_the_model_cannot_enumerate_is_left_to_the_base_sampler(
    inputs: NDArray[Any], numbers: NDArray[Any]
) -> None:
    distributions = {
        "n_heads": CategoricalDistribution(N_HEADS),
        "learning_rate": FloatDistribution(1e-3, 3e-2, log=True),
    }
    estimator = MultiHeadNWRegressor(d_model=12, n_steps=10, random_state=0)
    search = _search(estimator, distributions, _study(), n_trials=8).fit(inputs, numbers)
    rates = [t.params["learning_rate"] for t in search.trials_]
    assert len(set(rates)) == 8
    assert archopt.recommend(search.study_).allocation.d_model == 12


def test_no_trial_is_wasted_on_heads_that_do_not_divide(inputs: NDArray[Any], numbers: NDArray[Any]) -> None:
    distributions = {"n_heads": CategoricalDistribution([1, 3, 5, 7, 12])}
    search = _search(MultiHeadNWRegressor(d_model=12, n_steps=10), distributions, _study(), n_trials=8)
    search.fit(inputs, numbers)
    assert {t.params["n_heads"] for t in search.trials_} == {1, 3, 12}
    assert {t.state for t in search.trials_} == {optuna.trial.TrialState.COMPLETE}
