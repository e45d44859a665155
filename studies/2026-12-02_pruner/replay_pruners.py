"""Pruners on recorded learning curves: what each recommends for the same number of training steps.

``python replay_pruners.py PRUNER ... --sampler archopt|tpe|random [--tuning] [--seeds N]`` adds to
``replays/SAMPLER_PRUNER.csv`` what is not there yet. The tables are those of the sampler's study: a trial is a recorded
run, with what it showed at five rungs, and regret is measured on seeds that are never drawn.
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

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "2026-12-02_sampler"))
from make_tables import DRAWN, SCORING, TUNING, read  # noqa: E402
from make_tables import HERE as TABLES  # noqa: E402
from replay import FAMILY, N_SAMPLES, PARAMS, Answers, Cell, answers, canonical, choices  # noqa: E402

import archopt  # noqa: E402
from archopt.search_space import ATTRIBUTES  # noqa: E402

BUDGETS = (8, 15, 30, 60)  # full trials' worth of training steps
REPLAYS = HERE / "replays"
ORACLE_CUT = 0.5


@dataclass(frozen=True)
class Run:
    """A recorded run: (step, value, HDI, output correlation) by rung; the value at the end, NaN if it failed."""

    rungs: tuple[tuple[int, float, float, float], ...]
    value: float


@lru_cache
def runs_of(name: str) -> dict[Cell, list[Run]]:
    """The runs to draw from, by configuration, in the order of their replicates."""
    found: dict[Cell, dict[int, Run]] = defaultdict(dict)
    for row in read(TABLES / f"{name}.csv"):
        replicate = int(row["replicate"])
        if replicate in DRAWN:
            steps = [int(key.removeprefix("value_")) for key in row if key.startswith("value_")]
            rungs = tuple(
                (step, *(float(row[f"{what}_{step}"] or "nan") for what in ("value", "hdi", "correlation")))
                for step in steps
                if row[f"value_{step}"]
            )
            cell = int(row["n_heads"]), row["weighting"], float(row["decorrelation"])
            found[cell][replicate] = Run(rungs, float(row["value"] or "nan"))
    return {cell: [by_seed[seed] for seed in sorted(by_seed)] for cell, by_seed in found.items()}


class Draws:
    """A table as an objective: the r-th trial of a configuration is its r-th run, in an order of this replay's.

    Args:
        shown: what trials report, of the four in `ABLATIONS`; "oracle" for one that knows the truth: what is more than
            `ORACLE_CUT` noise sd worse than the best is stopped at the first rung, and its full value is told.
    """

    def __init__(self, table: Answers, seed: int, shown: str) -> None:
        self.table, self.runs, self.shown = table, runs_of(table.name), shown
        self.rng = np.random.default_rng(seed)
        self.order = self.rng.permutation(len(DRAWN))
        self.n_seen: dict[Cell, int] = defaultdict(int)
        self.finished: dict[Cell, list[float]] = defaultdict(list)
        self.pruned: dict[Cell, int] = defaultdict(int)
        self.steps = 0
        self.full = max(rung[0] for runs in self.runs.values() for run in runs for rung in run.rungs)

    def run(self, trial: optuna.Trial, cell: Cell) -> float:
        """Train, as far as the pruner lets it."""
        runs = self.runs[cell]
        replicate = self.n_seen[cell] % len(runs)
        self.n_seen[cell] += 1
        trial.set_user_attr(ATTRIBUTES.replicate, replicate)
        trial.set_user_attr(ATTRIBUTES.seconds_per_step, self.table.ms_per_step[cell] / 1000)
        run = runs[self.order[replicate]]
        if self.shown == "oracle" and self.table.regret[cell] > ORACLE_CUT and run.rungs:
            self.steps += run.rungs[0][0]
            self.pruned[cell] += 1
            return run.value
        before = 0
        for step, value, hdi, correlation in run.rungs:
            self.steps += step - before
            before = step
            self._report(trial, cell, step, value, hdi, correlation)
            # a trial that has come to its end is not pruned: its value is known
            if step < self.full and trial.should_prune():
                self.pruned[cell] += 1
                raise optuna.TrialPruned
        if np.isfinite(run.value):
            self.finished[cell].append(run.value)
        return run.value

    def _report(self, trial, cell, step, value, hdi, correlation) -> None:
        if self.shown == "diversity":
            value = 1.0
        if self.shown == "noise":  # that of another run with as many heads, at the same step
            others = [other for other in self.runs if other[0] == cell[0]]
            other = self.runs[others[self.rng.integers(len(others))]][self.rng.integers(len(DRAWN))]
            hdi, correlation = next((rung[2:] for rung in other.rungs if rung[0] == step), (float("nan"),) * 2)
        if self.shown == "curve" or type(trial.study.pruner) is not archopt.HDIPruner:
            trial.report(value, step)
        else:
            archopt.report_diversity(trial, step, value, hdi, output_correlation=correlation)

    def kindest(self) -> Cell | None:
        """The configuration with the lowest mean over its finished trials: a kind rule where there is no model."""
        means = {cell: np.mean(values) for cell, values in self.finished.items()}
        return min(means, key=lambda cell: means[cell]) if means else None


ABLATIONS = {
    "oracle": "oracle",
    "ours": "both",
    "curve-only": "curve",
    "diversity-only": "diversity",
    "diversity-noise": "noise",
}


def median(startup: int, warmup: int):
    """`MedianPruner`."""
    return lambda seed: optuna.pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=warmup)


def percentile(percentile: float, startup: int, warmup: int):
    """`PercentilePruner`."""
    return lambda seed: optuna.pruners.PercentilePruner(percentile, n_startup_trials=startup, n_warmup_steps=warmup)


def halving(factor: int, rate: int):
    """`SuccessiveHalvingPruner`, its first rung where ours is."""
    return lambda seed: optuna.pruners.SuccessiveHalvingPruner(15, factor, rate)


def hyperband(factor: int, least: int):
    """`HyperbandPruner`."""
    return lambda seed: optuna.pruners.HyperbandPruner(least, 150, factor)


def wilcoxon(threshold: float, startup: int):
    """`WilcoxonPruner`, its instances the rungs."""
    return lambda seed: optuna.pruners.WilcoxonPruner(p_threshold=threshold, n_startup_steps=startup)


def patient(patience: int, startup: int):
    """`PatientPruner` around a `MedianPruner`."""
    inner = median(startup, 0)
    return lambda seed: optuna.pruners.PatientPruner(inner(seed), patience=patience)


PEERS = {
    **{f"median-{s}-{w}": median(s, w) for s in (2, 5) for w in (0, 30, 60)},
    **{f"percentile-{p}-{w}": percentile(p, 5, w) for p in (25, 75) for w in (0, 60)},
    **{f"halving-{f}-{r}": halving(f, r) for f in (2, 4) for r in (0, 1)},
    **{f"hyperband-{f}-{m}": hyperband(f, m) for f, m in ((2, 15), (3, 15), (2, 30))},
    **{f"wilcoxon-{t}-{s}": wilcoxon(t, s) for t in (0.1, 0.3) for s in (0, 3)},
    **{f"patient-{p}-{s}": patient(p, s) for p in (1, 2) for s in (2, 5)},
}
VARIANTS = {
    f"ours-{t}-8-{p}": lambda seed, t=t, p=p: archopt.HDIPruner(seed=seed, threshold=t, n_min_trials=8, patience=p)
    for t in (0.02, 0.05, 0.1, 0.2)
    for p in (0, 1)
}
PRUNERS = {
    "none": lambda seed: optuna.pruners.NopPruner(),
    "oracle": lambda seed: optuna.pruners.NopPruner(),
    **{name: lambda seed: archopt.HDIPruner(seed=seed) for name in ABLATIONS if name != "oracle"},
    **VARIANTS,
    **PEERS,
}


def ours(table: Answers, seed: int, pruner) -> optuna.Study:
    """archopt's sampler, told what `archopt search` would tell it."""
    told = {"n_samples": N_SAMPLES[table.name], "family": FAMILY[table.name]}
    sampler = archopt.HeadAllocationSampler(d_model=table.d_model, seed=seed, **told)
    return optuna.create_study(sampler=sampler, pruner=pruner, study_name=f"{table.name}-{seed}")


