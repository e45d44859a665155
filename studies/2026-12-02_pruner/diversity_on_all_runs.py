"""What diversity tells of all recorded runs: ``python diversity_on_all_runs.py`` writes worth.csv.

The same measure as in a study's report, `archopt.pruners.worth_of_diversity`, on each table's drawn runs: on all of
them, and on 60 and 200 (means and verdicts of 20 draws), which is what a search has.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "2026-12-02_sampler"))
from make_tables import SCORING, TUNING  # noqa: E402
from replay import answers  # noqa: E402
from replay_pruners import runs_of  # noqa: E402

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.pruners import worth_of_diversity  # noqa: E402
from archopt.search_space import TrialRecord  # noqa: E402
from archopt.search_space.records import DiversityReport  # noqa: E402

N_DRAWS = 20


def records_of(name: str) -> list[TrialRecord]:
    """Every drawn run that finished."""
    width = answers(name).d_model
    return [
        TrialRecord(
            12 * index + replicate,
            "complete",
            {"cell": str(cell)},
            HeadAllocation(cell[0], width // cell[0]),
            run.value,
            tuple((step, value) for step, value, _, _ in run.rungs),
            tuple(DiversityReport(step, hdi, correlation) for step, _, hdi, correlation in run.rungs),
            replicate,
        )
        for index, (cell, runs) in enumerate(runs_of(name).items())
        for replicate, run in enumerate(runs)
        if np.isfinite(run.value)
    ]


def main() -> None:
    """Measure and write."""
    rng = np.random.default_rng(0)
    with (HERE / "worth.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        names = ("table", "n", "draws", "gain", "low", "high", "tau", "tau_error", "yes", "no", "cannot tell")
        writer.writerow(names)
        for table in (*TUNING, *SCORING):
            records = records_of(table.name)
            for n, draws in ((60, N_DRAWS), (200, N_DRAWS), (len(records), 1)):
                found = [
                    worth_of_diversity([records[i] for i in rng.permutation(len(records))[:n]]) for _ in range(draws)
                ]
                means = [
                    np.mean([getattr(worth, key) for worth in found])
                    for key in ("gain", "low", "high", "tau", "tau_error")
                ]
                helped = Counter(worth.helped for worth in found)
                verdicts = [helped[verdict] for verdict in ("yes", "no", "cannot tell")]
                writer.writerow([table.name, n, draws, *(f"{mean:.4f}" for mean in means), *verdicts])


if __name__ == "__main__":
    main()
