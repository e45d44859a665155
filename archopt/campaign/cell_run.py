"""One cell of a campaign with its study: its trials, the comparison, what it recommends, what it writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from archopt.campaign.budget import Budget, SpentTime
from archopt.campaign.cell import Cell
from archopt.campaign.comparison import N_SEEDS, caveats, compare, contenders, practices, was_cut
from archopt.campaign.facts import data_facts, law_facts, record_facts, record_outcome, theory_facts, with_facts
from archopt.campaign.opening import width_warnings
from archopt.campaign.presence import Presence
from archopt.campaign.results import write_results
from archopt.campaign.settings import Settings
from archopt.campaign.stopping import Certainty
from archopt.campaign.storage import COMPARISON_KEY
from archopt.campaign.trials import TrialLoop
from archopt.errors import CampaignFailed, StorageError
from archopt.evaluation.workers import WorkerPool
from archopt.pruners import HDIPruner
from archopt.recommendation import Recommendation, recommend_from
from archopt.report.progress import Progress
from archopt.search_space import ATTRIBUTES, TrialRecord, read_history, read_records
from archopt.study_model import StudyModel, model_study
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna

    from archopt.campaign.patient_storage import PatientStorage
    from archopt.laws import ScalingLaw

NOT_COMPARED = "not compared with today's practices on the test split, to keep within the campaign's budget"


@dataclass(frozen=True)
class Outcome:
    """How a cell's search ended: why, the comparison's rows, what is to be said of them, sizes that were left out."""

    stopped_because: str
    comparison: Sequence[dict[str, Any]] = ()
    caveats: Sequence[str] = ()
    interrupted: bool = False
    left_out: Sequence[str] = ()


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
    storage: "PatientStorage"
    spent: SpentTime
    prior: OptimumPrior
    command: str

    def trial_loop(
        self,
        pool: WorkerPool,
        budget: Budget,
        *,
        presence: Presence | None = None,
        is_turn: bool = False,
        n_here: int | None = None,
        ended: Callable[[], str | None] = lambda: None,
    ) -> TrialLoop:
        """What runs the cell's trials within a budget; the rest as `TrialLoop` has it."""
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
            presence=presence,
            is_turn=is_turn,
            n_here=n_here,
            ended=ended,
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

    def record_facts(self) -> None:
        """Leave in the storage what a report needs beside the trials, before any of them."""
        cell, prior = self.cell, self.cell.prior
        record_facts(
            self.study,
            {
                "d_model": self.settings.d_model,
                "theory": theory_facts(cell.theory, cell.summary, prior.sd_octaves),
                "data": data_facts(cell.dataset, cell.summary),
                "prior": [prior.log2_head_dim, prior.sd_octaves],
                "confidence": self.settings.confidence,
                "command": self.command,
                "warnings": width_warnings(self.settings.d_model),
            },
        )

    def publish(
        self, outcome: Outcome, *, law: "ScalingLaw | None" = None, pictures: bool = True
    ) -> Recommendation | None:
        """Write the results, and return the recommendation with all its facts; None where no trial has finished.

        Where the file system refuses, the recommendation says so and is returned all the same.

        Args:
            law: fitted to the campaign's cells, for the report.
            pictures: whether to write the report's figures as PNG files, too.

        Raises:
            CampaignFailed: the file system refuses, and there is nothing to return.
        """
        folder = self.settings.folder()
        plain, records = self.recommend(), read_records(self.study, self.cell.head)
        full = None
        if plain is not None:
            ended = record_outcome(
                self.study,
                outcome.stopped_because,
                outcome.comparison,
                outcome.caveats,
                interrupted=outcome.interrupted,
                left_out=outcome.left_out,
            )
            says = None if law is None else law_facts(law, self.cell.dataset.n_samples, self.settings.d_model)
            full = with_facts(plain, self.study, records, outcome=ended, law=says)
            full = _with_search(full, folder=str(folder))
        try:
            write_results(folder, full, records, self.command, pictures=pictures)
        except StorageError as error:
            if full is None:
                raise CampaignFailed(str(error)) from error
            return _with_search(full, not_written=str(error))
        return full


def _with_search(recommendation: Recommendation, **more: Any) -> Recommendation:
    search = {**recommendation.details["search"], **more}
    return replace(recommendation, details={**recommendation.details, "search": search})
