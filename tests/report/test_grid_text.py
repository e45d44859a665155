"""The summary of a campaign over several sizes: a line a cell, and what is missing."""

from typing import Any

from rich.console import Console

from archopt.report.grid_text import grid_summary, grid_table


def _cell(n: int, n_trials: int, best: tuple[int, int] | None, tied: list[tuple[int, int]], compared: bool) -> Any:
    found = None
    if best is not None:
        entries = [
            {"n_heads": heads, "head_dim": width, "p_best": 0.6 - 0.1 * k, "in_confidence_set": True}
            for k, (heads, width) in enumerate([best, *tied])
        ]
        found = {
            "allocation": {"n_heads": best[0], "head_dim": best[1]},
            "allocations": entries,
            "p_best": 0.6,
            "comparison": [{}] if compared else [],
        }
    reason = None if found else "no trial finished"
    return {"n_samples": n, "d_model": 48, "n_trials": n_trials, "recommendation": found, "reason": reason}


GRID = {
    "cells": [
        _cell(300, 12, (4, 12), [(2, 24), (8, 6)], True),
        _cell(3_000, 8, (1, 48), [], False),
        _cell(9_000, 2, None, [], False),
        _cell(90_000, 0, None, [], False),
    ],
    "verdict": ["3 cells, n from 300 to 9,000, D = 48.", "No law was fitted."],
    "search": {
        "stopped_because": "the budget of 22 trials is spent",
        "n_trials": 22,
        "wall_seconds": 65.0,
        "left_out": ["n = 90,000, D = 48: the data have fewer rows"],
    },
}


def test_a_row_for_each_cell_that_was_searched() -> None:
    assert grid_table(GRID).rows == (
        ("300", "48", "12", "4x12", "60 %", "2x24 8x6"),
        ("3,000", "48", "8", "1x48", "60 %", "-"),
        ("9,000", "48", "2", "-", "-", "-"),
    )


def test_what_is_missing_is_said() -> None:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(grid_summary(GRID))
    said = " ".join(captured.get().split())
    for line in (
        "No answer at n = 9,000, D = 48: no trial finished.",
        "Left out n = 90,000, D = 48: the data have fewer rows.",
        "Compared with today's practices on the test split: 1 of 2 cells.",
        "3 cells, n from 300 to 9,000, D = 48. No law was fitted.",
        "Stopped: the budget of 22 trials is spent.",
        "Trials: 22 in 1 min 05 s.",
    ):
        assert line in said
