"""The trials of a campaign over several sizes: an opening in every cell, then turns where the law is least certain."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

from archopt.campaign.budget import COMPARISON_SHARE, Budget, SpentTime, earlier_trial_seconds
from archopt.campaign.cell_run import CellRun
from archopt.campaign.grid_cells import cell_in_words
from archopt.campaign.grid_opening import opening_share, queue_share
from archopt.campaign.latest import latest_trials, newest
from archopt.campaign.opening import sampler_of
from archopt.campaign.presence import Presence
from archopt.campaign.stale import requeue_stale
from archopt.campaign.stopping import count_trials, tally_of
from archopt.campaign.storage import SPENT_KEY
from archopt.errors import CampaignFailed
from archopt.evaluation.workers import WorkerPool, WorkerStartError
from archopt.laws import GridCellState, next_cell
from archopt.report.progress import Progress
from archopt.report.search_state import SearchState
from archopt.study_model import FLAT_SD_OCTAVES, informed_prior, optimum_of
from archopt.surrogate import OptimumPrior

if TYPE_CHECKING:
    import optuna

TURN_TRIALS = 4  # at least, between two looks at the law
UNKNOWN_SECONDS = 1.0  # a trial's, where none has finished in any cell: all cells cost the same then


@dataclass(frozen=True)
class CellProgress:
    """What one cell's turn shows, as part of the whole campaign.

    Attributes:
        cell: in words.
        others: trials of the other cells together; of its cells all are counted, answered those of the others.
        seconds: of the campaign so far.
        seconds_left: of the campaign, once so many trials have ended; None where that is not known.
    """

    whole: Progress
    cell: str
    others: SearchState
    seconds: Callable[[], float]
    seconds_left: Callable[[int], float | None]

    def update(self, state: SearchState) -> None:
        """The cell's trials with the others' added; the best is the cell's."""
        n_ended = state.n_ended + self.others.n_ended
        shown = replace(
            state,
            n_finished=state.n_finished + self.others.n_finished,
            n_pruned=state.n_pruned + self.others.n_pruned,
            n_failed=state.n_failed + self.others.n_failed,
            elapsed_seconds=self.seconds(),
            n_earlier=0,
            seconds_left=self.seconds_left(n_ended),
            cell=self.cell,
            n_cells=self.others.n_cells,
            n_cells_answered=self.others.n_cells_answered + bool(state.n_finished),
            latest=newest([*(replace(trial, cell=self.cell) for trial in state.latest), *self.others.latest]),
        )
        self.whole.update(shown)

    def note(self, line: str) -> None:
        """With the cell that it is about."""
        self.whole.note(f"{self.cell}: {line}")


