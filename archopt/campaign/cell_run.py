"""One cell of a campaign with its study: its trials, the comparison, what it recommends, what it writes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from archopt.campaign.budget import Budget, SpentTime
from archopt.campaign.cell import Cell
from archopt.campaign.comparison import N_SEEDS, caveats, compare, contenders, practices, was_cut
from archopt.campaign.opening import width_warnings
from archopt.campaign.results import (
    data_facts,
    search_facts,
    theory_facts,
    with_details,
    write_results,
)
from archopt.campaign.settings import Settings
from archopt.campaign.stopping import Certainty
from archopt.campaign.storage import COMPARISON_KEY, SPENT_KEY
from archopt.campaign.trials import TrialLoop
from archopt.errors import CampaignFailed, StorageError
from archopt.evaluation.workers import WorkerPool
from archopt.pruners import HDIPruner, worth_of_diversity
from archopt.recommendation import Recommendation, recommend_from
from archopt.report.progress import Progress
from archopt.search_space import ATTRIBUTES, TrialRecord, read_history, read_records
from archopt.study_model import StudyModel, model_study
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna

NOT_COMPARED = "not compared with today's practices on the test split, to keep within the campaign's budget"


@dataclass(frozen=True)
class Outcome:
    """How a cell's search ended: why, the comparison's rows, and what is to be said of them."""

    stopped_because: str
    comparison: Sequence[dict[str, Any]] = ()
    caveats: Sequence[str] = ()
    interrupted: bool = False


@dataclass(frozen=True)
class CellRun:
    """A cell, its study, and this process's part in it.

    Attributes:
        spent: wall time of the cell, counted from the moment that this run, or this turn of it, began.
        prior: of the optimum, for the recommendation.
        command: that repeats the search, for the report.
    """

    settings: Settings
    cell: Cell
    progress: Progress
    study: "optuna.Study"
    storage: "optuna.storages.RDBStorage"
    spent: SpentTime
    prior: OptimumPrior
    command: str

    def trial_loop(self, pool: WorkerPool, budget: Budget, *, is_turn: bool = False) -> TrialLoop:
        """What runs the cell's trials within a budget; ``is_turn`` as `TrialLoop` has it."""
        cell = self.cell
        return TrialLoop(
            study=self.study,
            storage=self.storage,
            pool=pool,
            distributions=cell.distributions,
            head=cell.head,
            n_steps=cell.recipe.n_steps,
            budget=budget,
            spent=self.spent,
            pruner=HDIPruner(seed=self.settings.seed),
            certainty=Certainty(self.recommend, self.settings.confidence),
            progress=self.progress,
            is_turn=is_turn,
        )

    def n_comparison_jobs(self) -> int:
        """Trainings that the comparison at the end needs."""
        return N_SEEDS * (1 + len(set(practices(self.settings.allocations(), self.cell.theory.nearest).values())))

    def _fit(self) -> tuple[StudyModel, list[TrialRecord]]:
        history = read_history(self.study, self.cell.head)
        return model_study(history, self.cell.space, self.prior), history.records()

    def recommend(self) -> Recommendation | None:
        """As of now; None before any trial has finished."""
        model, records = self._fit()
        if not model.answerable.any():
            return None
        return recommend_from(model, records, confidence=self.settings.confidence)

    def compare(
        self, pool: WorkerPool, deadline: float | None, *, affordable: bool = True
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Today's practices against the recommendation, with caveats; what was measured for the same rows is kept.

        Args:
            pool: of this cell's data, with no trial in training.
            deadline: as for `comparison.compare`.
            affordable: where not, nothing is measured that was not kept, and a caveat says so.
        """
        model, records = self._fit()
        if not model.answerable.any():
            return [], []
        chosen = recommend_from(model, records, confidence=self.settings.confidence)
        rows, left_out = contenders(chosen, model, self.settings.allocations(), self.cell.theory.nearest)
        asked = [[row["label"], str(row["allocation"]), row["params"]] for row in rows]
        kept = self.study.user_attrs.get(COMPARISON_KEY)
        if kept is not None and kept["asked"] == asked:
            return list(kept["rows"]), caveats(kept["rows"], left_out)
        if not affordable:
            return [], [NOT_COMPARED]
        self.progress.note(f"comparing {len(rows)} allocations on the test split, {N_SEEDS} fresh seeds each")
        try:
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

    def publish(self, outcome: Outcome) -> Recommendation | None:
        """Write the results, and return the recommendation with all its facts; None where no trial has finished.

        Where the file system refuses, the recommendation says so and is returned all the same.

        Raises:
            CampaignFailed: the file system refuses, and there is nothing to return.
        """
        settings, cell, folder = self.settings, self.cell, self.settings.folder()
        plain, records = self.recommend(), read_records(self.study, cell.head)
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
            write_results(folder, full, records, self.command)
        except StorageError as error:
            if full is None:
                raise CampaignFailed(str(error)) from error
            return _not_written(full, str(error))
        return full


def _not_written(recommendation: Recommendation, why: str) -> Recommendation:
    search = {**recommendation.details["search"], "not_written": why}
    return replace(recommendation, details={**recommendation.details, "search": search})
