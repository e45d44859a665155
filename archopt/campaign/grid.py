"""`archopt.search_grid`: one campaign over several n and D, for the law of the best head_dim."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Unpack

from threadpoolctl import threadpool_limits

from archopt.campaign.budget import COMPARISON_SHARE
from archopt.campaign.cell_run import Outcome
from archopt.campaign.cells_table import CELL_COLUMNS, cells_frame
from archopt.campaign.grid_cells import GridPlan, SearchOptions, plan_grid
from archopt.campaign.grid_opening import open_grid
from archopt.campaign.grid_result import GridCell, GridResult
from archopt.campaign.grid_trials import GridTrials
from archopt.campaign.run import INTERRUPTED
from archopt.campaign.settings import time_limit
from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import SPENT_KEY, masked, prepare_folder, storage_faults
from archopt.errors import CampaignFailed, DataError, OptionError, StorageError
from archopt.evaluation.workers import WorkerPool
from archopt.report.numbers import count
from archopt.report.progress import Progress, SearchProgress

if TYPE_CHECKING:
    import pandas as pd

    from archopt.laws import ScalingLaw

LAW_FILE = "law.json"


def search_grid(
    data: str | os.PathLike[str],
    d_models: Sequence[int],
    n_samples: Sequence[int] = (),
    *,
    quiet: bool = False,
    **options: Unpack[SearchOptions],
) -> GridResult:
    """Search the head allocation at every n and D of a grid, as one campaign; the same call again resumes.

    Every cell (n, D) has a study of its own, all in one storage. A smaller n is a prefix of a larger one. First every
    cell gets its opening trials, the cheapest cells first; then a few trials at a time go where they make the law of
    the best head_dim over n and D certain soonest (`archopt.laws.next_cell`). What the other cells have found moves and
    narrows each cell's prior; the table of all cells is made without any prior.

    The comparison on the test split is made at the end, the cheapest cells first, as far as a share of 15 % of what the
    trials cost reaches; other cells go without, and say so.

    Args:
        data: as for `archopt.search`.
        d_models: D, one or several.
        n_samples: n, none or several; without any it is what `archopt.search` would take.
        quiet: no progress on standard error.
        options: all others of `archopt.search`. ``n_trials`` and ``timeout_seconds`` are of the whole campaign,
            ``name`` is its name (the data set's by default), ``out`` its folder, ``storage`` one for all cells.

    Returns:
        A recommendation a cell, and the table of all cells. A cell that cannot be searched (n above the data's, a width
        that is too large or has fewer than three splits) is left out, and its record says why.

    Raises:
        OptionError, AllocationError, DataError: bad input, or no cell is left; nothing has been written then.
        StorageError: the storage or the output folder fails, or holds cells of that name with other settings.
        CampaignFailed: no trial could finish, or the storage failed on the way; what had finished is kept.
        WorkerStartError: a CampaignFailed: no process that trains can be started here.

    Ctrl-C does not raise once a trial has finished: what is known is returned, ``interrupted`` says so, and the same
    call goes on.
    """
    started = time.monotonic()
    given: dict[str, Any] = dict(options)
    if given.get("out") is not None:
        given["out"] = os.fspath(given["out"])
    n_trials = given.get("n_trials")
    seconds = time_limit(n_trials, given.get("timeout_seconds"))
    with SearchProgress(n_trials=n_trials, timeout_seconds=seconds, quiet=quiet) as progress:
        plan = plan_grid(os.fspath(data), d_models, n_samples, given)
        with storage_faults():
            return _run(plan, progress, started)


def _run(plan: GridPlan, progress: Progress, started: float) -> GridResult:
    base = plan.base
    runs = open_grid(plan, progress, started)
    first = runs[0].cell
    n_workers, n_threads = base.workers_and_threads(first.recipe.device)
    outcomes: dict[int, Outcome] = {}
    # linear algebra here must not take the cores from the workers
    with (
        threadpool_limits(1),
        WorkerPool(first.dataset, first.recipe, n_workers=n_workers, n_threads=n_threads) as pool,
    ):
        trials = GridTrials(runs, pool, progress, base.n_trials, base.budget_seconds(), n_workers, started)
        try:
            stopped_because = trials.run()
            _compare(trials, pool, stopped_because, outcomes)
        except KeyboardInterrupt:
            stopped_because = INTERRUPTED
    return _published(plan, trials, stopped_because, outcomes)


def _compare(trials: GridTrials, pool: WorkerPool, stopped_because: str, outcomes: dict[int, Outcome]) -> None:
    """The comparison of each cell that a share of what the trials cost pays for, the cheapest first."""
    costs = {at: trials.trial_seconds(at) or 0.0 for at in range(len(trials.runs))}
    allowance = COMPARISON_SHARE * sum(costs[at] * count_trials(trials.runs[at].study).n_ended for at in costs)
    for at in sorted(costs, key=lambda at: costs[at] * trials.runs[at].n_comparison_jobs()):
        run = trials.informed(at)
        left = inf if trials.seconds is None else trials.seconds - trials.spent_seconds()
        allowance -= costs[at] * run.n_comparison_jobs()
        affordable = allowance >= 0.0 and left > 0.0
        if affordable:
            pool.turn_to(run.cell.dataset, run.cell.recipe)
        rows, caveats = run.compare(pool, None if left == inf else time.monotonic() + left, affordable=affordable)
        outcomes[at] = Outcome(stopped_because, rows, caveats)
        trials.settle()


def _published(plan: GridPlan, trials: GridTrials, stopped_because: str, outcomes: dict[int, Outcome]) -> GridResult:
    """All results written, and returned with what the file system refused.

    Raises:
        CampaignFailed: no trial of any cell has finished.
    """
    from archopt.report.files import write_csv

    interrupted = stopped_because == INTERRUPTED
    cells, refused = [], []
    for at, run in enumerate(trials.runs):
        outcome = outcomes.get(at, Outcome(trials.closed.get(at, stopped_because), interrupted=interrupted))
        tally = count_trials(run.study)
        found = None
        if tally.n_finished:
            try:
                prepare_folder(run.settings.folder())
            except StorageError as error:
                refused.append(str(error))
            n_others = trials.n_informing(at)
            shared = (
                [f"its prior took in what {count(n_others, 'other cell')} of the campaign found"] if n_others else []
            )
            found = trials.informed(at).publish(replace(outcome, caveats=[*outcome.caveats, *shared]))
            refused += [why for why in [found and found.details["search"].get("not_written")] if why]
        reason = None if found is not None else run.why_nothing(outcome.stopped_because)
        cells.append(GridCell(run.cell.dataset.n_samples, run.settings.d_model, tally.n_ended, found, reason))
    if all(cell.recommendation is None for cell in cells):
        raise CampaignFailed(cells[0].reason or "no trial finished")
    frame = cells_frame([run.study for run in trials.runs])
    folder = plan.base.folder()
    try:
        write_csv(
            folder / "cells.csv",
            [dict(zip(CELL_COLUMNS, row, strict=True)) for row in frame.itertuples(index=False)],
            CELL_COLUMNS,
        )
    except StorageError as error:
        refused.append(str(error))
    law = _law(plan, trials, frame, interrupted=interrupted)
    if law is not None:
        try:
            law.save(folder / LAW_FILE)
        except OptionError as error:
            refused.append(str(error))
    search = {
        "stopped_because": stopped_because,
        "interrupted": interrupted,
        "n_trials": sum(cell.n_trials for cell in cells),
        "wall_seconds": sum(float(run.study.user_attrs.get(SPENT_KEY, 0.0)) for run in trials.runs),
        "left_out": [f"{where}: {reason}" for where, reason in plan.left_out_by_reason()],
        "storage": masked(plan.base.storage or ""),
        **({"not_written": refused[0]} if refused else {}),
    }
    left_out = tuple(GridCell(n, width, 0, None, reason) for (n, width), reason in plan.left_out.items())
    return GridResult(plan.base.campaign_name(), (*cells, *left_out), frame, law, folder, search)


def _law(plan: GridPlan, trials: GridTrials, frame: "pd.DataFrame", *, interrupted: bool) -> "ScalingLaw | None":
    """The law of the best head_dim over the cells; None where no cell has two allocations to compare."""
    from archopt.laws import fit_scaling_law

    largest = max((run.cell for run in trials.runs), key=lambda cell: cell.dataset.n_samples)
    try:
        return fit_scaling_law(
            frame,
            family=largest.summary.family,
            intrinsic_dim=largest.summary.intrinsic_dim,
            confidence=plan.base.confidence,
            plan=not interrupted,
            source=plan.base.campaign_name(),
        )
    except DataError:
        return None
