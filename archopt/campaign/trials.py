"""The loop of a search: ask, train, report, prune, tell, until certain enough or out of budget."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from archopt.campaign.interrupts import deferred_interrupts
from archopt.campaign.storage import HEARTBEAT_SECONDS, SPENT_KEY, STOPPED_KEY, requeue_stale
from archopt.errors import CampaignFailed
from archopt.evaluation import RungReport, TrialOutcome, TrialSpec
from archopt.evaluation.workers import Failed, Finished, RungReached, WorkerPool
from archopt.recommendation import Recommendation
from archopt.report.progress import SearchProgress, SearchState
from archopt.search_space import (
    ATTRIBUTES,
    DECORRELATION,
    LEARNING_RATE,
    WEIGHTING,
    HeadParameter,
    replicate,
    report_diversity,
)

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

CHECK_EVERY = 5  # ended trials between two looks at the posterior
MIN_FINISHED_TO_STOP = 30  # before the search may call itself certain
SURE_CHECKS_TO_STOP = 3  # in a row: one lucky look is not certainty
MAX_FIRST_FAILURES = 12  # trials that may all fail before the search gives up
POLL_SECONDS = 1.0

Recommender = Callable[[], Recommendation | None]


@dataclass(frozen=True)
class Budget:
    """When a search ends at the latest.

    Attributes:
        n_trials: trials in the whole campaign; None without that limit.
        seconds: of search in the whole campaign, comparison included; None without that limit.
        n_replicates: trials that every proposed configuration gets at least.
        max_seconds_per_step: a slower allocation is infeasible.
        n_comparison_jobs: trainings that the comparison at the end needs; their time is set aside.
        n_workers: that train at the same time.
    """

    n_trials: int | None
    seconds: float | None
    n_replicates: int
    max_seconds_per_step: float | None
    n_comparison_jobs: int
    n_workers: int


@dataclass
class _Running:
    trial: "optuna.Trial"
    spec: TrialSpec
    too_slow: float | None = None


@dataclass
class TrialLoop:
    """Runs trials of one study on a pool of workers; `run` returns why it stopped."""

    study: "optuna.Study"
    storage: "optuna.storages.RDBStorage"
    pool: WorkerPool
    distributions: Mapping[str, "BaseDistribution"]
    head: HeadParameter
    budget: Budget
    recommend: Recommender
    confidence: float
    progress: SearchProgress
    started: float
    _running: dict[int, _Running] = field(default_factory=dict)
    _full_seconds: list[float] = field(default_factory=list)
    _begun: dict[int, float] = field(default_factory=dict)
    _sure: int = 0
    _beat: float = -math.inf
    _latest: Recommendation | None = None
    _warm_since: float = math.inf
    _spent_before: float = 0.0
    _earlier: int = 0
    _finished: int = 0
    _pruned: int = 0
    _failed: int = 0

    def run(self) -> str:
        """Search until an end is reached.

        Raises:
            CampaignFailed: the first trials all failed.
            KeyboardInterrupt: passed on, after the running trials were recorded as interrupted.
        """
        self._spent_before = float(self.study.user_attrs.get(SPENT_KEY, 0.0))
        self._count()
        self._earlier = self._ended
        self._latest = self.recommend()
        limits = [self.budget.n_trials, self.budget.seconds]
        stopped = self.study.user_attrs.get(STOPPED_KEY)
        if stopped is not None and stopped["limits"] == limits:
            return str(stopped["because"])  # it had come to its end: only a larger budget goes on
        with deferred_interrupts() as check:
            return self._search(check, limits)

    def _search(self, check_interrupt: Callable[[], None], limits: list[float | None]) -> str:
        try:
            because = self._until_an_end(check_interrupt)
            self.study.set_user_attr(STOPPED_KEY, {"limits": limits, "because": because})
            return because
        except KeyboardInterrupt:
            for number in list(self._running):
                self._give_up(number, "the search was interrupted", "interrupted")
            raise
        finally:
            self.study.set_user_attr(SPENT_KEY, self._spent())

    def _until_an_end(self, check_interrupt: Callable[[], None]) -> str:
        while True:
            check_interrupt()
            self._housekeeping()
            reason = self._why_stop()
            if reason is None:
                while self.pool.n_idle and self._may_start():
                    self._start()
            elif not self._running:
                return reason
            self._show()
            event = self.pool.next_event(POLL_SECONDS)
            if event is not None and self._warm_since == math.inf:
                self._warm_since = time.monotonic()
            if isinstance(event, RungReached):
                self._on_rung(event.job_id, event.report)
            elif isinstance(event, Finished):
                self._on_finished(event.job_id, event.outcome)
            elif isinstance(event, Failed):
                self._on_failed(event)
            if self.budget.seconds is not None and self._spent() > self.budget.seconds:
                for number in list(self._running):
                    self._give_up(number, "the time limit came first", "interrupted")

    def _why_stop(self) -> str | None:
        budget = self.budget
        if budget.n_trials is not None and self._ended >= budget.n_trials:
            return f"the budget of {budget.n_trials} trials is spent"
        if budget.seconds is not None and self._spent() + self._reserve() >= budget.seconds:
            return f"the time limit of {budget.seconds:.0f} s is reached"
        if self._sure >= SURE_CHECKS_TO_STOP and self._latest is not None:
            return (
                f"certain enough: {self._latest.p_best:.0%} that no other allocation is better, "
                f"expected loss against the best {self._latest.expected_regret / self._latest.noise_sd:.2f} noise sd"
            )
        return None

    def _may_start(self) -> bool:
        limit = self.budget.n_trials
        return limit is None or self._ended + len(self._running) < limit

    def _start(self) -> None:
        with warnings.catch_warnings():
            # Optuna warns that only `optimize` sends heartbeats; this loop sends them itself
            warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed to be used with")
            trial = self.study.ask(dict(self.distributions))
        split = self.head.allocation(trial.params)
        if split is None:  # a queued trial of somebody else's making
            trial.set_user_attr(ATTRIBUTES.reason, "its parameters hold no feasible split")
            self.study.tell(trial, state=_state("FAIL"))
            return
        number = replicate(trial)
        trial.set_user_attr(ATTRIBUTES.replicate, number)
        spec = TrialSpec(
            allocation=split,
            weighting=trial.params[WEIGHTING],
            decorrelation=trial.params[DECORRELATION],
            learning_rate=trial.params[LEARNING_RATE],
            replicate=number,
        )
        if number == 0:
            for _ in range(self.budget.n_replicates - 1):
                self.study.enqueue_trial(trial.params)
        self._running[trial.number] = _Running(trial, spec)
        self._begun[trial.number] = time.monotonic()
        self.storage.record_heartbeat(trial._trial_id)
        self.pool.submit(trial.number, spec)

    def _on_rung(self, number: int, report: RungReport) -> None:
        running = self._running.get(number)
        if running is None:
            return  # given up in the meantime
        trial = running.trial
        report_diversity(trial, report.step, report.value, report.hdi, output_correlation=report.output_correlation)
        limit = self.budget.max_seconds_per_step
        seconds = report.train_seconds / report.step
        if limit is not None and seconds > limit:
            running.too_slow = seconds
        self.pool.answer(number, stop=running.too_slow is not None or trial.should_prune())

    def _on_finished(self, number: int, outcome: TrialOutcome) -> None:
        running = self._running.pop(number, None)
        if running is None:
            return
        trial = running.trial
        trial.set_user_attr(ATTRIBUTES.seconds_per_step, outcome.seconds_per_step)
        trial.set_user_attr(ATTRIBUTES.attention, outcome.attention)
        if running.too_slow is not None:
            reason = f"{running.too_slow:.3g} s a step, above the limit of {self.budget.max_seconds_per_step:.3g}"
            self._fail(trial, reason, "infeasible")
        elif outcome.stopped:
            self.study.tell(trial, state=_state("PRUNED"))
            self._pruned += 1
        else:
            self.study.tell(trial, outcome.value)
            self._finished += 1
            if self._begun[number] > self._warm_since:  # a worker's start-up is no part of a trial's length
                self._full_seconds.append(time.monotonic() - self._begun[number])
        self._after_end()

    def _on_failed(self, event: Failed) -> None:
        running = self._running.pop(event.job_id, None)
        if running is None:
            return
        memory = "memory" in event.reason.lower()
        fault = {"failed": "infeasible" if memory else "diverged"}.get(event.fault, event.fault)
        self._fail(running.trial, event.reason, fault)
        self.progress.note(f"trial {event.job_id} failed: {event.reason}")
        self._after_end()

    def _fail(self, trial: "optuna.Trial", reason: str, fault: str) -> None:
        trial.set_user_attr(ATTRIBUTES.reason, reason)
        trial.set_user_attr(ATTRIBUTES.fault, fault)
        self.study.tell(trial, state=_state("FAIL"))
        self._failed += fault != "interrupted"
        if self._finished + self._pruned == 0 and self._failed >= MAX_FIRST_FAILURES:
            raise CampaignFailed(f"none of the first {self._failed} trials finished; the last one: {reason}"[:290])

    def _give_up(self, number: int, reason: str, fault: str) -> None:
        running = self._running.pop(number)
        self.pool.cancel(number)
        self._fail(running.trial, reason, fault)

    def _after_end(self) -> None:
        if self._ended % CHECK_EVERY == 0:
            self._latest = self.recommend()
            enough = self._finished >= MIN_FINISHED_TO_STOP and self._latest is not None
            self._sure = self._sure + 1 if enough and self._latest and self._is_sure(self._latest) else 0

    def _is_sure(self, latest: Recommendation) -> bool:
        return latest.p_best >= self.confidence or latest.expected_regret <= latest.tolerance

    def _housekeeping(self) -> None:
        now = time.monotonic()
        if now - self._beat >= HEARTBEAT_SECONDS:
            self._beat = now
            for running in self._running.values():
                self.storage.record_heartbeat(running.trial._trial_id)
            requeue_stale(self.study)
            self.study.set_user_attr(SPENT_KEY, self._spent())

    def _count(self) -> None:
        states = [trial.state.name for trial in self.study.get_trials(deepcopy=False)]
        interrupted = sum(
            trial.state.name == "FAIL" and trial.user_attrs.get(ATTRIBUTES.fault) in (None, "interrupted")
            for trial in self.study.get_trials(deepcopy=False)
        )
        self._finished, self._pruned = states.count("COMPLETE"), states.count("PRUNED")
        self._failed = states.count("FAIL") - interrupted

    @property
    def _ended(self) -> int:
        return self._finished + self._pruned + self._failed

    def _spent(self) -> float:
        return self._spent_before + time.monotonic() - self.started

    def _reserve(self) -> float:
        """Seconds that the comparison, and a trial started now, will still take."""
        if not self._full_seconds:
            return 0.0
        one = fmean(self._full_seconds)
        return one * (1.0 + math.ceil(self.budget.n_comparison_jobs / self.budget.n_workers))

    def _show(self) -> None:
        latest = self._latest
        self.progress.update(
            SearchState(
                n_finished=self._finished,
                n_pruned=self._pruned,
                n_failed=self._failed,
                n_running=len(self._running),
                elapsed_seconds=time.monotonic() - self.started,
                allocation=None if latest is None else (latest.allocation.n_heads, latest.allocation.head_dim),
                p_best=None if latest is None else latest.p_best,
                n_earlier=self._earlier,
            )
        )


def _state(name: str) -> Any:
    import optuna

    return optuna.trial.TrialState[name]
