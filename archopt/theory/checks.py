"""What the theory's functions accept: checks whose one-line messages name the argument, what came and what is right."""

from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from numbers import Real

from archopt.errors import OptionError


def finite_number(name: str, value: object, allowed: str) -> float:
    """``value`` as a float, if it is a finite number; ``allowed`` says in the message what would be right.

    Raises:
        OptionError: it is not (booleans and text are not numbers).
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionError(f"{name} must be {allowed} but got {_short(value)}")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the floats
        raise OptionError(f"{name} must be {allowed} but got a whole number above 1e308") from None
    if not isfinite(number):
        raise OptionError(f"{name} must be {allowed} but got {number}")
    return number


def positive_number(name: str, value: object) -> float:
    """``value`` as a float, if it is a finite number above zero.

    Raises:
        OptionError: it is not.
    """
    number = finite_number(name, value, "a finite number above 0")
    if number <= 0:
        raise OptionError(f"{name} must be a finite number above 0 but got {number:g}")
    return number


def number_between(name: str, value: object, low: float, high: float) -> float:
    """``value`` as a float, if it is a number from ``low`` to ``high``, both included.

    Raises:
        OptionError: it is not.
    """
    allowed = f"a number from {low:g} to {high:g}"
    number = finite_number(name, value, allowed)
    if not low <= number <= high:
        raise OptionError(f"{name} must be {allowed} but got {number:g}")
    return number


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """``value``, if it is one of ``allowed``.

    Raises:
        OptionError: it is not; the message lists what is allowed and suggests the nearest name.
    """
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    near = get_close_matches(_short(value).strip("'"), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"{name} must be one of {', '.join(map(repr, names))} but got {_short(value)}{hint}")


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python prints no whole number of more than 4,300 digits
        text = "a whole number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