SAMPLERS = {
    "archopt": ours,
    "tpe": lambda table, seed, pruner: optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed), pruner=pruner, study_name=f"{table.name}-{seed}"
    ),
    "random": lambda table, seed, pruner: optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=seed), pruner=pruner, study_name=f"{table.name}-{seed}"
    ),
}


def replay(table: Answers, seed: int, sampler: str, name: str) -> list[list[object]]:
    """One replay: at each budget what is recommended, by the kindest rule and by `archopt.recommend`."""
    draws = Draws(table, seed, ABLATIONS.get(name, "both"))
    study = SAMPLERS[sampler](table, seed, PRUNERS[name](seed))
    heads, weightings, decorrelations = choices(table)

    def objective(trial: optuna.Trial) -> float:
        cell = (
            trial.suggest_categorical("n_heads", heads),
            trial.suggest_categorical("weighting", weightings),
            trial.suggest_categorical("decorrelation", decorrelations),
        )
        return draws.run(trial, canonical(table, cell))

    rows: list[list[object]] = []
    best = [cell for cell, regret in table.regret.items() if regret <= 0.1]
    for budget in BUDGETS:
        told = None
        while True:
            if draws.steps + draws.full > budget * draws.full:  # the next trial may not fit: what would be said now
                told = _told(table, study, draws, best)
            study.optimize(objective, n_trials=1)
            if draws.steps > budget * draws.full:
                break
        rows.append([table.name, seed, budget, *told])
    return rows


