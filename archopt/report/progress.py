"""How far a search is while it runs: a live line on a terminal, one plain line now and then elsewhere.

All of it goes to standard error, so that standard output holds nothing but the result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from archopt.report.numbers import duration, finite, printable, probability
from archopt.report.wording import in_words

PLAIN_INTERVAL_SECONDS = 10.0  # a log file of a 4-minute search gets about 25 lines


@dataclass(frozen=True)
class SearchState:
    """What is known at one moment.

    Args:
        n_finished, n_pruned, n_failed: trials that ended, each way.
        n_running: trials in training now.
        elapsed_seconds: since the search (this run of it) started.
        allocation: (n_heads, head_dim) of the current best, None before the first finished trial.
        p_best: probability that it is the best, None where it is not known yet.
        n_earlier: of the trials that ended, those of earlier runs: they say nothing about the speed of this one.
        seconds_left: where the caller knows better than the mean speed so far.
        cell: what of several is searched now, such as "n = 300, D = 48"; empty where there is but one.
    """

    n_finished: int = 0
    n_pruned: int = 0
    n_failed: int = 0
    n_running: int = 0
    elapsed_seconds: float = 0.0
    allocation: tuple[int, int] | None = None
    p_best: float | None = None
    n_earlier: int = 0
    seconds_left: float | None = None
    cell: str = ""

    @property
    def n_ended(self) -> int:
        return self.n_finished + self.n_pruned + self.n_failed


class Progress(Protocol):
    """Who wants to know how far a search is."""

    def update(self, state: SearchState) -> None:
        """Called after every event."""

    def note(self, line: str) -> None:
        """A line that is to stay."""


class SearchProgress:
    """Shows a search while it runs; a context manager.

    Args:
        n_trials: the budget in trials, None without one.
        timeout_seconds: the budget in time, None without one.
        quiet: show nothing at all.
        console: where to draw; standard error by default.
        interval_seconds: off a terminal, the least time between two lines (the first and the last always appear).
        clock: seconds from any origin.
    """

    def __init__(
        self,
        *,
        n_trials: int | None = None,
        timeout_seconds: float | None = None,
        quiet: bool = False,
        console: Console | None = None,
        interval_seconds: float = PLAIN_INTERVAL_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._n_trials, self._timeout_seconds = n_trials, timeout_seconds
        self._quiet, self._interval_seconds, self._clock = quiet, interval_seconds, clock
        self._console = console or Console(stderr=True, highlight=False)
        self._state: SearchState | None = None
        self._updated_at = self._clock()
        self._printed_at: float | None = None
        self._printed: SearchState | None = None
        self._live: Live | None = None

    def __enter__(self) -> "SearchProgress":
        if not self._quiet and self._console.is_terminal:
            # Standard output stays untouched; warnings on standard error are printed above the live line.
            self._live = Live(
                console=self._console,
                get_renderable=self._drawn,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._state is not None and self._state != self._printed:
            self._print(self._state)

    def update(self, state: SearchState) -> None:
        """Show this state; cheap enough to call after every event."""
        self._state, self._updated_at = state, self._clock()
        due = self._printed_at is None or self._updated_at - self._printed_at >= self._interval_seconds
        if self._live is None and due:
            self._print(state)

    def note(self, line: str) -> None:
        """One line that stays on the screen, above the live one: a failure, or what was done to the data."""
        if not self._quiet:
            self._console.print(Text(printable(line, self._console.encoding)))

    def _print(self, state: SearchState) -> None:
        self._printed, self._printed_at = state, self._clock()
        if not self._quiet:
            # One state, one line, however narrow the terminal is said to be.
            line = plain_line(state, self._n_trials, self._timeout_seconds)
            self._console.print(Text(line), soft_wrap=True)

    def _drawn(self) -> Group:
        state = self._state or SearchState()
        since_update = self._clock() - self._updated_at
        now = _later(state, since_update)
        share = share_done(now, self._n_trials, self._timeout_seconds)
        bar = Table.grid(padding=(0, 1, 0, 0), expand=False)
        bar.add_row(
            Text("archopt search"),
            ProgressBar(total=1.0, completed=share or 0.0, pulse=share is None, width=24),
            Text(f"{100 * share:3.0f} %" if share is not None else ""),
            Text(_times(now, self._n_trials, self._timeout_seconds)),
        )
        return Group(bar, Text(_counts(now, self._n_trials)), Text(_best(now)))


def plain_line(state: SearchState, n_trials: int | None = None, timeout_seconds: float | None = None) -> str:
    """The state as one line of text."""
    times = _times(state, n_trials, timeout_seconds)
    return f"archopt search: {_counts(state, n_trials)}; {_best(state)}; {times}"


def seconds_left(state: SearchState, n_trials: int | None, timeout_seconds: float | None) -> float | None:
    """Seconds until the budget is spent: the time limit, or the trials that are left at the speed so far.

    Returns:
        The nearer of the two ends; None without a budget, or while no trial of this run has ended. A search that is
        certain enough ends sooner.
    """
    if state.seconds_left is not None:
        return max(0.0, state.seconds_left)
    ends = []
    if timeout_seconds is not None:
        ends.append(timeout_seconds - state.elapsed_seconds)
    n_here = state.n_ended - state.n_earlier
    if n_trials is not None and n_here > 0:
        ends.append((n_trials - state.n_ended) * state.elapsed_seconds / n_here)
    return max(0.0, min(ends)) if ends else None


def share_done(state: SearchState, n_trials: int | None, timeout_seconds: float | None) -> float | None:
    """The part of the budget that is spent, in [0, 1]; None without a budget."""
    shares = []
    if n_trials:
        shares.append(state.n_ended / n_trials)
    if timeout_seconds:
        shares.append(state.elapsed_seconds / timeout_seconds)
    return min(1.0, max(shares)) if shares else None


def _later(state: SearchState, seconds: float) -> SearchState:
    left = None if state.seconds_left is None else state.seconds_left - seconds
    return SearchState(
        **{**vars(state), "elapsed_seconds": state.elapsed_seconds + max(0.0, seconds), "seconds_left": left}
    )


def _counts(state: SearchState, n_trials: int | None) -> str:
    of = f" of {n_trials:,}" if n_trials is not None else ""
    parts = [f"{state.n_ended:,}{of} trials"]
    parts += [f"{number:,} pruned" for number in [state.n_pruned] if number]
    parts += [f"{number:,} failed" for number in [state.n_failed] if number]
    parts += [f"{number:,} running" for number in [state.n_running] if number]
    return ", ".join(parts)


def _best(state: SearchState) -> str:
    at = f"{state.cell}: " if state.cell else ""
    if state.allocation is None:
        return f"{at}no trial has finished yet"
    certainty = f", best with {probability(state.p_best)} probability" if finite(state.p_best) is not None else ""
    return f"{at}current best {in_words(state.allocation)}{certainty}"


def _times(state: SearchState, n_trials: int | None, timeout_seconds: float | None) -> str:
    left = seconds_left(state, n_trials, timeout_seconds)
    after = f", at most {duration(left)} left" if left is not None else ""
    return f"{duration(state.elapsed_seconds)}{after}"
