"""The default recipe: how long and on what each trial of a cell is trained, chosen for cost."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

from archopt.allocation import HeadAllocation
from archopt.errors import OptionError
from archopt.evaluation.trial import METRICS, Recipe, check_warmup
from archopt.models.cost import decoder_parameters, nadaraya_watson_parameters

if TYPE_CHECKING:
    from archopt.data.dataset import Dataset

MAX_STATE_BYTES = 4 * 10**9
"""Parameters, their gradients and AdamW's two moments, fp32, may take this much at most."""

_BYTES_PER_PARAMETER = 16
_RUNG_SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)

_TABLE_STEPS, TABLE_BATCH = 300, 64
# A quarter of the rows as a step's context: fewer cost less and regularise (digits, n = 1,078: 256 rows reach a lower
# log-loss than 512 in a third of the time), but learn too wide a kernel for the many rows a score attends over
# (Friedman-1, n = 5,000: rmse 0.222 sd with 256, 0.210 with 1,024, noise 0.200).
_TABLE_CONTEXT_MIN, TABLE_CONTEXT_MAX = 256, 1024
_TEXT_STEPS, TEXT_BATCH, TEXT_CONTEXT, _TEXT_LAYERS = 400, 8, 64, 2
_MAX_SCORED_ROWS, _MAX_SCORED_BYTES = 1_000, 2**14  # five scores cost less than the training between them

# A table is passed over many times. With 1.0 digits keep their log-loss over a factor of 30 in the learning rate
# (one head at rate 0.03: 0.07 nats, at 0.1 decay 0.78); a text is passed over less than once.
_TABLE_WEIGHT_DECAY, _TEXT_WEIGHT_DECAY = 1.0, 0.1


def default_recipe(
    dataset: Dataset,
    *,
    d_model: int,
    metric: str | None = None,
    device: str = "cpu",
    attention: str = "auto",
    seed: int = 0,
    n_steps: int | None = None,
    weight_decay: float | None = None,
    warmup: float | None = None,
    precision: str = "float32",
) -> Recipe:
    """A recipe that makes a trial cost seconds, equal for all configurations of a cell.

    Args:
        dataset: the cell's data set.
        d_model: D, the width of every configuration.
        metric: one of ``METRICS`` for the data set's task; None takes the first.
        device: "cpu" or "cuda".
        attention: "auto", "sdpa", "xformers", "blocked" or "explicit".
        seed: root of all random streams.
        n_steps: optimiser steps; None takes 300 (tables) or 400 (text).
        weight_decay: AdamW's, on matrices; None takes 1 (tables) or 0.1 (text).
        warmup: share of the steps with a rising learning rate; None takes a twentieth.
        precision: "float32", or "bfloat16" for texts: a table's distances lose their small differences in it.

    Raises:
        OptionError: an unknown metric, xformers on a CPU, blocked elsewhere than on one in float32, a width whose
            training state would exceed 4 GB (the message says the largest that fits), or a number out of range.
    """
    task = "text" if dataset.kind == "text" else dataset.task
    if metric is None:
        metric = METRICS[task][0]
    if metric not in METRICS[task]:
        raise OptionError(f"metric for {task} must be one of {', '.join(METRICS[task])} but got {metric!r}")
    if attention == "xformers" and device == "cpu":
        raise OptionError("attention 'xformers' needs a CUDA device but device is cpu: use auto, sdpa or explicit")
    if attention == "blocked" and (device != "cpu" or precision != "float32"):
        raise OptionError(
            f"attention 'blocked' is for float32 on a CPU but got {precision} on {device}: use auto or sdpa"
        )
    if not dataset.model_family:  # whose size nobody here knows
        _refuse_too_wide(dataset, d_model)
    text = dataset.kind == "text"
    if n_steps is None:
        n_steps = _TEXT_STEPS if text else _TABLE_STEPS
    if not (isinstance(n_steps, Integral) and n_steps >= 1):
        raise OptionError(f"n_steps must be a whole number of at least 1 but got {n_steps!r:.60}")
    if precision == "bfloat16" and not text:
        raise OptionError("precision bfloat16 is for texts: a table's distances need float32, so use precision float32")
    if weight_decay is None:
        weight_decay = _TEXT_WEIGHT_DECAY if text else _TABLE_WEIGHT_DECAY
    if warmup is not None:
        check_warmup(warmup)
    return Recipe(
        metric=metric,
        n_steps=n_steps,
        rungs=tuple(sorted({max(1, round(share * n_steps)) for share in _RUNG_SHARES})),
        batch_size=TEXT_BATCH if text else TABLE_BATCH,
        context_rows=min(TABLE_CONTEXT_MAX, max(_TABLE_CONTEXT_MIN, dataset.n_samples // 4)),
        context_length=TEXT_CONTEXT,
        n_layers=_TEXT_LAYERS,
        warmup_steps=n_steps // 20 if warmup is None else round(warmup * n_steps),
        weight_decay=weight_decay,
        kernel="gaussian",
        attention=attention,
        device=device,
        seed=seed,
        max_scored=_MAX_SCORED_BYTES if text else _MAX_SCORED_ROWS,
        precision=precision,
    )


def _refuse_too_wide(dataset: Dataset, d_model: int) -> None:
    def state_bytes(width: int) -> int:
        one_head = HeadAllocation(1, width)  # H adds at most 2 H numbers
        if dataset.kind == "text":
            n_parameters = decoder_parameters(one_head, n_layers=_TEXT_LAYERS, context_length=TEXT_CONTEXT)
        else:
            n_parameters = nadaraya_watson_parameters(dataset.n_features, one_head)
        return _BYTES_PER_PARAMETER * n_parameters

    if state_bytes(d_model) <= MAX_STATE_BYTES:
        return
    fits, too_wide = 1, d_model
    while too_wide - fits > 1:
        middle = (fits + too_wide) // 2
        fits, too_wide = (middle, too_wide) if state_bytes(middle) <= MAX_STATE_BYTES else (fits, middle)
    raise OptionError(
        f"d_model = {d_model:,} needs {state_bytes(d_model) / 1e9:,.1f} GB of training state but at most "
        f"{MAX_STATE_BYTES / 1e9:g} GB is allowed: use d_model of at most {fits:,}"
    )
