"""Ctrl-C in a command: said once, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def said_when_interrupted() -> Iterator[None]:
    """Ctrl-C inside ends the command with "interrupted"; typer by itself ends without a word."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort from None
