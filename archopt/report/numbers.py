"""Numbers as people read them: enough digits for their uncertainty, a unit, and a dash where there is none."""

from collections.abc import Iterable
from math import floor, isfinite, log10

MISSING = "-"
MOST_DECIMALS = 6


def finite(value: object) -> float | None:
    """The value as a float; None for None, NaN, infinities and whatever is not a number."""
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if isfinite(number) else None


def whole(value: object) -> int | None:
    """The value as an int; None where it is missing or not finite."""
    number = finite(value)
    return None if number is None else round(number)


def decimals_for(values: Iterable[object], resolution: object = None) -> int:
    """How many decimals let the values of one column be told apart.

    Args:
        values: the column; missing ones are skipped.
        resolution: the smallest difference that means something (a noise or interval width), shown with two digits;
            without one the largest value is shown with four.
    """
    smallest = finite(resolution)
    if smallest is not None and smallest > 0:
        return min(MOST_DECIMALS, max(0, 1 - floor(log10(smallest))))
    largest = max((abs(number) for number in map(finite, values) if number is not None), default=0.0)
    return min(MOST_DECIMALS, max(0, 3 - floor(log10(largest)))) if largest > 0 else 3


def fixed(value: object, decimals: int) -> str:
    """Fixed decimals, thousands grouped; powers of ten where the column would be absurdly wide."""
    number = finite(value)
    if number is None:
        return MISSING
    return f"{number:,.{decimals}f}" if abs(number) < 1e9 else f"{number:.3g}"


def short(value: object, digits: int = 3) -> str:
    """So many significant digits, no power of ten for everyday numbers: 16.6, 0.0123, 2,000,000."""
    number = finite(value)
    if number is None:
        return MISSING
    if number == 0 or 1e-4 <= abs(number) < 1e9:
        decimals = max(0, digits - 1 - floor(log10(abs(number)))) if number else 0
        text = f"{number:,.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{number:.{digits}g}"


def probability(value: object) -> str:
    """A percentage that never claims 0 or 100: "62 %", "< 1 %", "> 99 %"."""
    number = finite(value)
    if number is None:
        return MISSING
    if number < 0.01:
        return "< 1 %"
    return "> 99 %" if number > 0.99 else f"{100 * number:.0f} %"


def step_time(seconds: object) -> str:
    """Seconds per training step with three digits: "850 us", "12.3 ms", "1.24 s"."""
    number = finite(seconds)
    if number is None:
        return MISSING
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if number >= 0.9995 * scale:
            return f"{short(number / scale)} {unit}"
    return f"{short(number / 1e-6)} us"


def duration(seconds: object) -> str:
    """Wall time: "42 s", "3 min 05 s", "2 h 10 min"."""
    number = finite(seconds)
    if number is None:
        return MISSING
    total = max(0, round(number))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600:,} h {total % 3600 // 60:02d} min"


def count(number: int, noun: str) -> str:
    """ "1 head", "4 heads", "1,200 trials"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: object, encoding: str = "utf-8", most: int = 300) -> str:
    """Text from outside on one line: no control characters (a name may not move the cursor), cut to ``most``.

    Args:
        text: anything; ``str`` of it is taken.
        encoding: characters that it lacks are written as escapes.
    """
    line = "".join(character if character.isprintable() else " " for character in str(text)).strip()
    line = line.encode(encoding, "backslashreplace").decode(encoding)
    return line if len(line) <= most else line[: most - 3] + "..."


def encoded(text: str, encoding: str) -> str:
    """:func:`printable` for a paragraph, with +/- where the encoding has no plus-minus sign."""
    try:
        "±".encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+/-")
    return printable(text, encoding, most=2000)
