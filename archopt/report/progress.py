"""How far a search is while it runs: a live view on a terminal, one plain line now and then elsewhere.

All of it goes to standard error, so that standard output holds nothing but the result.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from archopt.report.numbers import printable
from archopt.report.search_state import (
    SearchState,
    best_in_words,
    counts_in_words,
    plain_line,
    share_done,
    times_in_words,
    trial_in_words,
    workers_in_words,
)

PLAIN_INTERVAL_SECONDS = 10.0  # a log file of a 4-minute search gets about 25 lines
REFRESHES_PER_SECOND = 4
BAR_WIDTH = 24
ONE_LINE_WIDTH = 76  # columns that title, bar and times need side by side


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
        title: what each line begins with.
        console: where to draw; standard error by default, which is taken for no terminal where CI runs.
        interval_seconds: off a terminal, the least time between two lines (the first and the last always appear).
        clock: seconds from any origin.
    """

    def __init__(
        self,
        *,
        n_trials: int | None = None,
        timeout_seconds: float | None = None,
        quiet: bool = False,
        title: str = "archopt search",
        console: Console | None = None,
        interval_seconds: float = PLAIN_INTERVAL_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._n_trials, self._timeout_seconds, self._title = n_trials, timeout_seconds, title
        self._quiet, self._interval_seconds, self._clock = quiet, interval_seconds, clock
        in_ci = bool(os.environ.get("CI"))
        self._console = console or Console(stderr=True, highlight=False, force_interactive=False if in_ci else None)
        self._state: SearchState | None = None
        self._updated_at = self._clock()
        self._printed_at: float | None = None
        self._printed: SearchState | None = None
        self._live: Live | None = None

    def __enter__(self) -> "SearchProgress":
        if not self._quiet and self._console.is_interactive:
            # Standard output stays untouched; warnings on standard error are printed above the live view.
            self._live = Live(
                console=self._console,
                get_renderable=self._drawn,
                refresh_per_second=REFRESHES_PER_SECOND,
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
            line = plain_line(state, self._n_trials, self._timeout_seconds, title=self._title)
            self._console.print(Text(printable(line, self._console.encoding)), soft_wrap=True)

    def _drawn(self) -> Group:
        now = _later(self._state or SearchState(), self._clock() - self._updated_at)
        lines = [counts_in_words(now, self._n_trials), best_in_words(now), workers_in_words(now.workers)]
        width, height = self._console.size
        head = self._head(now, width)
        # what scrolls out of the screen cannot be drawn over
        n_latest = max(0, height - len(head) - len(lines) - 2) if width >= ONE_LINE_WIDTH else 1
        latest = [Text(self._shown(f"  {trial_in_words(trial)}"), style="dim") for trial in now.latest[:n_latest]]
        return Group(*head, *(Text(self._shown(line)) for line in lines if line), *latest)

    def _head(self, now: SearchState, width: int) -> list[RenderableType]:
        """Title, bar and times: in one line where the terminal is wide enough."""
        share = share_done(now, self._n_trials, self._timeout_seconds)
        title, percent = Text(self._shown(self._title)), Text(f"{100 * share:3.0f} %" if share is not None else "")
        times = Text(times_in_words(now, self._n_trials, self._timeout_seconds))
        bar = ProgressBar(total=1.0, completed=share or 0.0, pulse=share is None, width=min(BAR_WIDTH, width - 7))
        row = Table.grid(padding=(0, 1, 0, 0), expand=False)
        if width >= ONE_LINE_WIDTH:
            row.add_row(title, bar, percent, times)
            return [row]
        row.add_row(bar, percent)
        return [title, row, times]

    def _shown(self, line: str) -> str:
        blank = "  " if line.startswith("  ") else ""
        return blank + printable(line, self._console.encoding)


def _later(state: SearchState, seconds: float) -> SearchState:
    left = None if state.seconds_left is None else state.seconds_left - seconds
    return replace(state, elapsed_seconds=state.elapsed_seconds + max(0.0, seconds), seconds_left=left)
