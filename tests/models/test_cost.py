"""Costs as exact functions of the shape: against the models themselves, by removal, and against torch's counter."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from archopt.allocation import HeadAllocation, feasible_allocations  # noqa: E402
from archopt.models.cost import (  # noqa: E402
    VOCABULARY,
    decoder_flops_per_token,
    decoder_parameters,
    nadaraya_watson_flops,
    nadaraya_watson_parameters,
)
from archopt.models.nadaraya_watson import NadarayaWatson, prediction_loss  # noqa: E402
from archopt.models.transformer import ByteDecoder, next_byte_loss  # noqa: E402

pytestmark = pytest.mark.torch


def _decoder(allocation, *, n_layers=2, context_length=8, weighting="uniform", kernel="explicit"):
    return ByteDecoder(
        allocation,
        n_layers=n_layers,
        context_length=context_length,
        weighting=weighting,
        attention_kernel=kernel,
        generator=torch.Generator().manual_seed(0),
    )


def _estimator(allocation, *, n_features=5, n_outputs=1, weighting="uniform", kernel="gaussian", attention="explicit"):
    return NadarayaWatson(
        n_features,
        n_outputs,
        allocation,
        weighting=weighting,
        kernel=kernel,
        attention_kernel=attention,
        generator=torch.Generator().manual_seed(0),
    )


def _size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def _flops(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("allocation", feasible_allocations(12), ids=str)
@pytest.mark.parametrize("weighting", ["uniform", "geometric", "fibonacci", "learned"])
def test_parameters_are_those_of_the_models(allocation, weighting):
    for n_layers, context_length in ((1, 8), (3, 5)):
        model = _decoder(allocation, n_layers=n_layers, context_length=context_length, weighting=weighting)
        expected = decoder_parameters(allocation, n_layers=n_layers, context_length=context_length, weighting=weighting)
        assert _size(model) == expected
    for n_outputs in (1, 4):
        model = _estimator(allocation, n_outputs=n_outputs, weighting=weighting)
        assert _size(model) == nadaraya_watson_parameters(5, allocation, weighting=weighting)


def test_what_is_removed_is_what_the_count_loses():
    allocation = HeadAllocation(3, 4)
    whole = _decoder(allocation, n_layers=3, weighting="learned")
    counted = decoder_parameters(allocation, n_layers=3, context_length=8, weighting="learned")
    block = _size(whole.blocks[1])
    del whole.layers[1]
    assert _size(whole) == decoder_parameters(allocation, n_layers=2, context_length=8, weighting="learned")
    assert counted - block == _size(whole)
    # a position less
    shorter = decoder_parameters(allocation, n_layers=3, context_length=7, weighting="learned")
    assert counted - shorter == whole.position_embedding[0].numel()
    # a feature less: a column of the linear and one of the hidden layer
    estimator = _estimator(allocation)
    column = estimator.linear.weight[:, 0].numel() + estimator.hidden.weight[:, 0].numel()
    assert nadaraya_watson_parameters(5, allocation) - nadaraya_watson_parameters(4, allocation) == column
    # a head's temperature and weight
    more = nadaraya_watson_parameters(5, HeadAllocation(6, 2), weighting="learned")
    assert more - nadaraya_watson_parameters(5, HeadAllocation(3, 4), weighting="learned") == 2 * 3


@pytest.mark.parametrize("allocation", feasible_allocations(12), ids=str)
@pytest.mark.parametrize("n_layers", [1, 3])
def test_decoder_operations_are_those_that_torch_counts(allocation, n_layers):
    model = _decoder(allocation, n_layers=n_layers)  # explicit: torch's counter does not know the fused CPU kernel
    tokens = torch.randint(VOCABULARY, (4, 8), generator=torch.Generator().manual_seed(1))
    per_token = decoder_flops_per_token(allocation, n_layers=n_layers, context_length=8)
    with torch.no_grad():
        assert _flops(lambda: model(tokens)) == 4 * 8 * per_token


def test_a_decoders_backward_costs_twice_its_forward():
    model = _decoder(HeadAllocation(3, 4))
    tokens = torch.randint(VOCABULARY, (4, 8), generator=torch.Generator().manual_seed(1))
    loss = next_byte_loss(model(tokens), tokens)
    per_token = decoder_flops_per_token(HeadAllocation(3, 4), n_layers=2, context_length=8)
    assert _flops(loss.backward) == 2 * 4 * 8 * per_token


@pytest.mark.parametrize("allocation", feasible_allocations(12), ids=str)
@pytest.mark.parametrize("n_outputs", [1, 4])
def test_estimator_operations_are_those_that_torch_counts(allocation, n_outputs):
    model = _estimator(allocation, n_outputs=n_outputs)
    generator = torch.Generator().manual_seed(1)
    queries, context = torch.randn(6, 5, generator=generator), torch.randn(20, 5, generator=generator)
    targets = torch.randint(4, (20,), generator=generator) if n_outputs > 1 else torch.randn(20, generator=generator)
    expected = nadaraya_watson_flops(5, allocation, n_queries=6, n_context=20, n_outputs=n_outputs)
    with torch.no_grad():
        assert _flops(lambda: model(queries, context, targets)) == expected


def test_an_estimators_backward_spares_what_has_no_gradient():
    allocation, n_queries, n_context = HeadAllocation(3, 4), 6, 20
    model = _estimator(allocation)
    generator = torch.Generator().manual_seed(1)
    queries, context = torch.randn(6, 5, generator=generator), torch.randn(20, 5, generator=generator)
    loss = prediction_loss(model(queries, context, torch.randn(20, generator=generator)), queries[:, 0])
    forward = nadaraya_watson_flops(5, allocation, n_queries=n_queries, n_context=n_context)
    # rows (linear and hidden layer) and values have no gradient, and fixed weights have none in the mixing
    spared = (n_queries + n_context) * 2 * 2 * 5 * 12 + n_queries * n_context * 2 * 3 + n_queries * 2 * 3
    assert _flops(loss.backward) == 2 * forward - spared
