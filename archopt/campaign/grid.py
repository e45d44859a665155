"""`archopt.search_grid`: one campaign over several n and D, for the law of the best head_dim."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Unpack

from archopt.campaign.budget import COMPARISON_SHARE
from archopt.campaign.cell_run import Outcome
from archopt.campaign.cells_table import CELL_COLUMNS, cells_frame
from archopt.campaign.facts import recorded_facts
from archopt.campaign.grid_cells import GridPlan, SearchOptions, plan_grid
from archopt.campaign.grid_opening import open_grid
from archopt.campaign.grid_report import GridReport, fitted_law, write_grid_report
from archopt.campaign.grid_result import GridCell, GridResult
from archopt.campaign.grid_trials import GridTrials
from archopt.campaign.joining import record_end
from archopt.campaign.output_folder import prepare_folder
from archopt.campaign.pool import training_pool
from archopt.campaign.presence import present
from archopt.campaign.results import trial_rows
from archopt.campaign.run import INTERRUPTED
from archopt.campaign.settings import time_limit
from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import SPENT_KEY, storage_faults
from archopt.campaign.storage_url import masked
from archopt.errors import CampaignFailed, OptionError, StorageError
from archopt.evaluation.workers import WorkerPool
from archopt.report.numbers import count
from archopt.report.progress import Progress, SearchProgress
from archopt.search_space import read_records

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
    outcomes: dict[int, Outcome] = {}
    studies = [run.study for run in runs]
    with training_pool(base, runs[0].cell) as pool, present(pool.n_workers, studies) as presence:
        trials = GridTrials(runs, pool, progress, base.n_trials, base.budget_seconds(), started, presence)
        try:
            stopped_because = trials.run()
            record_end(runs[0].study, base, stopped_because)
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
    interrupted = stopped_because == INTERRUPTED
    frame, folder = cells_frame([run.study for run in trials.runs]), plan.base.folder()
    facts = [recorded_facts(run.study) for run in trials.runs]
    law = fitted_law(frame, facts, source=plan.base.campaign_name(), plan=not interrupted)
    left_out = [f"{where}: {reason}" for where, reason in plan.left_out_by_reason()]
    cells, refused = [], []
    rows: dict[tuple[int, int], Sequence[Mapping[str, Any]]] = {}
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
            outcome = replace(outcome, caveats=[*outcome.caveats, *shared], left_out=left_out)
            found = trials.informed(at).publish(outcome, law=law, pictures=False)
            refused += [why for why in [found and found.details["search"].get("not_written")] if why]
        reason = None if found is not None else run.why_nothing(outcome.stopped_because)
        n = run.cell.dataset.n_samples
        rows[n, run.settings.d_model] = trial_rows(read_records(run.study, run.cell.head))
        cells.append(GridCell(n, run.settings.d_model, tally.n_ended, found, reason))
    if all(cell.recommendation is None for cell in cells):
        raise CampaignFailed(cells[0].reason or "no trial finished")
    search = {
        "stopped_because": stopped_because,
        "interrupted": interrupted,
        "n_trials": sum(cell.n_trials for cell in cells),
        "wall_seconds": sum(float(run.study.user_attrs.get(SPENT_KEY, 0.0)) for run in trials.runs),
        "left_out": left_out,
        "storage": masked(plan.base.storage or ""),
    }
    never = tuple(GridCell(n, width, 0, None, reason) for (n, width), reason in plan.left_out.items())
    result = GridResult(plan.base.campaign_name(), (*cells, *never), frame, law, folder, search)
    refused += _written(GridReport(result, rows, plan.command))
    return replace(result, search={**search, "not_written": refused[0]}) if refused else result


def _written(report: GridReport) -> list[str]:
    """cells.csv, law.json and the report of the whole campaign; what the file system refused."""
    from archopt.report.files import write_csv

    result, refused = report.result, []
    table = [dict(zip(CELL_COLUMNS, row, strict=True)) for row in result.frame.itertuples(index=False)]
    try:
        write_csv(result.folder / "cells.csv", table, CELL_COLUMNS)
        if result.law is not None:
            result.law.save(result.folder / LAW_FILE)
        write_grid_report(report)
    except (StorageError, OptionError) as error:
        refused.append(str(error))
    return refused
