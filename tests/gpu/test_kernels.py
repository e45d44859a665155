"""Every attention kernel on a CUDA device against the float64 reference on the CPU, values and gradients."""

import pytest

torch = pytest.importorskip("torch")

from archopt.allocation import HeadAllocation  # noqa: E402
from archopt.models.attention import attention  # noqa: E402
from archopt.models.nadaraya_watson import NadarayaWatson  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: kernels on a GPU are not tested here"),
]

DEVICE = "cuda"
HEAD_DIMS = (1, 3, 8, 17, 32, 64, 96, 128, 256, 257)  # 257: the Gaussian kernel's extra column at d_k = 256

# Largest error over the largest entry of what is expected, in units of the dtype's epsilon. The same shapes on a CPU
# reach 3.5 (float16, bfloat16), 19 (float32) and 16 (float64), so these leave a factor of 3 and of 13 for another
# order of summation. Products in TF32, imitated on a CPU, reach 900 to 12,000 float32 epsilons: they do not pass.
MAX_ERROR_EPSILONS = {torch.float16: 10, torch.bfloat16: 10, torch.float32: 256, torch.float64: 256}

# The whole Nadaraya-Watson model has an embedding, logits that are large before their maximum is taken off, and
# gradients summed over all rows: 170 float32 epsilons on a CPU.
MAX_MODEL_ERROR_EPSILONS = 2048

# queries, keys, value width (None: as wide as the keys), causal
SHAPES = ((67, 67, None, True), (67, 67, None, False), (33, 131, None, False), (33, 131, 5, False), (1, 7, 1, False))


@pytest.fixture(autouse=True)
def _full_precision_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def _value_and_gradients(inputs, *, scale, causal, kernel):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    output = attention(*leaves, scale=scale, causal=causal, kernel=kernel)
    upstream = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view(output.shape)
    gradients = torch.autograd.grad(output, leaves, upstream.to(output))
    return [x.detach().double().cpu() for x in (output, *gradients)]


def _assert_close(got, expected, dtype, names, where, limit=None):
    limit = limit or MAX_ERROR_EPSILONS[dtype]
    for name, ours, exact in zip(names, got, expected, strict=True):
        assert ours.shape == exact.shape
        error = float((ours - exact).abs().max() / exact.abs().max()) / torch.finfo(dtype).eps
        assert error <= limit, f"{name} of {where}: {error:.3g} epsilons"


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("kernel", ["xformers", "sdpa", "explicit", "reference", "auto"])
def test_kernel_agrees_with_float64(skip_where_refused, kernel, dtype, head_dim):
    skip_where_refused(kernel, dtype)
    generator = torch.Generator().manual_seed(head_dim)
    for length, key_length, value_width, causal in SHAPES:
        widths = (head_dim, head_dim, value_width or head_dim)
        lengths = (length, key_length, key_length)
        inputs = [
            torch.randn(2, 3, n, width, generator=generator).to(dtype) for n, width in zip(lengths, widths, strict=True)
        ]
        options = {"scale": head_dim**-0.5, "causal": causal}
        got = _value_and_gradients([x.to(DEVICE) for x in inputs], kernel=kernel, **options)
        exact = _value_and_gradients([x.double() for x in inputs], kernel="reference", **options)
        where = f"{length} queries, {key_length} keys, value width {widths[2]}, causal {causal}"
        _assert_close(got, exact, dtype, ("output", "query", "key", "value"), where)


@pytest.mark.parametrize("kernel", ["xformers", "sdpa", "explicit", "auto"])
def test_transposed_views_are_taken(skip_where_refused, kernel):
    """A decoder's heads are views of one product, never contiguous."""
    skip_where_refused(kernel, torch.float32)
    packed = torch.randn(2, 65, 3, 4, 12, generator=torch.Generator().manual_seed(0))
    views = [packed[:, :, i].transpose(1, 2) for i in range(3)]
    on_device = [packed.to(DEVICE)[:, :, i].transpose(1, 2) for i in range(3)]
    assert not on_device[0].is_contiguous()
    got = attention(*on_device, scale=12**-0.5, causal=True, kernel=kernel)
    exact = attention(*(x.double() for x in views), scale=12**-0.5, causal=True, kernel="reference")
    _assert_close([got.double().cpu()], [exact], torch.float32, ("output",), "views")


@pytest.mark.parametrize("n_outputs", [1, 10])
@pytest.mark.parametrize("head_dim", [1, 4, 15, 64, 256])
@pytest.mark.parametrize("kernel", ["xformers", "sdpa", "explicit", "auto"])
def test_nadaraya_watson_agrees_with_float64(skip_where_refused, kernel, head_dim, n_outputs):
    skip_where_refused(kernel, torch.float32)
    n_heads = max(1, 64 // head_dim)

    def model(attention_kernel):
        return NadarayaWatson(
            5,
            n_outputs,
            HeadAllocation(n_heads, head_dim),
            weighting="uniform",
            kernel="gaussian",
            attention_kernel=attention_kernel,
            generator=torch.Generator().manual_seed(0),
        )

    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(33 + 517, 5, generator=generator)
    targets = rows[33:, 0] if n_outputs == 1 else torch.randint(n_outputs, (517,), generator=generator)
    ours, exact = model(kernel).to(DEVICE), model("reference").double()
    estimate = ours(rows[:33].to(DEVICE), rows[33:].to(DEVICE), targets.to(DEVICE))
    wanted = exact(rows[:33].double(), rows[33:].double(), targets.double() if n_outputs == 1 else targets)
    got, expected = [estimate], [wanted]
    for network, prediction, found in ((ours, estimate, got), (exact, wanted, expected)):
        found.extend(torch.autograd.grad(prediction.square().sum(), [network.key_weight, network.log_temperature]))
    detached = [[x.detach().double().cpu() for x in found] for found in (got, expected)]
    _assert_close(
        *detached,
        torch.float32,
        ("estimate", "key_weight", "log_temperature"),
        f"{n_heads} heads of {head_dim}",
        limit=MAX_MODEL_ERROR_EPSILONS,
    )
