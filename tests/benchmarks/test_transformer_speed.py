"""A training step of the decoder beside the same shape from torch's own layers and from a plain GPT loop."""

import time
from statistics import median

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.models.transformer import ByteDecoder, next_byte_loss  # noqa: E402

pytestmark = [pytest.mark.bench, pytest.mark.torch, pytest.mark.timeout(900)]

D, N_LAYERS, CONTEXT, BATCH = 128, 4, 128, 16
ROUNDS = 15
NOISE = 1.05  # medians of 15 interleaved steps repeat to about this on a shared machine


class FromTorchLayers(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, D), nn.Embedding(CONTEXT, D)
        layer = nn.TransformerEncoderLayer(
            D, n_heads, 4 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, N_LAYERS, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 256, bias=False)
        self.mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        return self.head(self.norm(self.layers(x, mask=self.mask, is_causal=True)))


class PlainBlock(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, self.n_heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(D, 2)
        )
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, length, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class PlainGPT(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, D), nn.Embedding(CONTEXT, D)
        self.blocks = nn.Sequential(*(PlainBlock(n_heads) for _ in range(N_LAYERS)))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 256, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions.weight)))


def _ours(n_heads):
    return ByteDecoder(
        HeadAllocation(n_heads, D // n_heads),
        n_layers=N_LAYERS,
        context_length=CONTEXT,
        weighting="uniform",
        attention_kernel="auto",
        generator=torch.Generator().manual_seed(0),
    )


def _step(model):
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(256, (BATCH, CONTEXT + 1), generator=torch.Generator().manual_seed(0))

    def step():
        begun = time.perf_counter()
        loss = next_byte_loss(model(tokens[:, :-1]), tokens[:, 1:])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return time.perf_counter() - begun

    return step


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_heads", [4, 8])
def test_a_step_is_no_slower_than_torchs_layers_and_a_plain_loop(n_heads, n_threads):
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        steps = {
            "archopt": _step(_ours(n_heads)),
            "torch layers": _step(FromTorchLayers(n_heads)),
            "plain loop": _step(PlainGPT(n_heads)),
        }
        spent = {name: [] for name in steps}
        for name in [*steps] * 2:
            steps[name]()
        for _ in range(ROUNDS):
            for name, step in steps.items():
                spent[name].append(step())
    finally:
        torch.set_num_threads(before)
    ours = median(spent.pop("archopt"))
    ratios = {name: ours / median(seconds) for name, seconds in spent.items()}
    print(f"\nH = {n_heads}, {n_threads} threads: {1e3 * ours:.0f} ms; of it, " + str(ratios))
    assert max(ratios.values()) <= NOISE
