"""A multi-head Nadaraya-Watson estimator for tables: the theory's own estimator, with everything before it learned.

Rows are embedded by one shared network, each head projects the embedding to its keys, and predicts by the
kernel-weighted mean of the *training targets themselves* (one-hot for classes). Heads are averaged outside.

Source: arXiv:2605.20271, Theorem 3.1; kernels and temperatures: theory.md sections 1 and 2 (ours).
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.models.attention import attention
from archopt.models.head_weighting import HeadWeighting
from archopt.models.projections import initial_heads

PROBABILITY_FLOOR = 1e-3
"""Share of the uniform distribution mixed into class probabilities: a class absent near a query has kernel
probability 0, whose log-loss is infinite."""

_SCORES_PER_CHUNK = 2**22  # heads * queries * training rows held at once: 16 MiB in fp32
_MIN_CHUNK_ROWS = 64  # smaller chunks cost more than they save; beyond them the fused kernel bounds memory


class NadarayaWatson(nn.Module):
    """m(x) = sum_h alpha_h sum_i w_hi(x) y_i with w_hi the normalised kernel between x's and row i's keys.

    The embedding is x A + GELU(x B + b) C + c: with p < D the linear part alone would leave the keys in p
    directions, the hidden layer lets them fill all D. (Without the linear part the error was the same or, on
    diabetes at every H, up to 0.01 sd higher.) ``calibrate`` gives every coordinate mean 0
    and variance 1 on the training rows, so keys start at unit variance, squared distances near 2 d_k, and
    tau = sqrt(d_k) gives logits of one spread at every d_k: no split starts broken. (Starting instead at
    temperature 0.2 or 0.5, or at equal numbers of neighbours, gave the same final losses.)

    Args:
        n_features: p.
        n_outputs: 1 for regression, else the number of classes.
        allocation: H heads of d_k; H * d_k = D is the embedding's width.
        weighting: "uniform", "geometric", "fibonacci" or "learned".
        kernel: "gaussian", exp(-|q - k|^2 / (2 tau)), or "exponential", exp(q.k / tau); tau_h = sqrt(d_k) *
            exp(log_temperature_h), learned, from temperature 1.
        attention_kernel: passed to ``archopt.models.attention.attention``.
        generator: source of the initial parameters; what it draws does not depend on the split of D.

    Raises:
        OptionError: an unknown kernel or weighting.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        allocation: HeadAllocation,
        *,
        weighting: str,
        kernel: str,
        attention_kernel: str,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if kernel not in ("gaussian", "exponential"):
            raise OptionError(f"kernel must be gaussian or exponential but got {kernel!r}")
        d_model = allocation.d_model
        self.n_outputs = n_outputs
        self.kernel = kernel
        self.attention_kernel = attention_kernel
        self.linear = _linear(n_features, d_model, generator, bias=False)
        self.hidden = _linear(n_features, d_model, generator)
        self.embedding = _linear(d_model, d_model, generator)
        self.key_weight = nn.Parameter(initial_heads(d_model, allocation.n_heads, generator))
        self.log_temperature = nn.Parameter(torch.zeros(allocation.n_heads))
        self.weighting = HeadWeighting(weighting, allocation.n_heads)

    @torch.no_grad()
    def calibrate(self, inputs: Tensor) -> None:
        """Rescale the embedding so that each coordinate has mean 0 and variance 1 over these rows, (n, p).

        Source: Salimans and Kingma 2016, section 3 (data-dependent initialisation).
        """
        embedded = self.embed(inputs)
        scale = embedded.std(dim=0, correction=0)
        scale = torch.where(scale > 1e-6, scale, 1.0)  # identical rows have nothing to rescale
        for layer in (self.linear, self.embedding):
            layer.weight.div_(scale[:, None])
        self.embedding.bias.sub_(embedded.mean(dim=0)).div_(scale)

    def embed(self, inputs: Tensor) -> Tensor:
        """Rows (n, p) to (n, D)."""
        embedded: Tensor = self.linear(inputs) + self.embedding(F.gelu(self.hidden(inputs)))
        return embedded

    def keys(self, inputs: Tensor) -> Tensor:
        """Keys of rows (n, p), by head: (H, n, d_k). Queries are the same projection of theirs."""
        n_heads, d_model, head_dim = self.key_weight.shape
        side_by_side = self.key_weight.transpose(0, 1).reshape(d_model, n_heads * head_dim)
        return (self.embed(inputs) @ side_by_side).view(-1, n_heads, head_dim).transpose(0, 1)

    def values(self, targets: Tensor) -> Tensor:
        """What a row contributes: its target (n,) as (n, 1), or its class as one-hot (n, C)."""
        if self.n_outputs == 1:
            return targets[:, None]
        return F.one_hot(targets, self.n_outputs).to(self.key_weight.dtype)

    def augmented(self, query_keys: Tensor, context_keys: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (H, m, w) and keys (H, n, w) whose plain dot products are the kernel's logits.

        Gaussian: w = d_k + 1, q' = [q, 1] / tau and k' = [k, -|k|^2 / 2], since |q|^2 cancels in the softmax.
        Keys are centred first, which changes no distance and keeps |k|^2 small beside its rounding.
        """
        head_dim = query_keys.shape[-1]
        inverse_tau = (torch.exp(-self.log_temperature) / head_dim**0.5)[:, None, None]
        if self.kernel == "exponential":
            return query_keys * inverse_tau, context_keys
        centre = context_keys.detach().mean(dim=1, keepdim=True)
        query_keys, context_keys = query_keys - centre, context_keys - centre
        ones = torch.ones_like(query_keys[..., :1])
        half_square = -0.5 * context_keys.square().sum(dim=-1, keepdim=True)
        query = torch.cat([query_keys, ones], dim=-1) * inverse_tau
        return query, torch.cat([context_keys, half_square], dim=-1)

    def head_outputs(self, query_keys: Tensor, context_keys: Tensor, values: Tensor) -> Tensor:
        """Each head's estimate: keys (H, m, d_k) and (H, n, d_k), values (n, C) to (H, m, C)."""
        query, key = self.augmented(query_keys, context_keys)
        shared = values.expand(key.shape[0], -1, -1)
        return attention(query[None], key[None], shared[None], scale=1.0, kernel=self.attention_kernel)[0]

    def head_outputs_in_chunks(self, inputs: Tensor, context_keys: Tensor, values: Tensor) -> Iterator[Tensor]:
        """``head_outputs`` of rows (m, p), a chunk of rows after the other, so that memory does not grow with m."""
        rows = max(_MIN_CHUNK_ROWS, _SCORES_PER_CHUNK // (len(context_keys) * len(values)))
        for chunk in torch.split(inputs, rows):
            yield self.head_outputs(self.keys(chunk), context_keys, values)

    def mix(self, head_outputs: Tensor) -> Tensor:
        """Weighted mean over heads, (H, m, C) to (m, C)."""
        n_heads = head_outputs.shape[0]
        weights: Tensor = self.weighting()
        return (weights @ head_outputs.reshape(n_heads, -1)).view(head_outputs.shape[1:])

    def forward(self, queries: Tensor, context: Tensor, context_targets: Tensor) -> Tensor:
        """Predictions (m, C) for rows (m, p) from other rows (n, p) and their targets (n,)."""
        keys = self.keys(torch.cat([queries, context]))
        outputs = self.head_outputs(keys[:, : len(queries)], keys[:, len(queries) :], self.values(context_targets))
        return self.mix(outputs)

    def effective_neighbours(self, query_keys: Tensor, context_keys: Tensor) -> Tensor:
        """1 / sum_i w_i^2 for keys (H, m, d_k) and (H, n, d_k): shape (H, m), from 1 to n."""
        query, key = self.augmented(query_keys, context_keys)
        by_head = [torch.softmax(q @ k.T, dim=-1).square().sum(-1) for q, k in zip(query, key, strict=True)]
        return 1.0 / torch.stack(by_head)

    def key_projections(self) -> list[Tensor]:
        """One (H, D, d_k) tensor: its only layer."""
        return [self.key_weight]


def log_probabilities(prediction: Tensor) -> Tensor:
    """Log of mixed class probabilities (m, C) with ``PROBABILITY_FLOOR`` of the uniform distribution mixed in."""
    return torch.log(prediction * (1 - PROBABILITY_FLOOR) + PROBABILITY_FLOOR / prediction.shape[-1])


def prediction_loss(prediction: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of (m, 1) against real targets (m,), else negative log-likelihood (nats) of classes (m,)."""
    if prediction.shape[-1] == 1:
        return F.mse_loss(prediction[:, 0], targets)
    return F.nll_loss(log_probabilities(prediction), targets)


def _linear(n_in: int, n_out: int, generator: torch.Generator, *, bias: bool = True) -> nn.Linear:
    """Weights N(0, 1/n_in), biases 0, drawn from the generator alone."""
    layer = nn.Linear(n_in, n_out, bias=bias, device="meta").to_empty(device="cpu")  # draws nothing itself
    with torch.no_grad():
        layer.weight.normal_(0.0, n_in**-0.5, generator=generator)
        if bias:
            layer.bias.zero_()
    return layer
