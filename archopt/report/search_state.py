"""What is known of a search at one moment, and how it is said: counts, the best so far, time left, workers, trials."""

from collections.abc import Sequence
from dataclasses import dataclass

from archopt.report.numbers import MISSING, count, duration, finite, printable, probability, short
from archopt.report.wording import in_words

MAX_HOSTS = 3  # named one by one


@dataclass(frozen=True)
class EndedTrial:
    """One trial that has ended.

    Args:
        number: Optuna's.
        allocation: (n_heads, head_dim); None where its parameters hold none.
        state: "finished", "pruned", "failed" or "interrupted".
        value: the objective, None where it has none.
        seconds: of wall time, None where they are not known.
        cell: of a campaign over several sizes, in words; empty else.
        ended_at: seconds since the epoch, by the clock of the machine that trained it.
    """

    number: int
    allocation: tuple[int, int] | None
    state: str
    value: float | None = None
    seconds: float | None = None
    cell: str = ""
    ended_at: float = 0.0


@dataclass(frozen=True)
class Worker:
    """One machine's part in a campaign, by what it last showed.

    Args:
        host, pid: of the process that hands out trials there.
        n_processes: that train.
        n_running, n_ended: its trials.
        silent_seconds: since it last showed itself.
        here: whether it is the process that asks.
    """

    host: str
    pid: int
    n_processes: int
    n_running: int = 0
    n_ended: int = 0
    silent_seconds: float = 0.0
    here: bool = False


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
        n_cells, n_cells_answered: how many there are, and those with a finished trial; 0 where there is but one.
        latest: the trials that ended last, newest first.
        workers: that have shown themselves lately; empty where that is not known.
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
    n_cells: int = 0
    n_cells_answered: int = 0
    latest: tuple[EndedTrial, ...] = ()
    workers: tuple[Worker, ...] = ()

    @property
    def n_ended(self) -> int:
        return self.n_finished + self.n_pruned + self.n_failed


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


def plain_line(
    state: SearchState,
    n_trials: int | None = None,
    timeout_seconds: float | None = None,
    *,
    title: str = "archopt search",
) -> str:
    """The state as one line of text."""
    others = [worker for worker in state.workers if not worker.here]
    parts = [counts_in_words(state, n_trials), best_in_words(state)]
    parts += [f"last {trial_in_words(trial)}" for trial in state.latest[:1]]
    parts += [workers_in_words(state.workers)] if others else []
    return f"{title}: {'; '.join(parts)}; {times_in_words(state, n_trials, timeout_seconds)}"


def counts_in_words(state: SearchState, n_trials: int | None) -> str:
    """ "25 of 100 trials, 4 pruned, 1 failed, 2 running"."""
    of = f" of {n_trials:,}" if n_trials is not None else ""
    parts = [f"{state.n_ended:,}{of} trials"]
    parts += [f"{number:,} pruned" for number in [state.n_pruned] if number]
    parts += [f"{number:,} failed" for number in [state.n_failed] if number]
    parts += [f"{number:,} running" for number in [state.n_running] if number]
    if state.n_cells:
        parts.append(f"{state.n_cells_answered:,} of {count(state.n_cells, 'cell')} with an answer")
    return ", ".join(parts)


def best_in_words(state: SearchState) -> str:
    """ "current best 4 heads x 12, best with 58 % probability"."""
    at = f"{state.cell}: " if state.cell else ""
    if state.allocation is None:
        return f"{at}no trial has finished yet"
    certainty = f", best with {probability(state.p_best)} probability" if finite(state.p_best) is not None else ""
    return f"{at}current best {in_words(state.allocation)}{certainty}"


def times_in_words(state: SearchState, n_trials: int | None, timeout_seconds: float | None) -> str:
    """ "50 s, at most 2 min 30 s left"."""
    left = seconds_left(state, n_trials, timeout_seconds)
    after = f", at most {duration(left)} left" if left is not None else ""
    return f"{duration(state.elapsed_seconds)}{after}"


def workers_in_words(workers: Sequence[Worker]) -> str:
    """ "workers: 2 here, 16 on node7, 16 on node8, 48 on 3 more machines"; empty without any."""
    if not workers:
        return ""
    by_host: dict[str, int] = {}
    for worker in sorted(workers, key=lambda worker: (not worker.here, worker.host)):
        host = "here" if worker.here else f"on {printable(worker.host, most=30)}"
        by_host[host] = by_host.get(host, 0) + worker.n_processes
    named = list(by_host.items())
    parts = [f"{number:,} {host}" for host, number in named[:MAX_HOSTS]]
    if rest := named[MAX_HOSTS:]:
        parts.append(f"{sum(number for _, number in rest):,} on {count(len(rest), 'more machine')}")
    return f"workers: {', '.join(parts)}"


def trial_in_words(trial: EndedTrial) -> str:
    """ "trial 17: 4 heads x 12, 0.0671"; what did not finish says how it ended."""
    at = f" ({printable(trial.cell, most=40)})" if trial.cell else ""
    split = MISSING if trial.allocation is None else in_words(trial.allocation)
    shown = short(trial.value, 4) if trial.state == "finished" else trial.state
    took = f" in {duration(trial.seconds)}" if trial.seconds is not None else ""
    return f"trial {trial.number:,}{at}: {split}, {shown}{took}"
