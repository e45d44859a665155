"""Key projections of torch's and archopt's own attention: each head's keys, as the layer itself computes them."""

import importlib
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import archopt  # noqa: E402
from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.models.nadaraya_watson import NadarayaWatson  # noqa: E402
from archopt.models.transformer import ByteDecoder  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("no_extractors")]


class MyAttention(nn.Module):
    """Not known to archopt: two heads of three, in one matrix that interleaves them."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.arange(24.0).reshape(4, 6))


def interleaved(layer: MyAttention) -> Tensor:
    return torch.stack([layer.matrix[:, 0::2], layer.matrix[:, 1::2]])


class Model(nn.Module):
    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)


def _scores_differ(layer: nn.MultiheadAttention, width: int, projections: Tensor) -> Tensor:
    """Weights of one query over many keys, from the layer itself, over those from the key projections alone."""
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(1, 1, layer.embed_dim, generator=generator)
    keys = torch.randn(1, 7, width, generator=generator)
    values = keys if layer.vdim == width else torch.randn(1, 7, layer.vdim, generator=generator)
    _, by_head = layer(query, keys, values, average_attn_weights=False)  # (1, H, 1, 7)
    query_weight = layer.q_proj_weight if layer.in_proj_weight is None else layer.in_proj_weight[: layer.embed_dim]
    query_bias = layer.in_proj_bias[: layer.embed_dim]
    q = nn.functional.linear(query[0], query_weight, query_bias).view(layer.num_heads, 1, layer.head_dim)
    logits = q @ (keys[0] @ projections).mT / layer.head_dim**0.5  # a key's bias adds the same to all of a query's
    return by_head[0] - torch.softmax(logits, dim=-1)


@pytest.mark.parametrize(("n_heads", "key_width"), [(1, None), (3, None), (4, 12), (4, 5), (2, 20)])
def test_keys_of_torch_attention_give_its_own_attention_weights(n_heads: int, key_width: int | None) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(12, n_heads, kdim=key_width, vdim=key_width, batch_first=True)
    nn.init.normal_(layer.in_proj_bias)
    (found,) = archopt.key_projections(layer).values()
    assert found.shape == (n_heads, key_width or 12, 12 // n_heads)
    difference = _scores_differ(layer, key_width or 12, found)
    torch.testing.assert_close(difference, torch.zeros_like(difference), atol=1e-6, rtol=0.0)


def test_a_layer_is_named_by_its_place_and_the_module_itself_by_nothing() -> None:
    decoder = nn.TransformerDecoderLayer(8, 2, 8)
    assert list(archopt.key_projections(decoder)) == ["self_attn", "multihead_attn"]
    assert list(archopt.key_projections(decoder.self_attn)) == [""]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2)
    assert list(archopt.key_projections(Model(encoder=encoder))) == [
        "encoder.layers.0.self_attn",
        "encoder.layers.1.self_attn",
    ]


def test_a_layer_used_twice_counts_once() -> None:
    shared = nn.MultiheadAttention(8, 2)
    assert list(archopt.key_projections(Model(first=shared, second=shared))) == ["first"]


def test_a_subclass_is_known_by_what_it_derives_from() -> None:
    class Wider(nn.MultiheadAttention):
        pass

    assert archopt.key_projections(Wider(8, 4))[""].shape == (4, 8, 2)


def test_torchs_quantizable_attention_is_read_from_the_weights_that_it_uses() -> None:
    layer = torch.ao.nn.quantizable.MultiheadAttention(12, 3)
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
    (found,) = archopt.key_projections(layer).values()
    keys = layer.linear_K(x) - layer.linear_K.bias
    torch.testing.assert_close((x @ found).transpose(0, 1).reshape(5, 12), keys)


def test_gradients_flow_to_the_weights() -> None:
    layer = nn.MultiheadAttention(6, 2)
    archopt.key_projections(layer)[""].sum().backward()
    assert layer.in_proj_weight.grad is not None
    expected = torch.zeros(18, 6)
    expected[6:12] = 1.0  # the keys' rows alone
    torch.testing.assert_close(layer.in_proj_weight.grad, expected)


def _nadaraya_watson(allocation: HeadAllocation) -> NadarayaWatson:
    return NadarayaWatson(
        3,
        1,
        allocation,
        weighting="uniform",
        kernel="gaussian",
        attention_kernel="auto",
        generator=torch.Generator().manual_seed(0),
    )


def test_own_nadaraya_watson_model() -> None:
    model = _nadaraya_watson(HeadAllocation(4, 2))
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model.embed(rows) @ archopt.key_projections(model)[""], model.keys(rows))


def test_own_decoder() -> None:
    model = ByteDecoder(
        HeadAllocation(2, 4),
        n_layers=2,
        context_length=4,
        weighting="uniform",
        attention_kernel="auto",
        generator=torch.Generator().manual_seed(0),
    )
    found = archopt.key_projections(model)
    assert list(found) == ["layers.0.attention", "layers.1.attention"]
    for projections, weight in zip(found.values(), model.key_projections(), strict=True):
        assert torch.equal(projections, weight)


@pytest.mark.parametrize("by", [lambda: MyAttention, lambda: f"{__name__}.MyAttention"], ids=["class", "name"])
def test_a_registered_extractor_is_used(by: Callable[[], type | str]) -> None:
    archopt.register_extractor(by(), interleaved)
    found = archopt.key_projections(Model(known=nn.MultiheadAttention(4, 2), own=MyAttention()))
    assert list(found) == ["known", "own"]
    assert found["own"][1, 0].tolist() == [1.0, 3.0, 5.0]


def test_a_registered_extractor_beats_what_is_known() -> None:
    archopt.register_extractor(nn.MultiheadAttention, lambda layer: layer.out_proj.weight[None])
    assert archopt.key_projections(nn.MultiheadAttention(4, 2))[""].shape == (1, 4, 4)


def test_nothing_inside_a_registered_layer_is_looked_at() -> None:
    archopt.register_extractor(Model, lambda layer: layer.inner.in_proj_weight[None])
    assert list(archopt.key_projections(Model(inner=nn.MultiheadAttention(4, 2), odd=MyAttention()))) == [""]


ENTRY_POINTS = "[archopt.extractors]\nshop.attention.ShopAttention = shop.keys:by_head\n"
ATTENTION = """
from torch import nn
class ShopAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(6, 4, bias=False)
"""
KEYS = """
def by_head(layer):
    return layer.keys.weight.unflatten(0, (2, 2)).mT
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with an attention layer of its own and the extractor for it."""
    metadata = tmp_path / "shop-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "attention.py").write_text(ATTENTION)
    (package / "keys.py").write_text(KEYS)
    monkeypatch.syspath_prepend(tmp_path)
    return package


def _shop_attention() -> nn.Module:
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]  # each test has its own copy
    layer: nn.Module = importlib.import_module("shop.attention").ShopAttention()
    return layer


@pytest.mark.usefixtures("shop")
def test_an_installed_package_adds_an_extractor_that_the_user_can_replace() -> None:
    layer = _shop_attention()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    (found,) = archopt.key_projections(layer).values()
    torch.testing.assert_close(torch.cat(list(x @ found), dim=-1), layer.keys(x))
    archopt.register_extractor(type(layer), lambda layer: layer.keys.weight.T[None])
    assert archopt.key_projections(layer)[""].shape == (1, 6, 4)


def test_a_package_whose_extractor_cannot_be_loaded_is_named_and_only_where_its_layer_is(shop: Path) -> None:
    (shop / "keys.py").write_text("import no_such_module")
    layer = _shop_attention()
    archopt.key_projections(nn.MultiheadAttention(4, 2))
    with pytest.raises(archopt.ArchoptError, match=r"^shop 1\.0 adds 'shop\.attention\.ShopAttention'.*no_such_module"):
        archopt.key_projections(layer)


def _error(module: object) -> str:
    with pytest.raises(archopt.ArchoptError) as caught:
        archopt.key_projections(module)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_unknown_attention_is_named_with_what_to_do() -> None:
    message = _error(MyAttention())
    assert f"{__name__}.MyAttention" in message
    assert f'archopt.register_extractor("{__name__}.MyAttention", function)' in message
    assert "MyAttention" in _error(Model(known=nn.MultiheadAttention(4, 2), own=MyAttention()))  # never half of them


def test_a_wrapper_of_known_attention_and_one_without_weights_are_no_attention_of_their_own() -> None:
    class AttentionBlock(Model):
        pass

    class ScaledDotProductAttention(nn.Module):
        pass

    block = AttentionBlock(inner=nn.MultiheadAttention(4, 2), product=ScaledDotProductAttention())
    assert list(archopt.key_projections(block)) == ["inner"]


def test_a_module_without_attention_says_what_it_is_made_of() -> None:
    message = _error(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    assert message.startswith("Sequential holds no attention layer that archopt knows (made of Linear, ReLU)")
    assert "register_extractor" in message


def test_what_is_no_module_is_refused() -> None:
    assert "must be a torch.nn.Module but got dict" in _error({})


@pytest.mark.parametrize(
    ("extractor", "told"),
    [
        (lambda layer: layer.matrix, r"but got shape \(4, 6\)"),
        (lambda layer: layer.matrix.detach().numpy(), "but got a ndarray"),
        (lambda layer: layer.matrix.to(torch.int8)[None], "but got int8: a quantised model must be dequantised"),
        (lambda layer: layer.matrix.to("meta")[None], "meta device"),
        (lambda layer: layer.matrix[None, :0], r"but got shape \(1, 0, 6\)"),
        (lambda layer: layer.weights, "cannot be read: AttributeError: 'MyAttention' object has no attribute"),
    ],
)
def test_an_extractor_that_does_not_do_is_an_error_of_one_line(extractor: Callable[..., Tensor], told: str) -> None:
    archopt.register_extractor(MyAttention, extractor)
    message = _error(Model(own=MyAttention()))
    assert message.startswith(f"own ({__name__}.MyAttention)")
    assert re.search(told, message)


@pytest.mark.parametrize("layer", ["MyAttention", 3, MyAttention()], ids=["bare name", "number", "instance"])
def test_a_layer_is_registered_by_class_or_full_name(layer: object) -> None:
    with pytest.raises(archopt.ArchoptError, match=r"layer must be a class, or its name as 'package\.module\.Class'"):
        archopt.register_extractor(layer, interleaved)  # type: ignore[arg-type]


def test_an_extractor_is_a_function() -> None:
    with pytest.raises(archopt.ArchoptError, match="extractor must be a function"):
        archopt.register_extractor(MyAttention, "interleaved")  # type: ignore[arg-type]


def test_weights_left_on_the_meta_device_are_an_error() -> None:
    assert "meta device: load the model whole" in _error(nn.MultiheadAttention(4, 2, device="meta"))


def _attention(projections: Tensor) -> nn.MultiheadAttention:
    n_heads, width, head_dim = projections.shape
    layer = nn.MultiheadAttention(width, n_heads)
    with torch.no_grad():
        layer.in_proj_weight[width : 2 * width] = projections.mT.reshape(n_heads * head_dim, width)
    return layer


SAME = torch.eye(4)[:, :2].expand(2, -1, -1)  # two heads that read one plane
APART = torch.eye(4).reshape(4, 2, 2).transpose(0, 1)  # two that share no direction


def test_diversity_is_the_mean_over_layers_with_several_heads() -> None:
    apart, same = _attention(APART), _attention(SAME)
    assert archopt.module_diversity(apart) == pytest.approx(1.0)
    assert archopt.module_diversity(same) == pytest.approx(0.0, abs=1e-6)
    mixed = Model(a=apart, b=same, c=nn.MultiheadAttention(4, 1))
    assert archopt.module_diversity(mixed) == pytest.approx(0.5)


def test_one_head_has_no_diversity() -> None:
    assert math.isnan(archopt.module_diversity(nn.MultiheadAttention(4, 1)))


@pytest.mark.parametrize(("weight", "told"), [(0.0, "lacks full column rank"), (float("nan"), "not finite")])
def test_a_collapsed_head_is_told_and_ends_no_training(weight: float, told: str) -> None:
    collapsed = APART.clone()
    collapsed[1] = weight
    with pytest.warns(RuntimeWarning, match=f"no head diversity: b: head 1.*{told}"):
        hdi = archopt.module_diversity(Model(a=_attention(APART), b=_attention(collapsed)))
    assert math.isnan(hdi)


def test_heads_wider_than_what_they_read_have_no_diversity() -> None:
    with pytest.raises(archopt.ArchoptError, match="head_dim must be at most the width D = 3"):
        archopt.module_diversity(nn.MultiheadAttention(8, 2, kdim=3))
