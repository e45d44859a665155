"""Tables of the replays: settings on the tuning tables, then regret, ratios and losses on the scoring ones.

``python summarise.py > summary.md``. Intervals are 95 %, from a bootstrap that draws replays (a table and a seed) of
all methods together, stratified by table: with this few tables nothing is said about tables to come.
"""

import sys
from functools import lru_cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "2026-12-02_sampler"))
from make_tables import SCORING, TUNING, read  # noqa: E402
from replay import answers, exhaustive  # noqa: E402
from replay_pruners import ABLATIONS, BUDGETS, PEERS, REPLAYS, VARIANTS  # noqa: E402

N_BOOTSTRAP = 4_000
SAMPLERS = {"archopt": "archopt's sampler", "tpe": "TPE"}
FAMILIES = ("median", "percentile", "halving", "hyperband", "wilcoxon", "patient")
TUNED, SCORED = [table.name for table in TUNING], [table.name for table in SCORING]


@lru_cache
def load(sampler: str, pruner: str, scoring: bool) -> dict[tuple[str, int], dict[int, dict[str, str]]]:
    """By (table, seed), then by budget, the row; empty where it was not run."""
    tables = SCORED if scoring else TUNED
    found: dict = {}
    for row in read(REPLAYS / f"{sampler}_{pruner}.csv"):
        if row["table"] in tables:
            found.setdefault((row["table"], int(row["seed"])), {})[int(row["budget"])] = row
    return found


def column(rows, name: str) -> np.ndarray:
    """(replays, budgets), replays in order."""
    return np.array([[float(rows[pair][at][name]) for at in BUDGETS] for pair in sorted(rows)])


def drawn(rows) -> np.ndarray:
    """(bootstrap, replays): how often each replay is drawn, tables weighing the same; first each once."""
    names = np.array([table for table, _ in sorted(rows)])
    found = np.zeros((N_BOOTSTRAP + 1, len(names)))
    for name in sorted(set(names)):
        at = np.flatnonzero(names == name)
        share = np.full(len(at), 1 / len(at))
        found[1:, at] = np.random.default_rng(0).multinomial(len(at), share, size=N_BOOTSTRAP) / len(at)
        found[0, at] = share
    return found / len(set(names))


def interval(draws: np.ndarray, form: str = ".2f") -> str:
    """The first draw, which is no draw, with the interval of the others."""
    low, high = np.quantile(draws[1:], [0.025, 0.975])
    return f"{draws[0]:{form}} [{low:{form}}, {high:{form}}]"


def lost(rows) -> tuple[float, float]:
    """At the largest budget: the share of trials pruned, and of tried best configurations that lost all trials."""
    pruned, trials, gone, tried = (
        column(rows, name)[:, -1].sum() for name in ("n_pruned", "n_trials", "n_best_lost", "n_best_tried")
    )
    return pruned / trials, gone / tried


def settings(sampler: str) -> dict[str, str]:
    """The best setting of each family on the tuning tables: the lowest mean regret of the recommendation."""
    print(f"\n## Settings on the tuning tables, {SAMPLERS[sampler]}\n")
    heads = " | ".join(f"{at}" for at in BUDGETS)
    print(
        f"Mean regret of the recommendation in noise sd by budget.\n\n| pruner | {heads} | mean | pruned | best lost |"
    )
    print("|---|" + "---|" * (len(BUDGETS) + 3))
    means: dict[str, float] = {}
    for name in ["none", "oracle", *VARIANTS, *PEERS]:
        rows = load(sampler, name, False)
        if rows:
            regret = drawn(rows)[0] @ column(rows, "regret")
            means[name] = float(regret.mean())
            pruned, gone = lost(rows)
            shown = " | ".join(f"{value:.2f}" for value in regret)
            print(f"| {name} | {shown} | {means[name]:.3f} | {pruned:.0%} | {gone:.0%} |")
    chosen = {}
    for family in FAMILIES:
        names = [name for name in PEERS if name.startswith(family) and name in means]
        if names:
            chosen[family] = min(names, key=lambda name: means[name])
    print(f"\nChosen: {', '.join(chosen.values())}.")
    return chosen


