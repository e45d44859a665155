"""What the timings are written as: one CSV row a kernel and shape, and a Markdown table a use."""

import csv
import math
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path

import torch


@dataclass(frozen=True)
class Row:
    """One kernel at one shape; what could not be measured is None.

    ``worst_error``: of output and gradients against float64, as a share of the largest entry expected.
    ``peak_bytes``: the most that a forward and backward pass allocates beside its inputs.
    """

    use: str
    dtype: str
    batch: int
    n_heads: int
    head_dim: int
    n_queries: int
    n_keys: int
    kernel: str
    status: str  # ran | cannot run | out of memory | not begun
    median_ms: float | None = None
    mad_ms: float | None = None
    n_repeats: int = 0
    peak_bytes: int | None = None
    worst_error: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Machine:
    """What the figures were taken on, each in words."""

    device: str
    driver: str
    cuda: str
    cudnn: str
    torch: str
    xformers: str

    @classmethod
    def here(cls, device: str) -> "Machine":
        """This process's device ("cuda" or "cpu") and versions."""
        on_cuda = device == "cuda"
        capability = ".".join(map(str, torch.cuda.get_device_capability())) if on_cuda else ""
        name = f"{torch.cuda.get_device_name()}, compute capability {capability}" if on_cuda else platform.machine()
        return cls(
            device=name if on_cuda else f"CPU ({name}), {torch.get_num_threads()} threads",
            driver=_driver() if on_cuda else "none",
            cuda=torch.version.cuda or "none",
            cudnn=str(torch.backends.cudnn.version() or "none"),  # type: ignore[no-untyped-call]
            torch=torch.__version__,
            xformers=_version("xformers"),
        )


def write_csv(path: Path, rows: list[Row]) -> None:
    """All rows, empty where nothing was measured."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def write_markdown(path: Path, rows: list[Row], machine: Machine, kernels: list[str]) -> None:
    """A table for each use, dtype and number of keys; then why kernels did not run, each reason once."""
    lines = ["# Attention kernels, forward + backward", ""]
    lines += [f"- {name}: {value}" for name, value in asdict(machine).items()]
    lines += ["", "Milliseconds: median ± median absolute deviation, the fastest in bold. *error*: see below.", ""]
    groups: dict[tuple[str, str, int, int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.use, row.dtype, row.batch, row.n_queries, row.n_keys), []).append(row)
    for (use, dtype, batch, n_queries, n_keys), members in groups.items():
        lines += [f"## {use}, {dtype}: batch {batch}, {n_queries:,} queries x {n_keys:,} keys", ""]
        lines += [*_grid(members, kernels), ""]
    lines += ["## Largest error and most memory", ""]
    lines += ["| kernel | dtype | largest error over largest entry, of output and gradients | most memory, GB |"]
    lines += ["| --- | --- | --- | --- |", *_extremes(rows, kernels), ""]
    lines += ["## What did not run", ""]
    path.write_text("\n".join(lines + (_failures(rows) or ["Everything ran."])) + "\n", encoding="utf-8")


def _grid(rows: list[Row], kernels: list[str]) -> list[str]:
    """One line a split, one column a kernel."""
    lines = ["| heads x head_dim | " + " | ".join(kernels) + " |", "| --- " * (len(kernels) + 1) + "|"]
    for head_dim in sorted({row.head_dim for row in rows}):
        by_kernel = {row.kernel: row for row in rows if row.head_dim == head_dim}
        fastest = min((row.median_ms for row in by_kernel.values() if row.median_ms is not None), default=math.nan)
        shown = [_cell(by_kernel[kernel], fastest) for kernel in kernels]
        n_heads = next(iter(by_kernel.values())).n_heads
        lines.append(f"| {n_heads} x {head_dim} | " + " | ".join(shown) + " |")
    return lines


def _cell(row: Row, fastest: float) -> str:
    if row.median_ms is None or row.mad_ms is None:
        return row.status
    figures = f"{row.median_ms:.3g} ± {row.mad_ms:.1g}"
    return f"**{figures}**" if row.median_ms == fastest else figures


def _extremes(rows: list[Row], kernels: list[str]) -> list[str]:
    lines = []
    for kernel in kernels:
        for dtype in sorted({row.dtype for row in rows}):
            ran = [row for row in rows if row.kernel == kernel and row.dtype == dtype and row.worst_error is not None]
            if not ran:
                continue
            errors = [row.worst_error for row in ran if row.worst_error is not None]
            error = math.nan if any(map(math.isnan, errors)) else max(errors)
            peaks = [row.peak_bytes for row in ran if row.peak_bytes is not None]
            memory = f"{max(peaks) / 1e9:.2f}" if peaks else "not counted"
            lines.append(f"| {kernel} | {dtype} | {error:.2g} | {memory} |")
    return lines


def _failures(rows: list[Row]) -> list[str]:
    shapes: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row.status != "ran":
            told = shapes.setdefault((row.kernel, row.status, row.reason), [])
            told.append(f"{row.use} {row.dtype} {row.n_heads} x {row.head_dim} at {row.n_keys:,} keys")
    return [
        f"- {kernel}, {status}: {reason} ({len(told)} shapes, the first: {told[0]})"
        for (kernel, status, reason), told in shapes.items()
    ]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown (no nvidia-smi)"
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    return answer.stdout.split("\n")[0].strip() or "unknown"
