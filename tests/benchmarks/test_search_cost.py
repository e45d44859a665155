"""What a search spends on anything but training, and what a second worker brings."""

import csv
import json
import subprocess
import sys
import time
from statistics import median

import pytest

pytest.importorskip("torch")
pytest.importorskip("resource")  # not on Windows

from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.evaluation import TrialSpec, default_recipe
from archopt.evaluation.workers import Finished, RungReached, WorkerPool

pytestmark = [pytest.mark.bench, pytest.mark.torch, pytest.mark.timeout(1800)]

N_TRIALS = 200  # half of what the default time limit allows on two cores

# One worker of one thread beside a controller: the CPU seconds of each are then told apart
SEARCH = """
import json, resource, sys
from unittest import mock
import archopt
with mock.patch("archopt.campaign.settings.Settings.workers_and_threads", lambda self, device="cpu": (1, 1)):
    archopt.search("sklearn:digits", 48, n_trials=int(sys.argv[2]), out=sys.argv[1], quiet=True, confidence=0.999999)
spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([usage.ru_utime + usage.ru_stime for usage in spent]))
"""

# The same trials again, without anything around them: what they cost by themselves, diversity left out
TRAINING = """
import csv, json, sys, time
from unittest import mock
import torch
torch.set_num_threads(1)
from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.evaluation import TrialSpec, default_recipe, training
dataset = load_dataset("sklearn:digits")
recipe = default_recipe(dataset, d_model=48)
rows = list(csv.DictReader(open(sys.argv[1] + "/trials.csv")))
chosen = json.load(open(sys.argv[1] + "/recommendation.json"))

def seconds(row, last_step):
    allocation = HeadAllocation(int(row["n_heads"]), int(row["head_dim"]))
    spec = TrialSpec(allocation, row["weighting"], float(row["decorrelation"]), float(row["learning_rate"]), 0)
    begun = time.process_time()
    training.train(dataset, spec, recipe, lambda report: report.step >= last_step)
    return time.process_time() - begun

with mock.patch.object(training, "_diversity", lambda learner, score, step: (0.5, 0.5)):
    trials = [seconds(row, json.loads(row["curve"])[-1][0]) for row in rows[:: int(sys.argv[2])]]
    seconds(rows[0], recipe.n_steps)
    compared = [
        3 * seconds({**row, **row["allocation"]}, recipe.n_steps) for row in chosen["comparison"] if row["n"]
    ]
print(json.dumps([len(rows) / len(trials) * sum(trials), sum(compared)]))
"""


def _figures(script, *arguments):
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_but_training_is_a_tenth_of_a_searchs_cpu_time(tmp_path):
    every = 4
    controller, workers = _figures(SEARCH, tmp_path, N_TRIALS)
    trials, compared = _figures(TRAINING, tmp_path, every)
    share = 1 - (trials + compared) / (controller + workers)
    with open(tmp_path / "trials.csv", encoding="utf-8") as stream:
        n_trials = len(list(csv.DictReader(stream)))
    print(
        f"\n{n_trials} trials: controller {controller:.1f} s, workers {workers:.1f} s of CPU; training by itself "
        f"{trials:.1f} + {compared:.1f} s; all else {share:.1%}"
    )
    assert share <= 0.10


DIVERSITY = """
import json, time
from statistics import median
from unittest import mock
import torch
torch.set_num_threads(1)
from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.evaluation import TrialSpec, default_recipe, training
measure = training._diversity

def share(source, d_model, n_heads):
    dataset, spent, trained = load_dataset(source), [], []
    recipe = default_recipe(dataset, d_model=d_model)
    spec = TrialSpec(HeadAllocation(n_heads, d_model // n_heads), "uniform", 0.0, 0.003, 0)
    def timed(*arguments):
        begun = time.perf_counter()
        found = measure(*arguments)
        spent.append(time.perf_counter() - begun)
        return found
    with mock.patch.object(training, "_diversity", timed):
        training.train(dataset, spec, recipe, lambda report: trained.append(report.train_seconds))
    return sum(spent) / trained[-1]

cases = [("sklearn:digits", 48, 4), ("sklearn:digits", 48, 16), ("sklearn:digits", 48, 48), ("sklearn:diabetes", 48, 8),
         ("sklearn:digits", 512, 8), ("text:python-topics", 48, 16), ("text:python-topics", 128, 8)]
print(json.dumps({" ".join(map(str, case)): median(share(*case) for _ in range(3)) for case in cases}))
"""


def test_measuring_diversity_is_a_fiftieth_of_the_training():
    shares = _figures(DIVERSITY)
    print("\ndiversity / training: " + ", ".join(f"{case} {share:.2%}" for case, share in shares.items()))
    assert max(shares.values()) <= 0.02


def _rate(dataset, recipe, n_workers, n_threads, specs):
    """Trials a second, from when every worker has finished one."""
    with WorkerPool(dataset, recipe, n_workers=n_workers, n_threads=n_threads) as pool:
        waiting, n_done, begun = list(enumerate([*specs[:n_workers], *specs])), 0, 0.0
        total = len(waiting)
        while n_done < total:
            while waiting and pool.n_idle and (n_done >= n_workers or total - len(waiting) < n_workers):
                pool.submit(*waiting.pop(0))
            event = pool.next_event()
            if isinstance(event, RungReached):
                pool.answer(event.job_id, stop=False)
            elif isinstance(event, Finished):
                n_done += 1
                if n_done == n_workers:
                    begun = time.perf_counter()
        return len(specs) / (time.perf_counter() - begun)


def test_two_workers_on_two_cores_are_nearly_twice_as_fast():
    dataset = load_dataset("sklearn:digits")
    recipe = default_recipe(dataset, d_model=48)
    specs = [
        TrialSpec(HeadAllocation(n_heads, 48 // n_heads), "uniform", 0.0, 0.003, replicate)
        for replicate in range(2)
        for n_heads in (1, 2, 3, 4, 6, 8, 12, 16)
    ]
    arrangements = {"2 x 1": (2, 1), "1 x 1": (1, 1), "1 x 2": (1, 2)}
    rates = {name: [] for name in arrangements}
    for _ in range(5):
        for name, (n_workers, n_threads) in arrangements.items():
            rates[name].append(_rate(dataset, recipe, n_workers, n_threads, specs))
    found = {name: median(values) for name, values in rates.items()}
    print(
        f"\ntrials a minute, workers x threads: { {name: round(60 * rate) for name, rate in found.items()} }; "
        f"{found['2 x 1'] / found['1 x 1']:.2f} and {found['2 x 1'] / found['1 x 2']:.2f}"
    )
    assert found["2 x 1"] >= 1.7 * found["1 x 1"]
    assert found["2 x 1"] >= 1.2 * found["1 x 2"]
