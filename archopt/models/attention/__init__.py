"""Scaled dot-product attention with the kernel chosen by device, shape and threads.

Which kernel is fastest depends on the shape, and none wins everywhere. Forward + backward in milliseconds, fp32, keys
and queries with gradients, values without; medians of 5 on an EPYC 9004 with AVX-512, torch 2.13.0:

                                   one thread                  two threads
    queries x keys, heads    explicit   sdpa  blocked    explicit   sdpa  blocked
    256 x 16,384,  1 of 32         50     41       27          32     30       22
    256 x 16,384,  4 of 8         223    154       56         127     85       56
    256 x 16,384, 16 of 2         821    494      191         465    278      187
    64 x 4,096,    8 of 6          29     21       12         7.8     13       11
    64 x 4,096,    1 of 48        2.9    3.8      4.4         2.0    2.7      3.2
    64 x 1,024,   32 of 3          28     19       12         7.4     11       12
    64 x 1,024,    8 of 12        3.9    4.2      4.1         2.1    2.6      4.0
    causal, batch 8 x 64,   4 of 16   1.1  0.9    1.5         0.8    0.9      1.3
    causal, batch 8 x 64,  64 of 1     33  6.0     10         9.8    3.3       10
    causal, batch 16 x 128, 4 of 32    11  9.3     13         6.4    5.9       12

Hence the rule of ``choose_kernel`` on a CPU. (sdpa with widths padded to one, so that its flash kernel runs.)
"""

import logging
import warnings
from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from archopt.errors import OptionError
from archopt.models.attention.blocked import blocked_attention

KERNELS = ("auto", "xformers", "sdpa", "blocked", "explicit", "reference")

# Below so many scores a pass over them is cheap, and blocks are not worth their overhead: see the figures above.
_MIN_BLOCKED_SCORES, _MIN_BLOCKED_SCORES_THREADED = 2**20, 2**22


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, causal: bool = False, kernel: str = "auto"
) -> Tensor:
    """softmax(scale * query key^T) value, per batch element and head.

    Args:
        query: shape (batch, heads, length, width).
        key: shape (batch, heads, key_length, width).
        value: shape (batch, heads, key_length, value_width); the width may differ from the keys'.
        scale: factor of the dot products; always explicit, since widths may hold augmented columns.
        causal: position i sees keys 0..i; length and key_length must then be equal.
        kernel: one of ``KERNELS``. "reference" computes in float64 and returns the value's dtype.

    Returns:
        shape (batch, heads, length, value_width).

    Raises:
        OptionError: an unknown kernel, one that this device or dtype has not, causal with unequal lengths, or no keys.
    """
    if key.shape[-2] == 0:
        raise OptionError("attention needs at least one key but got none: there is nothing to average")
    if causal and query.shape[-2] != key.shape[-2]:
        raise OptionError(f"causal needs as many queries as keys but got {query.shape[-2]} and {key.shape[-2]}")
    n_scores = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
    chosen = choose_kernel(
        query.device.type, query.dtype, query.shape[-1], n_scores=n_scores, causal=causal, kernel=kernel
    )
    if chosen == "reference":
        exact = _explicit(query.double(), key.double(), value.double(), scale, causal)
        return exact.to(value.dtype)
    if chosen == "explicit":
        return _explicit(query, key, value, scale, causal)
    if chosen == "blocked":
        return blocked_attention(query, key, value, scale, causal)
    if chosen == "sdpa":
        return _sdpa(query, key, value, scale, causal)
    return _xformers(query, key, value, scale, causal)


def choose_kernel(
    device: str, dtype: torch.dtype, head_dim: int, *, n_scores: int, causal: bool = False, kernel: str = "auto"
) -> str:
    """The kernel that ``attention`` runs.

    On CUDA "auto" takes xformers where it loads and knows the card and the dtype, else sdpa. On a CPU it takes sdpa for
    causal attention and half precision; else blocked from 1,048,576 scores on (4,194,304 with several threads), and
    explicit below (measured, see the module).

    Args:
        device: torch device type, such as "cpu" or "cuda".
        dtype: of query, key and value.
        head_dim: width of query and key, extra columns included.
        n_scores: batch * heads * length * key_length.
        causal: whether later keys are hidden.
        kernel: the kernel asked for, one of ``KERNELS``; all but "auto" are taken as they are.

    Raises:
        OptionError: an unknown kernel, or xformers where it cannot run; the message is one line.
    """
    if kernel not in KERNELS:
        raise OptionError(f"attention must be one of {', '.join(KERNELS)} but got {kernel!r}")
    if kernel == "xformers":
        _require_xformers(device, dtype)
    if kernel == "blocked" and (device != "cpu" or dtype not in _BLOCKED_DTYPES):
        raise OptionError(
            f"attention 'blocked' is for float32 on a CPU but this is {dtype} on {device}: use auto or sdpa"
        )
    if kernel != "auto":
        return kernel
    if device == "cuda":
        return "xformers" if why_not_xformers(device, dtype, head_dim) is None else "sdpa"
    if causal or dtype not in _BLOCKED_DTYPES:
        return "sdpa"
    threshold = _MIN_BLOCKED_SCORES if torch.get_num_threads() == 1 else _MIN_BLOCKED_SCORES_THREADED
    return "blocked" if n_scores >= threshold else "explicit"


