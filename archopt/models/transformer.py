"""A small pre-norm decoder over bytes, with head weights before the output projection.

Blocks as in GPT-2 (Radford et al. 2019): x + attention(norm(x)), x + mlp(norm(x)), learned positions, GELU. Head h's
output is scaled by H * alpha_h before W_O, so that uniform weighting is exactly standard multi-head attention. W_O is
free and can absorb any fixed positive scale: there a scheme acts through initialisation and optimisation only.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archopt.allocation import HeadAllocation
from archopt.models.attention import attention
from archopt.models.cost import VOCABULARY
from archopt.models.head_weighting import HeadWeighting
from archopt.models.projections import initial_heads

_EMBEDDING_SD = 0.1  # below the blocks' unit-variance inputs, which the first norm restores anyway


class MultiHeadSelfAttention(nn.Module):
    """Causal self-attention with one weight per head.

    Args:
        allocation: H heads of d_k; H * d_k = D.
        weighting: "uniform", "geometric", "fibonacci" or "learned".
        attention_kernel: passed to ``archopt.models.attention.attention``.
        output_sd: standard deviation of W_O's initial entries.
        generator: source of the initial parameters; what it draws does not depend on the split of D.
    """

    def __init__(
        self,
        allocation: HeadAllocation,
        *,
        weighting: str,
        attention_kernel: str,
        output_sd: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        d_model, n_heads = allocation.d_model, allocation.n_heads
        self.attention_kernel = attention_kernel
        self.query_weight = nn.Parameter(initial_heads(d_model, n_heads, generator))
        self.key_weight = nn.Parameter(initial_heads(d_model, n_heads, generator))
        self.value_weight = nn.Parameter(initial_heads(d_model, n_heads, generator))
        self.output_weight = nn.Parameter(_normal((n_heads, allocation.head_dim, d_model), output_sd, generator))
        self.weighting = HeadWeighting(weighting, n_heads)

    def heads(self, x: Tensor) -> Tensor:
        """Each head's output for x (batch, length, D), before its weight: (batch, H, length, d_k)."""
        batch, length, d_model = x.shape
        n_heads, _, head_dim = self.key_weight.shape
        stacked = torch.stack([self.query_weight, self.key_weight, self.value_weight])  # (3, H, D, d_k)
        side_by_side = stacked.permute(2, 0, 1, 3).reshape(d_model, 3 * n_heads * head_dim)
        projected = (x @ side_by_side).view(batch, length, 3, n_heads, head_dim)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        return attention(query, key, value, scale=head_dim**-0.5, causal=True, kernel=self.attention_kernel)

    def weighted_output(self) -> Tensor:
        """W_O with each head's rows scaled by H * alpha_h, (H, d_k, D): cheaper than scaling every output."""
        weights: Tensor = self.weighting()
        return self.output_weight * (len(weights) * weights)[:, None, None]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, D) to the same shape."""
        merged = self.heads(x).transpose(1, 2).reshape(x.shape)
        return merged @ self.weighted_output().reshape(x.shape[-1], x.shape[-1])

    def contributions(self, x: Tensor) -> Tensor:
        """What each head adds to the residual stream, its output times its weighted rows of W_O.

        Only there do heads share a space, so only there can their outputs be correlated.

        Returns:
            shape (H, batch * length, D).
        """
        heads = self.heads(x).transpose(0, 1).flatten(1, 2)
        return heads @ self.weighted_output()


class Block(nn.Module):
    """One pre-norm block: attention, then an MLP of width 4 D.

    Args: as for ``MultiHeadSelfAttention``; ``output_sd`` is also the initial sd of the MLP's second layer times
        sqrt(D / 4 D), so that both branches start at one scale.
    """

    def __init__(
        self,
        allocation: HeadAllocation,
        *,
        weighting: str,
        attention_kernel: str,
        output_sd: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        d_model = allocation.d_model
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(
            allocation,
            weighting=weighting,
            attention_kernel=attention_kernel,
            output_sd=output_sd,
            generator=generator,
        )
        self.mlp_norm = nn.LayerNorm(d_model)
        self.up_weight = nn.Parameter(_normal((d_model, 4 * d_model), d_model**-0.5, generator))
        self.up_bias = nn.Parameter(torch.zeros(4 * d_model))
        self.down_weight = nn.Parameter(_normal((4 * d_model, d_model), output_sd / 2, generator))
        self.down_bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, D) to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        # through F.linear, which adds the bias inside the product
        hidden = F.gelu(F.linear(self.mlp_norm(x), self.up_weight.T, self.up_bias))
        return x + F.linear(hidden, self.down_weight.T, self.down_bias)


class ByteDecoder(nn.Module):
    """Predicts the next byte.

    Args:
        allocation: H heads of d_k; H * d_k = D is the width.
        n_layers: blocks.
        context_length: positions, the longest window.
        weighting: "uniform", "geometric", "fibonacci" or "learned", in every block.
        attention_kernel: passed to ``archopt.models.attention.attention``.
        generator: source of the initial parameters; what it draws does not depend on the split of D.
    """

    def __init__(
        self,
        allocation: HeadAllocation,
        *,
        n_layers: int,
        context_length: int,
        weighting: str,
        attention_kernel: str,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        d_model = allocation.d_model
        output_sd = (2 * n_layers * d_model) ** -0.5  # GPT-2's: the residual stream sums 2 n_layers branches
        self.byte_embedding = nn.Parameter(_normal((VOCABULARY, d_model), _EMBEDDING_SD, generator))
        self.position_embedding = nn.Parameter(_normal((context_length, d_model), _EMBEDDING_SD, generator))
        self.layers = nn.ModuleList(
            Block(
                allocation,
                weighting=weighting,
                attention_kernel=attention_kernel,
                output_sd=output_sd,
                generator=generator,
            )
            for _ in range(n_layers)
        )
        self.final_norm = nn.LayerNorm(d_model)
        self.byte_weight = nn.Parameter(torch.zeros(d_model, VOCABULARY))  # the first loss is exactly log 256

    @property
    def blocks(self) -> list[Block]:
        """The blocks, first to last."""
        return [block for block in self.layers if isinstance(block, Block)]

    def forward(self, tokens: Tensor) -> Tensor:
        """Bytes (batch, length), int64, to logits of the next byte (batch, length, 256)."""
        x = self._embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.final_norm(x) @ self.byte_weight
        return logits

    def head_contributions(self, tokens: Tensor) -> list[Tensor]:
        """Per layer, what each head adds to the residual stream: (H, batch * length, D)."""
        x, by_layer = self._embed(tokens), []
        for block in self.blocks:
            by_layer.append(block.attention.contributions(block.attention_norm(x)))
            x = block(x)
        return by_layer

    def key_projections(self) -> list[Tensor]:
        """W_K of each layer by head, (H, D, d_k)."""
        return [block.attention.key_weight for block in self.blocks]

    def _embed(self, tokens: Tensor) -> Tensor:
        # One product with one-hot rows would be slower; index_select has a deterministic backward on a CPU.
        looked_up = F.embedding(tokens, self.byte_embedding)
        return looked_up + self.position_embedding[: tokens.shape[1]]


def next_byte_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-likelihood in nats: logits (batch, length, 256), bytes (batch, length)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _normal(shape: tuple[int, ...], sd: float, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator) * sd
