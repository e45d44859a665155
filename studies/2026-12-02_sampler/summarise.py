"""Tables of the replays: mean regret with paired-bootstrap intervals, ratios, coverage; ``python summarise.py``.

The bootstrap draws replays (a table and a seed) of all methods together, so that a ratio's interval knows that both
methods met the same draws. Its unit is the replay: with this few tables nothing is said about tables to come.
"""

import sys
from collections import defaultdict

import numpy as np
from make_tables import SCORING, read
from replay import CHECKPOINTS, MOST_TRIALS, REPLAYS, answers

N_BOOTSTRAP = 4_000


def load(method: str, tables: list[str]) -> dict[tuple[str, int], dict[int, dict[str, str]]]:
    """By (table, seed), then by number of trials, the row."""
    found: dict = defaultdict(dict)
    for row in read(REPLAYS / f"{method}.csv"):
        if row["table"] in tables:
            found[row["table"], int(row["seed"])][int(row["n_trials"])] = row
    return found


def regrets(rows, pairs) -> np.ndarray:
    """(pairs, checkpoints)"""
    return np.array([[float(rows[pair][at]["regret"]) for at in CHECKPOINTS] for pair in pairs])


def weights(pairs, rng) -> np.ndarray:
    """(bootstrap, pairs): how often each replay is drawn, stratified by table, tables weighing the same."""
    names = [table for table, _ in pairs]
    found = np.zeros((N_BOOTSTRAP, len(pairs)))
    for name in set(names):
        at = np.flatnonzero([other == name for other in names])
        found[:, at] = rng.multinomial(len(at), np.full(len(at), 1 / len(at)), size=N_BOOTSTRAP) / len(at)
    return found / len(set(names))


def main() -> None:
    """Print everything."""
    tables = [table.name for table in SCORING]
    rng = np.random.default_rng(0)
    methods = [path.stem for path in sorted(REPLAYS.glob("*.csv")) if path.stem != "archopt-until-sure"]
    ours = load("archopt", tables)
    print(
        "| table | cells | noise sd | beyond what a seed shares | best head_dim | within 0.1 sd |\n"
        "|---|---|---|---|---|---|"
    )
    for name in tables:
        table = answers(name)
        best = min(table.regret, key=lambda cell: table.regret[cell])
        good = sum(regret <= 0.1 for regret in table.regret.values())
        print(
            f"| {name} | {len(table.regret)} | {table.noise_sd:.3g} | {table.paired_sd:.3g} | "
            f"{table.d_model // best[0]} | {good} |"
        )
    print(
        "\n| method | replays | "
        + " | ".join(f"{at} trials" for at in CHECKPOINTS)
        + " | archopt's over it at 20, 40, 80 |"
    )
    print("|---|---|" + "---|" * (len(CHECKPOINTS) + 1))
    for method in methods:
        rows = load(method, tables)
        pairs = sorted(set(rows) & set(ours))
        if not pairs:
            continue
        draws = weights(pairs, rng)
        theirs, mine = draws @ regrets(rows, pairs), draws @ regrets(ours, pairs)
        shown = [f"{theirs[:, k].mean():.2f} [{_interval(theirs[:, k])}]" for k in range(len(CHECKPOINTS))]
        ratios = [
            f"{np.median(mine[:, k] / theirs[:, k]):.2f} [{_interval(mine[:, k] / theirs[:, k])}]" for k in (1, 2, 3)
        ]
        print(f"| {method} | {len(pairs)} | {' | '.join(shown)} | {', '.join(ratios) if method != 'archopt' else ''} |")
    print("\n| table | " + " | ".join(f"regret at {at}: archopt / TPE / exhaustive" for at in CHECKPOINTS) + " |")
    print("|---|" + "---|" * len(CHECKPOINTS))
    known = {method: load(method, tables) for method in ("archopt", "tpe", "exhaustive") if method in methods}
    for name in tables:
        cells = []
        for at in CHECKPOINTS:
            means = [
                np.mean([float(by[at]["regret"]) for (table, _), by in rows.items() if table == name])
                for rows in known.values()
            ]
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        print(f"| {name} | {' | '.join(cells)} |")
    for method in [name for name in methods if name.startswith("archopt")]:
        print(
            f"\n| {method}: 90 % set | "
            + " | ".join(f"covers / median size, {at}" for at in CHECKPOINTS)
            + " | cells |"
        )
        print("|---|" + "---|" * (len(CHECKPOINTS) + 1))
        rows = load(method, tables)
        for name in tables:
            cells = []
            for at in CHECKPOINTS:
                these = [by[at] for (table, _), by in rows.items() if table == name]
                size = np.median([int(row["set_size"]) for row in these])
                cells.append(f"{np.mean([int(row['covered']) for row in these]):.2f} / {size:.0f}")
            print(f"| {name} | {' | '.join(cells)} | {len(answers(name).regret)} |")
    print("\n| until sure | trials: median (range) | stopped by itself | covers | median size | mean regret |")
    print("|---|---|---|---|---|---|")
    for name in tables:
        these = [row for row in read(REPLAYS / "archopt-until-sure.csv") if row["table"] == name]
        n_trials = [int(row["n_trials"]) for row in these]
        covers, size, regret = (np.array([float(r[key]) for r in these]) for key in ("covered", "set_size", "regret"))
        print(
            f"| {name} | {np.median(n_trials):.0f} ({min(n_trials)}-{max(n_trials)}) | "
            f"{np.mean([n < MOST_TRIALS for n in n_trials]):.0%} | {covers.mean():.2f} | {np.median(size):.0f} | "
            f"{regret.mean():.2f} |"
        )


def _interval(values: np.ndarray) -> str:
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{low:.2f}, {high:.2f}"


if __name__ == "__main__":
    sys.exit(main())
