"""Full grids with known answers: every configuration trained with seeds to draw from and others for the truth.

``python make_tables.py [NAME ...]`` makes the named tables, or all of them; one that was cut short goes on where it
ended. A row is one run: its configuration, its replicate, and what it showed at each rung.
"""

import csv
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from sklearn.datasets import make_friedman1

from archopt.allocation import HeadAllocation, feasible_allocations
from archopt.data import load_dataset
from archopt.evaluation import TrialSpec, default_recipe
from archopt.evaluation.workers import Failed, Finished, RungReached, WorkerPool
from archopt.search_space import canonical_params

HERE = Path(__file__).parent / "tables"
WEIGHTINGS = ("uniform", "geometric", "fibonacci", "learned")
DRAWN = range(12)  # replicates that methods draw from, of every configuration: with four, every replay sees the same
TRUTH = range(100, 104)  # replicates that only the truth is made of
MORE_TRUTH = range(104, 112)  # of the third that looks best after those
# Of the fifth that looks best by its truth: with 12 seeds the lowest of 30 tied means lies half a noise sd too low
MOST_TRUTH = range(112, 148)
LEARNING_RATE = 0.01
N_STEPS, TABLE_BATCH, TABLE_CONTEXT, TEXT_BATCH, TEXT_CONTEXT = 150, 32, 128, 8, 32


@dataclass(frozen=True)
class Table:
    """One grid: a data set at one n, one D."""

    name: str
    source: str
    n_samples: int | None
    d_model: int
    decorrelations: tuple[float, ...]


TUNING = (
    Table("friedman-400", "friedman", 400, 48, (0.0, 0.1, 1.0)),
    Table("stdlib-30k", "stdlib", 30_000, 48, (0.0, 0.1, 1.0)),
    Table("friedman-2000", "friedman", 2_000, 60, (0.0, 0.1)),
    Table("cancer", "sklearn:breast_cancer", None, 48, (0.0, 0.1, 1.0)),
)
SCORING = (
    Table("digits-300", "sklearn:digits", 300, 48, (0.0, 0.1, 1.0)),
    Table("topics-30k", "text:python-topics", 30_000, 48, (0.0, 0.1, 1.0)),
    Table("digits-1078", "sklearn:digits", None, 60, (0.0, 0.1)),
    Table("diabetes", "sklearn:diabetes", None, 48, (0.0, 0.1, 1.0)),
)


def configurations(table: Table) -> list[tuple[int, str, float]]:
    """(n_heads, weighting, decorrelation), no two the same thing."""
    found = {}
    for split in feasible_allocations(table.d_model):
        for weighting in WEIGHTINGS:
            for decorrelation in table.decorrelations:
                params = {"weighting": weighting, "decorrelation": decorrelation}
                same = canonical_params(params, split)
                found[split.n_heads, same["weighting"], same["decorrelation"]] = None
    return list(found)


def load(table: Table, folder: Path):
    """The table's data set."""
    if table.source == "friedman":
        path = folder / "friedman.csv"
        # 40 % is held out, for validation and test
        x, y = make_friedman1(n_samples=round(table.n_samples / 0.6), noise=1.0, random_state=1)
        header = ",".join([*(f"x{i}" for i in range(10)), "y"])
        np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="", fmt="%.6f")
        return load_dataset(str(path), target="y")
    if table.source == "stdlib":
        import argparse
        import email.message
        import tarfile

        path = folder / "stdlib.txt"
        parts = (argparse, email.message, tarfile)
        path.write_text("".join(Path(part.__file__).read_text(encoding="utf-8") for part in parts), encoding="utf-8")
        return load_dataset(str(path), n_samples=table.n_samples)
    return load_dataset(table.source, n_samples=table.n_samples)


