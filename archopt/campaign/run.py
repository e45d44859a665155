"""One run of a campaign: opened, searched, compared, written down."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from archopt.campaign.budget import Budget, SpentTime
from archopt.campaign.cell import Cell
from archopt.campaign.comparison import N_SEEDS, caveats, compare, contenders, practices, was_cut
from archopt.campaign.opening import open_campaign, width_warnings
from archopt.campaign.results import (
    data_facts,
    search_facts,
    theory_facts,
    with_details,
    write_results,
)
from archopt.campaign.settings import Settings, command_line
from archopt.campaign.stopping import Certainty
from archopt.campaign.storage import COMPARISON_KEY, SPENT_KEY
from archopt.campaign.trials import TrialLoop
from archopt.errors import CampaignFailed, StorageError
from archopt.evaluation.workers import WorkerPool
from archopt.pruners import HDIPruner, worth_of_diversity
from archopt.recommendation import Recommendation, recommend_from
from archopt.report.progress import SearchProgress
from archopt.search_space import ATTRIBUTES, TrialRecord, read_history, read_records
from archopt.study_model import StudyModel, model_study

if TYPE_CHECKING:
    import optuna


def run_campaign(settings: Settings, cell: Cell, progress: SearchProgress, started: float) -> Recommendation:
    """Search until an end is reached, compare, write the results.

    Args:
        started: monotonic time from which this run counts.

    Raises:
        StorageError, CampaignFailed: as `archopt.search`.
    """
    import optuna

    try:
        study, storage = open_campaign(settings, cell, progress)
        run = _Run(settings, cell, progress, study, storage, SpentTime.of(study, started))
        outcome = run.search()
        published = run.publish(outcome)
    except optuna.exceptions.StorageInternalError as error:
        cause = " ".join(str(error.__cause__ or error).split())[:100]
        raise CampaignFailed(
            f"the storage failed while the search ran ({cause}): every finished trial is kept; "
            "make room or restore the connection, then run the same command again"
        ) from None
    if published is None:
        raise CampaignFailed(run.why_nothing(outcome.stopped_because))
    return published


@dataclass(frozen=True)
class _Outcome:
    stopped_because: str
    comparison: list[dict[str, Any]]
    caveats: list[str]
    interrupted: bool


@dataclass(frozen=True)
class _Run:
    settings: Settings
    cell: Cell
    progress: SearchProgress
    study: "optuna.Study"
    storage: "optuna.storages.RDBStorage"
    spent: SpentTime

    def search(self) -> _Outcome:
        """Trials, then the comparison."""
        settings, cell = self.settings, self.cell
        n_workers, n_threads = settings.workers_and_threads(cell.recipe.device)
        # linear algebra here must not take the cores from the workers
        with (
            threadpool_limits(1),
            WorkerPool(cell.dataset, cell.recipe, n_workers=n_workers, n_threads=n_threads) as pool,
        ):
            loop = TrialLoop(
                study=self.study,
                storage=self.storage,
                pool=pool,
                distributions=cell.distributions,
                head=cell.head,
                n_steps=cell.recipe.n_steps,
                budget=Budget(
                    n_trials=settings.n_trials,
                    seconds=settings.budget_seconds(),
                    n_replicates=settings.replicates,
                    max_seconds_per_step=settings.max_seconds_per_step,
                    n_comparison_jobs=N_SEEDS
                    * (1 + len(set(practices(settings.allocations(), cell.theory.nearest).values()))),
                    n_workers=n_workers,
                ),
                spent=self.spent,
                pruner=HDIPruner(seed=settings.seed),
                certainty=Certainty(self._recommend, settings.confidence),
                progress=self.progress,
            )
            try:
                stopped_because = loop.run()
                comparison, found = self._compare(pool)
                return _Outcome(stopped_because, comparison, found, interrupted=False)
            except KeyboardInterrupt:
                return _Outcome("it was interrupted; the same command goes on", [], [], interrupted=True)

    def _fit(self) -> tuple[StudyModel, list[TrialRecord]]:
        history = read_history(self.study, self.cell.head)
        return model_study(history, self.cell.space, self.cell.prior), history.records()

    def _recommend(self) -> Recommendation | None:
        model, records = self._fit()
        if not model.answerable.any():
            return None
        return recommend_from(model, records, confidence=self.settings.confidence)

    def _compare(self, pool: WorkerPool) -> tuple[list[dict[str, Any]], list[str]]:
        """Today's practices against the recommendation, with caveats; what was measured for the same rows is kept."""
        model, records = self._fit()
        if not model.answerable.any():
            return [], []
        chosen = recommend_from(model, records, confidence=self.settings.confidence)
        rows, left_out = contenders(chosen, model, self.settings.allocations(), self.cell.theory.nearest)
        asked = [[row["label"], str(row["allocation"]), row["params"]] for row in rows]
        kept = self.study.user_attrs.get(COMPARISON_KEY)
        if kept is not None and kept["asked"] == asked:
            return list(kept["rows"]), caveats(kept["rows"], left_out)
        self.progress.note(f"comparing {len(rows)} allocations on the test split, {N_SEEDS} fresh seeds each")
        try:
            deadline = self.spent.comparison_deadline(self.settings.budget_seconds())
            measured = compare(pool, rows, deadline=deadline)
        finally:
            self.spent.record()
        if not was_cut(measured):  # else the same command measures the rest
            self.study.set_user_attr(COMPARISON_KEY, {"asked": asked, "rows": measured})
        return measured, caveats(measured, left_out)

    def why_nothing(self, stopped_because: str) -> str:
        """What to say where no trial has finished."""
        _, records = self._fit()
        reasons = [reason for record in records if (reason := record.attributes.get(ATTRIBUTES.reason))]
        last = f"; the last one failed: {reasons[-1]}" if reasons else ""
        return f"no trial finished ({stopped_because}){last}"[:290]

    def publish(self, outcome: _Outcome) -> Recommendation | None:
        """Write the results, and return the recommendation with all its facts; None where no trial has finished.

        Where the file system refuses, the recommendation says so and is returned all the same.

        Raises:
            CampaignFailed: the file system refuses, and there is nothing to return.
        """
        settings, cell, folder = self.settings, self.cell, self.settings.folder()
        plain, records = self._recommend(), read_records(self.study, cell.head)
        full = None
        if plain is not None:
            full = with_details(
                plain,
                metric=cell.recipe.metric,
                theory=theory_facts(cell.theory, cell.summary, cell.prior.sd_octaves),
                comparison=outcome.comparison,
                search={
                    **search_facts(records, outcome.stopped_because, float(self.study.user_attrs.get(SPENT_KEY, 0.0))),
                    "interrupted": outcome.interrupted,
                    "folder": str(folder),
                },
                data=data_facts(cell.dataset, cell.summary),
                settings=cell.identity(settings),
                diversity_worth=asdict(worth_of_diversity(records)),
                caveats=[*outcome.caveats, *width_warnings(settings.d_model)],
            )
        try:
            write_results(folder, full, records, command_line(settings))
        except StorageError as error:
            if full is None:
                raise CampaignFailed(str(error)) from error
            return _not_written(full, str(error))
        return full


def _not_written(recommendation: Recommendation, why: str) -> Recommendation:
    search = {**recommendation.details["search"], "not_written": why}
    return replace(recommendation, details={**recommendation.details, "search": search})
