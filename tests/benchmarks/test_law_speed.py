"""What a fit of a large campaign costs."""

import time

import numpy as np
import pandas as pd
import pytest

from archopt import fit_scaling_law
from archopt.allocation import divisors

pytestmark = pytest.mark.bench


def test_ten_thousand_rows_with_a_thousand_refits() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for n in np.geomspace(300, 3e5, 25):
        for width in (24, 48, 60, 96, 120):
            best = 3.0 + 0.2 * np.log2(n / 1e4) + 0.3 * rng.standard_normal()
            for head_dim in divisors(width)[:8]:
                for seed in range(10):
                    loss = 0.01 * (np.log2(head_dim) - best) ** 2 + 0.02 * rng.standard_normal()
                    rows.append((n, width, head_dim, seed, loss))
    frame = pd.DataFrame(rows, columns=["n_samples", "d_model", "head_dim", "seed", "loss"])
    assert len(frame) == 10_000
    seconds = []
    for count in (0, 1_000):
        started = time.perf_counter()
        fit_scaling_law(frame, n_bootstrap=count, plan=False)
        seconds.append(time.perf_counter() - started)
    print(f"10,000 rows, 125 cells: {seconds[0]:.1f} s, with 1,000 refits of every law left {seconds[1]:.1f} s")
    assert seconds[1] < 60.0 * seconds[0]  # 1,000 refits cost far less than 1,000 fits
