"""Tables and figures from run.py's raw results: python summarise.py FOLDER (with diversity.csv and weighting.csv).

Writes terms.csv, diversity_verdicts.csv, best_width.csv, weighting_gain.csv and five PNGs beside the raw files, prints
the tables. Only replicates that are complete count.
"""

import sys
from collections import Counter
from itertools import pairwise
from math import inf
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from archopt.laboratory.allocation_growth import WidthCurve, growth_with_samples
from archopt.laboratory.diversity_effect import MARGIN
from archopt.laboratory.setting import Setting
from archopt.laboratory.verdict import FAILS, HOLDS, UNDECIDED, deciding, judge, mean_interval, relative_change
from archopt.laboratory.vertex import best_head_dim

D_MODEL = 48
INTRINSIC_DIM = {"friedman": 5, "additive": 2, "radial": 3, "rough": 2}
CELL = ["axes", "function", "n_samples", "n_heads"]
PATH = ("0 degrees", "30 degrees", "45 degrees", "60 degrees", "75 degrees", "90 degrees")
TERMS = ("bias_squared", "variance", "covariance", "mse")
CONFIDENCE = 0.95


def complete(frame):
    """Rows of the replicates in which every cell has been measured."""
    cells = frame.groupby("replicate")[["axes", "function", "n_samples", "n_heads"]].apply(
        lambda g: len(g.drop_duplicates())
    )
    heads = frame["n_heads"].nunique()
    return frame[frame["replicate"].isin(cells[cells == 2 * len(INTRINSIC_DIM) * 4 * heads].index)]


def paired(frame, columns, value="mse"):
    """Replicates by level or scheme."""
    return frame.pivot(index="replicate", columns=columns, values=value)


def terms_table(diversity):
    """Mean and standard error of every term, by cell and level of diversity."""
    grouped = diversity.groupby([*CELL, "head_dim", "heads", "rule"])
    means = grouped[["hdi", "z_score", "temperature", "neighbours", *TERMS]].mean()
    errors = grouped[list(TERMS)].sem().add_suffix("_se")
    return pd.concat([means, errors], axis=1).assign(replicates=grouped.size()).reset_index()


def diversity_verdicts(diversity):
    """Theorems 4.2 and 5.1 in cells with pairs of heads; random axes have the whole path, aligned ones the ends."""
    rows = []
    best = diversity[(diversity["rule"] == "best") & (diversity["n_heads"] > 1)]
    for cell, frame in best.groupby(CELL):
        mse = paired(frame, "heads")
        path = [level for level in PATH if level in mse]
        steps = list(pairwise(path))
        rises = [
            relative_change(mse[low], mse[high], confidence=CONFIDENCE, comparisons=len(steps)) for low, high in steps
        ]
        ends = relative_change(mse["0 degrees"], mse["90 degrees"], confidence=CONFIDENCE)
        allowed = (-inf, MARGIN)
        row = {**dict(zip(CELL, cell, strict=True)), "4.2": judge(rises[deciding(rises, allowed)], allowed)}
        alone = [relative_change(mse[low], mse[high], confidence=CONFIDENCE) for low, high in steps]
        row |= {
            f"steps {word}": sum(judge(step, allowed) == word for step in alone) for word in (HOLDS, UNDECIDED, FAILS)
        }
        row |= {"change": ends.estimate, "change_se": ends.standard_error, "ends": judge(ends, (-inf, MARGIN))}
        if "independent" in mse:
            against = relative_change(mse["independent"], mse["90 degrees"], confidence=CONFIDENCE)
            row |= {"against_random": against.estimate, "against_random_se": against.standard_error}
            row["5.1"] = judge(against, (-inf, MARGIN))
        parts = paired(frame, "heads", "bias_squared"), mse - paired(frame, "heads", "bias_squared")
        for name, part in zip(("bias", "noise"), parts, strict=True):
            row[f"{name}_change"] = (part["90 degrees"] - part["0 degrees"]).mean() / mse["0 degrees"].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def best_width_table(diversity):
    """The best head width by function, n and rule for the temperature: random axes, orthogonal heads, equal weights."""
    rows = []
    chosen = diversity[(diversity["axes"] == "random") & (diversity["heads"] == "90 degrees")]
    for (function, rule, n), frame in chosen.groupby(["function", "rule", "n_samples"]):
        errors = paired(frame, "head_dim")
        vertex = best_head_dim(errors.to_numpy(), list(errors.columns))
        means = errors.mean()
        worse = {k: mean_interval((errors[k] - errors[means.idxmin()]) / means.min(), confidence=0.9) for k in errors}
        tied = [k for k, interval in worse.items() if k == means.idxmin() or interval.low <= 0.0]
        near = [k for k in errors if means[k] <= 1.1 * means.min()]
        low, high = np.quantile(vertex.resampled, [0.05, 0.95])
        rows.append(
            {
                "function": function,
                "rule": rule,
                "n_samples": n,
                "best_head_dim": vertex.head_dim,
                "low": 2.0**low,
                "high": 2.0**high,
                "edge_share": vertex.edge_share,
                "not_told_apart": " ".join(map(str, tied)),
                "within_10_percent": " ".join(map(str, near)),
                "mse": means.min(),
            }
        )
    return pd.DataFrame(rows)


