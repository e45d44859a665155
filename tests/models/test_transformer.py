"""The decoder against torch's own multi-head attention, and its invariants."""

import math

import pytest

torch = pytest.importorskip("torch")

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.models.projections import mean_overlap  # noqa: E402
from archopt.models.transformer import ByteDecoder, MultiHeadSelfAttention, next_byte_loss  # noqa: E402
from archopt.theory.weighting import head_weights  # noqa: E402

pytestmark = pytest.mark.torch


def _attention(allocation, weighting="uniform", kernel="auto"):
    generator = torch.Generator().manual_seed(0)
    return MultiHeadSelfAttention(
        allocation, weighting=weighting, attention_kernel=kernel, output_sd=0.3, generator=generator
    )


FOUR_OF_THREE = HeadAllocation(4, 3)


def _decoder(allocation=FOUR_OF_THREE, weighting="uniform", *, n_layers=2):
    generator = torch.Generator().manual_seed(0)
    decoder = ByteDecoder(
        allocation,
        n_layers=n_layers,
        context_length=16,
        weighting=weighting,
        attention_kernel="auto",
        generator=generator,
    )
    with torch.no_grad():  # its zero start would hide everything below
        decoder.byte_weight.normal_(generator=generator)
    return decoder


def _merged(weight):  # (H, D, d_k) -> torch's (D, D) layout, which multiplies from the right transposed
    return weight.detach().permute(0, 2, 1).reshape(-1, weight.shape[1])


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("kernel", ["sdpa", "explicit"])
def test_uniform_weighting_is_standard_multi_head_attention(n_heads, kernel):
    allocation = HeadAllocation(n_heads, 12 // n_heads)
    ours = _attention(allocation, kernel=kernel)
    theirs = torch.nn.MultiheadAttention(12, n_heads, bias=False, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([_merged(w) for w in (ours.query_weight, ours.key_weight, ours.value_weight)])
        )
        theirs.out_proj.weight.copy_(ours.output_weight.reshape(12, 12).T)
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(5))
    hidden = torch.ones(9, 9, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=hidden, need_weights=False)
    torch.testing.assert_close(ours(x), expected, atol=1e-5, rtol=1e-5)


def test_a_weighting_scales_each_head_by_h_alpha():
    allocation = HeadAllocation(4, 3)
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(5))
    factor = torch.tensor(4 * head_weights("fibonacci", 4), dtype=torch.float32)[:, None, None]
    uniform, weighted = _attention(allocation), _attention(allocation, "fibonacci")
    torch.testing.assert_close(weighted.contributions(x), uniform.contributions(x) * factor)
    merged = (uniform.heads(x) * factor).transpose(1, 2).reshape(2, 5, 12)
    torch.testing.assert_close(weighted(x), merged @ uniform.output_weight.reshape(12, 12))


def test_contributions_sum_to_the_output():
    attention = _attention(HeadAllocation(3, 4), "geometric")
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(5))
    assert attention.contributions(x).shape == (3, 10, 12)
    torch.testing.assert_close(attention.contributions(x).sum(dim=0).view(2, 5, 12), attention(x))


def test_no_position_sees_a_later_byte():
    decoder = _decoder()
    tokens = torch.arange(12)[None] * 7
    changed = tokens.clone()
    changed[0, 8:] = 3
    before, after = decoder(tokens), decoder(changed)
    torch.testing.assert_close(before[:, :8], after[:, :8], atol=1e-6, rtol=1e-6)
    assert not torch.allclose(before[:, 8:], after[:, 8:])


def test_the_first_loss_is_that_of_equal_bytes():
    fresh = ByteDecoder(
        HeadAllocation(2, 4),
        n_layers=1,
        context_length=8,
        weighting="uniform",
        attention_kernel="auto",
        generator=torch.Generator().manual_seed(0),
    )
    tokens = torch.arange(8)[None]
    assert next_byte_loss(fresh(tokens), tokens).item() == pytest.approx(math.log(256), rel=1e-6)


def test_the_split_changes_no_initial_number():
    def flat(n_heads):
        decoder = _decoder(HeadAllocation(n_heads, 12 // n_heads))
        attention = decoder.blocks[1].attention
        keys = attention.key_weight.detach().transpose(0, 1).reshape(12, 12)
        return [keys, attention.output_weight.detach().reshape(12, 12), decoder.blocks[1].up_weight.detach()]

    for one, other in zip(flat(1), flat(6), strict=True):
        assert torch.equal(one, other)


def test_key_projections_are_the_parameters_of_each_layer():
    decoder = _decoder(n_layers=3)
    layers = decoder.key_projections()
    assert [layer.shape for layer in layers] == [(4, 12, 3)] * 3
    assert all(any(layer is parameter for parameter in decoder.parameters()) for layer in layers)
    assert mean_overlap(layers).item() == pytest.approx(0.0, abs=1e-6)  # orthogonal start
    assert mean_overlap(_decoder(HeadAllocation(1, 12)).key_projections()).item() == 0.0


def test_learned_weights_start_uniform_and_learn():
    decoder = _decoder(weighting="learned")
    tokens = torch.arange(12)[None]
    torch.testing.assert_close(decoder(tokens), _decoder()(tokens))
    next_byte_loss(decoder(tokens), tokens.flip(1)).backward()
    logits = decoder.blocks[0].attention.weighting.logits
    assert logits.grad.abs().sum() > 0
    for name, parameter in decoder.named_parameters():
        assert parameter.grad is not None, name
