"""Arrays of heads as the theory reads them: NumPy or torch, without importing torch, always as float64."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archopt.errors import DegenerateHeadError, OptionError

Array = NDArray[np.float64]


def real_array(name: str, values: ArrayLike, dimensions: tuple[int, ...], wanted: str) -> tuple[Array, float]:
    """``values`` as float64, and the rounding unit of what they were (float32's for anything shorter).

    Args:
        name: the argument's name, for messages.
        values: NumPy, nested lists, or a torch tensor on any device, of any precision, with or without gradient.
        dimensions: allowed numbers of axes.
        wanted: the allowed shapes in words, for messages.

    Raises:
        OptionError: another shape, an empty array, or not real numbers.
    """
    try:
        if hasattr(values, "detach"):  # a torch tensor
            tensor = values.detach().cpu()
            precise = tensor.element_size() >= 8
            array = np.asarray(
                (tensor.double() if tensor.is_floating_point() else tensor).numpy()
            )  # NumPy has no bfloat16
        else:
            array = np.asarray(values)
            precise = array.dtype.kind != "f" or array.dtype.itemsize >= 8
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, lists of tensors that need a gradient
        raise OptionError(f"{name} must be one array of shape {wanted}: {str(error).splitlines()[0][:120]}") from error
    if array.dtype.kind not in "fiu":
        raise OptionError(f"{name} must hold real numbers, shape {wanted}, but got dtype {array.dtype}")
    if array.ndim not in dimensions or 0 in array.shape:
        raise OptionError(f"{name} must have shape {wanted}, nothing empty, but got shape {array.shape}")
    return array.astype(np.float64, copy=False), float(np.finfo(np.float64 if precise else np.float32).eps)


def refuse_non_finite(heads: Array, what: str, first_head: int = 0) -> None:
    """Check an array whose first axis is the head.

    Raises:
        DegenerateHeadError: a head holds NaN or infinity; ``.head`` is ``first_head`` plus its index.
    """
    bad = ~np.isfinite(heads).reshape(len(heads), -1).all(axis=1)
    if bad.any():
        head = first_head + int(bad.argmax())
        raise DegenerateHeadError(f"head {head} has a {what} that is not finite: it holds NaN or infinity", head)


def finite_array(name: str, values: ArrayLike, shape: tuple[int | None, ...], wanted: str) -> Array:
    """``values`` as float64 of this shape, None for any length; ``wanted`` names the axes in messages.

    Raises:
        OptionError: another shape, not real numbers, or NaN or infinity among them.
    """
    array, _ = real_array(name, values, (len(shape),), wanted)
    if any(length not in (None, got) for length, got in zip(shape, array.shape, strict=True)):
        lengths = ", ".join("any" if length is None else str(length) for length in shape)
        raise OptionError(f"{name} must have shape {wanted} = ({lengths}) but got shape {array.shape}")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        raise OptionError(f"{name} must be finite but holds {array[tuple(place)]} at index {place.tolist()}")
    return array


def in_range(heads: Array) -> tuple[Array, NDArray[np.intc]]:
    """Each head times the power of two that takes its largest entry into [1/2, 1), or to 0; the first axis is the head.

    Exact, but for entries below 1e-308 of the largest; squares then neither overflow nor vanish.

    Returns:
        The scaled heads, and their exponents: ``np.ldexp(scaled, exponents)`` gives the heads back.
    """
    _, exponents = np.frexp(np.abs(heads).max(axis=tuple(range(1, heads.ndim)), keepdims=True))
    scaled: Array = np.ldexp(heads, -exponents)
    return scaled, exponents
