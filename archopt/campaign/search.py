"""`archopt.search`: from a data set and a width to a recommendation."""

import os
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from archopt.allocation import is_prime
from archopt.campaign.cell import Cell, prepare_cell
from archopt.campaign.comparison import N_SEEDS, caveat, compare, contenders, opening_trials, practices
from archopt.campaign.results import (
    data_facts,
    search_facts,
    theory_facts,
    trial_rows,
    with_details,
    write_results,
)
from archopt.campaign.settings import Settings, command_line
from archopt.campaign.storage import (
    COMPARISON_KEY,
    SETTINGS_KEY,
    SPENT_KEY,
    load_settings,
    open_storage,
    prepare_folder,
    refuse_other_settings,
)
from archopt.campaign.trials import Budget, TrialLoop
from archopt.errors import CampaignFailed
from archopt.evaluation.workers import WorkerPool
from archopt.recommendation import Recommendation, recommend_from
from archopt.report.progress import SearchProgress
from archopt.search_space import TrialRecord, read_records
from archopt.study_model import StudyModel, model_study

if TYPE_CHECKING:
    import optuna


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
        attention: kernel: "sdpa", "xformers", "explicit", or "auto".
        out: output folder; archopt-results/NAME by default.
        confidence: of the confidence set, and at which the search calls itself certain.
        quiet: no progress on standard error.

    Returns:
        The recommendation; `.to_dict()` is what recommendation.json holds.

    Raises:
        OptionError, AllocationError, DataError: bad input; nothing has been written then.
        StorageError: the storage or the output folder fails, or holds a campaign with other settings.
        TrialFailed: no trial could finish.
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
        out=None if out is None else os.fspath(out),
        confidence=confidence,
    )
    started = clock.monotonic()
    with SearchProgress(n_trials=settings.n_trials, timeout_seconds=settings.budget_seconds(), quiet=quiet) as progress:
        return _Campaign(settings, prepare_cell(settings), progress, started).run()