def why_not_xformers(device: str, dtype: torch.dtype, head_dim: int) -> str | None:
    """Why "auto" does not take xformers here, in a few words; None where it does. Arguments as ``choose_kernel``."""
    if device != "cuda":
        return "it has no kernel for CPUs"
    if head_dim > _XFORMERS_MAX_WIDTH or dtype not in _XFORMERS_DTYPES:
        return f"it has no kernel for {dtype} heads of {head_dim}"
    reason = why_xformers_fails()
    if reason is None and not _card_knows(dtype):
        reason = f"no kernel for {dtype} on a card of compute capability {_capability()}"
    return reason


def _explicit(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    scores = (query * scale) @ key.transpose(-1, -2)
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def _sdpa(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    # The fused kernels want keys and values of one width; zero columns change neither dot products nor the result.
    value_width = value.shape[-1]
    width = max(query.shape[-1], value_width)
    if query.device.type == "cuda":  # without that they refuse, and every score is stored
        width = -(-width // _CUDA_MULTIPLE_OF) * _CUDA_MULTIPLE_OF
    query, key, value = _pad(query, width), _pad(key, width), _pad(value, width)
    output = F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    return output[..., :value_width]


_XFORMERS_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_XFORMERS_MAX_WIDTH = 65_536
_CUDA_MULTIPLE_OF = 8  # fused kernels read 16 bytes at a time
_BLOCKED_DTYPES = (torch.float32, torch.float64)


def _xformers(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    import xformers.ops as ops  # only here: the import warns where there is no CUDA

    def laid_out(x: Tensor) -> Tensor:  # (batch, length, heads, width), width padded
        return _pad(x, -(-x.shape[-1] // _CUDA_MULTIPLE_OF) * _CUDA_MULTIPLE_OF).transpose(1, 2).contiguous()

    bias = ops.LowerTriangularMask() if causal else None
    output: Tensor = ops.memory_efficient_attention(
        laid_out(query), laid_out(key), laid_out(value), attn_bias=bias, scale=scale
    )
    return output.transpose(1, 2)[..., : value.shape[-1]]


def _pad(x: Tensor, width: int) -> Tensor:
    return F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x


def _require_xformers(device: str, dtype: torch.dtype) -> None:
    if device != "cuda":
        raise OptionError(f"attention 'xformers' needs a CUDA device but this is {device}: use auto, sdpa or explicit")
    if dtype not in _XFORMERS_DTYPES:
        raise OptionError(f"attention 'xformers' has no kernel for {dtype}: use auto, sdpa or explicit")
    reason = why_xformers_fails()
    if reason is None and not _card_knows(dtype):
        reason = f"no kernel for {dtype} on a card of compute capability {_capability()}"
    if reason is not None:
        raise OptionError(f"attention 'xformers' cannot be used ({reason}): use auto, sdpa or explicit")


def _card_knows(dtype: torch.dtype) -> bool:
    """Whether this card is one of those that xformers has kernels for: bfloat16 from 8.0 on, float32 up to 9.0."""
    capability = _capability()
    return capability >= (8, 0) if dtype == torch.bfloat16 else dtype != torch.float32 or capability <= (9, 0)


def _capability() -> tuple[int, int]:
    return torch.cuda.get_device_capability()


@cache
def why_xformers_fails() -> str | None:
    """None where xformers loads beside this torch, with its CUDA kernels, else the reason on one line."""
    if find_spec("xformers") is None:
        return "not installed"
    log = logging.getLogger("xformers")
    level = log.level
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of what is found out here
            log.setLevel(logging.ERROR)
            import xformers.ops
        library = xformers._cpp_lib
    except (ImportError, OSError, RuntimeError, AttributeError) as error:  # a build for another torch
        return f"it does not load: {' '.join(str(error).split())[:120]}"
    finally:
        log.setLevel(level)
    # a library that does not load is only logged, and every call fails later
    failure = library._cpp_library_load_exception
    if failure is not None:
        return f"its library does not load: {' '.join(str(failure).split())[:160]}"
    return None if library._built_with_cuda else "it was built without CUDA"
