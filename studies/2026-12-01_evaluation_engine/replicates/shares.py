"""What there is to gain in whole searches: from the trials of studies/2026-12-01_first_searches.

python shares.py: of each search, the share of the two workers' time that optimiser steps took, and how many trials were
of a configuration that was tried again.
"""

import json
from collections import Counter
from pathlib import Path

import pandas as pd

SEARCHES = Path(__file__).parents[2] / "2026-12-01_first_searches"
N_WORKERS = 2


def main():
    print(
        "| search | trials | configurations | trials of one tried again | step time / worker time |\n|" + " --- |" * 5
    )
    for name in ("digits", "diabetes", "houses", "topics"):
        trials = pd.read_csv(SEARCHES / name / "trials.csv")
        wall_seconds = json.loads((SEARCHES / name / "recommendation.json").read_text())["search"]["wall_seconds"]
        known = trials.dropna(subset=["curve", "seconds_per_step"])
        n_steps = known["curve"].map(lambda curve: json.loads(curve)[-1][0])
        share = float((n_steps * known["seconds_per_step"]).sum()) / (N_WORKERS * wall_seconds)
        counts = Counter(trials[["n_heads", "weighting", "decorrelation", "learning_rate"]].itertuples(index=False))
        n_again = sum(n for n in counts.values() if n > 1)
        print(f"| {name} | {len(trials)} | {len(counts)} | {n_again} | {share:.0%} |")


if __name__ == "__main__":
    main()
