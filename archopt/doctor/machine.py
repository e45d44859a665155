"""Cores, memory, and the device that trials are trained on."""

import os
from collections.abc import Iterator
from pathlib import Path

from archopt.doctor.findings import Finding
from archopt.doctor.packages import MAX_CAUSE

WORKER_BYTES = 350 * 10**6  # of a process that trains: torch alone, before any data, takes 250 MB
_MEMORY, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")  # Linux; elsewhere less is known


def core_finding() -> Finding:
    """Cores that this process may use, and the threads that it was told to use."""
    cores, built = usable_cores(), os.cpu_count() or 1
    shown = f"{cores} of {built}" if cores != built else str(cores)
    asked = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    told = "".join(f", {name}={value[:10]}" for name, value in asked.items())
    quota = _quota()
    limited = quota is not None and quota < cores
    fault = ""
    if limited:
        few = max(1, int(quota or 0))
        fault = f"this container may use {quota:g} cores but shows {cores}: give --workers {few} to archopt search"
    return Finding("cores", f"{shown}; archopt search trains as many trials at a time, or one a GPU{told}", fault)


def memory_finding() -> Finding:
    """Memory that is free, against what training processes take before any data."""
    total, available = memory_bytes()
    if total is None or available is None:
        return Finding("memory", "not known on this system")
    cores = usable_cores()
    most = available // WORKER_BYTES
    fault = ""
    if most < cores:
        todo = f"give --workers {most} to archopt search" if most else "free some"
        fault = f"{available / 1e9:.1f} GB of memory are free, too little for {cores} training processes: {todo}"
    return Finding("memory", f"{available / 1e9:.1f} GB free of {total / 1e9:.1f} GB", fault)


def device_findings() -> Iterator[Finding]:
    """The device that "auto" takes, and xformers beside it; torch loads by now."""
    import torch

    from archopt.campaign.device import has_cuda_driver, resolve_device
    from archopt.models.attention import why_xformers_fails

    device = resolve_device("auto", "auto")
    built = torch.version.cuda
    if device == "cuda":
        cards = [torch.cuda.get_device_properties(at) for at in range(torch.cuda.device_count())]
        named = ", ".join(
            f"{card.name} ({card.total_memory / 1e9:.0f} GB, {card.major}.{card.minor})" for card in cards
        )
        yield Finding("device", f"cuda {built}: {named}")
    elif not has_cuda_driver():
        yield Finding("device", "cpu: no NVIDIA driver is here")
    elif built is None:
        todo = "install a CUDA build from https://pytorch.org, or leave it if the CPU is to train"
        yield Finding("device", "cpu", f"an NVIDIA driver is here, but torch {torch.__version__} lacks CUDA: {todo}")
    else:
        fault = f"an NVIDIA driver is here, but torch {torch.__version__} finds no CUDA {built} device: see nvidia-smi"
        yield Finding("device", "cpu", fault)
    why = why_xformers_fails()
    if why is None:
        yield Finding("xformers", "loads")
    elif device != "cuda":
        yield Finding("xformers", f"not needed on a CPU; {why[:MAX_CAUSE]}")
    elif why == "not installed":
        yield Finding("xformers", "not installed; torch's own kernels serve instead")
    else:
        todo = f"install the build for torch {torch.__version__} (pip install -U xformers), or uninstall it"
        yield Finding("xformers", "torch's own kernels serve instead", f"xformers: {why[:MAX_CAUSE]}: {todo}")


def usable_cores() -> int:
    """As `archopt search` counts them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> tuple[int | None, int | None]:
    """Total and available, the container's limit counted; None where the system does not say."""
    if not _MEMORY.exists():
        return None, None
    rows = (line.split() for line in _MEMORY.read_text().splitlines())
    known = {row[0].rstrip(":"): 1024 * int(row[1]) for row in rows if len(row) > 1}
    total, available = known.get("MemTotal"), known.get("MemAvailable")
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if total is not None and available is not None and limit is not None and limit < total:
        total, available = limit, min(available, max(0, limit - (used or 0)))
    return total, available


def _quota() -> float | None:
    """Cores that the container's share of time amounts to; None without a limit."""
    path = _CGROUP / "cpu.max"
    words = path.read_text().split() if path.exists() else []
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0] != "max" else None


def _number(path: Path) -> int | None:
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text.isdigit() else None
