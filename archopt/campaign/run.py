"""One run of a campaign over one cell: opened, searched, compared, written down."""

from archopt.campaign.budget import Budget, SpentTime
from archopt.campaign.cell import Cell
from archopt.campaign.cell_run import CellRun, Outcome
from archopt.campaign.opening import open_campaign
from archopt.campaign.pool import training_pool
from archopt.campaign.presence import present
from archopt.campaign.settings import Settings, command_line
from archopt.campaign.storage import storage_faults
from archopt.errors import CampaignFailed
from archopt.recommendation import Recommendation
from archopt.report.progress import SearchProgress

INTERRUPTED = "it was interrupted; the same command goes on"


def run_campaign(settings: Settings, cell: Cell, progress: SearchProgress, started: float) -> Recommendation:
    """Search until an end is reached, compare, write the results.

    Args:
        started: monotonic time from which this run counts.

    Raises:
        StorageError, CampaignFailed: as `archopt.search`.
    """
    with storage_faults():
        study, storage = open_campaign(settings, cell, progress)
        spent = SpentTime.of(study, started)
        run = CellRun(settings, cell, progress, study, storage, spent, cell.prior, command_line(settings))
        run.record_facts()
        outcome = _searched(run)
        published = run.publish(outcome)
    if published is None:
        raise CampaignFailed(run.why_nothing(outcome.stopped_because))
    return published


def _searched(run: CellRun) -> Outcome:
    """Trials, then the comparison."""
    settings, cell = run.settings, run.cell
    with training_pool(settings, cell) as pool, present(pool.n_workers, [run.study]) as presence:
        budget = Budget(
            n_trials=settings.n_trials,
            seconds=settings.budget_seconds(),
            n_replicates=settings.replicates,
            max_seconds_per_step=settings.max_seconds_per_step,
            n_comparison_jobs=run.n_comparison_jobs(),
            n_workers=pool.n_workers,
        )
        try:
            stopped_because = run.trial_loop(pool, budget, presence=presence).run()
            deadline = run.spent.comparison_deadline(settings.budget_seconds())
            return Outcome(stopped_because, *run.compare(pool, deadline))
        except KeyboardInterrupt:
            return Outcome(INTERRUPTED, interrupted=True)
