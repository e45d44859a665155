"""How a width D splits into H heads of width d_k, and which splits a real model allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isqrt, log
from numbers import Integral, Real

from archopt.errors import AllocationError

MAX_D_MODEL = 1_048_576  # far above any published width; keeps a typing error from looping for minutes
MAX_WHOLE = 10**40  # of any count or width: what can be printed in one line, and squared as a float


@dataclass(frozen=True, order=True)
class HeadAllocation:
    """H heads of width d_k.

    Args:
        n_heads: H, at least 1.
        head_dim: d_k, at least 1.

    Raises:
        AllocationError: either is not a positive whole number.
    """

    n_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_heads", _positive_int("n_heads", self.n_heads))
        object.__setattr__(self, "head_dim", _positive_int("head_dim", self.head_dim))

    @property
    def d_model(self) -> int:
        """D = H * d_k."""
        return self.n_heads * self.head_dim

    def __str__(self) -> str:
        return f"{self.n_heads}x{self.head_dim}"

    @classmethod
    def parse(cls, text: str) -> "HeadAllocation":
        """Read "8x64" (8 heads of 64).

        Raises:
            AllocationError: the text has another form.
        """
        n_heads, cross, head_dim = text.strip().lower().partition("x")
        if not cross or not n_heads.strip().isdecimal() or not head_dim.strip().isdecimal():
            raise AllocationError(f"an allocation is written like 8x64 (heads x head_dim) but got {text!r}")
        return cls(int(n_heads), int(head_dim))


def feasible_allocations(
    d_model: int,
    *,
    min_head_dim: int = 1,
    max_head_dim: int | None = None,
    head_dim_multiple_of: int = 1,
    n_heads_multiple_of: int = 1,
) -> tuple[HeadAllocation, ...]:
    """Every split of ``d_model`` that satisfies the limits, by rising head_dim.

    Args:
        d_model: D, 1 to 1,048,576.
        min_head_dim, max_head_dim: bounds on d_k, both included.
        head_dim_multiple_of: 2 for rotary embeddings, 8 for fused kernels.
        n_heads_multiple_of: the tensor-parallel degree.

    Raises:
        AllocationError: a limit is not a positive whole number, or together they leave nothing; the message
            names the limit that emptied the set and the nearest width that would do.
    """
    d_model = _positive_int("d_model", d_model)
    if d_model > MAX_D_MODEL:
        raise AllocationError(f"d_model must be at most {MAX_D_MODEL:,} but got {d_model:,}")
    min_head_dim = _positive_int("min_head_dim", min_head_dim)
    if min_head_dim > d_model:
        raise AllocationError(f"min_head_dim ({min_head_dim}) is above d_model: give a minimum of at most {d_model}")
    max_head_dim = d_model if max_head_dim is None else _positive_int("max_head_dim", max_head_dim)
    head_dim_multiple_of = _positive_int("head_dim_multiple_of", head_dim_multiple_of)
    n_heads_multiple_of = _positive_int("n_heads_multiple_of", n_heads_multiple_of)
    if min_head_dim > max_head_dim:
        raise AllocationError(
            f"min_head_dim ({min_head_dim}) is above max_head_dim ({max_head_dim}): "
            f"give a minimum of at most {max_head_dim}"
        )
    limits: list[tuple[str, Callable[[HeadAllocation], bool]]] = [
        (f"head_dim >= {min_head_dim}", lambda a: a.head_dim >= min_head_dim),
        (f"head_dim <= {max_head_dim}", lambda a: a.head_dim <= max_head_dim),
        (f"head_dim a multiple of {head_dim_multiple_of}", lambda a: a.head_dim % head_dim_multiple_of == 0),
        (f"n_heads a multiple of {n_heads_multiple_of}", lambda a: a.n_heads % n_heads_multiple_of == 0),
    ]
    allowed = [HeadAllocation(d_model // head_dim, head_dim) for head_dim in divisors(d_model)]
    for name, holds in limits:
        left = [allocation for allocation in allowed if holds(allocation)]
        if not left:
            raise AllocationError(_what_emptied(d_model, name, allowed, head_dim_multiple_of * n_heads_multiple_of))
        allowed = left
    return tuple(allowed)


def allocation_of(d_model: int, n_heads: int) -> HeadAllocation:
    """The split of ``d_model`` into ``n_heads``.

    Raises:
        AllocationError: it does not divide; the message lists the divisors and the nearest widths that do.
    """
    d_model, n_heads = _positive_int("d_model", d_model), _positive_int("n_heads", n_heads)
    if d_model % n_heads:
        below = d_model // n_heads * n_heads
        widths = " or ".join(str(width) for width in (below, below + n_heads) if width)
        raise AllocationError(
            f"d_model = {d_model} does not divide into {n_heads} heads: use n_heads in "
            f"{_listed(divisors(d_model))}, or d_model = {widths}"
        )
    return HeadAllocation(n_heads, d_model // n_heads)


def nearest_allocation(head_dim: float, allocations: Sequence[HeadAllocation]) -> HeadAllocation:
    """The allocation whose head_dim is nearest on a log scale; of two equally near, the one with fewer heads.

    Raises:
        AllocationError: head_dim is not a finite number above 0, or there is no allocation to choose from.
    """
    if isinstance(head_dim, bool) or not isinstance(head_dim, Real) or not 0 < head_dim < inf:
        raise AllocationError(f"head_dim must be a finite number above 0 but got {head_dim!r:.60}")
    if not allocations:
        raise AllocationError("allocations must hold at least one split but got none")
    return min(allocations, key=lambda a: (abs(log(a.head_dim) - log(head_dim)), a.n_heads))


def divisors(number: int) -> list[int]:
    """All divisors, rising."""
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return small + [number // k for k in reversed(small) if k * k != number]


def is_prime(number: int) -> bool:
    """Whether the only splits are one head, or heads of width one."""
    return number > 1 and len(divisors(number)) == 2


def _positive_int(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        text = " ".join(repr(value).split())
        got = text if len(text) <= 60 else f"{text[:57]}..."
        raise AllocationError(f"{name} must be a whole number of at least 1 but got {got}")
    if not -MAX_WHOLE < int(value) < MAX_WHOLE:  # too long to print, and beyond the floats further on
        raise AllocationError(f"{name} must be a whole number from 1 to {MAX_WHOLE:.0e} but got one beyond that")
    if value < 1:
        raise AllocationError(f"{name} must be a whole number of at least 1 but got {value!r}")
    return int(value)


def _listed(numbers: Sequence[int], most: int = 24) -> str:
    shown = ", ".join(str(number) for number in numbers[:most])
    return f"{{{shown}{', ...' if len(numbers) > most else ''}}}"


def _what_emptied(d_model: int, limit: str, left: Sequence[HeadAllocation], multiple: int) -> str:
    message = (
        f"no split of d_model = {d_model} has {limit}: the other limits leave head_dim in "
        f"{_listed([a.head_dim for a in left])}"
    )
    if d_model % multiple:
        near = max(multiple, round(d_model / multiple) * multiple)
        message += f"; d_model = {near} would divide"
    return message
