"""Time attention kernels, forward + backward: xformers against each backend of SDPA and the explicit kernel.

    python kernels.py FOLDER [--device cuda|cpu] [--quick] [--seconds 200]

Writes FOLDER/table.csv after every cell and FOLDER/table.md at the end. The kernels of one cell take turns, so that a
card that warms up or is shared slows all of them. One that cannot run is a row too, with its reason.
"""

import argparse
import gc
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from table import Machine, Row, write_csv, write_markdown
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from archopt.errors import OptionError
from archopt.models.attention import attention

KERNELS = {
    "xformers": None,
    "sdpa flash": SDPBackend.FLASH_ATTENTION,
    "sdpa efficient": SDPBackend.EFFICIENT_ATTENTION,
    "sdpa cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa math": SDPBackend.MATH,
    "explicit": None,
}
WARM_UPS = 3
SECONDS_PER_KERNEL = 0.4  # of a cell, after the warm-ups
MIN_REPEATS, MAX_REPEATS = 5, 30
_ALIGNED = 8  # fused kernels of half precision want widths in multiples of this, those of single precision of 4


@dataclass(frozen=True)
class Cell:
    """One shape. ``width`` and ``value_width`` are what attention gets, ``head_dim`` what the allocation says."""

    use: str
    dtype: torch.dtype
    batch: int
    n_heads: int
    head_dim: int
    n_queries: int
    n_keys: int
    width: int
    value_width: int
    causal: bool


def cells(*, quick: bool) -> list[Cell]:
    """Causal self-attention and Nadaraya-Watson cross-attention of one total width, for every split of it.

    D = 768 is the smallest width that 96, 128, 192 and 256 all divide, and GPT-2's. With D fixed the products cost the
    same at every head_dim; what differs is the exponentials, H of them for each pair.
    """
    d_model, head_dims = (32, (8, 16)) if quick else (768, (8, 16, 32, 64, 96, 128, 192, 256))
    length, batch, n_queries, key_counts = (48, 2, 16, (256,)) if quick else (1024, 8, 256, (16_384, 262_144))
    found = []
    for head_dim in head_dims:
        n_heads = d_model // head_dim
        for dtype in (torch.bfloat16, torch.float32):
            found.append(
                Cell("causal", dtype, batch, n_heads, head_dim, length, length, head_dim, head_dim, causal=True)
            )
        for n_keys in key_counts:  # the Gaussian kernel: one more column, scalar values, never in half precision
            found.append(Cell("nw", torch.float32, 1, n_heads, head_dim, n_queries, n_keys, head_dim + 1, 1, False))
    return sorted(found, key=lambda cell: (cell.use, cell.n_keys, str(cell.dtype)))


def measure(cell: Cell, device: str) -> list[Row]:
    """One row a kernel: median and median absolute deviation of its milliseconds, its memory and its error."""
    inputs = _inputs(cell, device)
    rows, steps = [], {}
    for kernel in KERNELS:
        row = _blank_row(cell, kernel)
        try:
            error = worst_error(cell, kernel, device)
            step = _step(cell, kernel, inputs)
            peak_bytes = _peak_bytes(step, device)
        except (OptionError, NotImplementedError, RuntimeError, MemoryError) as failure:
            status = "out of memory" if isinstance(failure, torch.OutOfMemoryError | MemoryError) else "cannot run"
            rows.append(replace(row, status=status, reason=_one_line(failure)))
        else:
            steps[kernel] = step
            rows.append(replace(row, worst_error=error, peak_bytes=peak_bytes))
        _free(device)
    taken = _take_turns(steps, device)
    return [_with_times(row, taken[row.kernel]) if row.kernel in taken else row for row in rows]