def _told(table: Answers, study: optuna.Study, draws: Draws, best: list[Cell]) -> list[object]:
    kindest = draws.kindest()
    try:
        told = archopt.recommend(study, d_model=table.d_model)
        recommended = table.regret[canonical(table, tuple(told.params[name] for name in PARAMS))]
    except archopt.OptionError:  # no trial has finished
        recommended = float("nan")
    n_pruned, n_trials = sum(draws.pruned.values()), sum(draws.n_seen.values())
    tried = [cell for cell in best if draws.n_seen[cell]]
    lost = [cell for cell in tried if draws.pruned[cell] == draws.n_seen[cell]]
    return [
        f"{recommended:.4f}",
        "nan" if kindest is None else f"{table.regret[kindest]:.4f}",
        draws.steps,
        n_trials,
        n_pruned,
        len(tried),
        len(lost),
    ]


COLUMNS = ["table", "seed", "budget", "regret", "regret_kindest", "steps", "n_trials", "n_pruned", "n_best_tried"]
COLUMNS += ["n_best_lost", "seconds"]


def _one(job):
    sampler, pruner, table, seed = job
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    rows = replay(answers(table), seed, sampler, pruner)
    return [[*row, f"{time.perf_counter() - begun:.1f}"] for row in rows]


def main() -> None:
    """Replay pruners."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pruners", nargs="+", choices=PRUNERS, metavar="PRUNER")
    parser.add_argument("--sampler", choices=SAMPLERS, default="archopt")
    parser.add_argument("--tables", nargs="*", default=[table.name for table in SCORING])
    parser.add_argument("--tuning", action="store_true", help="the tuning tables instead")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    tables = [table.name for table in TUNING] if arguments.tuning else arguments.tables
    REPLAYS.mkdir(exist_ok=True)
    with ProcessPoolExecutor(arguments.workers) as pool:
        for pruner in arguments.pruners:
            path = REPLAYS / f"{arguments.sampler}_{pruner}.csv"
            known = {(row["table"], int(row["seed"])) for row in read(path)}
            jobs = [(table, seed) for seed in range(arguments.seeds) for table in tables if (table, seed) not in known]
            new = not path.exists()
            with path.open("a", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                if new:
                    writer.writerow(COLUMNS)
                for rows in pool.map(_one, [(arguments.sampler, pruner, *job) for job in jobs]):
                    writer.writerows(rows)
                    stream.flush()


if __name__ == "__main__":
    main()
