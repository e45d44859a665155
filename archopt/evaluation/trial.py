"""What a trial is given and what it gives back: plain frozen records that travel between processes.

Nothing here imports torch, so that a campaign, a report or a command line can hold these without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from types import MappingProxyType
from typing import TypeGuard

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError

METRICS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "regression": ("rmse", "mae"),
        "classification": ("log_loss", "error_rate"),
        "text": ("nats_per_byte", "bits_per_byte"),
    }
)
"""Metrics by task, the default first. Lower is better for all; rmse and mae are in the target's own units."""

WEIGHTINGS = ("uniform", "geometric", "fibonacci", "learned")
PRECISIONS = ("float32", "bfloat16")
ATTENTION_KERNELS = ("auto", "sdpa", "xformers", "blocked", "explicit")


@dataclass(frozen=True)
class TrialSpec:
    """One configuration and which of its replicates.

    Args:
        allocation: H heads of width d_k; H * d_k is the model's width.
        weighting: how heads are weighted, one of ``WEIGHTINGS``.
        decorrelation: factor of the penalty on overlapping key subspaces, at least 0.
        learning_rate: peak of the schedule, above 0.
        replicate: r >= 0; replicate r starts from the same random streams for every configuration.
        score_test: whether the untouched test split is scored at the end.
        weight_decay: AdamW's, on matrices only, at least 0; None takes the recipe's.
        warmup: share of the steps with a rising learning rate, from 0 to 1; None takes the recipe's.

    Raises:
        OptionError: a value outside these limits.
    """

    allocation: HeadAllocation
    weighting: str
    decorrelation: float
    learning_rate: float
    replicate: int
    score_test: bool = False
    weight_decay: float | None = None
    warmup: float | None = None

    def __post_init__(self) -> None:
        if self.weighting not in WEIGHTINGS:
            raise OptionError(f"weighting must be one of {', '.join(WEIGHTINGS)} but got {self.weighting!r}")
        _check_not_negative("decorrelation", self.decorrelation)
        check_learning_rate(self.learning_rate)
        if self.replicate < 0:
            raise OptionError(f"replicate must be at least 0 but got {self.replicate!r}")
        if self.weight_decay is not None:
            check_weight_decay(self.weight_decay)
        if self.warmup is not None:
            check_warmup(self.warmup)


def check_learning_rate(rate: float) -> None:
    """Refuse what is no learning rate.

    Raises:
        OptionError: it is not a finite number above 0.
    """
    if not (_is_finite(rate) and rate > 0):
        raise OptionError(f"learning_rate must be a finite number above 0 but got {rate!r:.60}")


def check_weight_decay(number: float) -> None:
    """Refuse what is no weight decay.

    Raises:
        OptionError: it is not a finite number of at least 0.
    """
    _check_not_negative("weight_decay", number)


def check_warmup(share: float) -> None:
    """Refuse what is no share of the steps.

    Raises:
        OptionError: it is not a number from 0 to 1.
    """
    if not (_is_finite(share) and 0 <= share <= 1):
        raise OptionError(f"warmup must be a share of the steps, from 0 to 1, but got {share!r:.60}")


def _check_not_negative(name: str, number: object) -> None:
    if not (_is_finite(number) and number >= 0):
        raise OptionError(f"{name} must be a finite number of at least 0 but got {number!r:.60}")


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


@dataclass(frozen=True)
class Recipe:
    """How every trial of one cell (data set, n, D) is trained and scored.

    Equal for all configurations of the cell, or they could not be compared. ``dataclasses.asdict`` gives
    JSON-able values and ``Recipe(**values)`` reads them back.

    Args:
        metric: one of ``METRICS`` for the data set's task.
        n_steps: optimiser steps.
        rungs: rising steps after which the trial is scored and may be stopped; the last is ``n_steps``.
        batch_size: query rows per step (tables), windows per step (text).
        context_rows: training rows that a step's queries attend over, at most (tables).
        context_length: bytes per window (text).
        n_layers: blocks of the transformer (text).
        warmup_steps: steps of linear warm-up, then a cosine down to a tenth; a trial may have its own.
        weight_decay: AdamW's, on matrices only; a trial may have its own.
        kernel: "gaussian" or "exponential" (tables).
        attention: one of ``ATTENTION_KERNELS``.
        device: "cpu" or "cuda".
        seed: root of all random streams.
        max_scored: validation or test rows (tables) or bytes (text) that are scored, at most, the same for all.
        precision: "float32", or "bfloat16": products of the model in that, parameters and losses in float32.

    Raises:
        OptionError: a value outside what is allowed.
    """

    metric: str
    n_steps: int
    rungs: tuple[int, ...]
    batch_size: int
    context_rows: int
    context_length: int
    n_layers: int
    warmup_steps: int
    weight_decay: float
    kernel: str
    attention: str
    device: str
    seed: int
    max_scored: int
    precision: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rungs", tuple(self.rungs))  # JSON has lists
        known = [metric for metrics in METRICS.values() for metric in metrics]
        for name, allowed in (
            ("metric", known),
            ("kernel", ["gaussian", "exponential"]),
            ("attention", list(ATTENTION_KERNELS)),
            ("device", ["cpu", "cuda"]),
            ("precision", list(PRECISIONS)),
        ):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} must be one of {', '.join(allowed)} but got {getattr(self, name)!r}")
        for name in ("n_steps", "batch_size", "context_rows", "context_length", "n_layers", "max_scored"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1 but got {getattr(self, name)!r}")
        rising = all(low < high for low, high in zip(self.rungs, self.rungs[1:], strict=False))
        if not (self.rungs and rising and self.rungs[0] >= 1 and self.rungs[-1] == self.n_steps):
            raise OptionError(f"rungs must rise from at least 1 to n_steps = {self.n_steps} but got {self.rungs}")
        if not 0 <= self.warmup_steps <= self.n_steps:
            raise OptionError(f"warmup_steps must be from 0 to n_steps = {self.n_steps} but got {self.warmup_steps}")
        check_weight_decay(self.weight_decay)


@dataclass(frozen=True)
class RungReport:
    """A trial's state at one rung.

    Attributes:
        step: optimiser steps done.
        value: the recipe's metric on the validation split; lower is better.
        hdi: raw head diversity index, subspace form, mean over layers; NaN for one head.
        output_correlation: mean correlation between the outputs of two heads on fixed validation rows, mean over
            layers; NaN for one head.
        train_seconds: wall time of the training steps so far, without scoring.
        seconds_per_step: median wall time of a training step so far, which warm-up does not move.
        n_seen: query rows (tables) or bytes (text) trained on so far, repeats counted.
    """

    step: int
    value: float
    hdi: float
    output_correlation: float
    train_seconds: float
    seconds_per_step: float
    n_seen: int


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial came to.

    Attributes:
        value: the metric on the validation split at the last rung reached.
        test_value: the metric on the test split; None unless asked for, or if the trial was stopped.
        seconds_per_step: median wall time of a training step.
        n_steps: optimiser steps done.
        stopped: whether the caller stopped it at a rung.
        attention: the kernel that trained, "xformers", "sdpa", "blocked" or "explicit".
        n_parameters: trainable numbers in the model.
        effective_neighbours: mean of 1 / sum of squared weights over heads and fixed validation rows; None for text.
        fallback: why "auto" did not take xformers; None where it did, or another kernel was asked for.
    """

    value: float
    test_value: float | None
    seconds_per_step: float
    n_steps: int
    stopped: bool
    attention: str
    n_parameters: int
    effective_neighbours: float | None
    fallback: str | None