def run(cell: Cell, kernel: str, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention as archopt calls it, with SDPA held to one backend."""
    backend = KERNELS[kernel]
    if backend is None:
        return attention(query, key, value, scale=_scale(cell), causal=cell.causal, kernel=kernel)
    width = -(-max(cell.width, cell.value_width) // _ALIGNED) * _ALIGNED
    padded = [F.pad(x, (0, width - x.shape[-1])) for x in (query, key, value)]  # zeros change no result
    with sdpa_kernel(backend):
        output = attention(*padded, scale=_scale(cell), causal=cell.causal, kernel="sdpa")
    return output[..., : cell.value_width]


def worst_error(cell: Cell, kernel: str, device: str) -> float:
    """Largest error of output and gradients against float64, over the largest entry expected; one batch and head."""
    small = _inputs(replace(cell, batch=1, n_heads=1), device)
    exact = [x.detach().double().requires_grad_() for x in small]
    reference = attention(*exact, scale=_scale(cell), causal=cell.causal, kernel="reference")
    upstream = torch.linspace(-1, 1, reference.numel(), device=device).view(reference.shape).to(cell.dtype)
    expected = [reference, *torch.autograd.grad(reference, exact, upstream.double())]
    output = explained(lambda: run(cell, kernel, *small))
    got = [output, *torch.autograd.grad(output, small, upstream)]
    errors = [
        float((ours.detach().double() - theirs.detach()).abs().max() / theirs.detach().abs().max())
        for ours, theirs in zip(got, expected, strict=True)
    ]
    return max(errors, key=lambda error: math.inf if math.isnan(error) else error)


def explained(call: Callable[[], Tensor]) -> Tensor:
    """The call's result; where SDPA refuses, its reasons, which torch gives as warnings, become the error's text."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            return call()
        except RuntimeError as error:
            reasons = [str(warning.message).partition(" (Triggered internally")[0] for warning in told]
            kept = [text for text in reasons if "not used because" not in text and "runtime disabled" not in text]
            if not kept or isinstance(error, torch.OutOfMemoryError | NotImplementedError):
                raise
            raise RuntimeError("; ".join(kept)) from error


def _inputs(cell: Cell, device: str) -> list[Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    shapes = ((cell.n_queries, cell.width), (cell.n_keys, cell.width), (cell.n_keys, cell.value_width))
    return [
        torch.randn(cell.batch, cell.n_heads, *shape, generator=generator, device=device)
        .to(cell.dtype)
        .requires_grad_()
        for shape in shapes
    ]


def _scale(cell: Cell) -> float:
    return float(cell.head_dim**-0.5)


def _step(cell: Cell, kernel: str, inputs: list[Tensor]) -> Callable[[], None]:
    upstream = torch.ones(
        cell.batch, cell.n_heads, cell.n_queries, cell.value_width, dtype=cell.dtype, device=inputs[0].device
    )

    def step() -> None:
        torch.autograd.grad(run(cell, kernel, *inputs), inputs, upstream)

    return step


def _peak_bytes(step: Callable[[], None], device: str) -> int | None:
    """What warm-ups add to the inputs; None on a CPU, where torch does not count."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    for _ in range(WARM_UPS):
        step()
    return torch.cuda.max_memory_allocated() - before if device == "cuda" else None


def _take_turns(steps: dict[str, Callable[[], None]], device: str) -> dict[str, list[float]]:
    """Milliseconds of each kernel, one of each a round, until the time of a cell is used up."""
    taken: dict[str, list[float]] = {kernel: [] for kernel in steps}
    begun = time.perf_counter()
    for done in range(MAX_REPEATS):
        if done >= MIN_REPEATS and time.perf_counter() - begun > SECONDS_PER_KERNEL * len(steps):
            break
        for kernel, step in steps.items():
            taken[kernel].append(_milliseconds(step, device))
    return taken


def _milliseconds(step: Callable[[], None], device: str) -> float:
    if device != "cuda":
        begun = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - begun)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    first.record()
    step()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last))


def _blank_row(cell: Cell, kernel: str) -> Row:
    return Row(
        use=cell.use,
        dtype=str(cell.dtype).removeprefix("torch."),
        batch=cell.batch,
        n_heads=cell.n_heads,
        head_dim=cell.head_dim,
        n_queries=cell.n_queries,
        n_keys=cell.n_keys,
        kernel=kernel,
        status="ran",
    )


def _with_times(row: Row, milliseconds: list[float]) -> Row:
    middle = median(milliseconds)
    spread = median(abs(value - middle) for value in milliseconds)
    return replace(row, median_ms=middle, mad_ms=spread, n_repeats=len(milliseconds))


def _one_line(failure: BaseException) -> str:
    return " ".join(str(failure).split())[:240] or type(failure).__name__


def _free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the two tables go")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, to see whether the script itself works")
    parser.add_argument("--seconds", type=float, default=200.0, help="no cell is begun after so many")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here: use --device cpu --quick to try the script")
    options.folder.mkdir(parents=True, exist_ok=True)
    machine = Machine.here(options.device)
    begun, rows = time.monotonic(), []
    for cell in cells(quick=options.quick):
        if time.monotonic() - begun > options.seconds:
            reason = f"the {options.seconds:g} seconds of the run were over"
            rows += [replace(_blank_row(cell, kernel), status="not begun", reason=reason) for kernel in KERNELS]
            continue
        rows += measure(cell, options.device)
        _free(options.device)
        write_csv(options.folder / "table.csv", rows)
        print(
            f"{time.monotonic() - begun:5.0f} s  {cell.use} {cell.dtype} {cell.n_heads} x {cell.head_dim}", flush=True
        )
    write_csv(options.folder / "table.csv", rows)
    write_markdown(options.folder / "table.md", rows, machine, list(KERNELS))


if __name__ == "__main__":
    main()
