"""When a search may call itself certain, and how many of its trials have ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archopt.recommendation import Recommendation
from archopt.report.numbers import probability
from archopt.search_space import ATTRIBUTES, INTERRUPTED

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

CHECK_EVERY = 5  # ended trials between two looks at the posterior
MIN_FINISHED_TO_STOP = 30  # before the search may call itself certain
SURE_CHECKS_TO_STOP = 3  # in a row: one lucky look is not certainty


@dataclass(frozen=True)
class Tally:
    """Trials that ended, each way, without interrupted ones, which wait to be run again; and those that run now."""

    n_finished: int = 0
    n_pruned: int = 0
    n_failed: int = 0
    n_running: int = 0

    @property
    def n_ended(self) -> int:
        return self.n_finished + self.n_pruned + self.n_failed

    @property
    def n_begun(self) -> int:
        return self.n_ended + self.n_running


def count_trials(study: "optuna.Study") -> Tally:
    """What has ended in the storage, by whichever process."""
    return tally_of(study.get_trials(deepcopy=False))


def tally_of(trials: "Sequence[FrozenTrial]") -> Tally:
    """What has ended of a study's trials."""
    states = [trial.state.name for trial in trials]
    # a trial that died with its process has no fault on record
    n_interrupted = sum(
        trial.state.name == "FAIL" and trial.user_attrs.get(ATTRIBUTES.fault) in (None, INTERRUPTED) for trial in trials
    )
    return Tally(
        n_finished=states.count("COMPLETE"),
        n_pruned=states.count("PRUNED"),
        n_failed=states.count("FAIL") - n_interrupted,
        n_running=states.count("RUNNING"),
    )


@dataclass
class Certainty:
    """Looks at the posterior now and then, and says when it is sure enough to stop.

    Args:
        recommend: the recommendation as of now; None before any trial has finished.
        confidence: that it is made with; another one is another end.
    """

    recommend: Callable[[], Recommendation | None]
    confidence: float
    latest: Recommendation | None = None
    _n_sure: int = 0
    _n_looks: int = 0

    def begin(self, tally: Tally) -> None:
        """The state that a search starts from."""
        self._n_looks = tally.n_ended // CHECK_EVERY
        self.latest = self.recommend()

    def look(self, tally: Tally) -> None:
        """To be called after every trial; looks at each fifth that ended."""
        if tally.n_ended // CHECK_EVERY == self._n_looks:
            return
        self._n_looks = tally.n_ended // CHECK_EVERY
        self.latest = self.recommend()
        enough = tally.n_finished >= MIN_FINISHED_TO_STOP and self.latest is not None and self.latest.sure
        self._n_sure = self._n_sure + 1 if enough else 0

    def reason(self) -> str | None:
        """Why to stop; None while it is not sure."""
        if self._n_sure < SURE_CHECKS_TO_STOP or self.latest is None:
            return None
        return (
            f"certain enough: probability {probability(self.latest.p_best)} that no other allocation is better, "
            f"expected loss against the best {self.latest.expected_regret / self.latest.noise_sd:.2f} noise sd"
        )