@dataclass
class GridTrials:
    """Runs the cells' trials on one pool of workers; `run` returns why it stopped.

    Attributes:
        runs: the cells.
        n_trials, seconds: the campaign's budget; None without that limit.
        started: monotonic time from which this run counts.
        presence: shows others that this process trains.
        ended: where this is one of several machines and keeps no account: a reason to leave, or None.
        closed: why a cell gets no more trials, by position.
        n_ended_here: trials that this process brought to an end.
    """

    runs: tuple[CellRun, ...]
    pool: WorkerPool
    progress: Progress
    n_trials: int | None
    seconds: float | None
    started: float
    presence: Presence | None = None
    ended: Callable[[], str | None] | None = None
    n_ended_here: int = 0
    closed: dict[int, str] = field(default_factory=dict)
    _mark: float = field(init=False)  # monotonic: what lies before it is on some cell's account
    _accounted: float = field(init=False)  # seconds of the campaign before that moment, earlier runs included
    _n_before: int = field(init=False)
    _said_fallback: bool = False
    _optima: dict[int, tuple[int, OptimumPrior | None]] = field(default_factory=dict)  # with the trials they rest on

    def __post_init__(self) -> None:
        self._mark = self.started
        earlier = sum(float(run.study.user_attrs.get(SPENT_KEY, 0.0)) for run in self.runs)
        self._accounted = earlier if self.ended is None else 0.0
        self._n_before = self._n_ended()

    def run(self) -> str:
        """Train until the budget is spent.

        Raises:
            CampaignFailed: every cell failed.
            WorkerStartError: no process that trains can be started here.
            KeyboardInterrupt: passed on, after the running trials were recorded as interrupted.
        """
        shares = [opening_share(run, self.n_trials, len(self.runs)) for run in self.runs]
        if self.ended is None:  # of several machines one: two that queue at the same moment would queue all twice
            for run, share in zip(self.runs, shares, strict=True):
                queue_share(run, share)
        for at in self._cheapest_first():
            share = shares[at] - count_trials(self.runs[at].study).n_begun
            if share > 0:
                if (ended := self._why_stop()) is not None:
                    return ended
                self._turn(at, share)
        while (ended := self._why_stop()) is None:
            at = self._next()
            before = count_trials(self.runs[at].study).n_ended
            self._turn(at, max(TURN_TRIALS, self.pool.n_workers))
            stood_still = at not in self.closed and count_trials(self.runs[at].study).n_ended == before
            if stood_still and self.seconds is not None:
                return self._why_stop() or self._time_is_up()  # not one more trial fits
        return ended

    def spent_seconds(self) -> float:
        """Wall time of the whole campaign, in the cells of this grid."""
        return self._accounted + time.monotonic() - self._mark

    def informed(self, at: int) -> CellRun:
        """A cell that knows what the others have found, with all time on its account that is on nobody's yet."""
        run = self.runs[at]
        shown = CellProgress(
            self.progress,
            _in_words(run),
            self._state(but=at),
            self.spent_seconds,
            self._seconds_left,
        )
        return replace(
            run,
            spent=SpentTime.of(run.study, self._mark, records=self.ended is None),
            prior=self._prior_of(at),
            progress=shown,
        )

    def settle(self) -> None:
        """What has passed is on some cell's account."""
        now = time.monotonic()
        self._accounted, self._mark = self._accounted + now - self._mark, now

    def _prior_of(self, at: int) -> OptimumPrior:
        """The closed form's, informed by what the other cells have found."""
        earlier = [optimum for other in range(len(self.runs)) if other != at and (optimum := self._optimum(other))]
        run = self.runs[at]
        return informed_prior(run.cell.prior, earlier, run.settings.d_model) if earlier else run.cell.prior

    def n_informing(self, at: int) -> int:
        """How many other cells have something to say of a cell's optimum."""
        return len(self._studies_beside(at))

    def trial_seconds(self, at: int) -> float | None:
        """The median length of a cell's finished trials; None where there is none."""
        return next(iter(earlier_trial_seconds(self.runs[at].study)), None)

    def _turn(self, at: int, n_more: int) -> None:
        """Some trials in one cell, as far as the budget reaches; without any left, those that run there elsewhere.

        Whether theirs or, where their machine dies, this one's: the campaign ends when all have ended.
        """
        for each in self.runs:  # a machine may have died over any cell
            requeue_stale(each.study, each.storage)
        run = self.informed(at)
        n_here = min(n_more, self._n_left())
        budget = Budget(
            n_trials=None if n_here else count_trials(run.study).n_begun,
            seconds=None
            if self.seconds is None
            else run.spent.before_seconds + self._time_for_trials() - self._accounted,
            n_replicates=run.settings.replicates,
            max_seconds_per_step=run.settings.max_seconds_per_step,
            n_comparison_jobs=0,
            n_workers=self.pool.n_workers,
        )
        run.study.sampler = sampler_of(run.settings, run.cell, self._studies_beside(at))
        self.pool.turn_to(run.cell.dataset, run.cell.recipe)
        ended = self.ended or (lambda: None)
        loop = run.trial_loop(
            self.pool, budget, presence=self.presence, is_turn=True, n_here=n_here or None, ended=ended
        )
        loop.said_fallback = self._said_fallback
        try:
            loop.run()
        except WorkerStartError:
            raise
        except CampaignFailed as error:
            self.closed[at] = str(error)
            run.progress.note(f"given up: {error}")
            if len(self.closed) == len(self.runs):
                raise
        finally:
            self._said_fallback = loop.said_fallback
            self.n_ended_here += loop.n_ended_here
            self.settle()

    def _why_stop(self) -> str | None:
        if self.ended is not None and (reason := self.ended()) is not None:
            return reason
        if self.n_trials is not None and self._n_ended() >= self.n_trials:
            return f"the budget of {self.n_trials} trials is spent"
        if self.seconds is not None and self.spent_seconds() >= self._time_for_trials():
            return self._time_is_up()
        return None

    def _time_is_up(self) -> str:
        compared = ", with what comparisons may take" if self.ended is None else ""
        return f"the time limit of {self.seconds or 0.0:.0f} s is reached{compared}"

    def _time_for_trials(self) -> float:
        return (self.seconds or 0.0) * (1.0 - (COMPARISON_SHARE if self.ended is None else 0.0))

    def _next(self) -> int:
        """The open cell whose trials make the law certain soonest; at last one that others still train in."""
        if self._n_left() == 0:
            for at, run in enumerate(self.runs):
                if count_trials(run.study).n_running:
                    return at
        still = [at for at in range(len(self.runs)) if at not in self.closed]
        known = [seconds for at in still if (seconds := self.trial_seconds(at)) is not None]
        usual = median(known) if known else UNKNOWN_SECONDS
        states = []
        for at in still:
            run, optimum = self.runs[at], self._optimum(at)
            states.append(
                GridCellState(
                    n_samples=run.cell.dataset.n_samples,
                    d_model=run.settings.d_model,
                    sd_octaves=FLAT_SD_OCTAVES if optimum is None else optimum.sd_octaves,
                    n_trials=max(1, count_trials(run.study).n_ended),
                    trial_seconds=max(self.trial_seconds(at) or usual, 1e-3),
                )
            )
        return still[next_cell(states, max(TURN_TRIALS, self.pool.n_workers))]

    def _cheapest_first(self) -> list[int]:
        """By n D, to which the work of a trial grows at least in proportion."""
        runs = self.runs
        return sorted(range(len(runs)), key=lambda at: runs[at].cell.dataset.n_samples * runs[at].settings.d_model)

    def _optimum(self, at: int) -> OptimumPrior | None:
        """Of a cell's own trials; None where none has finished. Remembered until more have ended."""
        tally = count_trials(self.runs[at].study)
        if at not in self._optima or self._optima[at][0] != tally.n_ended:
            found = optimum_of(self.runs[at].study) if tally.n_finished else None
            self._optima[at] = tally.n_ended, found
        return self._optima[at][1]

    def _studies_beside(self, at: int) -> "list[optuna.Study]":
        return [run.study for other, run in enumerate(self.runs) if other != at and self._optimum(other) is not None]

    def _n_ended(self) -> int:
        return sum(count_trials(run.study).n_ended for run in self.runs)

    def _n_left(self) -> int:
        """Trials of the budget that no process has begun."""
        if self.n_trials is None:
            return sys.maxsize
        return max(0, self.n_trials - sum(count_trials(run.study).n_begun for run in self.runs))

    def _state(self, but: int) -> SearchState:
        others = [run for other, run in enumerate(self.runs) if other != but]
        trials = [run.study.get_trials(deepcopy=False) for run in others]
        tallies = [tally_of(each) for each in trials]
        ended = [
            trial
            for run, each in zip(others, trials, strict=True)
            for trial in latest_trials(each, run.cell.head, cell=_in_words(run))
        ]
        return SearchState(
            n_finished=sum(tally.n_finished for tally in tallies),
            n_pruned=sum(tally.n_pruned for tally in tallies),
            n_failed=sum(tally.n_failed for tally in tallies),
            n_cells=len(self.runs),
            n_cells_answered=sum(tally.n_finished > 0 for tally in tallies),
            latest=newest(ended),
        )

    def _seconds_left(self, n_ended: int) -> float | None:
        """Until the nearer end of the budget."""
        ends = [] if self.seconds is None else [self.seconds - self.spent_seconds()]
        n_here = n_ended - self._n_before
        if self.n_trials is not None and n_here > 0:
            ends.append((self.n_trials - n_ended) * (time.monotonic() - self.started) / n_here)
        return max(0.0, min(ends)) if ends else None


def _in_words(run: CellRun) -> str:
    return cell_in_words(run.cell.dataset.n_samples, run.settings.d_model)
