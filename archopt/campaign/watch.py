"""A campaign that runs elsewhere, seen through its storage, of which nothing is changed."""

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from archopt.campaign.cells_table import cells_of
from archopt.campaign.grid_cells import cell_in_words
from archopt.campaign.joining import CampaignEnd, recorded_campaign
from archopt.campaign.latest import newest
from archopt.campaign.presence import workers_of
from archopt.campaign.reading import open_to_read
from archopt.campaign.settings import time_limit
from archopt.campaign.stale import HEARTBEAT_SECONDS
from archopt.campaign.storage import SETTINGS_KEY, SPENT_KEY, storage_faults
from archopt.campaign.storage_url import refuse_missing_file
from archopt.campaign.watched_cell import WatchedCell
from archopt.errors import CampaignFailed, StorageError
from archopt.report.progress import SearchProgress
from archopt.report.search_state import SearchState

if TYPE_CHECKING:
    from archopt.campaign.patient_storage import PatientStorage

REFRESH_SECONDS = 2.0
BEGIN_SECONDS = 15.0  # a search that begins makes its study, queues its first trials, and then records its campaign
FEWEST_FOR_SPEED = 10  # trials that ended here, before their speed counts and not the whole campaign's


@dataclass(frozen=True)
class Watched:
    """A campaign at the moment of the last look.

    Attributes:
        campaign: its name.
        is_over: whether it has come to its end.
        because: why; None while it goes on.
        n_trials, timeout_seconds: its budget; None without that limit.
        state: trials, time, the current best, workers.
        cells: of a campaign over several sizes: sizes, trials by outcome and the best of each.
    """

    campaign: str
    is_over: bool
    because: str | None
    n_trials: int | None
    timeout_seconds: float | None
    state: SearchState
    cells: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; schema "archopt.watch/1", described in the README."""
        state = asdict(self.state)
        split = state["allocation"]
        kept = ("n_finished", "n_pruned", "n_failed", "n_running", "elapsed_seconds", "seconds_left")
        return {
            "schema": "archopt.watch/1",
            "campaign": self.campaign,
            "over": self.is_over,
            "because": self.because,
            "n_trials": self.n_trials,
            "timeout_seconds": self.timeout_seconds,
            **{name: state[name] for name in kept},
            "allocation": None if split is None else {"n_heads": split[0], "head_dim": split[1]},
            "p_best": state["p_best"],
            "cells": list(self.cells),
            "latest": [_trial_to_dict(trial) for trial in state["latest"]],
            "workers": [{name: worker[name] for name in worker if name != "here"} for worker in state["workers"]],
        }


def watch_campaign(storage: str, name: str, *, once: bool = False, quiet: bool = False) -> Watched:
    """Show a campaign while `archopt search` runs it elsewhere, until it is over; only reads.

    Args:
        storage: Optuna storage URL of the campaign.
        name: of the campaign.
        once: look once and return.
        quiet: no progress on standard error.

    Raises:
        StorageError: the storage cannot be opened or holds no such campaign; nothing is made then.
        CampaignFailed: no search has run the campaign for 90 s, or the storage was away for five minutes.
    """
    with storage_faults("while the campaign was watched"):
        view = CampaignView.of(open_to_read(storage), name, storage)
        with SearchProgress(
            n_trials=view.n_trials,
            timeout_seconds=view.timeout_seconds,
            quiet=quiet or once,
            title=f"archopt watch {name}",
        ) as progress:
            view.storage.tell = progress.note
            said_idle = False
            while True:
                state = view.read(every_cell=once)
                progress.update(state)
                because = view.end()
                if once or because is not None:
                    break
                if not (said_idle or state.workers):
                    progress.note("no process trains for this campaign at the moment: waiting for one")
                    said_idle = True
                time.sleep(REFRESH_SECONDS)
            if because is not None and not view.end.is_over:
                raise CampaignFailed(because)
            state = view.read(every_cell=True)
            progress.update(state)
    cells = tuple(cell.to_dict() for cell in view.cells.values()) if view.is_grid else ()
    return Watched(view.name, view.end.is_over, because, view.n_trials, view.timeout_seconds, state, cells)


@dataclass
class CampaignView:
    """What is read of a campaign, a little at a time.

    Attributes:
        storage, url: where it is.
        name: of the campaign.
        recorded: what its search left for others (`recorded_campaign`).
        cells: its studies, by name.
        end: asked for a reason to stop watching.
    """

    storage: "PatientStorage"
    url: str
    name: str
    recorded: dict[str, Any]
    cells: dict[str, WatchedCell] = field(default_factory=dict)
    end: CampaignEnd = field(init=False)
    _spent: float = -1.0
    _spent_at: float = 0.0  # monotonic: when that was seen
    _started: float = field(default_factory=time.monotonic)
    _n_at_start: int | None = None

    @classmethod
    def of(cls, storage: "PatientStorage", name: str, url: str) -> "CampaignView":
        """The campaign of a name; one that begins at this moment is waited for.

        Raises:
            StorageError: the storage holds no such campaign.
        """
        until = time.monotonic() + BEGIN_SECONDS
        while True:
            try:
                recorded = recorded_campaign(storage, name, url)
                break
            except StorageError:
                if time.monotonic() >= until or not _begins(storage, name):
                    raise
                time.sleep(0.5)
        view = cls(storage, url, recorded["campaign"], recorded)
        view._find_cells()
        view.end = CampaignEnd([cell.study for cell in view.cells.values()], storage)
        return view

    @property
    def is_grid(self) -> bool:
        """Whether it goes over several sizes."""
        return bool(self.recorded["d_models"])

    @property
    def n_trials(self) -> int | None:
        """The budget in trials."""
        found: int | None = self.recorded["settings"]["n_trials"]
        return found

    @property
    def timeout_seconds(self) -> float | None:
        """The budget in time."""
        return time_limit(self.n_trials, self.recorded["settings"]["timeout_seconds"])

    def read(self, *, every_cell: bool = False) -> SearchState:
        """The campaign as of now: what has changed is read, and no more.

        Args:
            every_cell: ask the posterior of each cell, and now; else of the one that is trained for, now and then.
        """
        refuse_missing_file(self.url)  # one that was taken away would be made anew, and empty
        if self.is_grid:
            self._find_cells()
        cells = list(self.cells.values())
        for cell in cells:
            cell.read()
        current = max(cells, key=lambda cell: (cell.last_begun, cell.tally.n_ended))
        for cell in cells if every_cell else [current]:
            cell.look(at_once=every_cell)
        attributes = [cell.study.user_attrs for cell in cells]
        workers = workers_of(attributes)
        tallies = [cell.tally for cell in cells]
        n_ended = sum(tally.n_ended for tally in tallies)
        elapsed = self._elapsed(sum(float(known.get(SPENT_KEY, 0.0)) for known in attributes), goes_on=bool(workers))
        best = current.best
        return SearchState(
            n_finished=sum(tally.n_finished for tally in tallies),
            n_pruned=sum(tally.n_pruned for tally in tallies),
            n_failed=sum(tally.n_failed for tally in tallies),
            n_running=sum(tally.n_running for tally in tallies),
            elapsed_seconds=elapsed,
            allocation=None if best is None else (best.allocation.n_heads, best.allocation.head_dim),
            p_best=None if best is None else best.p_best,
            seconds_left=self._seconds_left(n_ended, elapsed),
            cell=current.words,
            n_cells=len(cells) if self.is_grid else 0,
            n_cells_answered=sum(tally.n_finished > 0 for tally in tallies),
            latest=newest(trial for cell in cells for trial in cell.latest),
            workers=workers,
        )

    def _find_cells(self) -> None:
        """Cells that are new; a campaign may be taken up again with more sizes."""
        import optuna

        sizes: dict[str, tuple[int | None, int]] = {}
        if self.is_grid:
            sizes.update(cells_of(self.name, optuna.get_all_study_names(self.storage)))
        else:
            sizes[self.name] = None, 0
        confidence = self.recorded["settings"]["confidence"]
        for study_name, (n, width) in sizes.items():
            if study_name not in self.cells:
                study = optuna.load_study(study_name=study_name, storage=self.storage)
                if SETTINGS_KEY in study.user_attrs:  # else it is being made at this moment
                    words = cell_in_words(n, width) if self.is_grid else ""
                    self.cells[study_name] = WatchedCell.of(study, words, n, confidence)

    def _elapsed(self, spent: float, *, goes_on: bool) -> float:
        """The campaign's own account, which is written with each heartbeat, and what has passed since."""
        now = time.monotonic()
        if spent != self._spent:
            self._spent, self._spent_at = spent, now
        return spent + (min(now - self._spent_at, HEARTBEAT_SECONDS) if goes_on else 0.0)

    def _seconds_left(self, n_ended: int, elapsed: float) -> float | None:
        """Until the nearer end of the budget, by the speed that was seen here once enough trials ended."""
        if self._n_at_start is None:
            self._n_at_start = n_ended
        here = n_ended - self._n_at_start
        ends = [] if self.timeout_seconds is None else [self.timeout_seconds - elapsed]
        if self.n_trials is not None and n_ended:
            seen = here >= FEWEST_FOR_SPEED
            seconds = (time.monotonic() - self._started) / here if seen else elapsed / n_ended
            ends.append((self.n_trials - n_ended) * seconds)
        return max(0.0, min(ends)) if ends else None


def _begins(storage: "PatientStorage", name: str) -> bool:
    """Whether a study is there that a search is making, or has not yet recorded as a campaign."""
    import optuna

    names = optuna.get_all_study_names(storage)
    return name in names or bool(cells_of(name, names))


def _trial_to_dict(trial: dict[str, Any]) -> dict[str, Any]:
    split = trial["allocation"]
    return {**trial, "allocation": None if split is None else {"n_heads": split[0], "head_dim": split[1]}}
