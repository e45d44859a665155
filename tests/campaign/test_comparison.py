"""When the comparison says that something beat the recommendation, and what it does when its time is up."""

import time
from math import sqrt
from typing import Any

import pytest

from archopt.allocation import HeadAllocation
from archopt.campaign.comparison import TOO_LATE, caveats, compare, was_cut


def _row(label: str, gain: float | None, gain_se: float | None, n: int = 3) -> dict[str, Any]:
    return {
        "label": label,
        "allocation": {"n_heads": 4, "head_dim": 2},
        "gain": gain,
        "gain_se": gain_se,
        "n": n,
        "n_pairs": n,
        "reason": None,
    }


def test_a_gain_must_exceed_its_t_quantile_shared_between_the_rows() -> None:
    # Student's t with 2 degrees of freedom has the closed quantile (2p - 1) / sqrt(2 p (1 - p))
    def quantile(p: float) -> float:
        return (2 * p - 1) / sqrt(2 * p * (1 - p))

    first = _row("recommended", 0.0, 0.0)
    for n_rows in (1, 3):
        limit = quantile(1 - 0.05 / n_rows)
        others = [_row("other", -1.0, 0.5)] * (n_rows - 1)
        assert caveats([first, _row("8 heads", 0.99 * limit, 1.0), *others], []) == []
        (line,) = caveats([first, _row("8 heads", 1.01 * limit, 1.0), *others], [])
        assert line.startswith("4 x 2 (8 heads) did better than the recommendation by ")
        assert line.endswith(" over 3 seeds on one test split")


def test_one_pair_or_none_says_nothing_and_what_is_missing_is_named() -> None:
    rows = [_row("recommended", 0.0, 0.0), _row("8 heads", 9.0, None, 1), _row("head_dim 16", None, None, 0)]
    assert caveats(rows, []) == []
    (line,) = caveats(rows, ["head_dim 64 (nearest)", "closed form"])
    assert line.startswith("not compared")
    assert line.endswith(": head_dim 64 (nearest), closed form")


@pytest.mark.torch
def test_the_deadline_cancels_what_trains_and_says_so() -> None:
    pytest.importorskip("torch")
    from archopt.data import load_dataset
    from archopt.evaluation.recipe import default_recipe
    from archopt.evaluation.workers import WorkerPool

    dataset = load_dataset("sklearn:digits", n_samples=200)
    recipe = default_recipe(dataset, d_model=8, n_steps=5000)
    params = {"weighting": "uniform", "decorrelation": 0.0, "learning_rate": 0.01}
    rows = [
        {"label": f"{n_heads} heads", "allocation": HeadAllocation(n_heads, 8 // n_heads), "params": params}
        for n_heads in (2, 4)
    ]
    with WorkerPool(dataset, recipe, n_workers=1, n_threads=1) as pool:
        begun = time.monotonic()
        found = compare(pool, rows, deadline=begun + 1.0)
        assert time.monotonic() - begun < 10.0
        assert pool.n_idle == 1
    assert [(row["n"], row["test"], row["reason"]) for row in found] == [(0, None, TOO_LATE)] * 2
    assert was_cut(found)
