"""Every kernel against explicit attention in float64, values and gradients."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from archopt.errors import OptionError  # noqa: E402
from archopt.models.attention import attention, blocked, choose_kernel  # noqa: E402

pytestmark = pytest.mark.torch

CPU_KERNELS = ("sdpa", "blocked", "explicit", "auto")


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
    for kernel in ("sdpa", "blocked", "explicit", "reference"):
        output = attention(query, key, value, scale=0.3, kernel=kernel)
        torch.testing.assert_close(output, value.expand(2, 3, 4, 6))


def test_equal_scores_average_the_visible_values():
    _, key, value = _inputs((1, 2, 5, 5, 3, 4), 1)
    query = torch.zeros(1, 2, 5, 3)
    running = value.cumsum(dim=2) / torch.arange(1, 6)[:, None]
    for kernel in ("sdpa", "blocked", "explicit", "reference"):
        torch.testing.assert_close(attention(query, key, value, scale=1.0, causal=True, kernel=kernel), running)


def test_reference_keeps_the_callers_dtype():
    query, key, value = _inputs((1, 1, 3, 3, 2, 2), 0)
    assert attention(query, key, value, scale=1.0, kernel="reference").dtype == torch.float32


@pytest.mark.parametrize(
    ("causal", "dtype", "n_scores", "one_thread", "two_threads"),
    [
        (False, torch.float32, 2**20 - 1, "explicit", "explicit"),
        (False, torch.float32, 2**20, "blocked", "explicit"),
        (False, torch.float32, 2**22, "blocked", "blocked"),
        (False, torch.bfloat16, 2**22, "sdpa", "sdpa"),
        (True, torch.float32, 8 * 64 * 64, "sdpa", "sdpa"),
        (True, torch.float32, 2**24, "sdpa", "sdpa"),
    ],
)
def test_auto_follows_the_documented_rule_on_a_cpu(causal, dtype, n_scores, one_thread, two_threads):
    before = torch.get_num_threads()
    try:
        for n_threads, expected in ((1, one_thread), (2, two_threads)):
            torch.set_num_threads(n_threads)
            assert choose_kernel("cpu", dtype, 3, n_scores=n_scores, causal=causal) == expected
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("head_dim", [1, 2, 3, 5, 7, 8, 15, 16, 31, 33, 48, 63, 64, 65, 96, 127, 128, 255, 256])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", CPU_KERNELS)
def test_every_head_dim_with_blocks_that_do_not_come_out_even(kernel, causal, head_dim, monkeypatch):
    # small blocks: several of them in each direction, and a rest in each
    monkeypatch.setattr(blocked, "_BLOCK_SCORES", 48)
    monkeypatch.setattr(blocked, "_MAX_BLOCK_QUERIES", 8)
    monkeypatch.setattr(blocked, "_MIN_BLOCK_KEYS", 6)
    inputs = _inputs((2, 3, 37, 37 if causal else 53, head_dim, 5), head_dim)
    ran = _value_and_gradients(inputs, scale=head_dim**-0.5, causal=causal, kernel=kernel)
    exact = _value_and_gradients([x.double() for x in inputs], scale=head_dim**-0.5, causal=causal, kernel="reference")
    for got, expected in zip(ran, exact, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=2e-5)


def test_blocks_in_float64_are_exact():
    inputs = _inputs((2, 3, 70, 300, 7, 4), 0, torch.float64)
    ran = _value_and_gradients(inputs, scale=0.4, causal=False, kernel="blocked")
    exact = _value_and_gradients(inputs, scale=0.4, causal=False, kernel="reference")
    for got, expected in zip(ran, exact, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)  # sums of 300 terms, eps 2e-16


def test_blocks_bear_scores_far_apart():
    # logits of +-2,000: exp overflows where the largest is not taken off first
    query, key, value = _inputs((1, 2, 5, 400, 4, 3), 0)
    with torch.no_grad():
        query *= 300
    ran = _value_and_gradients((query, key, value), scale=1.0, causal=False, kernel="blocked")
    assert all(torch.isfinite(x).all() for x in ran)
    exact = attention(query, key, value, scale=1.0, kernel="reference")
    torch.testing.assert_close(ran[0], exact, rtol=1e-3, atol=1e-3)  # logits of 2,000 are rounded to 1e-4


def test_blocks_leave_the_threads_as_they_were_and_do_not_depend_on_them():
    inputs = _inputs((1, 40, 64, 300, 3, 1), 0)
    before, seen = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            seen.append(_value_and_gradients(inputs, scale=1.0, causal=False, kernel="blocked"))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*seen, strict=True))


@pytest.mark.parametrize("kernel", CPU_KERNELS)
def test_views_and_no_queries_are_served(kernel):
    query, key, value = _inputs((2, 3, 6, 9, 4, 4), 0)
    strided = [x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value)]
    torch.testing.assert_close(
        attention(*strided, scale=0.5, kernel=kernel), attention(query, key, value, scale=0.5, kernel=kernel)
    )
    assert attention(query[:, :, :0], key, value, scale=0.5, kernel=kernel).shape == (2, 3, 0, 4)


def test_no_keys_are_refused():
    query, key, value = _inputs((1, 1, 2, 3, 2, 2), 0)
    with pytest.raises(OptionError, match="at least one key"):
        attention(query, key[:, :, :0], value[:, :, :0], scale=1.0)


def test_auto_on_cuda_falls_back_to_sdpa_for_a_dtype_without_kernel():
    assert choose_kernel("cuda", torch.float64, 8, n_scores=1) == "sdpa"


@pytest.mark.parametrize("kernel", ["sdpa", "blocked", "explicit", "reference"])
def test_a_kernel_asked_for_is_taken(kernel):
    assert choose_kernel("cpu", torch.float32, 3, n_scores=10**9, kernel=kernel) == kernel


def test_bad_requests_are_one_line_each():
    inputs = _inputs((1, 1, 2, 3, 2, 2), 0)
    with pytest.raises(OptionError, match="needs a CUDA device") as caught:
        attention(*inputs, scale=1.0, kernel="xformers")
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="one of auto, xformers"):
        attention(*inputs, scale=1.0, kernel="flash")
    with pytest.raises(OptionError, match=r"blocked' is for float32 on a CPU but this is torch\.bfloat16"):
        attention(*(x.bfloat16() for x in inputs), scale=1.0, kernel="blocked")
    with pytest.raises(OptionError, match="got 2 and 3"):
        attention(*inputs, scale=1.0, causal=True)
