"""What other packages add to archopt: they declare entry points, and nothing of theirs is imported until it is used."""

from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed_entry_points
from typing import Any

from archopt.errors import PluginError

TASKS = "archopt.tasks"
EXTRACTORS = "archopt.extractors"


def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, by name.

    Raises:
        PluginError: two packages declare the same name for different things.
    """
    found: dict[str, EntryPoint] = {}
    for entry in installed_entry_points(group=group):
        first = found.setdefault(entry.name, entry)
        if first.value != entry.value:  # the same one twice is an installation listed twice
            raise PluginError(
                f"{_package(first)} and {_package(entry)} both add {entry.name!r} to {group}: uninstall one of them"
            )
    return found


def load(entry: EntryPoint) -> Any:
    """Import what an entry point names.

    Raises:
        PluginError: it cannot be imported; the message names the package and the cause.
    """
    try:
        return entry.load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise PluginError(
            f"{_package(entry)} adds {entry.name!r} to {entry.group}, but {entry.value} cannot be loaded ({cause}): "
            "update or uninstall it"
        ) from error


def _package(entry: EntryPoint) -> str:
    return "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
