"""The folder that results go to: made, tried, and taken back where nothing came of it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from archopt.errors import StorageError


def prepare_folder(folder: Path) -> list[Path]:
    """Make the output folder and check that it can be written.

    Returns:
        The folders that it made, the innermost first.

    Raises:
        StorageError: it cannot; nothing is left behind.
    """
    probe = folder / f".archopt-{uuid4().hex}"
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        remove_folders(made)
        raise StorageError(
            f"output folder {str(folder)[-120:]!r} cannot be written ({error.strerror}): give another with --out"
        ) from None
    return made


def remove_folders(folders: Sequence[Path]) -> None:
    """Take back folders that were made, innermost first; one that somebody has put something into stays."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
