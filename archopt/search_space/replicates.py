"""Which replicate of its configuration a trial is, also where several processes ask at the same moment.

No storage of Optuna's has an atomic claim. A trial therefore writes its claim first and reads the others' afterwards:
of two that claim the same, at least one sees both, and the lower trial number keeps it. One that is still drawing its
parameters may yet claim, so that a trial waits for those with lower numbers.
"""

import math
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from archopt.search_space.history import read_records
from archopt.search_space.parameters import HeadParameter, canonical_params, recorded_head_parameter
from archopt.search_space.records import ATTRIBUTES, INTERRUPTED, KILLED, params_key

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

CLAIM_SECONDS = 5.0  # a trial that has run for longer without a claim does not make one: nobody waits for it
_POLL_SECONDS = 0.02
_ZONE_SECONDS = 900.0  # time zones lie multiples of it apart


def replicate(trial: "optuna.Trial") -> int:
    """Number of the replicate of its parameters that this trial is: use it as the seed.

    Replicate r then means the same for every configuration, and no two trials of one are the same run, in however many
    processes. Call it after the last ``suggest``. The number is kept with the trial, and the surrogate models what
    equal replicates have in common. A trial that was interrupted, or killed, gives its number back.
    """
    head = recorded_head_parameter(trial.study) or HeadParameter()
    mine = _configuration(trial.params, head)
    # that of an earlier call, or of an earlier life: a trial that is queued again brings its number along
    claim: int | None = trial.user_attrs.get(ATTRIBUTES.replicate)
    while True:
        trials = trial.study.get_trials(deepcopy=False)
        others = [other for other in trials if other.number != trial.number]
        ended = {
            record.number: record.key for record in read_records(trial.study, head, trials) if record.state != "running"
        }
        if any(other.number < trial.number and _may_yet_claim(other) for other in others):
            time.sleep(_POLL_SECONDS)
            continue
        lost = {number for each in trials for number in each.system_attrs.get("retry_history", ())}
        taken = {
            other.number: other.user_attrs[ATTRIBUTES.replicate]
            for other in others
            if ATTRIBUTES.replicate in other.user_attrs
            and other.user_attrs.get(ATTRIBUTES.fault) not in (INTERRUPTED, KILLED)
            and other.number not in lost
            and (ended.get(other.number) or _planned(other, head)) == mine
        }
        if claim is not None and all(taken[number] != claim for number in taken if number < trial.number):
            return claim
        claim = next(number for number in count() if number not in taken.values())
        trial.set_user_attr(ATTRIBUTES.replicate, claim)


def _may_yet_claim(other: "FrozenTrial") -> bool:
    if other.state.name != "RUNNING" or ATTRIBUTES.replicate in other.user_attrs or other.datetime_start is None:
        return False
    # naive local time, as Optuna writes it: that of another machine may be of another time zone
    seconds = (datetime.now() - other.datetime_start).total_seconds()
    return abs(math.remainder(seconds, _ZONE_SECONDS)) < CLAIM_SECONDS


def _planned(other: "FrozenTrial", head: HeadParameter) -> tuple[tuple[str, str], ...]:
    return _configuration(other.system_attrs.get("fixed_params", {}) | other.params, head)


def _configuration(params: Mapping[str, Any], head: HeadParameter) -> tuple[tuple[str, str], ...]:
    return params_key(canonical_params(params, head.allocation(params)))
