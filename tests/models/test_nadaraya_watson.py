"""The estimator against kernel weights computed with NumPy and scikit-learn."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.metrics.pairwise import rbf_kernel  # noqa: E402

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.errors import OptionError  # noqa: E402
from archopt.models.nadaraya_watson import (  # noqa: E402
    PROBABILITY_FLOOR,
    NadarayaWatson,
    log_probabilities,
    prediction_loss,
)
from archopt.theory.weighting import head_weights  # noqa: E402

pytestmark = pytest.mark.torch


THREE_OF_FOUR = HeadAllocation(3, 4)


def _model(allocation=THREE_OF_FOUR, *, n_outputs=1, kernel="gaussian", weighting="uniform", attention="auto"):
    model = NadarayaWatson(
        5,
        n_outputs,
        allocation,
        weighting=weighting,
        kernel=kernel,
        attention_kernel=attention,
        generator=torch.Generator().manual_seed(1),
    )
    with torch.no_grad():  # temperatures that differ, so that a mixed-up head shows
        model.log_temperature.copy_(torch.linspace(-0.7, 0.4, allocation.n_heads))
    return model


def _rows(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 5, generator=generator), torch.randn(n, generator=generator)


def _numpy_prediction(model, queries, context, values):
    """sum_h alpha_h sum_i K_hi y_i / sum_i K_hi, straight from the definition, in float64."""
    q = model.keys(queries).detach().double().numpy()
    k = model.keys(context).detach().double().numpy()
    tau = np.sqrt(k.shape[-1]) * np.exp(model.log_temperature.detach().double().numpy())
    heads = []
    for h in range(len(k)):
        if model.kernel == "gaussian":
            weights = rbf_kernel(q[h], k[h], gamma=1 / (2 * tau[h]))
        else:
            weights = np.exp(q[h] @ k[h].T / tau[h])
        heads.append(weights @ values / weights.sum(axis=1, keepdims=True))
    return np.stack(heads)


@pytest.mark.parametrize("attention", ["explicit", "sdpa", "reference"])
@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 6, 12])
def test_heads_are_kernel_weighted_means(n_heads, kernel, attention):
    model = _model(HeadAllocation(n_heads, 12 // n_heads), kernel=kernel, attention=attention, weighting="geometric")
    queries, (context, targets) = _rows(7, 2)[0], _rows(23, 3)
    heads = _numpy_prediction(model, queries, context, targets.double().numpy()[:, None])
    mixed = np.tensordot(head_weights("geometric", n_heads), heads, axes=1)
    prediction = model(queries, context, targets).detach().numpy()
    np.testing.assert_allclose(prediction, mixed, atol=2e-5)  # fp32 keys of size 1-3


def test_far_from_the_origin_centring_keeps_precision():
    model = _model()
    with torch.no_grad():
        model.embedding.bias.add_(300.0)  # |k|^2 near 1e5 beside distances near 1: uncentred fp32 would lose them
    queries, (context, targets) = _rows(7, 2)[0], _rows(23, 3)
    # keys themselves are rounded at 300, so the expectation is built from the same fp32 keys
    expected = _numpy_prediction(model, queries, context, targets.double().numpy()[:, None]).mean(axis=0)
    np.testing.assert_allclose(model(queries, context, targets).detach().numpy(), expected, atol=1e-3)


def test_classes_are_one_hot_and_probabilities_sum_to_one():
    model = _model(n_outputs=4)
    (queries, _), (context, _) = _rows(6, 0), _rows(20, 1)
    classes = torch.arange(20) % 4
    prediction = model(queries, context, classes)
    assert prediction.shape == (6, 4)
    torch.testing.assert_close(prediction.sum(dim=1), torch.ones(6))
    expected = _numpy_prediction(model, queries, context, np.eye(4)[classes.numpy()]).mean(axis=0)
    np.testing.assert_allclose(prediction.detach().numpy(), expected, atol=2e-5)


def test_a_class_that_is_absent_costs_the_floor_not_infinity():
    absent = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    assert prediction_loss(absent, torch.tensor([1])).item() == pytest.approx(-np.log(PROBABILITY_FLOOR / 4), rel=1e-6)
    assert log_probabilities(absent).exp().sum().item() == pytest.approx(1.0)


def test_regression_loss_is_the_mean_squared_error():
    assert prediction_loss(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 0.0])).item() == pytest.approx(5.0)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(n_heads=st.sampled_from([1, 2, 3, 4, 6, 12]), seed=st.integers(0, 50))
def test_predictions_stay_within_the_targets(n_heads, seed):
    model = _model(HeadAllocation(n_heads, 12 // n_heads), weighting="fibonacci")
    queries, (context, targets) = _rows(9, seed)[0], _rows(15, seed + 100)
    prediction = model(queries, context, targets).detach()
    assert prediction.min() >= targets.min() - 1e-5
    assert prediction.max() <= targets.max() + 1e-5


def test_effective_neighbours_of_equal_and_of_single_weights():
    model = _model()
    same = torch.zeros(3, 10, 4)
    torch.testing.assert_close(model.effective_neighbours(same[:, :2], same), torch.full((3, 2), 10.0))
    far = torch.arange(10.0)[None, :, None].expand(3, 10, 4) * 100
    torch.testing.assert_close(model.effective_neighbours(far[:, :2], far), torch.ones(3, 2))


def test_effective_neighbours_match_the_weights():
    model = _model()
    query_keys, context_keys = model.keys(_rows(4, 0)[0]).detach(), model.keys(_rows(30, 1)[0]).detach()
    tau = 2 * model.log_temperature.exp().detach()
    distance = torch.cdist(query_keys.double(), context_keys.double()) ** 2
    weights = torch.softmax(-distance / (2 * tau[:, None, None]), dim=-1)
    expected = 1 / weights.square().sum(-1)
    torch.testing.assert_close(
        model.effective_neighbours(query_keys, context_keys).double(), expected, rtol=1e-4, atol=0
    )


def test_calibration_standardises_the_embedding():
    model = _model()
    rows = 5 * _rows(200, 0)[0] + 3
    model.calibrate(rows)
    embedded = model.embed(rows).detach()
    torch.testing.assert_close(embedded.mean(dim=0), torch.zeros(12), atol=1e-4, rtol=0)
    torch.testing.assert_close(embedded.std(dim=0, correction=0), torch.ones(12), atol=1e-4, rtol=0)


def test_calibration_on_identical_rows_stays_finite():
    model = _model()
    model.calibrate(torch.ones(4, 5))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_the_split_changes_no_initial_number():
    flat = [
        _model(HeadAllocation(n, 12 // n)).key_weight.detach().transpose(0, 1).reshape(12, 12) for n in (1, 2, 3, 12)
    ]
    for other in flat[1:]:
        assert torch.equal(flat[0], other)
    torch.testing.assert_close(flat[0].T @ flat[0], torch.eye(12), atol=1e-5, rtol=0)
    embeddings = [_model(HeadAllocation(n, 12 // n)).embedding.weight for n in (1, 12)]
    assert torch.equal(*embeddings)


def test_every_parameter_learns():
    model = _model(weighting="learned")
    queries, targets = _rows(8, 0)
    context, context_targets = _rows(20, 1)
    prediction_loss(model(queries, context, context_targets), targets).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_an_unknown_kernel_or_weighting_is_refused():
    with pytest.raises(OptionError, match="gaussian or exponential"):
        _model(kernel="box")
    with pytest.raises(OptionError, match="uniform"):
        _model(weighting="best")
