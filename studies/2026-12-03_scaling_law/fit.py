"""Laws fitted to runs.csv, one data set at a time.

``python fit.py`` writes cells.csv, laws.csv, effort.csv, verdicts.md and laws.png.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from archopt import ScalingLaw, fit_scaling_law

HERE = Path(__file__).parent
FAMILY = {"friedman": "table", "digits": "table", "stdlib": "text"}
COLUMNS = ["n_samples", "d_model", "head_dim", "loss", "seed", "learning_rate"]


def fit(runs: pd.DataFrame, name: str) -> ScalingLaw:
    """The law of one data set."""
    rows = runs[runs["dataset"] == name].rename(columns={"value": "loss"})[COLUMNS]
    return fit_scaling_law(rows, best_over=["learning_rate"], family=FAMILY[name], n_bootstrap=200, source=name)


def effort(runs: pd.DataFrame) -> pd.DataFrame:
    """Steps and seconds by data set and n."""
    by = runs.groupby(["dataset", "n_samples"], sort=False)
    table = by.agg(
        runs=("value", "size"),
        median_best_step=("best_step", "median"),
        median_steps=("steps", "median"),
        at_the_limit=("steps", lambda steps: int((steps == 4_000).sum())),
        core_hours=("seconds", lambda seconds: round(seconds.sum() / 3_600, 3)),
    )
    return table.reset_index()


def plot(laws: dict[str, ScalingLaw]) -> None:
    """Best head_dim against n, one panel a data set, with the best law and the theorem's."""
    figure, axes = plt.subplots(1, len(laws), figsize=(13, 4), constrained_layout=True)
    for axis, (name, law) in zip(axes, laws.items(), strict=True):
        widths = sorted({cell.d_model for cell in law.cells})
        for shade, width in zip(("C0", "C1", "C2"), widths, strict=True):
            cells = [cell for cell in law.cells if cell.d_model == width]
            x = np.array([cell.n_samples for cell in cells]) * {0: 0.93, 1: 1.0, 2: 1.07}[widths.index(width)]
            y = np.array([cell.head_dim for cell in cells])
            low, high = (np.array([getattr(cell, end) for cell in cells]) for end in ("low", "high"))
            reach = np.array([y - low, high - y])
            axis.errorbar(x, y, yerr=reach, fmt="o", ms=4, color=shade, label=f"D = {width}", capsize=2)
            for at, cell in zip(x, cells, strict=True):
                if cell.censored:
                    arrow = {"below": "v", "above": "^", "both": "D"}[cell.censored]
                    axis.plot(at, cell.low if cell.censored == "below" else cell.high, arrow, color=shade, ms=6)
            sizes = np.geomspace(min(x) / 1.2, max(x) * 1.2, 30)
            axis.plot(sizes, [law.predict(n, width).head_dim for n in sizes], color=shade, lw=1)
        axis.set(xscale="log", yscale="log", title=name, xlabel="n (rows; bytes for stdlib)")
        axis.set_yticks([1, 2, 4, 8, 16, 32, 64, 96], ["1", "2", "4", "8", "16", "32", "64", "96"])
    axes[0].set_ylabel("best head_dim, 90 % interval; arrows: censored")
    axes[0].legend()
    figure.savefig(HERE / "laws.png", dpi=110)


def main() -> None:
    """All data sets."""
    runs = pd.read_csv(HERE / "runs.csv")
    effort(runs).to_csv(HERE / "effort.csv", index=False)
    laws = {name: fit(runs, name) for name in FAMILY}
    tables = [law.compare().assign(dataset=name) for name, law in laws.items()]
    pd.concat(tables).round(4).to_csv(HERE / "laws.csv", index=False)
    cells = pd.DataFrame([{"dataset": name, **cell.__dict__} for name, law in laws.items() for cell in law.cells])
    cells.drop(columns="group").round(3).to_csv(HERE / "cells.csv", index=False)
    lines = []
    for name, law in laws.items():
        lines += [f"## {name}", "", *(f"- {line}" for line in law.verdict().split("\n")), ""]
        growth = next(fit for fit in law.fits if fit.name == "power")
        value, low, high = growth.interval("exponent_n")
        power = f"- As a power of n: {value:.2f} [{low:.2f}, {high:.2f}]"
        refits = "" if growth.bootstrap is None else f"; refits to resampled runs {np.round(growth.bootstrap[1], 2)}"
        lines += [f"{power}{refits}.", ""]
    (HERE / "verdicts.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))
    plot(laws)


if __name__ == "__main__":
    main()
