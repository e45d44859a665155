"""A step over a million training rows: peak memory of the whole process, and how it grows."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.bench,
    pytest.mark.torch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, which is Linux's"
    ),
]

# VmHWM is of this program alone; ru_maxrss would start from the size of the process that started it
SCRIPT = """
import sys
import torch
from archopt.allocation import HeadAllocation
from archopt.models.nadaraya_watson import NadarayaWatson, prediction_loss

n, n_outputs = int(sys.argv[1]), int(sys.argv[2])
generator = torch.Generator().manual_seed(0)
settings = dict(weighting="uniform", kernel="gaussian", attention_kernel="auto", generator=generator)
model = NadarayaWatson(10, n_outputs, HeadAllocation(8, 4), **settings)
context, queries = torch.randn(n, 10, generator=generator), torch.randn(256, 10, generator=generator)
targets = torch.randn(n, generator=generator) if n_outputs == 1 else torch.randint(n_outputs, (n,), generator=generator)
prediction_loss(model(queries, context, targets), targets[:256]).backward()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _peak(n_rows, n_outputs):
    command = [sys.executable, "-c", SCRIPT, str(n_rows), str(n_outputs)]
    return 1024 * int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("n_outputs", [1, 10])
def test_a_million_rows_take_less_than_four_gigabytes_and_memory_is_linear(n_outputs):
    sizes = (100_000, 400_000, 1_000_000)
    peaks = [_peak(n_rows, n_outputs) for n_rows in sizes]
    slopes = [(peaks[k + 1] - peaks[k]) / (sizes[k + 1] - sizes[k]) for k in range(2)]
    shown = ", ".join(f"{peak / 1e9:.2f}" for peak in peaks)
    print(f"\n{n_outputs} outputs: {shown} GB; {slopes[0]:.0f}, then {slopes[1]:.0f} bytes a row")
    assert peaks[-1] < 4e9
    assert slopes[1] <= 1.15 * slopes[0]  # a matrix of scores would add 8 x 256 x 4 bytes a row to both
    assert max(slopes) < 8 * 256 * 4