@dataclass(frozen=True)
class _Campaign:
    settings: Settings
    cell: Cell
    progress: SearchProgress
    started: float

    def run(self) -> Recommendation:
        import optuna

        try:
            study, storage = self._open()
            stopped_because, comparison, interrupted = self._search(study, storage)
            published = self._publish(study, stopped_because, comparison, interrupted)
        except optuna.exceptions.StorageInternalError as error:
            cause = " ".join(str(error.__cause__ or error).split())[:100]
            raise CampaignFailed(
                f"the storage failed while the search ran ({cause}): every finished trial is kept; "
                "make room or restore the connection, then run the same command again"
            ) from None
        if published is None:
            raise CampaignFailed(
                f"no trial finished ({stopped_because}): give more time, then run the same command again"
            )
        return published

    def _open(self) -> "tuple[optuna.Study, optuna.storages.RDBStorage]":
        """The campaign's study, new or resumed; nothing is written before its settings have been compared."""
        settings, name, folder = self.settings, self.settings.campaign_name(), self.settings.folder()
        url = settings.storage or f"sqlite:///{(folder / 'study.db').absolute()}"
        identity = self.cell.identity(settings)
        before = None
        if settings.storage is not None or (folder / "study.db").exists():
            before = load_settings(open_storage(url), name)
        if before is not None:
            refuse_other_settings(name, before, identity)
        prepare_folder(folder)
        for line in _opening_notes(settings, self.cell, resumed=before is not None):
            self.progress.note(line)
        storage = open_storage(url)
        return _study(settings, self.cell, storage, identity), storage

    def _search(
        self, study: "optuna.Study", storage: "optuna.storages.RDBStorage"
    ) -> tuple[str, list[dict[str, Any]], bool]:
        """Trials, then the comparison: why it stopped, the comparison's rows, whether it was interrupted."""
        settings, cell = self.settings, self.cell
        n_workers, n_threads = settings.workers_and_threads(cell.recipe.device)
        with WorkerPool(cell.dataset, cell.recipe, n_workers=n_workers, n_threads=n_threads) as pool:
            loop = TrialLoop(
                study=study,
                storage=storage,
                pool=pool,
                distributions=cell.distributions,
                head=cell.head,
                budget=Budget(
                    n_trials=settings.n_trials,
                    seconds=settings.budget_seconds(),
                    n_replicates=settings.replicates,
                    max_seconds_per_step=settings.max_seconds_per_step,
                    n_comparison_jobs=N_SEEDS
                    * (1 + len(set(practices(settings.allocations(), cell.theory.nearest).values()))),
                    n_workers=n_workers,
                ),
                recommend=lambda: self._recommend(study),
                confidence=settings.confidence,
                progress=self.progress,
                started=self.started,
            )
            try:
                stopped_because = loop.run()
                return stopped_because, self._compare(study, pool), False
            except KeyboardInterrupt:
                return "it was interrupted; the same command goes on", [], True

    def _fit(self, study: "optuna.Study") -> tuple[StudyModel, list[TrialRecord]]:
        records = read_records(study, self.cell.head)
        return model_study(records, self.cell.space, self.cell.prior), records

    def _recommend(self, study: "optuna.Study") -> Recommendation | None:
        model, records = self._fit(study)
        if not any(record.value is not None for record in records):
            return None
        return recommend_from(model, records, confidence=self.settings.confidence)

    def _compare(self, study: "optuna.Study", pool: WorkerPool) -> list[dict[str, Any]]:
        """Today's practices against the recommendation; what an earlier run measured for the same rows is kept."""
        model, records = self._fit(study)
        if not any(record.value is not None for record in records):
            return []
        chosen = recommend_from(model, records, confidence=self.settings.confidence)
        rows = contenders(chosen, model, self.settings.allocations(), self.cell.theory.nearest)
        asked = [[row["label"], str(row["allocation"]), row["params"]] for row in rows]
        kept = study.user_attrs.get(COMPARISON_KEY)
        if kept is not None and kept["asked"] == asked:
            return list(kept["rows"])
        self.progress.note(f"comparing {len(rows)} allocations on the test split, {N_SEEDS} fresh seeds each")
        measured = compare(pool, rows)
        study.set_user_attr(COMPARISON_KEY, {"asked": asked, "rows": measured})
        return measured

    def _publish(
        self, study: "optuna.Study", stopped_because: str, comparison: list[dict[str, Any]], interrupted: bool
    ) -> Recommendation | None:
        """Write the results, and return the recommendation with all its facts."""
        settings, cell, folder = self.settings, self.cell, self.settings.folder()
        plain, records = self._recommend(study), read_records(study, cell.head)
        found = caveat(comparison)
        full = None
        if plain is not None:
            full = with_details(
                plain,
                metric=cell.recipe.metric,
                theory=theory_facts(cell.theory, cell.summary, cell.prior.sd_octaves),
                comparison=comparison,
                search={
                    **search_facts(records, stopped_because, float(study.user_attrs.get(SPENT_KEY, 0.0))),
                    "interrupted": interrupted,
                    "folder": str(folder),
                },
                data=data_facts(cell.dataset, cell.summary),
                settings=cell.identity(settings),
                caveats=[] if found is None else [found],
            )
        write_results(folder, full, trial_rows(records), command_line(settings))
        return full


def _study(
    settings: Settings, cell: Cell, storage: "optuna.storages.RDBStorage", identity: dict[str, Any]
) -> "optuna.Study":
    import optuna

    from archopt.pruners import HDIPruner
    from archopt.samplers import HeadAllocationSampler

    study = optuna.create_study(
        study_name=settings.campaign_name(),
        storage=storage,
        direction="minimize",
        load_if_exists=True,
        sampler=HeadAllocationSampler(
            d_model=settings.d_model,
            n_samples=cell.dataset.n_samples,
            intrinsic_dim=cell.summary.intrinsic_dim,
            family=cell.summary.family,
            seed=settings.seed,
        ),
        pruner=HDIPruner(seed=settings.seed),
    )
    if SETTINGS_KEY not in study.user_attrs:
        study.set_user_attr(SETTINGS_KEY, identity)
        feasible = settings.allocations()
        for params in opening_trials(feasible, cell.theory.nearest, cell.distributions):
            study.enqueue_trial(params, skip_if_exists=True)
    return study


def _opening_notes(settings: Settings, cell: Cell, *, resumed: bool) -> list[str]:
    notes = [*cell.dataset.notes, *cell.summary.notes]
    if is_prime(settings.d_model):
        notes.append(
            f"warning: d_model = {settings.d_model} is prime, so only 1 head or {settings.d_model} heads of width 1 "
            f"divide it; {settings.d_model + 1} or {settings.d_model - 1} leave a choice"
        )
    if resumed:
        notes.append(f"resuming campaign {settings.campaign_name()}")
    return notes
