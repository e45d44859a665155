"""Trials whose process died: found, queued again with the same parameters, and barred after three deaths."""

import time
import warnings
from typing import TYPE_CHECKING

from archopt.search_space import ATTRIBUTES

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

    from archopt.campaign.patient_storage import PatientStorage

HEARTBEAT_SECONDS = 15
GRACE_SECONDS = 60  # a running trial without a heartbeat for so long belongs to a process that died
MAX_DEATHS = 3  # of the processes that train one trial, before its configuration is at fault

DEATHS_KEY = "archopt:deaths"  # that came before a trial was queued by `queue_again`


def n_deaths(trial: "FrozenTrial") -> int:
    """How many processes have died of this trial before."""
    return int(trial.user_attrs.get(DEATHS_KEY, 0)) + len(trial.system_attrs.get("retry_history", ()))


def requeue_stale(study: "optuna.Study", storage: "PatientStorage") -> None:
    """Fail and queue again what is stale; every process that trains does so now and then.

    Optuna looks only at trials that have a heartbeat. A process that dies between asking for a trial and the first one
    would leave it running for ever: whoever comes by first gives it one. Where its own process lives it goes on, else
    it is stale after the grace period, by the database's clock.
    """
    import optuna

    storage.start_heartbeats(study._study_id)
    if time.monotonic() - storage.back_since < GRACE_SECONDS:
        return  # after an outage other processes need time to show that they live
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def on_stale(study: "optuna.Study", trial: "FrozenTrial") -> None:
    """Queue a trial again, or where its process died for the third time record that it cannot be run here.

    For ``heartbeat_stale_trial_callback``. A failed trial takes no more attributes, so that the reason is on a trial
    of its own.
    """
    import optuna

    if not trial.params and "fixed_params" not in trial.system_attrs:
        return  # it died before it had any: there is nothing to repeat
    if n_deaths(trial) + 1 < MAX_DEATHS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            queue = optuna.storages.RetryHeartbeatStaleTrialCallback()
        queue(study, trial)
        return
    attributes = {
        ATTRIBUTES.fault: "infeasible",
        ATTRIBUTES.reason: f"its process died, for the {MAX_DEATHS}rd time (at last as trial {trial.number})",
    }
    study.add_trial(
        optuna.create_trial(
            state=optuna.trial.TrialState.FAIL,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs=attributes,
        )
    )


def queue_again(study: "optuna.Study", trial: "FrozenTrial", *, died: bool = False) -> None:
    """Queue the trial's parameters with its replicate, and how many processes have died of them."""
    kept = {ATTRIBUTES.replicate: trial.user_attrs[ATTRIBUTES.replicate]}
    if deaths := n_deaths(trial) + died:
        kept[DEATHS_KEY] = deaths
    study.enqueue_trial(trial.params, user_attrs=kept)
