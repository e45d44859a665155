"""What the diversity of a large model costs: memory, and time beside one matrix product in the same process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

# the peak of a whole program, hence a fresh one; ru_maxrss would start from the size of the process that started it
SCRIPT = """
import json, time
import numpy as np
from archopt.theory import diversity_z_score

def seconds(call):
    spent = []
    for _ in range(3):
        begun = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begun)
    return sorted(spent)[1]

W = np.random.default_rng(0).normal(size=(64, 4096, 64)).astype(np.float32)
ours = seconds(lambda: diversity_z_score(W))
peak_bytes = 1024 * int(next(x.split()[1] for x in open("/proc/self/status") if x.startswith("VmHWM")))
A = np.random.default_rng(1).normal(size=(4096, 4096))
print(json.dumps({"ours": ours, "product": seconds(lambda: A @ A), "peak_bytes": peak_bytes}))
"""


def test_64_heads_of_64_take_a_few_matrix_products_and_under_two_gigabytes() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc, which is Linux's")
    found = json.loads(
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    )
    ratio = found["ours"] / found["product"]
    print(f"\nz-score {found['ours']:.2f} s, {ratio:.2f} products of 4,096^2, peak {found['peak_bytes'] / 1e9:.2f} GB")
    assert found["peak_bytes"] < 2e9
    assert ratio < 4.0  # one such product, QR of the heads, and copies; pair by pair it would be dozens
