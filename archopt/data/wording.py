"""How names from outside appear in messages: quoted, escaped, short, with the nearest name that exists."""

import difflib
from collections.abc import Iterable, Sequence

_MATCHED_CHARACTERS = 200  # difflib is quadratic in the length of what it compares


def shown(value: object, limit: int = 50) -> str:
    """``value`` in quotes on one line: control characters escaped, at most ``limit`` characters long."""
    if isinstance(value, int) and value.bit_length() > 64:  # Python refuses to write out very large ones
        value = f"{'-' if value < 0 else ''}2**{value.bit_length() - 1}..."
    text = repr(str(value)[: 2 * limit + 2])
    return text if len(text) <= limit else text[: limit - 4] + "..." + text[0]


def listed(names: Sequence[object], most: int = 5, limit: int = 24) -> str:
    """The first ``most`` names, each at most ``limit`` characters, and how many more there are."""
    text = ", ".join(shown(name, limit) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most:,} more"


def counted(count: int, what: str) -> str:
    """A number and its noun: 1 column, 1,234 columns."""
    return f"{count:,} {what}{'' if count == 1 else 'es' if what.endswith('s') else 's'}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The existing name most like ``name`` (upper and lower case alike), or None where none is like it."""
    by_folded = {candidate[:_MATCHED_CHARACTERS].casefold(): candidate for candidate in names}
    folded = name[:_MATCHED_CHARACTERS].casefold()
    matches = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.5)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message that names the nearest name; nothing where no existing name is like it."""
    match = nearest(name, names)
    return "" if match is None else f"; did you mean {shown(match, 40)}?"
