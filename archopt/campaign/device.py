"""Where trials are trained, decided without loading torch where there is no GPU driver."""

import ctypes
import os

from archopt.errors import OptionError


def resolve_device(device: str, attention: str) -> str:
    """ "cpu" or "cuda".

    Args:
        device: "cpu", "cuda", or "auto": CUDA where it works.
        attention: the kernel asked for.

    Raises:
        OptionError: CUDA was asked for and is not there, or the kernel needs it.
    """
    found = device != "cpu" and _cuda_works()
    if device == "cuda" and not found:
        raise OptionError("device cuda was asked for, but torch finds no CUDA device here: use --device cpu")
    if attention == "xformers" and not found:
        raise OptionError("xformers has no attention kernel for CPUs: use --attention auto or sdpa, or a CUDA device")
    return "cuda" if found else "cpu"


def visible_gpus() -> tuple[str, ...]:
    """The CUDA devices that this process may use, each as CUDA_VISIBLE_DEVICES names it; torch must find some."""
    import torch

    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple((named or list(map(str, range(torch.cuda.device_count()))))[: torch.cuda.device_count()])


def has_cuda_driver() -> bool:
    """Whether NVIDIA's driver is here, for a torch that may or may not use it."""
    try:
        ctypes.CDLL("nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1")
    except OSError:
        return False
    return True


def _cuda_works() -> bool:
    if not has_cuda_driver():
        return False  # torch, seconds to load, would only say the same
    import torch

    return torch.cuda.is_available()
