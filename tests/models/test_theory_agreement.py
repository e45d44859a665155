"""The trained estimator against the theory's: one kernel, one temperature, one set of weights on both sides."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.models.nadaraya_watson import NadarayaWatson  # noqa: E402
from archopt.theory import (  # noqa: E402
    KERNELS,
    attention_weights,
    effective_neighbours,
    ensemble_mse,
    head_error_covariance,
    head_estimates,
    head_smoothers,
)

pytestmark = pytest.mark.torch


def _model_and_rows(kernel):
    model = NadarayaWatson(
        5,
        1,
        HeadAllocation(3, 4),
        weighting="geometric",
        kernel=kernel,
        attention_kernel="explicit",
        generator=torch.Generator().manual_seed(1),
    )
    with torch.no_grad():  # temperatures that differ, so that a mixed-up head shows
        model.log_temperature.copy_(torch.tensor([-0.7, 0.0, 0.4]))
    generator = torch.Generator().manual_seed(2)
    queries, context = torch.randn(6, 5, generator=generator), torch.randn(30, 5, generator=generator)
    targets = torch.randn(30, generator=generator)
    model.calibrate(context)
    return model, queries, context, targets


@pytest.mark.parametrize("kernel", KERNELS)
def test_head_outputs_and_neighbours_are_the_theorys(kernel):
    model, queries, context, targets = _model_and_rows(kernel)
    query_keys, context_keys = model.keys(queries), model.keys(context)
    smoothers = head_smoothers(
        model.key_weight,
        model.embed(queries),
        model.embed(context),
        kernel=kernel,
        temperature=model.log_temperature.exp(),
    )
    # float32 with logits up to about 30: 30 * 6e-8 in a weight, and the sums over 30 rows
    outputs = model.head_outputs(query_keys, context_keys, model.values(targets))[..., 0].detach().numpy()
    assert head_estimates(smoothers, targets) == pytest.approx(outputs, abs=2e-5)
    neighbours = model.effective_neighbours(query_keys, context_keys).detach().numpy()
    assert effective_neighbours(smoothers) == pytest.approx(neighbours, rel=5e-5)
    assert neighbours.min() < 0.8 * neighbours.max()  # queries and heads that a mix-up would show
    mixed = model.weighting().detach().double().numpy() @ head_estimates(smoothers, targets)
    assert model(queries, context, targets)[:, 0].detach().numpy() == pytest.approx(mixed, abs=2e-5)


def test_tensors_are_taken_as_they_are():
    model, queries, context, targets = _model_and_rows("gaussian")
    arguments = (model.keys(queries), model.keys(context))  # float32, with gradient
    arrays = tuple(keys.detach().double().numpy() for keys in arguments)
    own_rows = torch.tensor([3, 0, 7, 7, 29, 1])
    weights = attention_weights(*arguments, temperature=torch.tensor(0.5), own_rows=own_rows)
    expected = attention_weights(*arrays, temperature=0.5, own_rows=own_rows.numpy())
    assert isinstance(weights, np.ndarray)
    assert weights.dtype == np.float64
    assert (weights == expected).all()
    smoothers, at_queries = torch.from_numpy(weights).requires_grad_(), torch.zeros(6)
    alpha = model.weighting()
    Sigma = head_error_covariance(smoothers, targets, at_queries, 0.3)
    total = ensemble_mse(smoothers, targets, at_queries, 0.3, alpha).integrated.mse
    exact_alpha = alpha.detach().double().numpy()
    assert exact_alpha @ Sigma @ exact_alpha == pytest.approx(total, rel=1e-6)  # alpha is a float32 away from sum 1
