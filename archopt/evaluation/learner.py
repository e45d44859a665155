"""What the training loop needs to know of a model and its data, whatever the task."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Score:
    """One pass over a split.

    Attributes:
        value: the recipe's metric.
        head_outputs: per layer (H, rows, components), for a few fixed rows; empty where nobody looked.
        effective_neighbours: mean over heads and those rows; None where rows are not averaged.
    """

    value: float
    head_outputs: tuple[Tensor, ...]
    effective_neighbours: float | None


@dataclass(frozen=True)
class Learner:
    """A model bound to its data.

    Attributes:
        model: what trains.
        key_projections: per attention layer the current key projections (H, D, d_k), attached to the model's graph:
            their diversity is measured, and the decorrelation penalty differentiates through them.
        loss: step (0, 1, ...) to the data loss of that step's batch; called once per step, in order.
        score: split ("valid" or "test") to its score, without gradients.
        attention: the kernel that training runs.
        seen_per_step: query rows or bytes per step.
        fallback: why "auto" did not take xformers; None where it did, or another kernel was asked for.
    """

    model: nn.Module
    key_projections: Callable[[], list[Tensor]]
    loss: Callable[[int], Tensor]
    score: Callable[[str], Score]
    attention: str
    seen_per_step: int
    fallback: str | None


STREAMS = ("initialisation", "batches")


def random_stream(seed: int, replicate: int, purpose: str) -> torch.Generator:
    """The CPU generator of one purpose of one replicate: the same for every configuration of a cell.

    Args:
        seed: the recipe's.
        replicate: r.
        purpose: one of ``STREAMS``; different purposes are independent, so that a configuration that draws
            more for one does not shift the other.
    """
    words = np.random.SeedSequence([abs(seed), int(seed < 0), replicate, STREAMS.index(purpose)]).generate_state(2)
    return torch.Generator().manual_seed(int(words[0]) << 31 ^ int(words[1]))
