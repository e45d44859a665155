"""The Nadaraya-Watson model bound to a table: batches that leave each query's own row out, and scores."""

import numpy as np
import torch
from torch import Tensor

from archopt.data.dataset import TableDataset, TableSplit
from archopt.errors import DataError
from archopt.evaluation.learner import Learner, Score, random_stream
from archopt.evaluation.trial import Recipe, TrialSpec
from archopt.models.attention import choose_kernel, why_not_xformers
from archopt.models.nadaraya_watson import NadarayaWatson, log_probabilities, prediction_loss

_OBSERVED_ROWS = 64  # validation rows on which head outputs and neighbours are looked at


def table_learner(dataset: TableDataset, spec: TrialSpec, recipe: Recipe) -> Learner:
    """A fresh model of the spec on the recipe's device, bound to the table's splits.

    Each step's queries are the next rows of a random permutation, its context the rows that follow them in it
    (cyclically), so the two never share a row. Scores use all training rows as context.

    Raises:
        DataError: fewer than two training rows.
    """
    if dataset.n_samples < 2:
        raise DataError(f"a table needs at least 2 training rows, a query and a neighbour, but has {dataset.n_samples}")
    model = NadarayaWatson(
        dataset.n_features,
        dataset.n_outputs,
        spec.allocation,
        weighting=spec.weighting,
        kernel=recipe.kernel,
        attention_kernel=recipe.attention,
        generator=random_stream(recipe.seed, spec.replicate, "initialisation"),
    )
    inputs, targets = _tensors(dataset.train, "cpu")
    model.calibrate(inputs[:4096])
    model.to(recipe.device)
    inputs, targets = inputs.to(recipe.device), targets.to(recipe.device)
    n_queries = min(recipe.batch_size, max(1, len(targets) // 2))
    n_context = min(recipe.context_rows, len(targets) - n_queries)
    batches = RowBatches(len(targets), n_queries, n_context, random_stream(recipe.seed, spec.replicate, "batches"))

    def loss(step: int) -> Tensor:
        queries, context = (rows.to(recipe.device) for rows in batches.next_rows())
        prediction = model(inputs[queries], inputs[context], targets[context])
        return prediction_loss(prediction, targets[queries])

    def score(split: str) -> Score:
        return _score(model, dataset, recipe, dataset.valid if split == "valid" else dataset.test, inputs, targets)

    width = spec.allocation.head_dim + (recipe.kernel == "gaussian")
    kernel = choose_kernel(
        recipe.device,
        torch.float32,
        width,
        n_scores=spec.allocation.n_heads * n_queries * n_context,
        kernel=recipe.attention,
    )
    return Learner(
        model=model,
        key_projections=model.key_projections,
        loss=loss,
        score=score,
        attention=kernel,
        seen_per_step=n_queries,
        fallback=why_not_xformers(recipe.device, torch.float32, width) if recipe.attention == "auto" else None,
    )


class RowBatches:
    """Queries and contexts from one permutation an epoch.

    Args:
        n_rows: training rows.
        n_queries, n_context: rows of each a step; together at most ``n_rows``.
        generator: shuffles each epoch.
    """

    def __init__(self, n_rows: int, n_queries: int, n_context: int, generator: torch.Generator) -> None:
        self.n_rows, self.n_queries, self.n_context = n_rows, n_queries, n_context
        self.generator = generator
        self.start = n_rows  # forces the first shuffle

    def next_rows(self) -> tuple[Tensor, Tensor]:
        """Indices of the next step's queries and of its context, disjoint."""
        if self.start + self.n_queries > self.n_rows:
            self.order = torch.randperm(self.n_rows, generator=self.generator)
            self.start = 0
        positions = torch.arange(self.start, self.start + self.n_queries + self.n_context) % self.n_rows
        rows = self.order[positions]
        self.start += self.n_queries
        return rows[: self.n_queries], rows[self.n_queries :]


@torch.inference_mode()
def _score(
    model: NadarayaWatson,
    dataset: TableDataset,
    recipe: Recipe,
    split: TableSplit,
    context_inputs: Tensor,
    context_targets: Tensor,
) -> Score:
    inputs, targets = _tensors(split, recipe.device)
    if len(targets) > recipe.max_scored:  # the same rows for every configuration; splits are in random order or by time
        kept = torch.linspace(0, len(targets) - 1, recipe.max_scored, device=recipe.device).long()
        inputs, targets = inputs[kept], targets[kept]
    context_keys, values = model.keys(context_inputs), model.values(context_targets)
    predictions, observed = [], None
    for outputs in model.head_outputs_in_chunks(inputs, context_keys, values):
        predictions.append(model.mix(outputs))
        if observed is None:
            observed = outputs[:, :_OBSERVED_ROWS].cpu()
    assert observed is not None
    neighbours = model.effective_neighbours(model.keys(inputs[:_OBSERVED_ROWS]), context_keys).mean()
    value = table_metric(recipe.metric, torch.cat(predictions), targets, dataset.target_scale)
    return Score(value=value, head_outputs=(observed,), effective_neighbours=float(neighbours))


def table_metric(metric: str, prediction: Tensor, targets: Tensor, target_scale: float) -> float:
    """A metric of predictions (m, C), standardised values or class probabilities, against targets (m,).

    "rmse" and "mae" are in the target's own units (times ``target_scale``), "log_loss" in nats, with
    ``PROBABILITY_FLOOR``; "error_rate" is the share of rows whose most probable class is wrong.
    """
    if metric == "rmse":
        return target_scale * float((prediction[:, 0].double() - targets).square().mean().sqrt())
    if metric == "mae":
        return target_scale * float((prediction[:, 0].double() - targets).abs().mean())
    if metric == "error_rate":
        if not bool(prediction.isfinite().all()):
            return float("nan")  # argmax would hide it
        return float((prediction.argmax(dim=-1) != targets).double().mean())
    log_p = log_probabilities(prediction.double())
    return float(-log_p.gather(1, targets[:, None]).mean())


def _tensors(split: TableSplit, device: str) -> tuple[Tensor, Tensor]:
    # Copies: the arrays may be read-only views, which torch cannot share.
    inputs = torch.tensor(np.asarray(split.inputs), dtype=torch.float32, device=device)
    targets = torch.tensor(np.asarray(split.targets), device=device)
    return inputs, targets
