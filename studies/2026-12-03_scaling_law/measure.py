"""Runs behind an empirical scaling law: data set x n x D x head_dim x learning rate x seed, trained to early stopping.

``python measure.py`` goes on where it was cut short. A row of runs.csv is one run: its best validation loss, at which
step, and how many steps and seconds it took. A seed draws its own split, subset, initialisation and batches, and the
same ones for every head_dim; the subsets of one seed are nested.
"""

import argparse
import csv
import multiprocessing
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

from archopt.allocation import HeadAllocation
from archopt.data import load_dataset
from archopt.errors import TrialFailed
from archopt.evaluation import TrialSpec, default_recipe

OUT = Path(__file__).parent / "runs.csv"
SAMPLES = {
    "friedman": (100, 316, 1_000, 3_162, 10_000),
    "stdlib": (1_024, 3_238, 10_240, 32_382, 102_400),
    "digits": (10, 32, 100, 330, 1_070),
}
HEAD_DIMS = {24: (1, 2, 3, 6, 12, 24), 48: (2, 3, 6, 12, 24, 48), 96: (3, 6, 12, 24, 48, 96)}
LEARNING_RATES = (0.003, 0.01)  # the better one of a configuration counts: one rate for all would be unfair
SEEDS = (0, 1, 2)
EVERY, PATIENCE, MAX_STEPS = 50, 4, 4_000  # a run ends when four scores, 50 steps apart, were not below the best


@dataclass(frozen=True)
class Job:
    """One run."""

    dataset: str
    n_samples: int
    d_model: int
    head_dim: int
    learning_rate: float
    seed: int


def jobs() -> list[Job]:
    """All runs, seed by seed: a study that is cut short has fewer seeds, not fewer cells."""
    return [
        Job(dataset, n, d_model, head_dim, rate, seed)
        for seed, dataset in product(SEEDS, SAMPLES)
        for n, d_model in product(SAMPLES[dataset], HEAD_DIMS)
        for head_dim, rate in product(HEAD_DIMS[d_model], LEARNING_RATES)
    ]


@cache
def load(name: str, n_samples: int, seed: int):
    """The data set with this seed's split, and n of its training rows or bytes."""
    if name == "digits":
        return load_dataset("sklearn:digits", n_samples=n_samples, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.txt"
        if name == "friedman":
            x, y = make_friedman1(n_samples=17_000, noise=1.0, random_state=1)
            header = ",".join([*(f"x{i}" for i in range(10)), "y"])
            path = path.with_suffix(".csv")
            np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="", fmt="%.6f")
            return load_dataset(str(path), target="y", n_samples=n_samples, seed=seed)
        # the standard library's own source; a text has one split, so every seed has other files
        sources = sorted(Path(argparse.__file__).parent.glob("*.py"))[seed :: len(SEEDS)][:40]
        path.write_text("".join(source.read_text(encoding="utf-8") for source in sources), encoding="utf-8")
        return load_dataset(str(path), n_samples=n_samples, seed=seed)


def run(job: Job) -> dict[str, object]:
    """Train until the validation loss no longer improves."""
    import torch

    from archopt.evaluation.training import train

    torch.set_num_threads(1)
    dataset = load(job.dataset, job.n_samples, job.seed)
    recipe = default_recipe(dataset, d_model=job.d_model, n_steps=MAX_STEPS, warmup=1 / 80, seed=job.seed)
    recipe = replace(recipe, rungs=tuple(range(EVERY, MAX_STEPS + 1, EVERY)))
    if job.dataset == "stdlib":
        recipe = replace(recipe, context_length=32, n_layers=1, max_scored=2**13)
    else:
        recipe = replace(recipe, batch_size=32, context_rows=min(512, recipe.context_rows), max_scored=500)
    best = {"step": 0, "value": float("inf"), "since": 0}

    def on_rung(report) -> bool:
        if report.value < best["value"]:
            best.update(step=report.step, value=report.value, since=0)
        else:
            best["since"] += 1
        return best["since"] >= PATIENCE

    split = HeadAllocation(job.d_model // job.head_dim, job.head_dim)
    started = time.perf_counter()
    row = {**job.__dict__, "metric": recipe.metric}
    try:
        outcome = train(dataset, TrialSpec(split, "uniform", 0.0, job.learning_rate, 0), recipe, on_rung)
    except TrialFailed as error:
        return {**row, "value": "", "best_step": "", "steps": "", "seconds": "", "failure": str(error)}
    seconds = round(time.perf_counter() - started, 2)
    return {
        **row,
        "value": f"{best['value']:.6f}",
        "best_step": best["step"],
        "steps": outcome.n_steps,
        "seconds": seconds,
        "failure": "",
    }


def main() -> None:
    """Run what is missing."""
    names = [*Job.__dataclass_fields__, "metric", "value", "best_step", "steps", "seconds", "failure"]
    done = set()
    if OUT.exists():
        with OUT.open(newline="", encoding="utf-8") as stream:
            done = {tuple(row[name] for name in Job.__dataclass_fields__) for row in csv.DictReader(stream)}
    waiting = [job for job in jobs() if tuple(map(str, job.__dict__.values())) not in done]
    with OUT.open("a", newline="", encoding="utf-8") as stream, multiprocessing.get_context("spawn").Pool(2) as pool:
        writer = csv.DictWriter(stream, names)
        if not done:
            writer.writeheader()
        for count, row in enumerate(pool.imap_unordered(run, waiting), 1):
            writer.writerow(row)
            stream.flush()
            if count % 50 == 0:
                print(f"{count} of {len(waiting)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