def scored(sampler: str, chosen: dict[str, str]) -> None:
    """Everything on the scoring tables."""
    methods = {
        name: rows for name in ["none", "ours", *chosen.values(), "oracle"] if (rows := load(sampler, name, True))
    }
    draws = drawn(methods["ours"])
    for which, title in (
        ("regret", "`archopt.recommend`"),
        ("regret_kindest", "the lowest mean of finished trials"),
    ):
        print(f"\n## Regret on the scoring tables, {SAMPLERS[sampler]}, recommended by {title}\n")
        print("| pruner | replays | " + " | ".join(f"{at} trials' steps" for at in BUDGETS) + " | pruned | best lost |")
        print("|---|---|" + "---|" * (len(BUDGETS) + 2))
        found = {name: draws @ column(rows, which) for name, rows in methods.items()}
        for name, rows in methods.items():
            pruned, gone = lost(rows)
            cells = " | ".join(interval(found[name][:, k]) for k in range(len(BUDGETS)))
            print(f"| {name} | {len(rows)} | {cells} | {pruned:.0%} | {gone:.0%} |")
        best = min((name for name in chosen.values() if name in found), key=lambda name: found[name][0].mean())
        for other in ("none", best):
            ratios = " | ".join(interval(found["ours"][:, k] / found[other][:, k]) for k in range(len(BUDGETS)))
            print(f"| ours / {other} | | {ratios} | | |")
        saved = np.array(
            [[_budget(found["none"][b], found["ours"][b, k]) for k in range(4)] for b in range(len(draws))]
        )
        cells = " | ".join(interval(saved[:, k] / at, ".1f") for k, at in enumerate(BUDGETS))
        print(f"| steps of none for the regret of ours, over ours | | {cells} | | |")
    print(f"\n### By table, {SAMPLERS[sampler]}, `archopt.recommend`\n")
    print("| table | exhaustive | " + " | ".join(f"none / ours / {best} at {at}" for at in BUDGETS) + " |")
    print("|---|---|" + "---|" * len(BUDGETS))
    for table in SCORED:
        held = answers(table)
        reached = np.mean([held.regret[exhaustive(held, seed)[0][1]] for seed in range(200)])
        cells = []
        for k in range(len(BUDGETS)):
            means = [
                np.mean(
                    [row[k] for pair, row in zip(sorted(rows), column(rows, "regret"), strict=True) if pair[0] == table]
                )
                for rows in (methods["none"], methods["ours"], methods[best])
            ]
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        print(f"| {table} | {reached:.2f} | {' | '.join(cells)} |")


def ablation(sampler: str) -> None:
    """What diversity adds to the pruner: regret less that of the curve alone, paired."""
    rows = {name: found for name in ABLATIONS if name != "oracle" and (found := load(sampler, name, True))}
    if len(rows) < 2:
        return
    print(f"\n## What the pruner reads, {SAMPLERS[sampler]}: regret, and what it is above the curve's alone\n")
    print("| reads | " + " | ".join(f"{at} trials' steps" for at in BUDGETS) + " | pruned | best lost |")
    print("|---|" + "---|" * (len(BUDGETS) + 2))
    draws = drawn(rows["curve-only"])
    alone = draws @ column(rows["curve-only"], "regret")
    for name, found in rows.items():
        regret = draws @ column(found, "regret")
        cells = [
            f"{regret[0, k]:.2f}"
            + ("" if name == "curve-only" else f", {interval(regret[:, k] - alone[:, k], '+.2f')}")
            for k in range(len(BUDGETS))
        ]
        pruned, gone = lost(found)
        print(f"| {ABLATIONS[name]} | {' | '.join(cells)} | {pruned:.0%} | {gone:.0%} |")


def _budget(regrets: np.ndarray, reached: float) -> float:
    """The budget at which this curve of regrets comes to ``reached``, between budgets on a log scale."""
    if reached >= regrets[0]:
        return float(BUDGETS[0])
    for k in range(1, len(BUDGETS)):
        if regrets[k] <= reached:
            share = (regrets[k - 1] - reached) / max(regrets[k - 1] - regrets[k], 1e-12)
            return float(BUDGETS[k - 1] * (BUDGETS[k] / BUDGETS[k - 1]) ** share)
    return float(BUDGETS[-1])


def main() -> None:
    """Print everything."""
    for sampler in SAMPLERS:
        chosen = settings(sampler)
        if load(sampler, "ours", True):
            scored(sampler, chosen)
            ablation(sampler)


if __name__ == "__main__":
    main()
