"""`archopt.search`: from a data set and a width to a recommendation."""

import os
import time as clock
from collections.abc import Sequence
from typing import Literal

from archopt.campaign.cell import prepare_cell
from archopt.campaign.run import run_campaign
from archopt.campaign.settings import Settings
from archopt.recommendation import Recommendation
from archopt.report.progress import SearchProgress


def search(
    data: str | os.PathLike[str],
    d_model: int,
    *,
    target: str | None = None,
    task: Literal["auto", "regression", "classification"] = "auto",
    n_samples: int | None = None,
    n_trials: int | None = None,
    timeout_seconds: float | None = None,
    n_steps: int | None = None,
    min_head_dim: int = 1,
    max_head_dim: int | None = None,
    head_dim_multiple_of: int = 1,
    n_heads_multiple_of: int = 1,
    max_seconds_per_step: float | None = None,
    weighting: Sequence[str] | str = ("uniform", "geometric", "fibonacci", "learned"),
    learning_rate: Sequence[float] | float | str | None = None,
    weight_decay: Sequence[float] | float | str | None = None,
    warmup: Sequence[float] | float | str | None = None,
    metric: str | None = None,
    valid: str | None = None,
    group: str | None = None,
    time: str | None = None,
    seed: int = 0,
    replicates: int = 1,
    n_workers: int | None = None,
    storage: str | None = None,
    name: str | None = None,
    device: str = "auto",
    attention: str = "auto",
    precision: str = "float32",
    out: str | os.PathLike[str] | None = None,
    confidence: float = 0.9,
    quiet: bool = False,
) -> Recommendation:
    """Search the head allocation of ``d_model`` for a data set; the same call again resumes.

    Args:
        data: a CSV or Parquet file (with ``target``), any other file (read as text, byte by byte), or a bundled set
            such as "sklearn:digits" or "text:python-topics".
        d_model: D, the total attention width.
        target: column to predict.
        task: "regression", "classification", or "auto" to read it off the target.
        n_samples: training rows (bytes, for text) to use; by default all, up to a stated cap.
        n_trials: budget in trials, of the whole campaign.
        timeout_seconds: budget in seconds, of the whole campaign, final comparison included; 210 where neither budget
            is given.
        n_steps: optimiser steps of every trial; by default enough for seconds a trial.
        min_head_dim, max_head_dim, head_dim_multiple_of, n_heads_multiple_of: as for `archopt.feasible_allocations`.
        max_seconds_per_step: allocations whose training step takes longer are infeasible.
        weighting: schemes to search.
        learning_rate: values to search with the heads; a comparison at one fixed rate would be unfair. By default four
            for tables and three for text.
        weight_decay: AdamW's; one value for all trials, or several to search. 1 (tables) or 0.1 (text) by default.
        warmup: share of the steps, from 0 to 1, with a rising learning rate; one value, or several to search. A
            twentieth by default.
        metric: "rmse", "mae"; "log_loss", "error_rate"; "nats_per_byte", "bits_per_byte".
        valid: file to validate and test on, in two halves, instead of parts of ``data``.
        group: column whose groups are never split between training, validation and test.
        time: column that orders the rows: the past trains, the future validates and tests.
        seed: of splits, initialisation, batches and proposals.
        replicates: trials with different seeds that every proposed configuration gets at least; the search repeats
            more where that teaches more than something new.
        n_workers: processes that train at the same time; one a core by default.
        storage: Optuna storage URL; a SQLite file in the output folder by default.
        name: of the campaign; from the data and the width by default.
        device: "cpu", "cuda", or "auto".
        attention: kernel: "sdpa", "xformers", "blocked", "explicit", or "auto".
        precision: of the products inside a text's models: "float32", or "bfloat16", which pays on wide models where
            the device has units for it.
        out: output folder; archopt-results/NAME by default.
        confidence: of the confidence set, and at which the search calls itself certain.
        quiet: no progress on standard error.

    Returns:
        The recommendation; `.to_dict()` is what recommendation.json holds.

    Raises:
        OptionError, AllocationError, DataError: bad input; nothing has been written then.
        StorageError: the storage or the output folder fails, or holds a campaign with other settings.
        CampaignFailed: no trial could finish, or the storage failed on the way; what had finished is kept.
        WorkerStartError: a CampaignFailed: no process that trains can be started here.

    Ctrl-C does not raise once a trial has finished: what is known is returned, ``details["search"]["interrupted"]``
    says so, and the same call goes on. Where the results cannot be written, ``details["search"]["not_written"]`` says
    why.
    """
    settings = Settings(
        data=os.fspath(data),
        d_model=d_model,
        target=target,
        task=task,
        n_samples=n_samples,
        n_trials=n_trials,
        timeout_seconds=timeout_seconds,
        n_steps=n_steps,
        min_head_dim=min_head_dim,
        max_head_dim=max_head_dim,
        head_dim_multiple_of=head_dim_multiple_of,
        n_heads_multiple_of=n_heads_multiple_of,
        max_seconds_per_step=max_seconds_per_step,
        weighting=tuple(weighting.split(",")) if isinstance(weighting, str) else tuple(weighting),
        learning_rate=learning_rate,  # type: ignore[arg-type]  # it reads them
        weight_decay=weight_decay,  # type: ignore[arg-type]
        warmup=warmup,  # type: ignore[arg-type]
        metric=metric,
        valid=valid,
        group=group,
        time=time,
        seed=seed,
        replicates=replicates,
        n_workers=n_workers,
        storage=storage,
        name=name,
        device=device,
        attention=attention,
        precision=precision,
        out=None if out is None else os.fspath(out),
        confidence=confidence,
    )
    started = clock.monotonic()
    with SearchProgress(n_trials=settings.n_trials, timeout_seconds=settings.budget_seconds(), quiet=quiet) as progress:
        return run_campaign(settings, prepare_cell(settings), progress, started)
