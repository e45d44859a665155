"""Tables of the README from rates.csv.

python summarise.py rates.csv: medians over repetitions of ratios within a repetition; in brackets the quartiles.
"""

import sys

import pandas as pd

KEY = ["malloc", "processes", "threads", "how", "n_replicates"]
HAND = [("hand", r) for r in (2, 4, 8)]


def arrangement(malloc, processes, threads, how="sequence", n_replicates=1):
    return malloc, processes, threads, how, n_replicates


PAIR = {malloc: arrangement(malloc, 2, 1) for malloc in ("default", "kept")}
ONE = arrangement("kept", 1, 1)
# title: {heading: (above, below)}
TABLES = {
    "Two processes of one thread, each R replicates together, against two in sequence": {
        **{f"{how} R = {r}": (arrangement("kept", 2, 1, how, r), PAIR["kept"]) for how, r in [*HAND, ("vmap", 8)]},
        **{f"default, R = {r}": (arrangement("default", 2, 1, "hand", r), PAIR["default"]) for _, r in HAND},
    },
    "One process of two threads, R replicates together, against two processes in sequence": {
        f"{how} R = {r}": (arrangement("kept", 1, 2, how, r), PAIR["kept"]) for how, r in [*HAND, ("vmap", 8)]
    },
    "One process of one thread, R replicates together, against the same in sequence": {
        f"{how} R = {r}": (arrangement("kept", 1, 1, how, r), ONE)
        for how, r in [("hand", 1), *HAND, ("vmap", 2), ("vmap", 4), ("vmap", 8)]
    },
    "In sequence": {
        "two processes / one": (PAIR["kept"], ONE),
        "two threads / one": (arrangement("kept", 1, 2), ONE),
        "two processes: memory kept / default": (PAIR["kept"], PAIR["default"]),
    },
}


def main():
    rows = pd.read_csv(sys.argv[1])
    shapes = sorted(
        rows["shape"].unique(), key=lambda shape: (shape.split("-")[0], float(shape.split("-")[1].split("+")[0]))
    )
    rates = rows.set_index(["shape", "repetition", *KEY])["rate"].unstack(KEY)
    busy = (rows["other_cores"] > 0.2).mean()
    print(f"{len(rows)} measurements; other processes took more than 0.2 cores in {busy:.1%}")
    print("\nReplicate-steps per second of the machine, two processes in sequence, memory kept; repetitions\n")
    for shape in shapes:
        print(f"| {shape} | {spread(rates.loc[shape][PAIR['kept']], '.0f')} | {len(rates.loc[shape])} |")
    for title, columns in TABLES.items():
        print(f"\n{title}\n\n| shape | {' | '.join(columns)} |\n|{' --- |' * (1 + len(columns))}")
        for shape in shapes:
            table = rates.loc[shape]
            cells = (spread(table[above] / table[below], ".2f") for above, below in columns.values())
            print(f"| {shape} | {' | '.join(cells)} |")


def spread(values, digits):
    low, middle, high = values.quantile([0.25, 0.5, 0.75])
    return f"{middle:{digits}} ({low:{digits}}-{high:{digits}})"


if __name__ == "__main__":
    main()
