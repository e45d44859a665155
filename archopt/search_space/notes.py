"""What archopt left in a study, read back; another version may have written it in another form."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from archopt.errors import StorageError

if TYPE_CHECKING:
    import optuna


@contextmanager
def reading_note(study: "optuna.Study", key: str) -> Iterator[None]:
    """Within, a study attribute of archopt's is taken apart.

    Raises:
        StorageError: it is not what this archopt writes under ``key``.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError):
        raise StorageError(
            f"study {study.study_name[:60]!r} was begun by another version of archopt (its attribute {key!r} cannot be "
            "read): use that version, or another study"
        ) from None
