"""Every split of D = 48 on four known functions and four sample sizes: exact errors, and weightings on drawn noise.

python run.py FOLDER [--replicates N] [--processes N]: writes FOLDER/diversity.csv, weighting.csv and log.txt
"""

import argparse
import csv
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes share the cores

from archopt.allocation import divisors
from archopt.laboratory.design import draw_design
from archopt.laboratory.diversity_effect import diversity_heads
from archopt.laboratory.heads import orthogonal_heads
from archopt.laboratory.measurement import measure
from archopt.laboratory.setting import Setting
from archopt.laboratory.weighting_effect import weighting_errors
from archopt.theory import diversity_z_score, head_diversity_index

FUNCTIONS = {"friedman": 5, "additive": 2, "radial": 3, "rough": 2}  # name: intrinsic dimension
SAMPLES = (100, 400, 1600, 6400)
AXES = ("random", "aligned")
D_MODEL = 48


def setting_of(function, n_samples, n_heads, axes, temperature="best"):
    return Setting(
        function=function,
        intrinsic_dim=FUNCTIONS[function],
        n_samples=n_samples,
        d_model=D_MODEL,
        n_heads=n_heads,
        axes=axes,
        temperature=temperature,
        n_queries=50,
    )


def diversity_rows(function, n_samples, axes, replicate):
    """Exact terms at every H and diversity; at the literal temperature 1 too, for orthogonal heads."""
    rows = []
    for n_heads in divisors(D_MODEL):
        setting = setting_of(function, n_samples, n_heads, axes)
        literal = setting_of(function, n_samples, n_heads, axes, temperature=1.0)
        design = draw_design(setting, replicate)
        levels = {"90 degrees": orthogonal_heads(design.axes, 1)} if n_heads == 1 else {}
        if n_heads > 1:
            levels = diversity_heads(setting, design, replicate)
        if axes == "aligned":  # the ends of the path are enough there
            levels = {level: heads for level, heads in levels.items() if level in ("0 degrees", "90 degrees")}
        for level, heads in levels.items():
            for how in (setting, literal) if level == "90 degrees" else (setting,):
                found = measure(how, design, heads)
                rows.append(
                    {
                        "function": function,
                        "n_samples": n_samples,
                        "axes": axes,
                        "replicate": replicate,
                        "n_heads": n_heads,
                        "head_dim": D_MODEL // n_heads,
                        "heads": level,
                        "rule": "best" if how is setting else "one",
                        "hdi": head_diversity_index(heads),
                        "z_score": diversity_z_score(heads),
                        "temperature": found.temperature,
                        "neighbours": found.neighbours,
                        "bias_squared": found.mse.bias_squared,
                        "variance": found.mse.variance,
                        "covariance": found.mse.covariance,
                        "mse": found.mse.mse,
                    }
                )
    return rows


def weighting_rows(function, n_samples, axes, replicate):
    """Integrated error by weighting scheme at every H of at least 2."""
    rows = []
    for n_heads in divisors(D_MODEL)[1:]:
        errors, spread = weighting_errors(setting_of(function, n_samples, n_heads, axes), replicate)
        rows += [
            {
                "function": function,
                "n_samples": n_samples,
                "axes": axes,
                "replicate": replicate,
                "n_heads": n_heads,
                "head_dim": D_MODEL // n_heads,
                "scheme": scheme,
                "mse": mse,
                "quality_spread": spread,
            }
            for scheme, mse in errors.items()
        ]
    return rows


def timed(kind, *task):
    start = time.monotonic()
    rows = {"diversity": diversity_rows, "weighting": weighting_rows}[kind](*task)
    return kind, task, rows, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    # Replicates outermost and small samples first: a run cut short is a smaller study, not a lopsided one.
    tasks = [
        (kind, function, n, axes, replicate)
        for replicate in range(options.replicates)
        for n in SAMPLES
        for kind in ("diversity", "weighting")
        for axes in AXES
        for function in FUNCTIONS
    ]
    writers, start = {}, time.monotonic()
    with ExitStack() as stack:
        log = stack.enter_context(open(options.folder / "log.txt", "w"))
        pool = stack.enter_context(ProcessPoolExecutor(options.processes))
        for done in as_completed([pool.submit(timed, *task) for task in tasks]):
            kind, task, rows, seconds = done.result()
            if kind not in writers:
                file = stack.enter_context(open(options.folder / f"{kind}.csv", "w", newline="", buffering=1))
                writers[kind] = csv.DictWriter(file, rows[0], lineterminator="\n")
                writers[kind].writeheader()
            writers[kind].writerows(rows)
            print(f"{time.monotonic() - start:7.0f} s  {kind} {task}: {seconds:.1f} s", file=log, flush=True)


if __name__ == "__main__":
    main()
