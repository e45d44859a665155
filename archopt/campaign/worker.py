"""`archopt.join_campaign`: one more machine for a campaign that runs elsewhere."""

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archopt.campaign.budget import Budget, SpentTime
from archopt.campaign.cell import Cell, prepare_cell
from archopt.campaign.cell_run import CellRun
from archopt.campaign.grid_cells import plan_grid
from archopt.campaign.grid_trials import GridTrials
from archopt.campaign.joining import CampaignEnd, recorded_campaign
from archopt.campaign.opening import open_study
from archopt.campaign.pool import training_pool
from archopt.campaign.presence import present
from archopt.campaign.settings import Settings, command_line
from archopt.campaign.storage import load_settings, open_storage, refuse_other_settings, storage_faults
from archopt.campaign.storage_url import refuse_missing_file
from archopt.campaign.trials import TrialLoop
from archopt.data.tasks import find_task
from archopt.errors import OptionError, StorageError
from archopt.report.progress import Progress, SearchProgress

if TYPE_CHECKING:
    from archopt.campaign.patient_storage import PatientStorage

INTERRUPTED = "it was interrupted: its trials were queued again"


@dataclass(frozen=True)
class WorkDone:
    """What one worker did for a campaign.

    Attributes:
        campaign: its name.
        n_trials: that this worker brought to an end.
        seconds: from joining to leaving.
        stopped_because: why it left.
        interrupted: whether that was Ctrl-C or SIGTERM.
    """

    campaign: str
    n_trials: int
    seconds: float
    stopped_because: str
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"schema": "archopt.work/1", **asdict(self)}


def join_campaign(
    storage: str,
    name: str,
    *,
    data: str | os.PathLike[str] | None = None,
    valid: str | os.PathLike[str] | None = None,
    n_workers: int | None = None,
    timeout_seconds: float | None = None,
    quiet: bool = False,
) -> WorkDone:
    """Train trials for a campaign that `archopt.search` or `search_grid` runs on another machine, until it is over.

    Every setting comes from the storage. Results are written where the search runs; this adds trials. Ctrl-C or SIGTERM
    queue the trials in training again; a machine that dies has its trials found and queued again by the others.

    Args:
        storage: Optuna storage URL of the campaign.
        name: of the campaign.
        data, valid: where its files lie on this machine, if not under the path that the search was given.
        n_workers: processes that train at the same time; one a core, or one a GPU, by default.
        timeout_seconds: leave after so long; None stays to the end.
        quiet: no progress on standard error.

    Raises:
        StorageError: the storage cannot be opened or holds no such campaign, or the data differ from the search's.
        OptionError, DataError: an argument outside what is allowed, data that are not here, no CUDA device here for a
            campaign that trains on one.
        CampaignFailed: the storage failed, or every first trial did.
    """
    started = time.monotonic()
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise OptionError(f"timeout_seconds must be above 0 but got {timeout_seconds}")
    with SearchProgress(timeout_seconds=timeout_seconds, quiet=quiet) as progress, storage_faults():
        refuse_missing_file(storage)
        opened = open_storage(storage, locks=True, tell=progress.note)
        recorded = recorded_campaign(opened, name, storage)
        options = {**recorded["settings"], "storage": storage, "n_workers": n_workers, "name": recorded["campaign"]}
        for which, path in (("data", data), ("valid", valid)):
            options[which] = _place_here(which, options[which], None if path is None else os.fspath(path))
        if recorded["d_models"]:
            plan = plan_grid(options.pop("data"), recorded["d_models"], recorded["n_samples"], _without_size(options))
            cells = list(plan.cells.values())
        else:
            settings = Settings(**options)
            cells = [(settings, prepare_cell(settings))]
        runs = tuple(_joined(settings, cell, opened, progress, started) for settings, cell in cells)
        progress.note(f"joined campaign {name}")
        return _work(recorded, runs, timeout_seconds, progress, started)


def _place_here(which: str, recorded: str | None, given: str | None) -> str | None:
    """Where a data set lies on this machine.

    Raises:
        OptionError: it is not here, or the campaign has no such.
    """
    if recorded is None:
        if given is not None:
            raise OptionError(f"the campaign has no {which} file of its own: leave out --{which}")
        return None
    path = given or recorded
    bundled = path.startswith(("sklearn:", "text:")) or find_task(path) is not None
    if given is None and not bundled and not Path(path).exists():
        raise OptionError(f"the campaign's {which} is {path[-80:]!r}, which is not here: give the file with --{which}")
    return path


def _without_size(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("d_model", "n_samples")}


def _joined(settings: Settings, cell: Cell, storage: "PatientStorage", progress: Progress, started: float) -> CellRun:
    """A cell of the campaign as this process trains it, once its settings and data are known to be the same."""
    name, identity = settings.campaign_name(), cell.identity(settings)
    before = load_settings(storage, name)
    if before is not None and before["data_hash"] != identity["data_hash"]:
        raise StorageError(
            f"{settings.data[-80:]!r} differs from the data of campaign {name!r} (sha256 {identity['data_hash'][:12]} "
            f"here, {before['data_hash'][:12]} there): give the same file with --data"
        )
    if before is not None:
        refuse_other_settings(name, before, identity)
    study = open_study(settings, cell, storage, identity)
    spent = SpentTime(study, started, before_seconds=0.0, records=False)
    return CellRun(settings, cell, progress, study, storage, spent, cell.prior, command_line(settings))


def _work(
    recorded: dict[str, Any],
    runs: tuple[CellRun, ...],
    timeout_seconds: float | None,
    progress: Progress,
    started: float,
) -> WorkDone:
    first, studies = runs[0], [run.study for run in runs]
    end = CampaignEnd(studies, first.storage)
    n_trials, interrupted = first.settings.n_trials, False
    with training_pool(first.settings, first.cell) as pool, present(pool.n_workers, studies) as presence:
        trials: GridTrials | TrialLoop
        if recorded["d_models"]:
            trials = GridTrials(runs, pool, progress, n_trials, timeout_seconds, started, presence, ended=end)
        else:
            budget = Budget(
                n_trials=n_trials,
                seconds=timeout_seconds,
                n_replicates=first.settings.replicates,
                max_seconds_per_step=first.settings.max_seconds_per_step,
                n_comparison_jobs=0,
                n_workers=pool.n_workers,
            )
            trials = first.trial_loop(pool, budget, presence=presence, is_turn=True, ended=end)
        try:
            because = trials.run()
        except KeyboardInterrupt:
            because, interrupted = INTERRUPTED, True
    return WorkDone(recorded["campaign"], trials.n_ended_here, time.monotonic() - started, because, interrupted)
