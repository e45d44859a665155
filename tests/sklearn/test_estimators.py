"""The estimators against sums written with NumPy, against a trial of the search, and with bad input."""

import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from numpy.typing import NDArray  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.metrics.pairwise import rbf_kernel  # noqa: E402

import archopt  # noqa: E402
from archopt.errors import AllocationError, DataError, OptionError, TrialFailed  # noqa: E402
from archopt.models.nadaraya_watson import PROBABILITY_FLOOR  # noqa: E402
from archopt.search_space import DECORRELATION, LEARNING_RATE, N_HEADS, WARMUP, WEIGHT_DECAY, WEIGHTING  # noqa: E402
from archopt.sklearn import MultiHeadNWClassifier, MultiHeadNWRegressor  # noqa: E402
from archopt.theory import head_weights  # noqa: E402

pytestmark = pytest.mark.torch

Array = NDArray[Any]


def _regressor(**changes: Any) -> MultiHeadNWRegressor:
    return MultiHeadNWRegressor(**{"d_model": 12, "n_heads": 3, "n_steps": 20, "random_state": 0} | changes)


def _classifier(**changes: Any) -> MultiHeadNWClassifier:
    return MultiHeadNWClassifier(**{"d_model": 12, "n_heads": 3, "n_steps": 20, "random_state": 0} | changes)


def _weighted_means(model: Any, standardised: Array, queries: Array, targets: Array, alpha: Array) -> Array:
    """sum_h alpha_h sum_i w_hi y_i, from the definition: keys of the module, everything after them in NumPy."""
    context, new = (model.keys(torch.from_numpy(rows)).numpy() for rows in (standardised, queries))
    tau = np.sqrt(context.shape[-1]) * np.exp(model.log_temperature.numpy())
    kernels = [rbf_kernel(new[h], context[h], gamma=1 / (2 * tau[h])) for h in range(len(context))]
    heads = [kernel @ targets / kernel.sum(axis=1, keepdims=True) for kernel in kernels]
    return np.tensordot(alpha, np.stack(heads), axes=1)


@pytest.mark.parametrize("weighting", ["uniform", "geometric", "fibonacci"])
def test_predictions_are_kernel_weighted_means_of_the_targets(inputs: Array, numbers: Array, weighting: str) -> None:
    regressor = _regressor(weighting=weighting).fit(inputs[:80], numbers[:80])
    rows = (inputs - inputs[:80].mean(axis=0)) / inputs[:80].std(axis=0)
    alpha = head_weights(weighting, 3)
    expected = _weighted_means(regressor.model_, rows[:80], rows[80:], numbers[:80, None], alpha)[:, 0]
    # float64 throughout; the weights over heads were rounded to float32
    np.testing.assert_allclose(regressor.predict(inputs[80:]), expected, rtol=1e-6)


def test_probabilities_are_kernel_weighted_shares_of_the_classes(inputs: Array, labels: Array) -> None:
    classifier = _classifier(weighting="learned").fit(inputs[:80], labels[:80])
    rows = (inputs - inputs[:80].mean(axis=0)) / inputs[:80].std(axis=0)
    one_hot = (labels[:80, None] == np.array(["high", "low", "middle"])).astype(float)
    alpha = np.exp(classifier.model_.weighting.logits.numpy())
    shares = _weighted_means(classifier.model_, rows[:80], rows[80:], one_hot, alpha / alpha.sum())
    floored = (1 - PROBABILITY_FLOOR) * shares + PROBABILITY_FLOOR / 3
    np.testing.assert_allclose(classifier.predict_proba(inputs[80:]), floored, rtol=1e-9)
    assert classifier.predict(inputs[80:]).tolist() == classifier.classes_[floored.argmax(axis=1)].tolist()


@pytest.mark.parametrize("n_heads", [1, 3, 12])
def test_probabilities_sum_to_one_in_float64(inputs: Array, labels: Array, n_heads: int) -> None:
    probabilities = _classifier(n_heads=n_heads, weighting="geometric").fit(inputs, labels).predict_proba(inputs)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)


def test_predictions_stay_within_the_targets(inputs: Array, numbers: Array) -> None:
    predictions = _regressor().fit(inputs, numbers).predict(inputs * 3 - 7)
    assert numbers.min() <= predictions.min() < predictions.max() <= numbers.max()


