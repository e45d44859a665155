"""When what was fitted on a study's trials is fitted again, and the curves of those that finished."""

import math
from weakref import WeakKeyDictionary

from archopt.final_values import FinalValues
from archopt.search_space import StudyHistory

REFIT_AFTER = 20  # trials until which a fit is repeated at each
REFIT_GROWTH = 1.1  # of the number of trials between two fits from then on

# by history: how many trials it held, the numbers of those that are read by, and what reads
_KNOWN: "WeakKeyDictionary[StudyHistory, tuple[tuple[int, int], tuple[int, ...], FinalValues]]" = WeakKeyDictionary()


def refit_at(n_ended: int) -> int:
    """How many trials decide a fit: all of few, then a number that grows in ever larger steps.

    A fit costs many times what a proposal does, and one trial more hardly moves what many say. A function of the number
    alone, so that a search that was resumed goes on as it would have.
    """
    if n_ended <= REFIT_AFTER:
        return n_ended
    step = REFIT_AFTER
    while step * REFIT_GROWTH <= n_ended:
        step = math.ceil(step * REFIT_GROWTH)
    return step


def curve_readings(history: StudyHistory) -> FinalValues:
    """What reads the curves of trials that did not finish: those that did among the first `refit_at`, by number."""
    size = len(history.ended), len(history.retried)
    known = _KNOWN.get(history)
    if known is not None and known[0] == size:
        return known[2]
    said = sorted(
        (record for record in history.ended if record.number not in history.retried), key=lambda record: record.number
    )
    finished = [record for record in said[: refit_at(len(said))] if record.is_finished]
    numbers = tuple(record.number for record in finished)
    found = known[2] if known is not None and known[1] == numbers else FinalValues(finished)
    _KNOWN[history] = size, numbers, found
    return found
