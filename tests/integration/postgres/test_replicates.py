"""Processes that start the same configuration at the same moment: no two of them get the same replicate."""

import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import optuna
import pytest

from archopt.search_space import ATTRIBUTES

_ASK = """
import sys, time
import optuna, archopt
optuna.logging.set_verbosity(optuna.logging.ERROR)
url, n_rounds, start = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
study = optuna.load_study(study_name="same", storage=url)
for each in range(n_rounds):
    time.sleep(max(0.0, start + 0.1 * each - time.time()))
    trial = study.ask({"n_heads": optuna.distributions.CategoricalDistribution([2])})
    number = archopt.replicate(trial)
    study.tell(trial, float(number))
"""


@pytest.mark.parametrize(
    ("n_processes", "n_rounds"), [(2, 40), pytest.param(4, 250, marks=(pytest.mark.slow, pytest.mark.timeout(900)))]
)
def test_no_two_processes_get_the_same_replicate(
    n_processes: int, n_rounds: int, database: str, optuna_storage: Any
) -> None:
    study = optuna.create_study(study_name="same", storage=optuna_storage)
    begin = time.time() + 4.0  # when all have been imported
    arguments = (sys.executable, "-c", _ASK, database, str(n_rounds), str(begin))
    processes = [subprocess.Popen(arguments) for _ in range(n_processes)]
    assert [process.wait() for process in processes] == [0] * n_processes
    trials = study.get_trials(deepcopy=False)
    claims = Counter(trial.user_attrs[ATTRIBUTES.replicate] for trial in trials)
    assert len(trials) == n_processes * n_rounds
    assert claims == Counter(range(len(trials)))  # each once, none left out
    assert all(trial.value == trial.user_attrs[ATTRIBUTES.replicate] for trial in trials)  # as its process was told
    started = sorted(trials, key=lambda trial: trial.datetime_start)
    together = sum(later.datetime_start < earlier.datetime_complete for earlier, later in pairwise(started))
    print(f"{len(trials)} trials in {n_processes} processes, {together} of which began while another ran")
    assert together > n_rounds // 4  # else nothing was contended


def test_of_two_that_claim_the_same_the_lower_number_keeps_it(optuna_storage: Any) -> None:
    from archopt import replicate

    study = optuna.create_study(study_name="two", storage=optuna_storage)
    space: dict[str, Any] = {"n_heads": optuna.distributions.CategoricalDistribution([2])}
    lower, higher = study.ask(space), study.ask(space)
    for trial in (lower, higher):  # as when both have written and neither has read
        trial.set_user_attr(ATTRIBUTES.replicate, 0)
    assert (replicate(higher), replicate(lower)) == (1, 0)