def growth_table(diversity):
    """How the best head width grows with n, as `archopt theory` judges it."""
    rows = []
    chosen = diversity[(diversity["axes"] == "random") & (diversity["heads"] == "90 degrees")]
    for (rule, function), frame in chosen.groupby(["rule", "function"], sort=False):
        curves = []
        for n, part in frame.groupby("n_samples"):
            errors = paired(part, "head_dim")
            widths = tuple(errors.columns)
            vertex = best_head_dim(errors.to_numpy(), widths)
            curves.append(WidthCurve(n, D_MODEL, widths, errors.to_numpy(), np.ones(len(widths)), vertex))
        setting = Setting(function=function, intrinsic_dim=INTRINSIC_DIM[function], temperature=rule)
        for law in ("log", "power"):
            finding = growth_with_samples(setting, curves, law, confidence=CONFIDENCE)
            seen = finding.interval.estimate == finding.interval.estimate  # else NaN: the optimum is censored
            rows.append(
                {
                    "rule": rule,
                    "function": function,
                    "law": law,
                    **{f"n = {curve.n_samples:,}": f"{curve.vertex.head_dim:.2f}" for curve in curves},
                    "exponent": f"{finding.interval.estimate:.2f} ± {finding.interval.standard_error:.2f}"
                    if seen
                    else "-",
                    "interval": f"{finding.interval.low:.2f} to {finding.interval.high:.2f}" if seen else "censored",
                    "allowed": f"{finding.allowed[0]:.2f} to {finding.allowed[1]:.2f}",
                    "verdict": finding.verdict,
                }
            )
    return pd.DataFrame(rows)


def temperature_table(best, literal):
    """Least-squares exponents of the best tau, and the range of the effective neighbours over all cells."""
    rows = []
    for function, part in best.groupby("function"):
        tau = np.log(part["temperature"]) + 0.5 * np.log(part["head_dim"])
        x = np.column_stack([np.log(part["head_dim"]), np.log(part["n_samples"]), np.ones(len(part))])
        (width, size, _), *_ = np.linalg.lstsq(x, tau, rcond=None)
        fixed = literal[literal["function"] == function]
        rows.append(
            {
                "function": function,
                "exponent of d_k": width,
                "exponent of n": size,
                "neighbours, best": f"{part['neighbours'].min():.1f}-{part['neighbours'].max():.1f}",
                "neighbours as share of n, literal": (fixed["neighbours"] / fixed["n_samples"]).median(),
            }
        )
    return pd.DataFrame(rows)


def weighting_table(weighting):
    """Relative change of the error from uniform weights, by cell and scheme, with its verdict."""
    rows = []
    for cell, frame in weighting.groupby(CELL):
        mse = paired(frame, "scheme")
        for scheme in mse.columns.drop("uniform"):
            change = relative_change(mse["uniform"], mse[scheme], confidence=CONFIDENCE)
            rows.append(
                {
                    **dict(zip(CELL, cell, strict=True)),
                    "scheme": scheme,
                    "mse": mse[scheme].mean(),
                    "uniform_mse": mse["uniform"].mean(),
                    "change": change.estimate,
                    "standard_error": change.standard_error,
                    "verdict": judge(change, (-inf, -MARGIN)),
                    "quality_spread": frame["quality_spread"].mean(),
                }
            )
    return pd.DataFrame(rows)


def counted(verdicts):
    found = Counter(verdicts)
    return " / ".join(str(found[verdict]) for verdict in (HOLDS, UNDECIDED, FAILS))


def markdown(frame, decimals=3):
    cells = frame.map(lambda v: f"{v:.{decimals}g}" if isinstance(v, float) else str(v))
    lines = [" | ".join(map(str, row)) for row in (cells.columns, ["---"] * cells.shape[1], *cells.to_numpy())]
    return "\n".join(f"| {line} |" for line in lines)


