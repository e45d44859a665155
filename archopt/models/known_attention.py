"""How the attention layers that archopt knows hold their key projections.

torch's linear layers keep (out, in), GPT-2's Conv1D (in, out). Rows or columns of one head lie side by side.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from archopt.errors import OptionError
from archopt.models.extractors import Extractor, qualified_name

# By the attributes that hold the keys' linear layer and the width of a head. Under grouped-query attention the linear
# layer has one block for each key/value head. Normalising keys (Qwen3, Gemma3) scales columns: the subspaces stay.
_LINEAR = {
    ("key", "attention_head_size"): (
        "albert.modeling_albert.AlbertAttention",
        "bert.modeling_bert.BertCrossAttention",
        "bert.modeling_bert.BertSelfAttention",
        "electra.modeling_electra.ElectraSelfAttention",
        "roberta.modeling_roberta.RobertaSelfAttention",
    ),
    ("k_lin", "attention_head_size"): (
        "distilbert.modeling_distilbert.DistilBertSelfAttention",
        "distilbert.modeling_distilbert.MultiHeadSelfAttention",  # transformers 4
    ),
    ("k_proj", "head_dim"): (
        "bart.modeling_bart.BartAttention",
        "clip.modeling_clip.CLIPAttention",
        "gemma.modeling_gemma.GemmaAttention",
        "gemma2.modeling_gemma2.Gemma2Attention",
        "gemma3.modeling_gemma3.Gemma3Attention",
        "llama.modeling_llama.LlamaAttention",
        "mistral.modeling_mistral.MistralAttention",
        "mixtral.modeling_mixtral.MixtralAttention",
        "opt.modeling_opt.OPTAttention",
        "qwen2.modeling_qwen2.Qwen2Attention",
        "qwen3.modeling_qwen3.Qwen3Attention",
    ),
    ("k", "key_value_proj_dim"): ("t5.modeling_t5.T5Attention",),
}
_IMAGES = (
    "deit.modeling_deit.DeiTAttention",
    "dinov2.modeling_dinov2.Dinov2Attention",
    "vit.modeling_vit.ViTAttention",
)


def known_extractors() -> dict[str, Extractor]:
    """Extractors by the qualified names of the layers' classes."""
    found: dict[str, Extractor] = {
        "torch.nn.modules.activation.MultiheadAttention": _torch_attention,
        # keeps the fused weight of the class it derives from, and does not use it
        "torch.ao.nn.quantizable.modules.activation.MultiheadAttention": partial(
            _linear, key="linear_K", head_dim="head_dim"
        ),
        "transformers.models.gpt2.modeling_gpt2.GPT2Attention": _gpt2,
        "archopt.models.nadaraya_watson.NadarayaWatson": _own,
        "archopt.models.transformer.MultiHeadSelfAttention": _own,
    }
    found |= {f"transformers.models.{name}": _image for name in _IMAGES}
    for (key, head_dim), names in _LINEAR.items():
        for name in names:
            found[f"transformers.models.{name}"] = partial(_linear, key=key, head_dim=head_dim)
    return found


def _own(layer: Any) -> Tensor:
    weight: Tensor = layer.key_weight
    return weight


def _linear(layer: Any, *, key: str, head_dim: str) -> Tensor:
    weight = _weight(layer, key, torch.nn.Linear)
    return _heads_of_rows(weight, getattr(layer, head_dim))


def _image(layer: Any) -> Tensor:
    if hasattr(layer, "attention"):  # transformers 4 has a layer of BERT's kind inside
        return _linear(layer.attention, key="key", head_dim="attention_head_size")
    return _linear(layer, key="k_proj", head_dim="head_dim")


def _torch_attention(layer: torch.nn.MultiheadAttention) -> Tensor:
    width = layer.embed_dim
    fused = layer.in_proj_weight  # queries, keys, values; None where keys have a width of their own
    weight = layer.k_proj_weight if fused is None else fused[width : 2 * width]
    return _heads_of_rows(weight, layer.head_dim)


def _gpt2(layer: Any) -> Tensor:
    weight = _weight(layer, "c_attn")  # (D, [queries,] keys, values); cross-attention has its queries elsewhere
    width: int = layer.split_size
    start = weight.shape[1] - 2 * width
    return _heads_of_rows(weight[:, start : start + width].T, layer.head_dim)


def _weight(layer: Any, name: str, kind: type | None = None) -> Tensor:
    """The weight of a sub-layer, refused where an adapter or a quantised layer has taken its place."""
    projection = getattr(layer, name)
    weight = getattr(projection, "weight", None)
    if (kind is None or isinstance(projection, kind)) and isinstance(weight, Tensor):
        return weight
    raise OptionError(f"its {name} is a {qualified_name(type(projection))}, not a plain linear layer")


def _heads_of_rows(weight: Tensor, head_dim: int) -> Tensor:
    """(H * d_k, D), as torch's linear layers have it, to a view (H, D, d_k)."""
    rows = len(weight)
    if weight.ndim != 2 or rows == 0 or rows % head_dim:
        raise OptionError(f"its keys' weight of shape {tuple(weight.shape)} does not divide into heads of {head_dim}")
    return weight.view(-1, head_dim, weight.shape[1]).transpose(1, 2)
