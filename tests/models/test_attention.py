"""Every kernel against explicit attention in float64, values and gradients."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from archopt.errors import OptionError  # noqa: E402
from archopt.models.attention import attention, choose_kernel  # noqa: E402

pytestmark = pytest.mark.torch

CPU_KERNELS = ("sdpa", "explicit", "auto")


def _inputs(shape, seed, dtype=torch.float32):
    batch, heads, length, key_length, width, value_width = shape
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(batch, heads, n, w, generator=generator).to(dtype).requires_grad_()
        for n, w in ((length, width), (key_length, width), (key_length, value_width))
    )


def _value_and_gradients(inputs, *, scale, causal, kernel):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    output = attention(*leaves, scale=scale, causal=causal, kernel=kernel)
    upstream = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    return [output.detach(), *torch.autograd.grad(output, leaves, upstream)]


@pytest.mark.parametrize("kernel", CPU_KERNELS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 5),
    length=st.integers(1, 67),
    key_length=st.integers(1, 67),
    width=st.sampled_from([1, 2, 3, 5, 8, 13, 17, 33, 64, 129]),
    value_width=st.sampled_from([1, 2, 7, 10, 33, 64]),
    causal=st.booleans(),
    seed=st.integers(0, 10),
)
def test_kernel_agrees_with_float64(kernel, batch, heads, length, key_length, width, value_width, causal, seed):
    key_length = length if causal else key_length
    inputs = _inputs((batch, heads, length, key_length, width, value_width), seed)
    ran = _value_and_gradients(inputs, scale=width**-0.5, causal=causal, kernel=kernel)
    exact = _value_and_gradients([x.double() for x in inputs], scale=width**-0.5, causal=causal, kernel="reference")
    for got, expected in zip(ran, exact, strict=True):
        assert got.shape == expected.shape
        # fp32 sums of at most 67 terms of size 1: errors near 1e-6, gradients several times that
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=2e-5)


def test_one_key_returns_its_value():
    query, key, value = _inputs((2, 3, 4, 1, 5, 6), 0)
    for kernel in ("sdpa", "explicit", "reference"):
        output = attention(query, key, value, scale=0.3, kernel=kernel)
        torch.testing.assert_close(output, value.expand(2, 3, 4, 6))


def test_equal_scores_average_the_visible_values():
    _, key, value = _inputs((1, 2, 5, 5, 3, 4), 1)
    query = torch.zeros(1, 2, 5, 3)
    running = value.cumsum(dim=2) / torch.arange(1, 6)[:, None]
    for kernel in ("sdpa", "explicit", "reference"):
        torch.testing.assert_close(attention(query, key, value, scale=1.0, causal=True, kernel=kernel), running)


def test_reference_keeps_the_callers_dtype():
    query, key, value = _inputs((1, 1, 3, 3, 2, 2), 0)
    assert attention(query, key, value, scale=1.0, kernel="reference").dtype == torch.float32


@pytest.mark.parametrize(
    ("device", "causal", "n_scores", "expected"),
    [
        ("cpu", False, 64 * 512 * 48, "explicit"),
        ("cpu", False, 256 * 16_384 * 16, "sdpa"),
        ("cpu", True, 8 * 64 * 64, "sdpa"),
    ],
)
def test_auto_follows_the_documented_rule(device, causal, n_scores, expected):
    assert choose_kernel(device, torch.float32, 3, n_scores=n_scores, causal=causal) == expected


def test_auto_on_cuda_falls_back_to_sdpa_for_a_dtype_without_kernel():
    assert choose_kernel("cuda", torch.float64, 8, n_scores=1) == "sdpa"


@pytest.mark.parametrize("kernel", ["sdpa", "explicit", "reference"])
def test_a_kernel_asked_for_is_taken(kernel):
    assert choose_kernel("cpu", torch.float32, 3, n_scores=10**9, kernel=kernel) == kernel


def test_bad_requests_are_one_line_each():
    inputs = _inputs((1, 1, 2, 3, 2, 2), 0)
    with pytest.raises(OptionError, match="needs a CUDA device") as caught:
        attention(*inputs, scale=1.0, kernel="xformers")
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="one of auto, xformers"):
        attention(*inputs, scale=1.0, kernel="flash")
    with pytest.raises(OptionError, match="got 2 and 3"):
        attention(*inputs, scale=1.0, causal=True)