def figure(functions, title, sharey):
    drawn, panels = plt.subplots(1, len(functions), figsize=(3.4 * len(functions), 3.6), sharey=sharey)
    drawn.suptitle(title, fontsize=10)
    for panel, function in zip(panels, functions, strict=True):
        panel.set_title(f"{function}, d = {INTRINSIC_DIM[function]}", fontsize=9)
        panel.grid(alpha=0.3)
    return drawn, dict(zip(functions, panels, strict=True))


def save(drawn, panels, path):
    for panel in panels.values():
        if panel.get_xscale() == "log":  # splits of 48, as the numbers they are
            panel.set_xticks([1, 2, 4, 8, 16, 48], labels=["1", "2", "4", "8", "16", "48"])
            panel.set_xticks([], minor=True)
    next(iter(panels.values())).legend(fontsize=7)
    drawn.tight_layout()
    drawn.savefig(path, dpi=130)
    plt.close(drawn)


def draw(terms, gains, folder):
    functions, n = list(INTRINSIC_DIM), 1600
    chosen = terms[(terms["axes"] == "random") & (terms["n_samples"] == n)]
    orthogonal = chosen[(chosen["heads"] == "90 degrees") & (chosen["rule"] == "best")]
    drawn, panels = figure(functions, f"Error and its terms against H, orthogonal heads, n = {n:,}", False)
    for function, panel in panels.items():
        part = orthogonal[orthogonal["function"] == function].sort_values("n_heads")
        for term in TERMS:
            seen = part[part[term] > 0.0]  # one head has no covariance
            panel.errorbar(seen["n_heads"], seen[term], seen[f"{term}_se"], marker=".", label=term)
        panel.set(xscale="log", yscale="log", xlabel="heads H (D = 48)", ylim=(1e-5, 2))
    save(drawn, panels, folder / "terms_against_heads.png")

    drawn, panels = figure(functions, f"Error relative to identical heads, against HDI, n = {n:,}", False)
    for function, panel in panels.items():
        for n_heads in (2, 4, 8, 16, 48):
            part = chosen[(chosen["function"] == function) & (chosen["n_heads"] == n_heads)]
            part = part[part["heads"].isin(PATH) & (part["rule"] == "best")].sort_values("hdi")
            start = part["mse"].iloc[0]
            panel.errorbar(part["hdi"], part["mse"] / start, part["mse_se"] / start, marker=".", label=f"H = {n_heads}")
        panel.axhline(1.0, color="grey", linewidth=0.8)
        panel.set(xlabel="HDI (subspace form)", yscale="log")
    save(drawn, panels, folder / "error_against_hdi.png")

    for rule, words in (("best", "at the best temperature"), ("literal", "with bandwidth 1/sqrt(d_k)")):
        drawn, panels = figure(functions, f"Error of every head width {words}, by n", False)
        lines = terms[(terms["axes"] == "random") & (terms["heads"] == "90 degrees") & (terms["rule"] == rule)]
        for function, panel in panels.items():
            for size, part in lines[lines["function"] == function].groupby("n_samples"):
                part = part.sort_values("head_dim")
                panel.errorbar(part["head_dim"], part["mse"], part["mse_se"], marker=".", label=f"n = {size:,}")
            panel.set(xscale="log", yscale="log", xlabel="head_dim d_k")
        save(drawn, panels, folder / f"error_against_head_dim_{rule}.png")

    drawn, panels = figure(functions, f"Error of weights, best head first, relative to uniform ones, n = {n:,}", True)
    for function, panel in panels.items():
        part = gains[(gains["function"] == function) & (gains["n_samples"] == n)]
        for (axes, scheme), line in part.groupby(["axes", "scheme"]):
            style = "-" if axes == "random" else ":"
            colour = dict(zip(("fibonacci", "geometric", "minimum-variance"), ("C0", "C1", "C2"), strict=True))[scheme]
            panel.errorbar(line["n_heads"], line["change"], line["standard_error"], linestyle=style, color=colour,
                           marker=".", label=f"{scheme}, {axes}")  # fmt: skip
        panel.axhline(0.0, color="grey", linewidth=0.8)
        panel.set(xscale="log", xlabel="heads H (D = 48)")
    save(drawn, panels, folder / "weights_against_uniform.png")


