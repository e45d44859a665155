"""Scaled dot-product attention with the kernel chosen by device and shape.

Which kernel is fastest depends on the shape, and none wins everywhere. Forward + backward in milliseconds,
one thread of an EPYC 9004 core, torch 2.13, fp32 (explicit / sdpa with widths padded, so that its flash kernel runs):

    64 queries x 512 keys, 1 head of 48          0.4 /   0.5      self, causal, 8 x 64, 1 head of 64      0.6 /  0.6
    64 x 512, 48 heads of 1                       10 /   17       self, causal, 8 x 128, 16 heads of 4    15  /  13
    256 x 1,024, 8 heads of 6                     13 /   23       self, causal, 8 x 128, 64 heads of 1   112  /  19
    256 x 1,024, 48 heads of 1                   154 /  106       self, causal, 16 x 128, 32 heads of 4  126  /  53
    256 x 16,384, 1 head of 32                    54 /   61
    256 x 16,384, 16 heads of 3                  972 /  616

Hence the rule of ``choose_kernel`` on a CPU: causal or with many scores "sdpa", otherwise "explicit".
"""

from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from archopt.errors import OptionError

KERNELS = ("auto", "xformers", "sdpa", "explicit", "reference")

# Below this many scores (16 MiB in fp32) the explicit kernel's passes over them stay cheap: see the figures above.
_EXPLICIT_MAX_SCORES = 2**22


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
        OptionError: an unknown kernel, one that this device or dtype has not, or causal with unequal lengths.
    """
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
    if chosen == "sdpa":
        return _sdpa(query, key, value, scale, causal)
    return _xformers(query, key, value, scale, causal)


def choose_kernel(
    device: str, dtype: torch.dtype, head_dim: int, *, n_scores: int, causal: bool = False, kernel: str = "auto"
) -> str:
    """The kernel that ``attention`` runs.

    On CUDA "auto" takes xformers where it loads and knows the dtype, else sdpa; on a CPU sdpa for causal
    attention and for more than 4,194,304 scores, explicit otherwise (measured, see the module).

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
    if kernel != "auto":
        return kernel
    if device == "cuda":
        fits = head_dim <= _XFORMERS_MAX_WIDTH and dtype in _XFORMERS_DTYPES
        return "xformers" if fits and _why_no_xformers() is None else "sdpa"
    return "sdpa" if causal or n_scores > _EXPLICIT_MAX_SCORES else "explicit"


def _explicit(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    scores = (query * scale) @ key.transpose(-1, -2)
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def _sdpa(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    # The fused kernels want keys and values of one width; zero columns change neither dot products nor the result.
    width, value_width = query.shape[-1], value.shape[-1]
    if width < value_width:
        query, key = _pad(query, value_width), _pad(key, value_width)
    elif value_width < width:
        value = _pad(value, width)
    output = F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    return output[..., :value_width]


_XFORMERS_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_XFORMERS_MAX_WIDTH = 65_536
_XFORMERS_MULTIPLE_OF = 8  # its kernels read 16 bytes at a time


def _xformers(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    import xformers.ops as ops  # only here: the import warns where there is no CUDA

    def laid_out(x: Tensor) -> Tensor:  # (batch, length, heads, width), width padded
        return _pad(x, -(-x.shape[-1] // _XFORMERS_MULTIPLE_OF) * _XFORMERS_MULTIPLE_OF).transpose(1, 2).contiguous()

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
    reason = _why_no_xformers()
    if reason is not None:
        raise OptionError(f"attention 'xformers' cannot be used ({reason}): use auto, sdpa or explicit")


@cache
def _why_no_xformers() -> str | None:
    """None where xformers loads beside this torch, else the reason on one line."""
    if find_spec("xformers") is None:
        return "not installed"
    try:
        import xformers.ops  # noqa: F401
    except (ImportError, OSError, RuntimeError, AttributeError) as error:  # a build for another torch
        return f"it does not load: {' '.join(str(error).split())[:120]}"
    return None
