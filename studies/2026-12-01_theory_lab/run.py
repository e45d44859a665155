"""Every split of D = 48 on four known functions and four sample sizes: exact errors, and weightings on drawn noise.

python run.py FOLDER [--replicates N] [--processes N]: writes FOLDER/diversity.csv, weighting.csv and log.txt
"""

import argparse
import csv
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
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
SEED = 0


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
        seed=SEED,
    )


def cell(function, n_samples, axes, replicate, n_heads):
    return {
        "function": function,
        "n_samples": n_samples,
        "axes": axes,
        "replicate": replicate,
        "n_heads": n_heads,
        "head_dim": D_MODEL // n_heads,
    }


def diversity_rows(function, n_samples, axes, replicate):
    """Exact terms at every H and diversity; for orthogonal heads with bandwidth 1/sqrt(d_k) too."""
    rows = []
    for n_heads in divisors(D_MODEL):
        best, literal = (setting_of(function, n_samples, n_heads, axes, rule) for rule in ("best", "literal"))
        design = draw_design(best, replicate)
        if n_heads == 1:
            levels = {"90 degrees": orthogonal_heads(design.axes, 1)}
        else:
            levels = diversity_heads(best, design, replicate)
        if axes == "aligned":  # the ends of the path are enough there
            levels = {level: heads for level, heads in levels.items() if level in ("0 degrees", "90 degrees")}
        for level, heads in levels.items():
            for setting in (best, literal) if level == "90 degrees" else (best,):
                found = measure(setting, design, heads)
                rows.append(
                    {
                        **cell(function, n_samples, axes, replicate, n_heads),
                        "heads": level,
                        "rule": setting.temperature,
                        "hdi": head_diversity_index(heads),
                        "z_score": diversity_z_score(heads),
                        "temperature": found.temperature,
                        "at_edge": found.at_edge,
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
        errors = weighting_errors(setting_of(function, n_samples, n_heads, axes), replicate)
        rows += [
            {
                **cell(function, n_samples, axes, replicate, n_heads),
                "scheme": scheme,
                "mse": errors.mse[scheme],
                "mse_sd": errors.mse_sd[scheme],
                "temperature": errors.temperature[scheme],
                "quality_spread": errors.quality_spread,
            }
            for scheme in errors.mse
        ]
    return rows


KINDS = {"diversity": diversity_rows, "weighting": weighting_rows}


def timed(kind, *task):
    start = time.monotonic()
    return kind, task, KINDS[kind](*task), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    # Replicates outermost: a run cut short is a smaller study, not a lopsided one.
    tasks = [
        (kind, function, n, axes, replicate)
        for replicate in range(options.replicates)
        for n in SAMPLES
        for kind in KINDS
        for axes in AXES
        for function in FUNCTIONS
    ]
    rows, start = {kind: [] for kind in KINDS}, time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool, open(options.folder / "log.txt", "w") as log:
        versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
        print(f"seed {SEED}, Python {platform.python_version()}, {versions}", file=log, flush=True)
        for done in as_completed([pool.submit(timed, *task) for task in tasks]):
            kind, task, found, seconds = done.result()
            rows[kind] += found
            print(f"{time.monotonic() - start:7.0f} s  {kind} {task}: {seconds:.1f} s", file=log, flush=True)
            if task[1] == SAMPLES[-1]:  # as good a moment as any to keep what there is
                for name, frame in rows.items():
                    write(options.folder / f"{name}.csv", frame)
    for name, frame in rows.items():
        write(options.folder / f"{name}.csv", frame)


def write(path, rows):
    """In the tasks' order, whatever order they finished in."""
    rows = sorted(rows, key=lambda row: (row["replicate"], row["function"], row["n_samples"], row["axes"]))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.8g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


if __name__ == "__main__":
    main()