def main(folder):
    diversity, weighting = (complete(pd.read_csv(folder / f"{kind}.csv")) for kind in ("diversity", "weighting"))
    terms, verdicts = terms_table(diversity), diversity_verdicts(diversity)
    widths = best_width_table(diversity)
    gains = weighting_table(weighting)
    for name, frame in (
        ("terms", terms),
        ("diversity_verdicts", verdicts),
        ("best_width", widths),
        ("weighting_gain", gains),
    ):
        frame.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    draw(terms, gains, folder)
    print(
        f"replicates: {diversity['replicate'].nunique()} (diversity), {weighting['replicate'].nunique()} (weighting)\n"
    )

    print("4.2 and 5.1: cells in which it holds / cannot be told / does not hold\n")
    groups = verdicts.groupby(["axes", "function"])
    print(markdown(groups.apply(lambda g: pd.Series({
        "4.2 at every step": counted(g["4.2"]) if g.name[0] == "random" else "-",
        "its steps, one by one": " / ".join(str(g[f"steps {w}"].sum()) for w in (HOLDS, UNDECIDED, FAILS)),
        "identical to orthogonal": counted(g["ends"]),
        "5.1 against independent": counted(g["5.1"].dropna()) if g.name[0] == "random" else "-",
        "change, median": f"{g['change'].median():+.1%}",
        "of which bias^2": f"{g['bias_change'].median():+.1%}",
        "and noise": f"{g['noise_change'].median():+.1%}",
        "against independent, median": f"{g['against_random'].median():+.1%}" if g.name[0] == "random" else "-",
    }), include_groups=False).reset_index()))  # fmt: skip
    print("\nBest head_dim against n\n")
    print(markdown(widths.drop(columns=["mse"])))
    print("\n6.1: growth of the best head_dim with n\n")
    print(markdown(growth_table(diversity)))
    print("\n7.1: cells in which a scheme beats uniform weights / cannot be told / does worse, and the median change\n")
    groups = gains.groupby(["axes", "scheme"])
    print(markdown(groups.apply(lambda g: pd.Series({
        "cells": counted(g["verdict"]), "median change": f"{g['change'].median():+.1%}",
        "head quality spread": float(g["quality_spread"].median()),
    }), include_groups=False).reset_index()))  # fmt: skip
    print("\n7.1 by the number of heads: median change, and in how many of 16 cells a scheme beats uniform weights\n")
    cells = gains.groupby(["axes", "scheme", "n_heads"]).apply(
        lambda g: f"{g['change'].median():+.0%} ({(g['verdict'] == HOLDS).sum()})", include_groups=False
    )
    spread = gains.groupby(["axes", "n_heads"])["quality_spread"].median().map("{:.1f}".format).unstack()
    spread.index = pd.MultiIndex.from_product([spread.index, ["worst / best head"]], names=["axes", "scheme"])
    print(markdown(pd.concat([cells.unstack(), spread]).sort_index().reset_index()))
    print()
    for axes, part in gains.groupby("axes"):
        for scheme, line in part.groupby("scheme"):
            tau = line[["quality_spread", "change"]].corr("kendall").iloc[0, 1]
            print(f"Kendall tau, heads' quality spread and the change, {axes}, {scheme}: {tau:+.2f}, {len(line)} cells")
    orthogonal = terms[(terms["axes"] == "random") & (terms["heads"] == "90 degrees")]
    best, literal = (orthogonal[orthogonal["rule"] == rule] for rule in ("best", "literal"))
    share = best[best["n_heads"] > 1]
    share = share.assign(rho=share["covariance"] / share["variance"] / (share["n_heads"] - 1))
    print("\nMean correlation of orthogonal heads' noise errors\n")
    print(markdown(share.pivot_table(index="function", columns="n_heads", values="rho").round(2).reset_index(), 2))
    print(
        "\nBest tau = sqrt(d_k) T: exponents of d_k and n; effective neighbours there and with the literal bandwidth\n"
    )
    print(markdown(temperature_table(best, literal)))

    least = orthogonal.groupby(["function", "n_samples", "rule"])["mse"].min().unstack()
    print("\nError of the best split with the literal bandwidth, over that at the best temperature\n")
    print(markdown((least["literal"] / least["best"]).unstack().reset_index()))
    ends = terms[(terms["heads"] == "90 degrees") & (terms["rule"] == "best") & (terms["n_heads"] > 1)]
    both = ends.pivot_table(index=["function", "n_heads", "n_samples"], columns="axes", values="mse")
    print("\nTwo sets of orthogonal heads, HDI 1 each: error with aligned axes over random ones, median over n\n")
    print(
        markdown(
            (both["aligned"] / both["random"]).groupby(["function", "n_heads"]).median().unstack().reset_index(), 2
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
