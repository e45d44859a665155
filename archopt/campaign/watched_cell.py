"""One study of a campaign that runs elsewhere: its trials and what they recommend, as far as it is read."""

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from archopt.campaign.latest import latest_trials
from archopt.campaign.stopping import CHECK_EVERY, Tally, tally_of
from archopt.campaign.storage import SETTINGS_KEY
from archopt.errors import OptionError
from archopt.recommendation import Recommendation, recommend
from archopt.report.search_state import EndedTrial
from archopt.search_space import HeadParameter

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

PAUSE = 10.0  # between two looks at the posterior lies so many times what one takes


@dataclass
class WatchedCell:
    """A study, and what is known of it.

    Attributes:
        study: of the cell; only read.
        words: which cell of several it is; empty where there is but one.
        n_samples, d_model: of the cell.
        confidence: of the recommendation's set.
        tally: its trials, as of the last `read`.
        latest: those that ended last.
        best: the recommendation as of the last `look`; None before any trial has finished.
    """

    study: "optuna.Study"
    words: str
    n_samples: int | None
    d_model: int
    confidence: float
    tally: Tally = field(default_factory=Tally)
    latest: tuple[EndedTrial, ...] = ()
    best: Recommendation | None = None
    _began: float = 0.0  # when the last trial was begun, by the clock of the machine that did
    _n_looked: int = -1  # ended trials, at the last look
    _rest_until: float = 0.0

    @classmethod
    def of(cls, study: "optuna.Study", words: str, n_samples: int | None, confidence: float) -> "WatchedCell":
        """A cell of which nothing is read yet."""
        return cls(study, words, n_samples, study.user_attrs[SETTINGS_KEY]["d_model"], confidence)

    @property
    def last_begun(self) -> float:
        """When its last trial was begun, in seconds since the epoch; 0 before."""
        return self._began

    def read(self) -> None:
        """Read the trials that are new, or not yet ended."""
        trials = self.study.get_trials(deepcopy=False)
        self.tally = tally_of(trials)
        self.latest = latest_trials(trials, HeadParameter(d_model=self.d_model), cell=self.words)
        self._began = max((_begun(trial) for trial in trials[-1 - self.tally.n_running :]), default=0.0)

    def look(self, *, at_once: bool = False) -> None:
        """Ask the posterior again, where five trials have ended since and it took little of the time.

        Args:
            at_once: without waiting for either.
        """
        n_new, now = self.tally.n_ended - self._n_looked, time.monotonic()
        due = n_new >= CHECK_EVERY or self.best is None
        if not self.tally.n_finished or not n_new or not (at_once or (due and now >= self._rest_until)):
            return
        try:
            self.best = recommend(self.study, confidence=self.confidence, d_model=self.d_model)
        except OptionError:
            self.best = None  # what has finished holds no finite value
        self._n_looked = self.tally.n_ended
        self._rest_until = now + PAUSE * (time.monotonic() - now)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        best = self.best
        split = None if best is None else {"n_heads": best.allocation.n_heads, "head_dim": best.allocation.head_dim}
        return {
            "study": self.study.study_name,
            "n_samples": self.n_samples,
            "d_model": self.d_model,
            **asdict(self.tally),
            "allocation": split,
            "p_best": None if best is None else best.p_best,
        }


def _begun(trial: "FrozenTrial") -> float:
    return 0.0 if trial.datetime_start is None else trial.datetime_start.timestamp()
