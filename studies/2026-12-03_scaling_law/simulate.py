"""Laws fitted to runs whose law is known: how often intervals hold the truth, and whether a winner is declared wrongly.

``python simulate.py [RUNS]`` writes simulated.csv, one row a simulated campaign. The losses are made here, not by
archopt's own simulator, and are no parabolas: bowls that flatten out, with a level of each seed, noise that shrinks
with n, and optima that scatter about the law.
"""

import csv
import sys
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from archopt import fit_scaling_law
from archopt.allocation import divisors
from archopt.laws.families import Basis, curve

HERE = Path(__file__).parent
SAMPLES, WIDTHS, SEEDS = (300, 1_000, 3_000, 10_000, 30_000), (24, 48, 96, 120), 3
INTRINSIC_DIM, SCATTER, BOWL = 4.0, 0.3, 2.5  # d; sd of optima about the law, and width of the bowl, octaves
DEPTH, NOISE = 0.2, 0.02  # of the bowl; sd of one run at n = 300, falling as n^-1/4
AT = Basis(3_000.0, 60.0, INTRINSIC_DIM, 2.0)
TRUTHS = {
    "constant": (3.4,),
    "log": (3.4, 1.5),
    "log_theory": (3.4,),
    "power": (3.4, 0.25),
    "power_width": (3.4, 0.1, 0.4),
    "width": (3.4, 0.5),
    "bound_independent": (1.0,),
    "bound_correlated": (2.0,),
}
PREDICTED = (300_000, 240)


def campaign(name: str, rng: np.random.Generator) -> pd.DataFrame:
    """The runs of one campaign whose optima follow a law."""
    rows = []
    for n in SAMPLES:
        for width in WIDTHS:
            asked = curve(name, AT, np.array([n]), np.array([width])).values(np.array([TRUTHS[name]]))[0, 0]
            best = asked + SCATTER * rng.standard_normal()
            depth, noise = DEPTH * rng.lognormal(0.0, 0.3), NOISE * (n / 300) ** -0.25
            levels = 1.0 + noise * rng.standard_normal(SEEDS)
            for head_dim in divisors(width):
                bowl = depth * (1.0 - np.exp(-0.5 * ((np.log2(head_dim) - best) / BOWL) ** 2))
                for seed in range(SEEDS):
                    rows.append((n, width, head_dim, seed, bowl + levels[seed] + noise * rng.standard_normal()))
    return pd.DataFrame(rows, columns=["n_samples", "d_model", "head_dim", "seed", "loss"])


def one(job: tuple[str, int]) -> dict[str, object]:
    """Fit one campaign."""
    name, number = job
    rng = np.random.default_rng([list(TRUTHS).index(name), number])
    law = fit_scaling_law(campaign(name, rng), intrinsic_dim=INTRINSIC_DIM, plan=False)
    fit = next((fit for fit in law.fits if fit.name == name), None)
    row: dict[str, object] = {"truth": name, "run": number, "winner": law.winner or "", "best": law.fits[0].name}
    # parameters are relative to the cells' own mean sizes: the truth is carried there
    n, width = np.array([law.basis.n_samples]), np.array([law.basis.d_model])
    at_basis = curve(name, AT, n, width).values(np.array([TRUTHS[name]]))[0, 0]
    truth = TRUTHS[name] if name.startswith("bound") else (at_basis, *TRUTHS[name][1:])
    for parameter, value, low, high in zip(fit.parameters, truth, fit.low, fit.high, strict=True):
        row |= {f"covers_{parameter}": int(low <= value <= high), f"width_{parameter}": round(high - low, 4)}
    there = curve(name, AT, *(np.array([float(size)]) for size in PREDICTED)).values(np.array([TRUTHS[name]]))[0, 0]
    best = 2.0 ** np.clip(there + SCATTER * rng.standard_normal(), 0.0, np.log2(PREDICTED[1]))
    predicted = law.predict(*PREDICTED)
    row |= {
        "rejected": int(fit.rejected),
        "not_rejected": " ".join(each.name for each in law.fits if not each.rejected),
        "prediction_covers": int(predicted.interval[0] <= best <= predicted.interval[1]),
        "prediction_octaves": round(float(np.log2(predicted.interval[1] / predicted.interval[0])), 3),
    }
    return row


def main(runs: int) -> None:
    """All laws."""
    jobs = [(name, number) for name in TRUTHS for number in range(runs)]
    with get_context("spawn").Pool(2) as pool:
        rows = pool.map(one, jobs, chunksize=5)
    names = list(dict.fromkeys(key for row in rows for key in row))
    with (HERE / "simulated.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    table = pd.DataFrame(rows)
    covers = [name for name in table.columns if name.startswith("covers_")]
    summary = table.groupby("truth", sort=False)[[*covers, "rejected", "prediction_covers"]].mean().round(3)
    declared = table["winner"] != ""
    right = table["winner"] == table["truth"]
    summary["winner_right"] = right.groupby(table["truth"]).mean()
    summary["winner_wrong"] = (declared & ~right).groupby(table["truth"]).mean()
    summary.to_csv(HERE / "simulated_summary.csv")
    print(summary.to_string())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