def test_a_constant_target_is_predicted(inputs: Array) -> None:
    np.testing.assert_allclose(_regressor().fit(inputs, np.full(120, 0.1)).predict(inputs[:5]), 0.1, rtol=1e-14)


def test_fitting_helps(inputs: Array, numbers: Array, labels: Array) -> None:
    regressor = _regressor(n_steps=150).fit(inputs[:80], numbers[:80])
    assert regressor.score(inputs[80:], numbers[80:]) > 0.8
    assert regressor.loss_curve_[-1] < 0.3 * regressor.loss_curve_[0]
    assert len(regressor.loss_curve_) == 150
    assert _classifier(n_steps=150).fit(inputs[:80], labels[:80]).score(inputs[80:], labels[80:]) > 0.8


def test_a_column_that_did_not_vary_is_not_read(inputs: Array, numbers: Array) -> None:
    constant = np.column_stack([inputs, np.full(120, 7.0)])
    regressor = _regressor().fit(constant, numbers)
    assert regressor.n_features_in_ == 5
    without = _regressor().fit(inputs, numbers).predict(inputs)
    constant[:, 4] = 1e6
    assert regressor.predict(constant).tolist() == without.tolist()


def test_a_typing_error_has_the_leverage_of_ten_standard_deviations(inputs: Array, numbers: Array) -> None:
    regressor = _regressor().fit(inputs, numbers)
    far = inputs[:2].copy()
    far[:, 1] = [1e9, inputs[:, 1].mean() + 10 * inputs[:, 1].std()]
    far[1, [0, 2, 3]] = far[0, [0, 2, 3]]
    np.testing.assert_allclose(*regressor.predict(far), rtol=1e-12)


def test_many_rows_are_predicted_as_few_are(inputs: Array, numbers: Array) -> None:
    regressor = _regressor().fit(inputs, numbers)
    many = np.tile(inputs, (100, 1))  # 12,000 rows x 120 x 3 heads: two chunks of scores
    np.testing.assert_allclose(regressor.predict(many), np.tile(regressor.predict(inputs), 100), rtol=1e-12)


def test_the_same_seed_gives_the_same_bits(inputs: Array, numbers: Array) -> None:
    def predicted(random_state: Any) -> list[float]:
        return _regressor(random_state=random_state).fit(inputs, numbers).predict(inputs).tolist()  # type: ignore[no-any-return]

    assert predicted(3) == predicted(3) == predicted(np.int64(3))
    assert predicted(np.random.RandomState(3)) == predicted(np.random.RandomState(3)) != predicted(3)
    assert predicted(3) != predicted(4)
    generator = np.random.RandomState(3)
    assert predicted(generator) != predicted(generator)  # it moves on
    assert predicted(None) != predicted(None)


def test_torch_is_left_as_it_was(inputs: Array, numbers: Array) -> None:
    before = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
    _regressor().fit(inputs, numbers).predict(inputs)
    after = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_a_pickle_predicts_the_same_bits_and_holds_no_gradients(inputs: Array, labels: Array) -> None:
    classifier = _classifier(weighting="learned").fit(inputs, labels)
    again = pickle.loads(pickle.dumps(classifier))
    assert again.predict_proba(inputs).tolist() == classifier.predict_proba(inputs).tolist()
    assert all(p.grad is None and not p.requires_grad for p in again.model_.parameters())


@pytest.mark.parametrize(
    "change",
    [
        {"n_heads": 4},
        {"d_model": 24},
        {"weighting": "learned"},
        {"decorrelation": 1.0},
        {"learning_rate": 0.02},
        {"weight_decay": 5.0},
        {"warmup": 0.5},
        {"n_steps": 21},
    ],
)
def test_every_parameter_reaches_the_training(inputs: Array, numbers: Array, change: dict[str, Any]) -> None:
    plain, changed = _regressor().fit(inputs, numbers), _regressor(**change).fit(inputs, numbers)
    assert plain.predict(inputs).tolist() != changed.predict(inputs).tolist()


