"""The trials of a study as records, each read once: a proposal at trial 10,000 costs what one at 100 does."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from archopt.search_space.parameters import HeadParameter
from archopt.search_space.records import ATTRIBUTES, INTERRUPTED, TrialRecord, read_record

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

# by storage, then by study, head parameter and sign
_HISTORIES: "WeakKeyDictionary[optuna.storages.BaseStorage, dict[tuple[int, HeadParameter, bool], StudyHistory]]" = (
    WeakKeyDictionary()
)


class StudyHistory:
    """What has ended in a study, and what is open.

    Ended trials never change, so that they are read once. They stand in the order in which this process saw them
    end, which is not always that of their numbers.

    Args:
        head: where the study keeps its heads.
        maximise: whether values are to be negated, so that lower is better.

    Attributes:
        head: where the study keeps its heads.
        ended: records of ended trials.
        retried: numbers of trials that died with their process and were queued again: they say nothing.
        n_finished, n_pruned, n_complete: of the ended ones, with a value to go by, pruned, and complete.
    """

    def __init__(self, head: HeadParameter, *, maximise: bool = False) -> None:
        self.ended: list[TrialRecord] = []
        self.retried: set[int] = set()
        self.n_finished = self.n_pruned = self.n_complete = 0
        self.head, self._maximise = head, maximise
        self._lock = threading.Lock()
        self._n_read = 0
        self._open: list[FrozenTrial] = []
        self._distributions: dict[str, BaseDistribution] = {}
        self._common: set[str] | None = None

    def update(self, trials: "Sequence[FrozenTrial]") -> None:
        """Read what is new among all trials of the study, which stand by number.

        They may be some seconds old, and lack what another process has begun since: what is known of it stays.
        """
        with self._lock:
            still_open = [old for old in self._open if old.number >= len(trials)]
            for trial in [
                *(trials[old.number] for old in self._open if old.number < len(trials)),
                *trials[self._n_read :],
            ]:
                self.retried.update(trial.system_attrs.get("retry_history", ()))
                if not trial.state.is_finished():
                    still_open.append(trial)
                    continue
                record = read_record(trial, self.head, maximise=self._maximise)
                self.ended.append(record)
                self.n_finished += record.is_finished
                self.n_pruned += record.state == "pruned"
                self.n_complete += record.state == "complete"
                self._distributions.update(trial.distributions)
                if record.allocation is not None:
                    names = trial.params.keys()
                    self._common = set(names) if self._common is None else self._common & names
            self._n_read = max(self._n_read, len(trials))
            self._open = still_open

    def records(self) -> list[TrialRecord]:
        """Every trial, by number; one that was queued again counts as interrupted."""
        return [
            replace(record, attributes={**record.attributes, ATTRIBUTES.fault: INTERRUPTED})
            if record.number in self.retried
            else record
            for record in sorted([*self.ended, *self.open_records()], key=lambda record: record.number)
        ]

    def open_records(self) -> list[TrialRecord]:
        """Trials that run or wait, as far as they have suggested their parameters."""
        return [read_record(trial, self.head, maximise=self._maximise) for trial in self._open]

    def distributions(self) -> "dict[str, BaseDistribution]":
        """The parameters that can enter a model, each with a late distribution.

        Those that say what the split is come from any trial, open ones too: a second worker knows the space as soon as
        the first has suggested it. Any other must stand in every ended trial, or a parameter that is conditional, or
        was added midway, would cost the model all trials without it.
        """
        found = dict(self._distributions)
        for trial in self._open:
            found.update(trial.distributions)
        head = self.head
        split = {head.name, head.d_model}
        return {
            name: distribution
            for name, distribution in found.items()
            if name in split or head.is_alias(name) or self._common is None or name in self._common
        }


def read_history(
    study: "optuna.Study", head: HeadParameter, trials: "Sequence[FrozenTrial] | None" = None
) -> StudyHistory:
    """The study's history, up to date.

    Args:
        trials: the study's, where the caller has just read them: a storage in a file takes its time.
    """
    maximise = study.directions[0].name == "MAXIMIZE"
    known = _HISTORIES.setdefault(study._storage, {})
    history = known.setdefault((study._study_id, head, maximise), StudyHistory(head, maximise=maximise))
    history.update(study.get_trials(deepcopy=False) if trials is None else trials)
    return history


def read_records(
    study: "optuna.Study", head: HeadParameter, trials: "Sequence[FrozenTrial] | None" = None
) -> list[TrialRecord]:
    """The records of `read_history`; ``allocation`` is None where a trial's parameters hold no split."""
    return read_history(study, head, trials).records()
