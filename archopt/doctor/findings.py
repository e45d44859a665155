"""One thing that was looked at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: of the thing, a word or two.
        found: what is there, one line.
        fault: what is broken and what to do about it, one line; empty where it is sound.
    """

    name: str
    found: str
    fault: str = ""
