"""Numbers as people type them on a command line."""

from contextlib import suppress
from dataclasses import dataclass

import typer


def whole_number(text: str) -> int:
    """A whole number, also written like 1e4 or 50_000."""
    with suppress(ValueError):
        return int(text)  # exactly, however long
    try:
        number = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text[:40]!r} is not a number") from None
    if number != number or abs(number) == float("inf") or number != int(number):
        raise typer.BadParameter(f"{text[:40]!r} is not a whole number")
    return int(number)


@dataclass(frozen=True)
class Sizes:
    """One whole number or several, each once, rising."""

    numbers: tuple[int, ...]


def sizes(text: str) -> Sizes:
    """Whole numbers with commas between them."""
    return Sizes(tuple(sorted({whole_number(part.strip()) for part in text.split(",")})))


def real_number(text: str) -> float:
    """A number; what range is allowed the command itself checks."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text[:40]!r} is not a number") from None
