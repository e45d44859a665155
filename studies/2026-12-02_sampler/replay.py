"""Methods on the tables: what each recommends after 10, 20, 40 and 80 trials, and how far that is from the best.

``python replay.py METHOD [--tables NAME ...] [--seeds N]`` adds to ``replays/METHOD.csv`` what is not there yet. A
trial is a draw from a table; regret is measured on seeds that are never drawn.
"""

import argparse
import csv
import sys
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import optuna
from make_tables import DRAWN, HERE, SCORING, TUNING, read

import archopt
from archopt.campaign.stopping import CHECK_EVERY, MIN_FINISHED_TO_STOP, SURE_CHECKS_TO_STOP
from archopt.search_space import ATTRIBUTES, canonical_params
from archopt.theory import family_default, optimal_allocation

CHECKPOINTS = (10, 20, 40, 80)
MOST_TRIALS = 200
REPLAYS = Path(__file__).parent / "replays"
Cell = tuple[int, str, float]


@dataclass(frozen=True)
class Answers:
    """A table, read: what can be drawn, and the truth.

    Attributes:
        draws: by configuration, values in the order of their replicates.
        regret: by configuration, distance of its mean over the truth's seeds from the lowest one, in noise sd.
        noise_sd: of one run around its configuration's mean, in the better third.
        paired_sd: the same, beyond what all runs of the same seed share.
        ms_per_step: by configuration, the median.
    """

    name: str
    d_model: int
    draws: dict[Cell, list[float]]
    regret: dict[Cell, float]
    noise_sd: float
    paired_sd: float
    ms_per_step: dict[Cell, float]


