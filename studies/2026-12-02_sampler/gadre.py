"""Replays on the public grid of Gadre et al. (arXiv:2403.08540): ``python gadre.py GRID.csv [--seeds N]``.

A table is one width: heads x layers x warm-up. There is one run a configuration, so that what is drawn is also the
truth, which is kinder to whoever takes the luckiest run; regret is in units of 0.008 nats, by which two good warm-ups
differ.
"""

import argparse
import csv
import sys
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import optuna
from replay import CHECKPOINTS

import archopt

NOISE_SD = 0.008
OUT = Path(__file__).parent / "gadre.csv"
PEERS = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
}


def tables(path: str) -> dict[int, dict[tuple[int, int, int], float]]:
    """By width, the loss by (heads, layers, warm-up); rows whose heads do not divide the width are left out."""
    found: dict = defaultdict(dict)
    with open(path, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            cell, width = tuple(int(row[name]) for name in ("n_heads", "n_layers", "warmup")), int(row["d_model"])
            if width % cell[0] == 0:
                found[width][cell] = float(row["loss"])
    return {width: cells for width, cells in found.items() if len({cell[0] for cell in cells}) > 1}


def one(job):
    """Replay one method on one table; the regret of what it recommends at each checkpoint."""
    method, width, cells, seed = job
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    heads, layers, warmups = (sorted({cell[i] for cell in cells}) for i in range(3))

    def objective(trial):
        cell = (
            trial.suggest_categorical("n_heads", heads),
            trial.suggest_categorical("n_layers", layers),
            trial.suggest_categorical("warmup", warmups),
        )
        return cells.get(cell, float("nan"))  # some runs are not in the grid: a trial that fails

    if method == "archopt":
        n_tokens = 2e9  # of the middle of the grid; it moves with the size of the model
        sampler = archopt.HeadAllocationSampler(d_model=width, n_samples=n_tokens, family="text", seed=seed)
    else:
        sampler = PEERS[method](seed)
    study, best, rows = optuna.create_study(sampler=sampler), min(cells.values()), []
    for checkpoint in CHECKPOINTS[:3]:
        study.optimize(objective, n_trials=checkpoint - len(study.trials))
        params = archopt.recommend(study, d_model=width).params if method == "archopt" else study.best_params
        value = cells[params["n_heads"], params["n_layers"], params["warmup"]]
        rows.append([method, width, seed, checkpoint, f"{(value - best) / NOISE_SD:.4f}"])
    return rows


def main() -> None:
    """Replay everything, write the rows and print their means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grid")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    known = tables(arguments.grid)
    jobs = [
        (method, width, cells, seed)
        for method in ("archopt", *PEERS)
        for width, cells in known.items()
        for seed in range(arguments.seeds)
    ]
    with ProcessPoolExecutor(2) as pool:
        rows = [row for found in pool.map(one, jobs) for row in found]
    with OUT.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([["method", "d_model", "seed", "n_trials", "regret"], *rows])
    print(f"widths {sorted(known)}, {[len(cells) for cells in known.values()]} configurations")
    for method in ("archopt", *PEERS):
        for checkpoint in CHECKPOINTS[:3]:
            these = np.array([float(row[4]) for row in rows if row[0] == method and row[3] == checkpoint])
            error = these.std() / np.sqrt(len(these))
            print(f"{method} at {checkpoint} trials: {these.mean():.2f} ± {error:.2f} (n = {len(these)})")


if __name__ == "__main__":
    sys.exit(main())
