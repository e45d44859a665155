"""Which attention kernel a head of each width gets on this device, and how long it takes there."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from archopt.errors import OptionError

if TYPE_CHECKING:
    import torch

HEAD_DIMS = (4, 8, 16, 32, 64, 128)
MAX_HEAD_DIM, MAX_HEAD_DIMS = 1024, 32
WIDTH = 128  # all heads together, where one is no wider
REPEATS = 3


@dataclass(frozen=True)
class KernelTiming:
    """One head width, in the batch that a search's default recipe trains on.

    Attributes:
        n_heads, head_dim: so many of this width, 128 together where they are narrower.
        table, text: the kernel that "auto" takes for the rows of a table and for the bytes of a text.
        table_seconds, text_seconds: forward and backward of one attention layer, median of 3.
    """

    n_heads: int
    head_dim: int
    table: str
    table_seconds: float
    text: str
    text_seconds: float


def check_head_dims(head_dims: Sequence[int]) -> None:
    """Refuse what cannot be timed here in seconds.

    Raises:
        OptionError: not between 1 and 32 widths, or one outside 1 to 1024.
    """
    if not 1 <= len(head_dims) <= MAX_HEAD_DIMS:
        raise OptionError(f"head_dims must be 1 to {MAX_HEAD_DIMS} widths but got {len(head_dims)}")
    for width in head_dims:
        if not 1 <= width <= MAX_HEAD_DIM:
            raise OptionError(f"head_dims must lie between 1 and {MAX_HEAD_DIM} but got {width}")


def time_kernels(head_dims: Sequence[int], device: str) -> tuple[KernelTiming, ...]:
    """Time every width on a device.

    Args:
        device: "cpu" or "cuda".

    Raises:
        RuntimeError: a kernel fails; torch's message.
    """
    return tuple(_timed(width, device) for width in sorted(set(head_dims)))


def _timed(head_dim: int, device: str) -> KernelTiming:
    from archopt.evaluation.recipe import TABLE_BATCH, TABLE_CONTEXT_MAX, TEXT_BATCH, TEXT_CONTEXT

    n_heads = max(1, WIDTH // head_dim)
    # a table's queries and keys carry one column more (their length), and its values are the target
    table = (1, n_heads, TABLE_BATCH, TABLE_CONTEXT_MAX, head_dim + 1, 1)
    text = (TEXT_BATCH, n_heads, TEXT_CONTEXT, TEXT_CONTEXT, head_dim, head_dim)
    table_kernel, table_seconds = _measure(*table, causal=False, device=device)
    text_kernel, text_seconds = _measure(*text, causal=True, device=device)
    return KernelTiming(n_heads, head_dim, table_kernel, table_seconds, text_kernel, text_seconds)


def _measure(
    batch: int, n_heads: int, n_queries: int, n_keys: int, width: int, value_width: int, *, causal: bool, device: str
) -> tuple[str, float]:
    import torch

    from archopt.models.attention import attention, choose_kernel

    generator = torch.Generator().manual_seed(0)

    def drawn(length: int, columns: int) -> "torch.Tensor":
        tensor = torch.randn(batch, n_heads, length, columns, generator=generator).to(device)
        return tensor.requires_grad_()

    query, key, value = drawn(n_queries, width), drawn(n_keys, width), drawn(n_keys, value_width)

    def step() -> float:
        started = time.perf_counter()
        output = attention(query, key, value, scale=width**-0.5, causal=causal)
        torch.autograd.backward(output.sum())
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    n_scores = batch * n_heads * n_queries * n_keys
    kernel = choose_kernel(device, query.dtype, width, n_scores=n_scores, causal=causal)
    step()  # the first call pays for what later ones find ready
    return kernel, median(step() for _ in range(REPEATS))
