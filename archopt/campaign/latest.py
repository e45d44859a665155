"""The trials that ended last, as a live view shows them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING

from archopt.report.search_state import EndedTrial
from archopt.search_space import ATTRIBUTES, INTERRUPTED, HeadParameter

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

N_LATEST = 5
_LOOKED_AT = 200  # by number, from the last one back: more than any campaign trains at a time

_STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}


def latest_trials(trials: "Sequence[FrozenTrial]", head: HeadParameter, *, cell: str = "") -> tuple[EndedTrial, ...]:
    """The last ones to end, newest first.

    Args:
        trials: of one study, by rising number.
        cell: of a campaign over several sizes, in words.
    """
    ended = islice((trial for trial in reversed(trials) if trial.state.is_finished()), _LOOKED_AT)
    last = nlargest(N_LATEST, ended, key=lambda trial: (trial.datetime_complete or datetime.min, trial.number))
    return newest(_ended(trial, head, cell) for trial in last)


def newest(ended: Iterable[EndedTrial]) -> tuple[EndedTrial, ...]:
    """The last ones of any cells."""
    return tuple(sorted(ended, key=lambda trial: (-trial.ended_at, -trial.number))[:N_LATEST])


def _ended(trial: "FrozenTrial", head: HeadParameter, cell: str) -> EndedTrial:
    split = head.allocation(trial.params)
    state = _STATES[trial.state.name]
    if state == "failed" and trial.user_attrs.get(ATTRIBUTES.fault) in (None, INTERRUPTED):
        state = "interrupted"  # or its process died, which leaves no fault on record
    return EndedTrial(
        number=trial.number,
        allocation=None if split is None else (split.n_heads, split.head_dim),
        state=state,
        value=trial.value if state == "finished" else None,
        seconds=None if trial.duration is None else trial.duration.total_seconds(),
        cell=cell,
        ended_at=0.0 if trial.datetime_complete is None else trial.datetime_complete.timestamp(),
    )