def recipe_of(table: Table, dataset):
    """Half of the default's steps on half of its batch: a grid is a thousand runs."""
    recipe = default_recipe(dataset, d_model=table.d_model, n_steps=N_STEPS)
    if table.source in ("stdlib", "text:python-topics"):
        return replace(recipe, batch_size=TEXT_BATCH, context_length=TEXT_CONTEXT, n_layers=1, max_scored=2**13)
    return replace(recipe, batch_size=TABLE_BATCH, context_rows=TABLE_CONTEXT)


def main(names: list[str]) -> None:
    """Make the tables."""
    HERE.mkdir(exist_ok=True)
    tables = {table.name: table for table in (*TUNING, *SCORING)}
    for table in [tables[name] for name in names or tables]:
        path = HERE / f"{table.name}.csv"
        with tempfile.TemporaryDirectory() as folder:
            dataset = load(table, Path(folder))
            recipe = recipe_of(table, dataset)
            everything = configurations(table)
            _run(path, table, dataset, recipe, [(c, r) for r in (*DRAWN, *TRUTH) for c in everything])
            best = _best(path, (*DRAWN, *TRUTH), 3)
            _run(path, table, dataset, recipe, [(c, r) for r in MORE_TRUTH for c in best])
            best = [c for c in _best(path, (*TRUTH, *MORE_TRUTH), 5) if c in best]
            _run(path, table, dataset, recipe, [(c, r) for r in MOST_TRUTH for c in best])
        print(f"{table.name}: {len(everything)} configurations, {len(read(path))} runs", flush=True)


def _best(path: Path, replicates: tuple[int, ...], share: int) -> list[tuple[int, str, float]]:
    """One in ``share`` of the configurations, those with the lowest means over these replicates."""
    values = defaultdict(list)
    for row in read(path):
        if int(row["replicate"]) in replicates:
            key = int(row["n_heads"]), row["weighting"], float(row["decorrelation"])
            values[key].append(float(row["value"] or "inf"))
    return sorted(values, key=lambda key: fmean(values[key]))[: -(-len(values) // share)]


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table; none where it is yet to be made."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _run(path, table, dataset, recipe, wanted) -> None:
    done = {
        (int(row["n_heads"]), row["weighting"], float(row["decorrelation"]), int(row["replicate"]))
        for row in read(path)
    }
    waiting = [(c, r) for c, r in wanted if (*c, r) not in done]
    if not waiting:
        return
    names = [f"{what}_{step}" for step in recipe.rungs for what in ("value", "hdi", "correlation")]
    new = not path.exists()
    with (
        path.open("a", newline="", encoding="utf-8") as stream,
        WorkerPool(dataset, recipe, n_workers=2, n_threads=1) as pool,
    ):
        rows = csv.writer(stream, lineterminator="\n")
        if new:
            rows.writerow(["n_heads", "weighting", "decorrelation", "replicate", "value", "ms_per_step", *names])
        shown = defaultdict(list)
        left, next_job = len(waiting), 0
        while left:
            while pool.n_idle and next_job < len(waiting):
                (n_heads, weighting, decorrelation), replicate = waiting[next_job]
                split = HeadAllocation(n_heads, table.d_model // n_heads)
                pool.submit(next_job, TrialSpec(split, weighting, decorrelation, LEARNING_RATE, replicate))
                next_job += 1
            event = pool.next_event()
            if isinstance(event, RungReached):
                report = event.report
                shown[event.job_id] += [f"{report.value:.6g}", f"{report.hdi:.5g}", f"{report.output_correlation:.5g}"]
                pool.answer(event.job_id, stop=False)
            elif isinstance(event, Finished | Failed):
                configuration, replicate = waiting[event.job_id]
                told = shown.pop(event.job_id, [])
                if isinstance(event, Finished):
                    ended = [f"{event.outcome.value:.6g}", f"{1000 * event.outcome.seconds_per_step:.3g}"]
                else:
                    print(f"{table.name} {configuration} {replicate}: {event.reason}", flush=True)
                    ended = ["", ""]
                rows.writerow([*configuration, replicate, *ended, *told, *[""] * (len(names) - len(told))])
                stream.flush()
                left -= 1


if __name__ == "__main__":
    main(sys.argv[1:])
