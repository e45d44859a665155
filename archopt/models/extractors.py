"""Which function reads the key projections of which attention layer: the user's, then other packages', then ours.

Layers are told by the qualified names of their classes and of those they derive from, so that neither their packages
nor torch need be imported.
"""

from collections.abc import Callable, Mapping
from typing import Any

from archopt.entry_points import EXTRACTORS, load, registered
from archopt.errors import OptionError

Extractor = Callable[[Any], Any]
"""From an attention layer to its key projections by head, a tensor of shape (H, D, d_k)."""

_REGISTERED: dict[str, Extractor] = {}


def register_extractor(layer: type | str, extractor: Extractor) -> None:
    """Say how `key_projections` reads an attention layer that it does not know, or should read otherwise.

    Counts for subclasses too, for this process only, and before the entry points of other packages (group
    ``archopt.extractors``) and what archopt knows itself. Registering again replaces.

    Args:
        layer: the layer's class, or its qualified name "package.module.Class".
        extractor: takes a layer and returns its key projections by head, a tensor of shape (H, D, d_k), where head h
            maps inputs by ``x @ result[h]``; a view of the weights where gradients are to flow.

    Raises:
        OptionError: ``layer`` is neither a class nor such a name, or ``extractor`` is no function.

    Example:
        .. code-block:: python

            def by_head(layer):  # W_k is a torch.nn.Linear, whose weight is (H * d_k, D)
                return layer.W_k.weight.unflatten(0, (layer.n_heads, -1)).mT

            archopt.register_extractor("my_models.FastAttention", by_head)
    """
    if not isinstance(layer, type) and not (isinstance(layer, str) and "." in layer.strip(".")):
        raise OptionError(
            f"layer must be a class, or its name as 'package.module.Class', but got {layer!r}: for an instance pass "
            "type(instance)"
        )
    if not callable(extractor):
        raise OptionError(f"extractor must be a function from a layer to a (H, D, d_k) tensor but got {extractor!r}")
    _REGISTERED[layer if isinstance(layer, str) else qualified_name(layer)] = extractor


def extractor_lookup(built_in: dict[str, Extractor]) -> Callable[[type], Extractor | None]:
    """A function from a layer's class to its extractor; None for a class that nobody knows.

    Args:
        built_in: extractors by the qualified names of classes.

    Raises:
        PluginError: two packages claim one class; or (the returned function) the one that does cannot be loaded.
    """
    sources: tuple[tuple[Mapping[str, Any], Callable[[Any], Extractor]], ...] = (
        (dict(_REGISTERED), _itself),
        (registered(EXTRACTORS), load),
        (built_in, _itself),
    )

    def lookup(layer: type) -> Extractor | None:
        names = [qualified_name(each) for each in layer.__mro__]
        for known, read in sources:
            for name in names:
                if name in known:
                    return read(known[name])
        return None

    return lookup


def qualified_name(layer: type) -> str:
    """``package.module.Class``."""
    return f"{layer.__module__}.{layer.__qualname__}"


def _itself(extractor: Extractor) -> Extractor:
    return extractor
