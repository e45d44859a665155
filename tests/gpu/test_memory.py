"""Peak CUDA memory of the Nadaraya-Watson model: linear in the training rows, and no table of scores."""

import gc

import pytest

torch = pytest.importorskip("torch")

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.models.nadaraya_watson import NadarayaWatson, prediction_loss  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: kernels on a GPU are not tested here"),
]

DEVICE = "cuda"
N_ROWS = (100_000, 200_000, 400_000, 1_000_000)
N_QUERIES, N_HEADS, HEAD_DIM, N_FEATURES = 256, 8, 4, 10
BYTES_PER_SCORE_TABLE_ROW = 4 * N_QUERIES * N_HEADS  # float32; the explicit kernel keeps several such tables

# A fixed number of bytes a row leaves slopes apart only by what kernels choose by size: blocks, splits, workspaces.
MAX_SLOPE_RATIO = 1.25


def _peak_bytes(n_rows, kernel):
    """Peak of one forward and backward pass, inputs and gradients included, over what was allocated before it."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    generator = torch.Generator().manual_seed(0)
    model = NadarayaWatson(
        N_FEATURES,
        1,
        HeadAllocation(N_HEADS, HEAD_DIM),
        weighting="uniform",
        kernel="gaussian",
        attention_kernel=kernel,
        generator=generator,
    ).to(DEVICE)
    rows = torch.randn(n_rows, N_FEATURES, generator=generator).to(DEVICE)
    queries = torch.randn(N_QUERIES, N_FEATURES, generator=generator).to(DEVICE)
    loss = prediction_loss(model(queries, rows, rows[:, 0]), queries[:, 0])
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("kernel", ["xformers", "sdpa", "auto"])
def test_memory_is_linear_in_rows_and_below_one_table_of_scores(skip_where_refused, kernel, record_property):
    skip_where_refused(kernel)
    _peak_bytes(1_000, kernel)  # takes what cuBLAS keeps for good out of the differences
    peaks = [_peak_bytes(n_rows, kernel) for n_rows in N_ROWS]
    for n_rows, peak in zip(N_ROWS, peaks, strict=True):
        record_property(f"peak_bytes_{n_rows}", peak)
    slopes = [
        (high - low) / (more - fewer)
        for low, high, fewer, more in zip(peaks, peaks[1:], N_ROWS, N_ROWS[1:], strict=False)
    ]
    print(f"\n{kernel}: {peaks[-1] / 1e9:.2f} GB at {N_ROWS[-1]:,} rows; bytes a row: {[round(s) for s in slopes]}")
    assert max(slopes) <= MAX_SLOPE_RATIO * min(slopes)
    assert peaks[-1] < BYTES_PER_SCORE_TABLE_ROW * N_ROWS[-1]
