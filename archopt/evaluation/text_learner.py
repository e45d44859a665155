"""The byte-level decoder bound to a text: random training windows, and scores over fixed ones."""

from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archopt.data.dataset import TextDataset
from archopt.errors import DataError
from archopt.evaluation.learner import Learner, Score, random_stream
from archopt.evaluation.trial import Recipe, TrialSpec
from archopt.models.attention import choose_kernel, why_not_xformers
from archopt.models.transformer import ByteDecoder, next_byte_loss

_WINDOWS_PER_CHUNK = 64  # scored at once: bounds memory
_OBSERVED_BYTES = 256  # of validation text on which head outputs are looked at


def text_learner(dataset: TextDataset, spec: TrialSpec, recipe: Recipe) -> Learner:
    """A fresh decoder of the spec on the recipe's device, bound to the text's splits.

    Windows start anywhere in the training bytes. Scores read non-overlapping windows of validation or test
    bytes, spread evenly where there are more than ``recipe.max_scored``.

    Raises:
        DataError: a split is shorter than two bytes.
    """
    length = min(recipe.context_length, *(len(split) - 1 for split in (dataset.train, dataset.valid)))
    if length < 1:
        raise DataError(
            f"a text needs at least 2 bytes to train on and 2 to validate but has {len(dataset.train)} and "
            f"{len(dataset.valid)}"
        )
    model = ByteDecoder(
        spec.allocation,
        n_layers=recipe.n_layers,
        context_length=length,
        weighting=spec.weighting,
        attention_kernel=recipe.attention,
        generator=random_stream(recipe.seed, spec.replicate, "initialisation"),
    ).to(recipe.device)
    train = dataset.train
    stream = random_stream(recipe.seed, spec.replicate, "batches")

    def loss(step: int) -> Tensor:
        starts = torch.randint(len(train) - length, (recipe.batch_size,), generator=stream)
        bytes_read, next_bytes = _windows(train, starts, length, recipe.device)
        with _precision(recipe):
            logits = model(bytes_read)
        return next_byte_loss(logits.float(), next_bytes)

    def score(split: str) -> Score:
        return _score(model, recipe, dataset.valid if split == "valid" else dataset.test, length)

    dtype = torch.bfloat16 if recipe.precision == "bfloat16" else torch.float32
    kernel = choose_kernel(
        recipe.device,
        dtype,
        spec.allocation.head_dim,
        n_scores=recipe.batch_size * spec.allocation.n_heads * length**2,
        causal=True,
        kernel=recipe.attention,
    )
    head_dim = spec.allocation.head_dim
    return Learner(
        model=model,
        key_projections=model.key_projections,
        loss=loss,
        score=score,
        attention=kernel,
        seen_per_step=recipe.batch_size * length,
        fallback=why_not_xformers(recipe.device, dtype, head_dim) if recipe.attention == "auto" else None,
    )


@torch.inference_mode()
def _score(model: ByteDecoder, recipe: Recipe, split: NDArray[np.uint8], length: int) -> Score:
    length = min(length, len(split) - 1)
    if length < 1:
        raise DataError(f"a split of {len(split)} bytes cannot be scored: at least 2 are needed")
    starts = score_starts(len(split), length, recipe.max_scored)
    total = 0.0
    for chunk in torch.split(starts, _WINDOWS_PER_CHUNK):
        bytes_read, next_bytes = _windows(split, chunk, length, recipe.device)
        with _precision(recipe):
            logits = model(bytes_read)
        total += float(next_byte_loss(logits.float(), next_bytes)) * len(chunk)
    nats = total / len(starts)
    observed, _ = _windows(split, starts[: max(1, _OBSERVED_BYTES // length)], length, recipe.device)
    contributions = tuple(layer.cpu() for layer in model.head_contributions(observed))
    value = nats / log(2) if recipe.metric == "bits_per_byte" else nats
    return Score(value=value, head_outputs=contributions, effective_neighbours=None)


def _precision(recipe: Recipe) -> torch.autocast:
    """Products in the recipe's precision; parameters and losses stay in float32."""
    return torch.autocast(recipe.device, dtype=torch.bfloat16, enabled=recipe.precision == "bfloat16")


def score_starts(n_bytes: int, length: int, max_scored: int) -> Tensor:
    """First bytes of non-overlapping windows of ``length`` + 1, evenly spread, at most ``max_scored`` bytes in all."""
    every = torch.arange(0, n_bytes - length, length)
    n_kept = min(len(every), max(1, max_scored // length))
    return every[torch.linspace(0, len(every) - 1, n_kept, dtype=torch.float64).long()]


def _windows(text: NDArray[np.uint8], starts: Tensor, length: int, device: str) -> tuple[Tensor, Tensor]:
    """Windows (batch, length) and the bytes that follow each position, int64."""
    window = text[starts.numpy()[:, None] + np.arange(length + 1)]  # in NumPy: the text itself is never copied
    tokens = torch.from_numpy(window).to(device).long()
    return tokens[:, :-1], tokens[:, 1:]
