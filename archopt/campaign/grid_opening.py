"""A campaign over several sizes is opened: one folder, one storage, a study a cell, settings compared."""

from typing import Any

from archopt.campaign.budget import SpentTime
from archopt.campaign.cell_run import CellRun
from archopt.campaign.cells_table import cells_of
from archopt.campaign.grid_cells import GridPlan
from archopt.campaign.joining import record_campaign
from archopt.campaign.opening import open_study, opening_of, queue_opening
from archopt.campaign.output_folder import prepare_folder, remove_folders
from archopt.campaign.stopping import count_trials
from archopt.campaign.storage import load_settings, open_storage, refuse_other_settings
from archopt.errors import StorageError
from archopt.report.progress import Progress
from archopt.search_space import LEARNING_RATE, N_HEADS

END_FACTOR = 4  # how far beyond what people use today an opening looks: a head of width 1 may take ten times the time
OPENING_TRIALS = 8  # of every cell at least, where the budget reaches

_OF_THE_CELL = ("n_samples", "d_model", "context_rows")  # what n and D decide: cells of one campaign differ in them


def open_grid(plan: GridPlan, progress: Progress, started: float) -> tuple[CellRun, ...]:
    """The cells with their studies, new or resumed, in the plan's order.

    Args:
        started: monotonic time from which this run counts.

    Raises:
        StorageError: the folder or the storage fails, or holds cells of this campaign that were searched with other
            settings; nothing has been written then.
    """
    import optuna

    base = plan.base
    name, folder = base.campaign_name(), base.folder()
    identities = {settings.campaign_name(): cell.identity(settings) for settings, cell in plan.cells.values()}
    made = prepare_folder(folder)
    try:
        storage = open_storage(base.storage or "", locks=True, tell=progress.note)
        known = cells_of(name, optuna.get_all_study_names(storage))
        before = {study_name: load_settings(storage, study_name) for study_name in known}
        for study_name, was in before.items():
            if study_name in identities:
                refuse_other_settings(study_name, was or {}, identities[study_name])
            else:  # a cell of other sizes, from an earlier run
                refuse_other_settings(name, _shared(was or {}), _shared(next(iter(identities.values()))))
    except StorageError:
        remove_folders(made)
        raise
    _say(plan, n_known=len(before.keys() & identities.keys()), progress=progress)
    runs = []
    for settings, cell in plan.cells.values():
        study = open_study(settings, cell, storage, identities[settings.campaign_name()])
        record_campaign(study, base, cell.recipe.device, *plan.asked)
        spent = SpentTime.of(study, started)
        runs.append(CellRun(settings, cell, progress, study, storage, spent, cell.prior, plan.command))
        runs[-1].record_facts()
    for study_name in before.keys() - identities.keys():  # of other sizes: whoever joins must not find an earlier run's
        other = optuna.load_study(study_name=study_name, storage=storage)
        record_campaign(other, base, runs[0].cell.recipe.device, *plan.asked)
    return tuple(runs)


def opening_share(run: CellRun, n_trials: int | None, n_cells: int) -> int:
    """How many trials a cell gets before any goes where it teaches most.

    All of its opening ones where half of the budget lets every cell have as many, `OPENING_TRIALS` else, or an equal
    part of a budget that does not reach so far; of a budget in time, `OPENING_TRIALS`.

    Args:
        n_trials: of the whole campaign; None without that limit.
        n_cells: that share it.
    """
    every = len(grid_opening(run))
    if n_trials is None:
        return min(every, OPENING_TRIALS)
    return min(max(min(every, n_trials // (2 * n_cells)), OPENING_TRIALS), n_trials // n_cells)


def queue_share(run: CellRun, share: int) -> None:
    """Queue a cell's opening trials, as many as its share."""
    if count_trials(run.study).n_ended < share:
        queue_opening(run.study, grid_opening(run)[:share])


def grid_opening(run: CellRun) -> list[dict[str, Any]]:
    """A cell's first trials: those of a search of its own, with a narrow and a wide split beside them.

    Every split comes at one learning rate before the next rate, the middle ones first: with a small share every split
    has then been seen at a usual rate. The two ends let an optimum between them be told from one beyond what people use
    today; a prior informed by other cells alone would never look there.
    """
    usual = opening_of(run.settings, run.cell)
    rates = sorted({params[LEARNING_RATE] for params in usual})
    turns = sorted(rates, key=lambda rate: abs(rates.index(rate) - (len(rates) - 1) / 2))
    first = [params for params in usual if params[LEARNING_RATE] == turns[0]]
    width = run.settings.d_model
    used = {width // params[N_HEADS] for params in first}
    within = [
        split.head_dim
        for split in run.settings.allocations()
        if min(used) / END_FACTOR <= split.head_dim <= max(used) * END_FACTOR
    ]
    ends = [{**first[0], N_HEADS: width // end} for end in sorted({min(within), max(within)} - used)]
    rest = sorted(usual, key=lambda params: turns.index(params[LEARNING_RATE]))[len(first) :]
    return [*first, *ends, *rest]


def _shared(identity: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in identity.items() if key not in _OF_THE_CELL}


def _say(plan: GridPlan, *, n_known: int, progress: Progress) -> None:
    cells = plan.cells
    _, largest = cells[max(cells)]
    for line in [*largest.dataset.notes, *largest.summary.notes]:
        progress.note(line)
    for where, reason in plan.left_out_by_reason():
        progress.note(f"left out {where}: {reason}")
    ns, widths = (list(dict.fromkeys(size)) for size in zip(*cells, strict=True))
    known = f", {n_known} of them begun before" if n_known else ""
    progress.note(
        f"campaign {plan.base.campaign_name()}: {len(cells)} {'cells' if len(cells) > 1 else 'cell'}, "
        f"n = {', '.join(f'{n:,}' for n in ns)}; D = {', '.join(map(str, widths))}{known}"
    )
