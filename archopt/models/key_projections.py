"""The key projections of other people's modules, by head, and how far their heads' subspaces lie apart."""

import warnings
from math import isnan, nan
from statistics import fmean

import torch
from torch import Tensor, nn

from archopt.errors import DegenerateHeadError, OptionError
from archopt.models.extractors import Extractor, extractor_lookup, qualified_name
from archopt.models.known_attention import known_extractors
from archopt.theory.diversity import head_diversity_index

_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_NAMED = 3  # of unknown classes, in a message


def key_projections(module: nn.Module) -> dict[str, Tensor]:
    """The key projection of every attention layer in a module, split by heads.

    Known are `torch.nn.MultiheadAttention` (and so torch's Transformer layers) and, of Hugging Face transformers, the
    attention of BERT, RoBERTa, ELECTRA, ALBERT, DistilBERT, GPT-2, Llama, Mistral, Mixtral, Qwen2, Qwen3, Gemma 1 to 3,
    OPT, BART, T5, ViT, DeiT, DINOv2 and CLIP, with self- and cross-attention alike, their subclasses, and what
    `register_extractor` or an installed package (entry point group ``archopt.extractors``) adds.

    Args:
        module: a model, or any part of one.

    Returns:
        By the layer's dotted name in ``module`` ("" for the module itself), in the order of definition; a layer that
        is used twice is listed once. Each of shape (H, D, d_k): head h maps inputs of width D by ``x @ result[h]``.
        Biases, normalisation of keys and rotary embeddings are left out: they do not move the subspaces that heads
        read. With grouped-query heads H is the number of key/value heads: there are no other key projections, and
        repeating one for each of its queries would only add pairs of equal subspaces. Views of the weights, with
        their gradients and on their device: detach where no penalty is wanted.

    Raises:
        OptionError: the module holds no attention layer, or one that is not known (layers with "attention" or "attn" in
            their class's name, with parameters, none of them in a known layer); weights that are quantised, wrapped by
            an adapter, sharded or on the meta device; heads that do not divide the width.
        PluginError: a package that adds an extractor cannot be loaded.
    """
    if not isinstance(module, nn.Module):
        raise OptionError(f"module must be a torch.nn.Module but got {type(module).__name__}")
    lookup = extractor_lookup(known_extractors())
    found: dict[str, Tensor] = {}
    known: set[nn.Module] = set()  # known layers and what they are made of
    for name, layer in module.named_modules():
        if layer not in known and (extractor := lookup(type(layer))) is not None:
            found[name] = _extracted(name, layer, extractor)
            known.update(layer.modules())
    unknown = [
        layer for layer in module.modules() if _looks_like_attention(layer) and known.isdisjoint(layer.modules())
    ]
    if unknown or not found:
        raise OptionError(_not_known(module, unknown))
    return found


def module_diversity(module: nn.Module) -> float:
    """Subspace HDI of a module's heads, the mean over its attention layers: what `record_diversity` takes.

    ``archopt.record_diversity(trial, step, archopt.module_diversity(model))``

    Args:
        module: as for `key_projections`.

    Returns:
        In [0, 1], over the layers with several (key/value) heads; NaN where there is none, and, with a RuntimeWarning
        that says which, where a head's weights are not finite or lack full rank: it has collapsed, or training has
        diverged, which is for the loss to show and for the caller to end.

    Raises:
        OptionError, PluginError: as `key_projections`.
        AllocationError: a layer's heads are wider than what they read (d_k > D).
    """
    by_layer = []
    for name, projections in key_projections(module).items():
        try:
            by_layer.append(head_diversity_index(projections))
        except DegenerateHeadError as error:
            warnings.warn(f"no head diversity: {name or 'the module'}: {error}", RuntimeWarning, stacklevel=2)
            return nan
    defined = [hdi for hdi in by_layer if not isnan(hdi)]
    return fmean(defined) if defined else nan


def _extracted(name: str, layer: nn.Module, extractor: Extractor) -> Tensor:
    where = f"{name or 'the module'} ({qualified_name(type(layer))})"
    try:
        projections = extractor(layer)
    except Exception as error:  # another release of a package may hold its weights otherwise, in any way
        cause = " ".join(str(error).split())[:160]
        cause = cause if isinstance(error, OptionError) else f"{type(error).__name__}: {cause}"
        raise OptionError(f"{where}: its key projections cannot be read: {cause}; {_remedy(type(layer))}") from error
    wrong = _not_projections(projections)
    if wrong:
        raise OptionError(f"{where}: key projections must be a tensor of floats, shape (H, D, d_k), but got {wrong}")
    result: Tensor = projections
    return result


def _not_projections(result: object) -> str | None:
    if not isinstance(result, Tensor):
        return f"a {type(result).__name__}"
    if result.dtype not in _DTYPES:
        return f"{str(result.dtype).removeprefix('torch.')}: a quantised model must be dequantised first"
    if result.is_meta:
        return "weights on the meta device: load the model whole, without offloading"
    if result.ndim != 3 or 0 in result.shape:
        return f"shape {tuple(result.shape)}"
    return None


def _looks_like_attention(layer: nn.Module) -> bool:
    name = type(layer).__name__.lower()
    return ("attention" in name or "attn" in name) and any(True for _ in layer.parameters())


def _not_known(module: nn.Module, unknown: list[nn.Module]) -> str:
    where = type(module).__name__
    classes = list(dict.fromkeys(type(layer) for layer in unknown))
    if not classes:
        children = sorted({type(layer).__name__ for layer in module.modules()} - {where})
        made_of = f" (made of {_listed(children)})" if children else ""
        return f"{where} holds no attention layer that archopt knows{made_of}; if it has some, {_remedy(None)}"
    names = _listed([qualified_name(layer) for layer in classes])
    return f"{where} holds attention that archopt does not know: {names}; {_remedy(classes[-1])}"


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _remedy(layer: type | None) -> str:
    name = "package.module.Class" if layer is None else qualified_name(layer)
    return (
        f'tell it how with archopt.register_extractor("{name}", function), where function(layer) returns its key '
        "projections as a (H, D, d_k) tensor"
    )
