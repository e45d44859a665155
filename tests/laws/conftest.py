"""Tables of runs with a known law, for the tests of this folder."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from archopt.allocation import divisors

SAMPLES = (300, 1_000, 3_000, 10_000)
WIDTHS = (24, 48, 96, 120)


def _campaign(
    log2_best,
    *,
    samples=SAMPLES,
    widths=WIDTHS,
    seeds=2,
    curvature=0.05,
    noise=0.01,
    scatter=0.1,
    seed=0,
) -> pd.DataFrame:
    """One row a run: bowls about ``log2_best(n, D)``, a level of each seed, noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in samples:
        for width in widths:
            best = log2_best(n, width) + scatter * rng.standard_normal()
            levels = 1.0 + 0.5 * rng.standard_normal(seeds)
            for head_dim in divisors(width):
                for replicate in range(seeds):
                    bowl = curvature * (np.log2(head_dim) - best) ** 2
                    loss = levels[replicate] + bowl + noise * rng.standard_normal()
                    rows.append((n, width, head_dim, replicate, loss))
    return pd.DataFrame(rows, columns=["n_samples", "d_model", "head_dim", "seed", "loss"])


@pytest.fixture(scope="session")
def campaign() -> Callable[..., pd.DataFrame]:
    """``campaign(log2_best, **options)``: one row a run, optima about ``log2_best(n, D)``."""
    return _campaign