def test_what_a_search_tunes_are_parameters_of_the_same_names() -> None:
    for estimator in (MultiHeadNWRegressor(), MultiHeadNWClassifier()):
        names = set(estimator.get_params())
        assert names >= {N_HEADS, WEIGHTING, DECORRELATION, LEARNING_RATE, WEIGHT_DECAY, WARMUP, "d_model", "n_steps"}


def test_the_allocation_is_known_after_fitting(inputs: Array, numbers: Array) -> None:
    assert _regressor().fit(inputs, numbers).allocation_ == archopt.HeadAllocation(3, 4)
    assert archopt.sklearn.MultiHeadNWRegressor is MultiHeadNWRegressor


BAD_PARAMETERS = [
    (
        {"d_model": 48, "n_heads": 5},
        AllocationError,
        r"48 does not divide into 5 heads: use n_heads in \{1, 2, 3, 4, 6",
    ),
    ({"n_heads": "8"}, AllocationError, "n_heads must be a whole number of at least 1 but got '8'"),
    ({"d_model": 0}, AllocationError, "d_model must be a whole number of at least 1 but got 0"),
    ({"d_model": 300_000}, OptionError, "use d_model of at most"),
    ({"weighting": "triangular"}, OptionError, "weighting must be one of uniform, geometric, fibonacci, learned"),
    ({"weighting": ["uniform"]}, OptionError, "weighting must be one of"),
    ({"decorrelation": -1}, OptionError, "decorrelation must be a finite number of at least 0 but got -1"),
    ({"learning_rate": "fast"}, OptionError, "learning_rate must be a finite number above 0 but got 'fast'"),
    ({"learning_rate": None}, OptionError, "learning_rate must be a finite number above 0 but got None"),
    ({"weight_decay": np.nan}, OptionError, "weight_decay must be a finite number of at least 0 but got nan"),
    ({"warmup": 15}, OptionError, "warmup must be a share of the steps, from 0 to 1, but got 15"),
    ({"n_steps": 0}, OptionError, "n_steps must be a whole number of at least 1 but got 0"),
    ({"n_steps": 2.5}, OptionError, "n_steps must be a whole number of at least 1 but got 2.5"),
    ({"random_state": "lucky"}, ValueError, "'lucky' cannot be used to seed"),
    ({"learning_rate": 1e4, "n_steps": 100}, TrialFailed, r"loss became .* at step \d+ \(learning_rate 10000\)"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), BAD_PARAMETERS)
def test_a_bad_parameter_is_one_line_when_fitting(
    inputs: Array, numbers: Array, labels: Array, parameters: dict[str, Any], error: type[Exception], message: str
) -> None:
    for estimator, targets in ((_regressor(), numbers), (_classifier(), labels)):
        bad = clone(estimator).set_params(**parameters)  # nothing is checked before fit
        with pytest.raises(error, match=message) as caught:
            bad.fit(inputs, targets)
        assert "\n" not in str(caught.value)


def test_a_fit_that_failed_is_no_fit(inputs: Array, numbers: Array) -> None:
    estimator = _regressor()
    with pytest.raises(DataError):
        estimator.fit(np.ones_like(inputs), numbers)
    with pytest.raises(NotFittedError):
        estimator.predict(inputs)


def test_bad_data_are_one_line(inputs: Array, numbers: Array) -> None:
    with pytest.raises(DataError, match=r"y holds one class only \(spam\): at least 2 are needed"):
        _classifier().fit(inputs, ["spam"] * 120)
    with pytest.raises(DataError, match="no column of X varies over its 120 rows"):
        _regressor().fit(np.ones((120, 3)), numbers)
    with pytest.raises(DataError, match=r"X holds -1e\+300: at most 1e\+100 is handled"):
        _regressor().fit(np.where(inputs > inputs.min(), inputs, -1e300), numbers)
    with pytest.raises(DataError, match=r"y holds 1e\+200: at most 1e\+100 is handled"):
        _regressor().fit(inputs, np.where(numbers < numbers.max(), numbers, 1e200))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        _regressor().fit(np.where(inputs > 5, np.nan, inputs), numbers)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        _regressor().fit(inputs[:1], numbers[:1])
    with pytest.raises(ValueError, match="could not convert string to float"):
        _regressor().fit([["red"], ["blue"]], [1.0, 2.0])
