"""A family of models for tables: a token for each column, one layer of attention between them, and their mean."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archopt.data import Task
from archopt.data.dataset import TableDataset, TableSplit
from archopt.evaluation import Recipe, TrialSpec
from archopt.evaluation.learner import Learner, Score, random_stream
from archopt.evaluation.table_learner import table_metric


class TokenAttention(nn.Module):
    """Self-attention between tokens (rows, columns, D), with key projections kept as (H, D, d_k)."""

    def __init__(self, n_heads: int, head_dim: int, generator: torch.Generator) -> None:
        super().__init__()
        d_model = n_heads * head_dim

        def projection() -> nn.Parameter:
            # drawn for the whole width, then cut: the same numbers at every H
            square = torch.randn(d_model, d_model, generator=generator) / d_model**0.5
            return nn.Parameter(square.view(d_model, n_heads, head_dim).transpose(0, 1).contiguous())

        self.query, self.key, self.value = projection(), projection(), projection()

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = (
            torch.einsum("ntd,hdk->nhtk", tokens, weight) for weight in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        return tokens + mixed.transpose(1, 2).flatten(2)


class FeatureTokens(nn.Module):
    """Rows (n, p) to outputs (n, C)."""

    def __init__(
        self, n_features: int, n_outputs: int, n_heads: int, head_dim: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        d_model = n_heads * head_dim
        self.scale = nn.Parameter(torch.randn(n_features, d_model, generator=generator))
        self.shift = nn.Parameter(torch.randn(n_features, d_model, generator=generator))
        self.attention = TokenAttention(n_heads, head_dim, generator)
        self.readout = nn.Parameter(torch.randn(d_model, n_outputs, generator=generator) / d_model**0.5)

    def forward(self, rows: Tensor) -> Tensor:
        tokens = torch.tanh(rows[:, :, None] * self.scale + self.shift)
        return self.attention(tokens).mean(dim=1) @ self.readout


def token_attention_keys(layer: TokenAttention) -> Tensor:
    """The extractor: (H, D, d_k)."""
    return layer.key


def feature_tokens_learner(dataset: TableDataset, spec: TrialSpec, recipe: Recipe) -> Learner:
    """A fresh model of the spec, bound to the table."""
    split = spec.allocation
    model = FeatureTokens(
        dataset.n_features,
        dataset.n_outputs,
        split.n_heads,
        split.head_dim,
        random_stream(recipe.seed, spec.replicate, "initialisation"),
    ).to(recipe.device)
    order = random_stream(recipe.seed, spec.replicate, "batches")
    inputs, targets = _tensors(dataset.train, recipe.device)

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(targets), (recipe.batch_size,), generator=order).to(recipe.device)
        output = model(inputs[rows])
        if dataset.task == "classification":
            return F.cross_entropy(output, targets[rows])
        return F.mse_loss(output[:, 0], targets[rows])

    @torch.inference_mode()
    def score(name: str) -> Score:
        inputs, targets = _tensors(dataset.valid if name == "valid" else dataset.test, recipe.device)
        output = model(inputs)
        prediction = output.softmax(dim=-1) if dataset.task == "classification" else output
        value = table_metric(recipe.metric, prediction, targets, dataset.target_scale)
        return Score(value=value, head_outputs=(), effective_neighbours=None)

    return Learner(
        model=model,
        key_projections=lambda: [token_attention_keys(model.attention)],
        loss=loss,
        score=score,
        attention="sdpa",
        seen_per_step=recipe.batch_size,
        fallback=None,
    )


def _tensors(split: TableSplit, device: str) -> tuple[Tensor, Tensor]:
    return torch.tensor(split.inputs, device=device), torch.tensor(split.targets, device=device)


FEATURE_TOKENS = Task(learner=feature_tokens_learner)
