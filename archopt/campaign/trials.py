"""The loop of a search: ask, train, report, prune, tell, until certain enough or out of budget."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from archopt.campaign import stale
from archopt.campaign.budget import Budget, SpentTime, earlier_trial_seconds
from archopt.campaign.cell import trial_spec
from archopt.campaign.interrupts import deferred_interrupts
from archopt.campaign.latest import latest_trials
from archopt.campaign.presence import Presence
from archopt.campaign.running import RunningTrial, ask, trial_state
from archopt.campaign.stale import queue_again, requeue_stale
from archopt.campaign.stopping import Certainty, Tally, tally_of
from archopt.campaign.storage import STOPPED_KEY
from archopt.errors import CampaignFailed, OptionError
from archopt.evaluation import RungReport, TrialOutcome
from archopt.evaluation.workers import Event, Failed, Finished, RungReached, WorkerPool
from archopt.pruners import HDIPruner
from archopt.report.numbers import count
from archopt.report.progress import Progress
from archopt.report.search_state import EndedTrial, SearchState, Worker
from archopt.search_space import ATTRIBUTES, INTERRUPTED, KILLED, HeadParameter, replicate

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

    from archopt.campaign.patient_storage import PatientStorage

MAX_FIRST_FAILURES = 12  # trials that may all fail before the search gives up
POLL_SECONDS = 1.0  # the longest between two looks at what happens, here and in other processes


@dataclass
class TrialLoop:
    """Runs trials of one study on a pool of workers; `run` returns why it stopped.

    With ``is_turn`` it is one turn of several: it ends with its trials or its time, however certain it is, and leaves
    no record of its end, so that another may follow; ``n_here`` limits how many trials this process brings to an end,
    whatever others do to the study meanwhile. ``ended`` gives a reason to stop that comes from outside.
    ``presence`` shows others that this process trains. ``n_ended_here`` counts the trials that this process brought to
    an end, ``said_fallback`` is whether the user has been told that attention runs without xformers.
    """

    study: "optuna.Study"
    storage: "PatientStorage"
    pool: WorkerPool
    distributions: Mapping[str, "BaseDistribution"]
    head: HeadParameter
    n_steps: int
    budget: Budget
    spent: SpentTime
    certainty: Certainty
    pruner: HDIPruner
    progress: Progress
    is_turn: bool = False
    n_here: int | None = None
    ended: Callable[[], str | None] = lambda: None
    presence: Presence | None = None
    said_fallback: bool = False
    n_ended_here: int = 0
    _running: dict[int, RunningTrial] = field(default_factory=dict)
    _full_seconds: list[float] = field(default_factory=list)
    _earlier_seconds: list[float] = field(default_factory=list)
    _beat: float = -math.inf
    _warm_since: float = math.inf
    _said_waiting: bool = False
    _n_earlier: int = 0
    _n_elsewhere: int = 0  # trials that other processes are training
    _tally: Tally = field(default_factory=Tally)
    _latest: tuple[EndedTrial, ...] = ()
    _workers: tuple[Worker, ...] = ()
    _counted: float = -math.inf

    def run(self) -> str:
        """Search until an end is reached.

        Raises:
            CampaignFailed: the first trials all failed.
            KeyboardInterrupt: passed on, after the running trials were recorded as interrupted.
        """
        self._count()
        self._n_earlier = self._tally.n_ended
        self._earlier_seconds = earlier_trial_seconds(self.study)
        self.certainty.begin(self._tally)
        limits = [self.budget.n_trials, self.budget.seconds, self.certainty.confidence, self.budget.n_replicates]
        stopped = self.study.user_attrs.get(STOPPED_KEY)
        if not self.is_turn and stopped is not None and stopped["limits"] == limits:
            return str(stopped["because"])  # it had come to its end: only other limits go on
        with deferred_interrupts() as check:
            return self._search(check, limits)

    def _search(self, check_interrupt: Callable[[], None], limits: list[float | None]) -> str:
        try:
            because = self._until_an_end(check_interrupt)
            if not self.is_turn:
                self.study.set_user_attr(STOPPED_KEY, {"limits": limits, "because": because})
            return because
        except (KeyboardInterrupt, CampaignFailed) as error:
            why = "the search was interrupted" if isinstance(error, KeyboardInterrupt) else "the search was given up"
            for number in list(self._running):
                self._cut_short(number, why)
            raise
        finally:
            self.spent.record()

    def _until_an_end(self, check_interrupt: Callable[[], None]) -> str:
        import optuna

        while True:
            check_interrupt()
            self._housekeeping()
            reason = self._why_stop()
            if reason is None:
                while self.pool.n_idle and self._may_start():
                    with suppress(optuna.exceptions.UpdateFinishedTrialError):  # taken for a dead one: the next then
                        self._start()
                self._say_waiting()
            elif not self._running:
                self._show()
                return reason
            self._show()
            event = self.pool.next_event(POLL_SECONDS)
            if event is not None:
                self._warm_since = min(self._warm_since, time.monotonic())
                self._on_event(event)
            if self.budget.seconds is not None and self.spent.seconds() > self.budget.seconds:
                for number in list(self._running):
                    self._cut_short(number, "the time limit came first")

    def _say_waiting(self) -> None:
        if not (self._running or self.is_turn or self._said_waiting):
            self._said_waiting = True
            running = count(self._n_elsewhere, "trial")
            self.progress.note(f"waiting for {running} of other processes; one that died is found within a minute")

    def _on_event(self, event: Event) -> None:
        import optuna

        try:
            if isinstance(event, RungReached):
                self._on_rung(event.job_id, event.report)
            elif isinstance(event, Finished):
                self._on_finished(event.job_id, event.outcome)
            else:
                self._on_failed(event)
        except optuna.exceptions.UpdateFinishedTrialError:
            # another process took this trial for a dead one, after this machine slept: it was queued again there
            self._running.pop(event.job_id, None)
            if isinstance(event, RungReached):
                self.pool.cancel(event.job_id)
            self._count()

    def _why_stop(self) -> str | None:
        budget = self.budget
        if self.n_here is not None and self.n_ended_here >= self.n_here:
            return f"its {self.n_here} trials have ended"
        if budget.n_trials is not None and self._tally.n_ended >= budget.n_trials:
            return f"the budget of {budget.n_trials} trials is spent"
        reserve = budget.reserve_seconds(self._full_seconds or self._earlier_seconds)
        if budget.seconds is not None and self.spent.seconds() + reserve >= budget.seconds:
            compared = ", with what the comparison takes" if budget.n_comparison_jobs else ""
            return f"the time limit of {budget.seconds:.0f} s is reached{compared}"
        return self.ended() or (None if self.is_turn else self.certainty.reason())

    def _may_start(self) -> bool:
        if self.n_here is not None and self.n_ended_here + len(self._running) >= self.n_here:
            return False
        if self.budget.n_trials is None:
            return True
        if time.monotonic() - self._counted > POLL_SECONDS:
            self._count()  # other machines add to it too
        return self._tally.n_ended + self._n_elsewhere + len(self._running) < self.budget.n_trials

    def _start(self) -> None:
        """Ask for a trial and give it to a worker.

        Raises:
            UpdateFinishedTrialError: another process ended the trial meanwhile.
        """
        trial = ask(self.study, self.distributions)
        split = self.head.allocation(trial.params)
        if split is None:  # a queued trial of somebody else's making
            trial.set_user_attr(ATTRIBUTES.reason, "its parameters hold no feasible split")
            self.study.tell(trial, state=trial_state("FAIL"))
            return
        again = ATTRIBUTES.replicate in trial.user_attrs  # queued again, after an interruption or its process's death
        number = replicate(trial)
        if number == 0 and not again:
            for _ in range(self.budget.n_replicates - 1):
                self.study.enqueue_trial(trial.params)
        self.storage.record_heartbeat(trial._trial_id)
        shown = deepcopy(trial._cached_frozen_trial)  # public ways to it read the storage again
        self._running[trial.number] = RunningTrial(trial, shown, time.monotonic())
        self.pool.submit(trial.number, trial_spec(trial.params, split, replicate=number))

    def _on_rung(self, number: int, report: RungReport) -> None:
        running = self._running.get(number)
        if running is None:
            return  # given up in the meantime
        running.trial.report(report.value, report.step)
        running.note(report)
        last = report.step == self.n_steps
        running.note_speed(report.seconds_per_step, self.budget.max_seconds_per_step, last=last)
        # at the last rung there is nothing left to save: the value is known
        self.pool.answer(number, stop=not last and (running.too_slow is not None or self._prunes(running)))

    def _prunes(self, running: RunningTrial) -> bool:
        decision = self.pruner.decide(self.study, running.shown)
        running.decisions.append(asdict(decision))
        return decision.prune

    def _on_finished(self, number: int, outcome: TrialOutcome) -> None:
        running = self._running.pop(number, None)
        if running is None:
            return
        trial = running.trial
        running.write()
        if outcome.fallback is not None and not self.said_fallback:
            self.said_fallback = True
            self.progress.note(f"attention runs without xformers ({outcome.fallback}): trials record what ran")
        trial.set_user_attr(ATTRIBUTES.seconds_per_step, outcome.seconds_per_step)
        trial.set_user_attr(ATTRIBUTES.attention, outcome.attention)
        if running.too_slow is not None:
            reason = f"{running.too_slow:.3g} s a step, above the limit of {self.budget.max_seconds_per_step:.3g}"
            self._fail(running, reason, "infeasible")
        elif outcome.stopped:
            running.prune()
        else:
            running.complete(outcome.value)
            if running.begun > self._warm_since:  # a worker's start-up is no part of a trial's length
                self._full_seconds.append(time.monotonic() - running.begun)
        self._after_end()

    def _on_failed(self, event: Failed) -> None:
        running = self._running.pop(event.job_id, None)
        if running is None:
            return
        reason, fault = running.reason_and_fault(event)
        running.write()
        self._fail(running, reason, fault, event.traceback)
        self.progress.note(f"trial {event.job_id} failed: {reason}")
        if fault == KILLED:  # by what, nobody knows: another try will show whether the configuration is at fault
            queue_again(self.study, running.shown, died=True)
        self._after_end()

    def _fail(self, running: RunningTrial, reason: str, fault: str, traceback: str | None = None) -> None:
        running.fail(reason, fault, traceback)
        self._count()
        n_failed = self._tally.n_failed
        if fault != INTERRUPTED and n_failed == self._tally.n_ended >= MAX_FIRST_FAILURES:
            raise CampaignFailed(f"none of the first {n_failed} trials finished; the last one: {reason}"[:290])

    def _cut_short(self, number: int, reason: str) -> None:
        """End a trial that is not at fault; it waits in the queue for the search to go on."""
        import optuna

        running = self._running.pop(number)
        with suppress(OptionError):  # it ended a moment ago, and its event was not yet read
            self.pool.cancel(number)
        try:
            self._fail(running, reason, INTERRUPTED)
        except optuna.exceptions.UpdateFinishedTrialError:
            return  # taken for dead elsewhere, and queued again there
        queue_again(self.study, running.shown)

    def _after_end(self) -> None:
        self.n_ended_here += 1
        if self.presence is not None:
            self.presence.n_ended += 1
        self._count()
        self.certainty.look(self._tally)

    def _housekeeping(self) -> None:
        now = time.monotonic()
        if now - self._beat >= stale.HEARTBEAT_SECONDS:
            self._beat = now
            for running in self._running.values():
                self.storage.record_heartbeat(running.trial._trial_id)
            requeue_stale(self.study, self.storage)
            self._count()
            self.spent.record()
            if self.presence is not None:
                self.presence.show(self.study, len(self._running))
                self._workers = self.presence.workers()

    def _count(self) -> None:
        trials = self.study.get_trials(deepcopy=False)
        self._tally, self._counted = tally_of(trials), time.monotonic()
        self._latest = latest_trials(trials, self.head)
        self._n_elsewhere = max(0, self._tally.n_running - len(self._running))

    def _show(self) -> None:
        latest, tally = self.certainty.latest, self._tally
        self.progress.update(
            SearchState(
                n_finished=tally.n_finished,
                n_pruned=tally.n_pruned,
                n_failed=tally.n_failed,
                n_running=len(self._running),
                elapsed_seconds=self.spent.seconds(),
                allocation=None if latest is None else (latest.allocation.n_heads, latest.allocation.head_dim),
                p_best=None if latest is None else latest.p_best,
                n_earlier=self._n_earlier,
                seconds_left=self.spent.seconds_left(self.budget, n_ended=tally.n_ended, n_earlier=self._n_earlier),
                latest=self._latest,
                workers=self._workers,
            )
        )
