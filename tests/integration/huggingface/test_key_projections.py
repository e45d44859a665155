"""Key projections of Hugging Face models: each head's keys are those that the model hands to its attention function."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import Tensor, nn  # noqa: E402

import archopt  # noqa: E402

pytestmark = pytest.mark.torch

LAYERS = 2
SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 24,
    "intermediate_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
IMAGE = {**SMALL, "image_size": 4, "patch_size": 2}
ENCODER_DECODER = {
    "vocab_size": 50,
    "d_model": 24,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
}
# family: arguments of its configuration, (H, D, d_k), attention layers, whether keys are normalised
FAMILIES: dict[str, tuple[dict[str, Any], tuple[int, int, int], int, bool]] = {
    "Bert": (SMALL, (4, 24, 6), 2, False),
    "Roberta": (SMALL, (4, 24, 6), 2, False),
    "Electra": ({**SMALL, "embedding_size": 24}, (4, 24, 6), 2, False),
    "Albert": ({**SMALL, "embedding_size": 8}, (4, 24, 6), 1, False),  # one layer, used twice
    "DistilBert": ({"vocab_size": 50, "dim": 24, "n_heads": 4, "n_layers": 2, "hidden_dim": 16}, (4, 24, 6), 2, False),
    "GPT2": ({**SMALL, "n_inner": 16}, (4, 24, 6), 2, False),
    "Llama": (GROUPED, (2, 24, 6), 2, False),
    "Mistral": (GROUPED, (2, 24, 6), 2, False),
    "Mixtral": ({**GROUPED, "num_local_experts": 2}, (2, 24, 6), 2, False),
    "Qwen2": (GROUPED, (2, 24, 6), 2, False),
    "Qwen3": ({**GROUPED, "head_dim": 8}, (2, 24, 8), 2, True),  # H * d_k is not D
    "Gemma": ({**GROUPED, "head_dim": 8}, (2, 24, 8), 2, False),
    "Gemma2": ({**GROUPED, "head_dim": 8}, (2, 24, 8), 2, False),
    "Gemma3Text": ({**GROUPED, "head_dim": 8}, (2, 24, 8), 2, True),
    "OPT": ({**SMALL, "ffn_dim": 16, "word_embed_proj_dim": 24}, (4, 24, 6), 2, False),
    "Bart": (ENCODER_DECODER, (4, 24, 6), 6, False),  # the decoder's layers attend twice
    "T5": (
        {"vocab_size": 50, "d_model": 24, "d_kv": 5, "num_heads": 4, "d_ff": 16, "num_layers": 2},
        (4, 24, 5),
        6,
        False,
    ),
    "ViT": (IMAGE, (4, 24, 6), 2, False),
    "DeiT": (IMAGE, (4, 24, 6), 2, False),
    "Dinov2": (IMAGE, (4, 24, 6), 2, False),
    "CLIPVision": (IMAGE, (4, 24, 6), 2, False),
}


@pytest.fixture(scope="module")
def seen() -> dict[nn.Module, Tensor]:
    """The keys (batch, heads, length, d_k) that each layer handed to the attention function."""
    from transformers.models.bert.modeling_bert import eager_attention_forward

    keys: dict[nn.Module, Tensor] = {}

    def spy(module: nn.Module, query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Any:
        keys[module] = key.detach()
        repeated = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        value = args[0].repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        return eager_attention_forward(module, query, repeated, value, None, scaling=1.0)

    transformers.AttentionInterface.register("spy", spy)
    return keys


def _inputs_of(model: nn.Module, layers: dict[str, Tensor]) -> dict[nn.Module, Tensor]:
    """Filled while the model runs: what each attention layer computes its keys from."""
    inputs: dict[nn.Module, Tensor] = {}

    def note(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        others = [kwargs.get(name) for name in ("key_value_states", "encoder_hidden_states")]
        own = args[0] if args else kwargs["hidden_states"]
        inputs[layer] = next((other for other in others if other is not None), own).detach()

    for name in layers:
        model.get_submodule(name).register_forward_pre_hook(note, with_kwargs=True)
    return inputs


def _run(model: nn.Module, config: Any) -> None:
    with torch.no_grad():
        if hasattr(config, "image_size"):
            model(pixel_values=torch.randn(2, 3, 4, 4))
        else:  # one token: at position 0 rotary embeddings turn by nothing
            tokens = torch.tensor([[7], [9]])
            model(input_ids=tokens, **({"decoder_input_ids": tokens} if config.is_encoder_decoder else {}))


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_keys_are_those_that_the_model_attends_with(family: str, seen: dict[nn.Module, Tensor]) -> None:
    arguments, shape, n_layers, normalised = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**arguments)
    config._attn_implementation = "spy"
    model = getattr(transformers, f"{family}Model")(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.3)
    found = archopt.key_projections(model)
    assert len(found) == n_layers
    inputs = _inputs_of(model, found)
    _run(model, config)
    for name, projections in found.items():
        assert projections.shape == shape
        layer = model.get_submodule(name)
        ours, theirs = inputs[layer][:, None] @ projections.detach(), seen[layer]
        if normalised:  # to a length: the direction is what the projection decides
            ours, theirs = (nn.functional.normalize(keys, dim=-1) for keys in (ours, theirs))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def _adapter(linear: nn.Linear) -> nn.Module:
    return nn.Sequential(linear, nn.Identity())


def _quantised(linear: nn.Linear) -> nn.Module:
    linear.weight = nn.Parameter(linear.weight.to(torch.int8), requires_grad=False)
    return linear


def _sharded(linear: nn.Linear) -> nn.Module:
    linear.weight = nn.Parameter(linear.weight.detach().flatten()[:0])
    return linear


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_adapter, r"its key is a torch\.nn\.modules\.container\.Sequential, not a plain linear layer"),
        (_quantised, "got int8: a quantised model must be dequantised first"),
        (_sharded, r"its keys' weight of shape \(0,\) does not divide into heads of 6"),
        (lambda linear: linear.to("meta"), "meta device: load the model whole"),
        (lambda linear: nn.Linear(24, 20), r"its keys' weight of shape \(20, 24\) does not divide into heads of 6"),
    ],
)
def test_weights_that_cannot_be_read_are_an_error_of_one_line(change: Any, told: str) -> None:
    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    attention = model.encoder.layer[1].attention.self
    attention.key = change(attention.key)
    with pytest.raises(archopt.ArchoptError, match=told) as caught:
        archopt.key_projections(model)
    message = str(caught.value)
    assert message.startswith(
        "encoder.layer.1.attention.self (transformers.models.bert.modeling_bert.BertSelfAttention)"
    )
    assert "\n" not in message


def test_attention_of_a_family_that_is_not_known_is_named() -> None:
    model = transformers.GPTNeoXModel(transformers.GPTNeoXConfig(**SMALL))
    with pytest.raises(
        archopt.ArchoptError, match=r"register_extractor\(\"transformers\.models\.gpt_neox\..*Attention"
    ):
        archopt.key_projections(model)