@lru_cache
def answers(name: str) -> Answers:
    """Read a table."""
    table = next(table for table in (*TUNING, *SCORING) if table.name == name)
    drawn: dict[Cell, dict[int, float]] = defaultdict(dict)
    truth: dict[Cell, dict[int, float]] = defaultdict(dict)
    speed = defaultdict(list)
    for row in read(HERE / f"{name}.csv"):
        cell, replicate = (int(row["n_heads"]), row["weighting"], float(row["decorrelation"])), int(row["replicate"])
        value = float(row["value"] or "nan")
        (drawn if replicate in DRAWN else truth)[cell][replicate] = value
        speed[cell].append(float(row["ms_per_step"] or "nan"))
    # what all runs of a seed share is taken off: the mean over cells that have every seed that the other has
    seeds = sorted({seed for values in truth.values() for seed in values})
    cells = list(truth)
    values = np.array([[truth[cell].get(seed, np.nan) for seed in seeds] for cell in cells])
    effect, level = np.zeros(len(seeds)), np.nanmean(values, axis=1)
    for _ in range(50):  # two-way means of an incomplete layout, by turns
        effect = np.nanmedian(values - level[:, None], axis=0)
        effect -= effect.mean()
        level = np.nanmean(values - effect, axis=1)
    third = np.argsort(level)[: len(cells) // 3]
    left = (values - level[:, None] - effect)[third]
    freedom = np.isfinite(left).sum() - len(third) - len(seeds) + 1
    noise_sd = float(np.sqrt(np.nanmean(np.nanvar(values[third], axis=1, ddof=1))))
    return Answers(
        name,
        table.d_model,
        {cell: [drawn[cell][seed] for seed in sorted(drawn[cell])] for cell in cells},
        dict(zip(cells, (level - level.min()) / noise_sd, strict=True)),
        noise_sd,
        float(np.sqrt(np.nansum(left**2) / freedom)),
        {cell: float(np.nanmedian(times)) for cell, times in speed.items()},
    )


class Draws:
    """A table as an objective: the r-th run of a configuration gives its r-th draw, in an order of this replay's."""

    def __init__(self, table: Answers, seed: int) -> None:
        self.table = table
        rng = np.random.default_rng(seed)
        self.order = rng.permutation(len(DRAWN))
        self.seen: dict[Cell, list[float]] = defaultdict(list)

    def run(self, n_heads: int, weighting: str, decorrelation: float) -> tuple[float, int]:
        """(value, replicate); where all of a configuration have been drawn it starts again."""
        cell = canonical(self.table, (n_heads, weighting, decorrelation))
        values = self.table.draws[cell]
        replicate = len(self.seen[cell]) % len(values)
        value = values[self.order[replicate]]
        self.seen[cell].append(value)
        return value, replicate

    def kindest(self) -> Cell:
        """The configuration with the lowest mean over its own trials."""
        means = {cell: np.mean(values) for cell, values in self.seen.items() if np.isfinite(values).all() and values}
        return min(means, key=lambda cell: means[cell])


def choices(table: Answers) -> tuple[list[int], list[str], list[float]]:
    """Of the three parameters."""
    heads, weightings, decorrelations = (sorted({cell[i] for cell in table.draws}) for i in range(3))
    return heads, weightings, decorrelations


def ours(table: Answers, seed: int, **options) -> list[tuple[int, Cell, dict]]:
    """archopt's sampler, told what `archopt search` would tell it, and its recommendation."""
    study, objective = _our_study(table, seed, options)
    found = []
    for checkpoint in CHECKPOINTS:
        study.optimize(objective, n_trials=checkpoint - len(study.trials))
        found.append(_told(table, archopt.recommend(study), checkpoint))
    return found


def until_sure(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
    """archopt as `archopt search` runs it: it stops when it is sure at three looks in a row, five trials apart."""
    study, objective = _our_study(table, seed, {})
    n_sure = 0
    while n_sure < SURE_CHECKS_TO_STOP and len(study.trials) < MOST_TRIALS:
        study.optimize(objective, n_trials=CHECK_EVERY)
        told = archopt.recommend(study)
        n_sure = n_sure + 1 if told.sure and len(study.trials) >= MIN_FINISHED_TO_STOP else 0
    return [_told(table, told, len(study.trials))]


def _our_study(table: Answers, seed: int, options: dict):
    draws = Draws(table, seed)
    heads, weightings, decorrelations = choices(table)

    def objective(trial):
        cell = (
            trial.suggest_categorical("n_heads", heads),
            trial.suggest_categorical("weighting", weightings),
            trial.suggest_categorical("decorrelation", decorrelations),
        )
        value, replicate = draws.run(*cell)
        trial.set_user_attr(ATTRIBUTES.replicate, replicate)
        trial.set_user_attr(ATTRIBUTES.seconds_per_step, table.ms_per_step[canonical(table, cell)] / 1000)
        return value

    prior = {"n_samples": N_SAMPLES[table.name], "family": FAMILY[table.name]}
    sampler = archopt.HeadAllocationSampler(d_model=table.d_model, seed=seed, **{**prior, **options})
    return optuna.create_study(sampler=sampler), objective


def _told(table: Answers, told, n_trials: int) -> tuple[int, Cell, dict]:
    members = [_cell_of(table, estimate) for estimate in told.confidence_set]
    extra = {
        "set_size": len(members),
        "covered": int(min(table.regret[cell] for cell in members) <= 0.1),
        "sure": int(told.sure),
    }
    return n_trials, canonical(table, tuple(told.params[name] for name in PARAMS)), extra


PARAMS = ("n_heads", "weighting", "decorrelation")
N_SAMPLES = {
    "friedman-400": 400, "friedman-2000": 2000, "stdlib-30k": 30_000, "cancer": 341,
    "digits-300": 300, "digits-1078": 1078, "topics-30k": 30_000, "diabetes": 265,
}  # fmt: skip
FAMILY = {name: "text" if name.endswith("30k") else "table" for name in N_SAMPLES}


def _cell_of(table: Answers, estimate) -> Cell:
    return canonical(table, tuple(estimate.params[name] for name in PARAMS))


def canonical(table: Answers, cell: Cell) -> Cell:
    split = archopt.HeadAllocation(cell[0], table.d_model // cell[0])
    same = canonical_params(dict(zip(PARAMS[1:], cell[1:], strict=True)), split)
    return (cell[0], same["weighting"], float(same["decorrelation"]))


def flat_prior(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
    """archopt's sampler, told nothing of the data."""
    return ours(table, seed, n_samples=None, family=None)


def wrong_prior(factor: float):
    """archopt's sampler with a prior that far from the head_dim of the best configuration."""

    def run(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
        best = min(table.regret, key=lambda cell: table.regret[cell])
        default = family_default(FAMILY[table.name])
        unit = optimal_allocation(table.d_model, N_SAMPLES[table.name], default.intrinsic_dim).head_dim
        return ours(table, seed, constant=factor * table.d_model / best[0] / unit)

    return run


def peer(make_sampler):
    """An Optuna sampler with the kindest rule: the split is an ordered number, as the sampler likes it best."""

    def run(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
        draws = Draws(table, seed)
        heads, weightings, decorrelations = choices(table)

        def objective(trial):
            return draws.run(
                heads[trial.suggest_int("split", 0, len(heads) - 1)],
                trial.suggest_categorical("weighting", weightings),
                decorrelations[trial.suggest_int("penalty", 0, len(decorrelations) - 1)],
            )[0]

        study = optuna.create_study(sampler=make_sampler(seed))
        found = []
        for checkpoint in CHECKPOINTS:
            study.optimize(objective, n_trials=checkpoint - len(study.trials))
            found.append((checkpoint, draws.kindest(), {}))
        return found

    return run


def brute_force(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
    """Configurations in random order, the last five of a budget's trials replicating the best five so far."""
    found = []
    for checkpoint in CHECKPOINTS:
        draws = Draws(table, seed)
        rng = np.random.default_rng(seed)
        n_first = min(len(table.draws), checkpoint - max(5, checkpoint // 3))
        cells = list(table.draws)
        for i in rng.permutation(len(cells))[:n_first]:
            draws.run(*cells[i])
        best = sorted(draws.seen, key=lambda cell: draws.seen[cell][0])[:5]
        for k in range(checkpoint - n_first):
            draws.run(*best[k % 5])
        found.append((checkpoint, draws.kindest(), {}))
    return found


def head_dim_64(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
    """What many build: the width nearest 64, uniform weights, no penalty."""
    heads = min({cell[0] for cell in table.draws}, key=lambda h: abs(np.log2(table.d_model / h / 64)))
    return [(checkpoint, (heads, "uniform", 0.0), {}) for checkpoint in CHECKPOINTS]


def exhaustive(table: Answers, seed: int) -> list[tuple[int, Cell, dict]]:
    """Four draws of every configuration, in this replay's order: the reference, at hundreds of trials."""
    order = Draws(table, seed).order[:4]
    means = {cell: float(np.mean([values[i] for i in order])) for cell, values in table.draws.items()}
    best = min(means, key=lambda cell: np.inf if np.isnan(means[cell]) else means[cell])
    return [(checkpoint, best, {}) for checkpoint in CHECKPOINTS]


METHODS = {
    "archopt": ours,
    "archopt-flat": flat_prior,
    "archopt-until-sure": until_sure,
    "archopt-16-too-wide": wrong_prior(16.0),
    "archopt-16-too-narrow": wrong_prior(1 / 16),
    "random": peer(lambda seed: optuna.samplers.RandomSampler(seed=seed)),
    "tpe": peer(lambda seed: optuna.samplers.TPESampler(seed=seed)),
    "tpe-uni": peer(lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=False)),
    "gp": peer(lambda seed: optuna.samplers.GPSampler(seed=seed)),
    "cmaes": peer(lambda seed: optuna.samplers.CmaEsSampler(seed=seed)),
    "brute-force": brute_force,
    "head-dim-64": head_dim_64,
    "exhaustive": exhaustive,
}


def _one(job):
    method, table, seed = job
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    rows = METHODS[method](answers(table), seed)
    regret = answers(table).regret
    return [
        [table, seed, at, *cell, f"{regret[cell]:.4f}", *(extra.get(k, "") for k in ("set_size", "covered", "sure"))]
        for at, cell, extra in rows
    ], time.perf_counter() - begun


def main() -> None:
    """Replay a method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--tables", nargs="*", default=[table.name for table in SCORING])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    REPLAYS.mkdir(exist_ok=True)
    path = REPLAYS / f"{arguments.method}.csv"
    done = {(row["table"], int(row["seed"])) for row in read(path)}
    jobs = [
        (arguments.method, table, seed)
        for seed in range(arguments.seeds)
        for table in arguments.tables
        if (table, seed) not in done
    ]
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as stream, ProcessPoolExecutor(arguments.workers) as pool:
        writer = csv.writer(stream, lineterminator="\n")
        if new:
            writer.writerow(["table", "seed", "n_trials", *PARAMS, "regret", "set_size", "covered", "sure"])
        for rows, _ in pool.map(_one, jobs):
            writer.writerows(rows)
            stream.flush()


if __name__ == "__main__":
    sys.exit(main())
