"""The Gaussian kernel over 16,384 keys, forward and backward: what archopt picks beside all else one could write."""

import time
from statistics import median

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from archopt.models.attention import attention, choose_kernel  # noqa: E402

pytestmark = [pytest.mark.bench, pytest.mark.torch, pytest.mark.timeout(1200)]

N_QUERIES, N_KEYS, D = 256, 16_384, 32
ROUNDS = 5


def _problem(n_heads):
    """Queries, keys and log temperatures with gradients; targets without."""
    generator = torch.Generator().manual_seed(0)
    head_dim = D // n_heads
    query = torch.randn(n_heads, N_QUERIES, head_dim, generator=generator).requires_grad_()
    key = torch.randn(n_heads, N_KEYS, head_dim, generator=generator).requires_grad_()
    log_temperature = (0.1 * torch.randn(n_heads, generator=generator)).requires_grad_()
    return query, key, log_temperature, torch.randn(N_KEYS, 1, generator=generator)


def _augmented(query, key, log_temperature):
    inverse_tau = (torch.exp(-log_temperature) / query.shape[-1] ** 0.5)[:, None, None]
    centre = key.detach().mean(dim=1, keepdim=True)
    query, key = query - centre, key - centre
    wide_query = torch.cat([query, torch.ones_like(query[..., :1])], dim=-1) * inverse_tau
    return wide_query[None], torch.cat([key, -0.5 * key.square().sum(-1, keepdim=True)], dim=-1)[None]


def _distances(query, key, log_temperature, targets):
    inverse_tau = (torch.exp(-log_temperature) / query.shape[-1] ** 0.5)[:, None, None]
    return torch.softmax(-0.5 * inverse_tau * torch.cdist(query, key).square(), dim=-1) @ targets


def _through(kernel):
    def run(query, key, log_temperature, targets):
        wide_query, wide_key = _augmented(query, key, log_temperature)
        values = targets.expand(1, len(key), -1, -1)
        if kernel == "sdpa, widths as they are":
            return F.scaled_dot_product_attention(wide_query, wide_key, values, scale=1.0)[0]
        return attention(wide_query, wide_key, values, scale=1.0, kernel=kernel)[0]

    return run


CANDIDATES = {
    "cdist and softmax": _distances,
    "explicit": _through("explicit"),
    "sdpa, widths as they are": _through("sdpa, widths as they are"),
    "sdpa": _through("sdpa"),
    "blocked": _through("blocked"),
    "auto": _through("auto"),
}


def _step(run, problem):
    *leaves, targets = problem
    begun = time.perf_counter()
    output = run(*leaves, targets)
    gradients = torch.autograd.grad(output.square().mean(), leaves)
    return time.perf_counter() - begun, (output.detach(), *gradients)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_heads", [1, 2, 4, 8, 16, 32])
def test_auto_is_close_to_the_fastest(n_heads, n_threads):
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        problem = _problem(n_heads)
        spent = {name: [] for name in CANDIDATES}
        expected = _step(CANDIDATES["explicit"], problem)[1]
        for name, run in CANDIDATES.items():  # the same numbers, or there is nothing to compare
            for got, exact in zip(_step(run, problem)[1], expected, strict=True):
                assert (got - exact).norm() <= 2e-3 * exact.norm(), name  # cdist takes a root and squares it again
        for _ in range(ROUNDS):
            for name, run in CANDIDATES.items():
                spent[name].append(_step(run, problem)[0])
        kernel = choose_kernel(
            "cpu", torch.float32, D // n_heads + 1, n_scores=n_heads * N_QUERIES * N_KEYS, causal=False
        )
    finally:
        torch.set_num_threads(before)
    found = {name: median(seconds) for name, seconds in spent.items()}
    auto = found.pop("auto")
    print(f"\nH = {n_heads}, {n_threads} threads: auto ({kernel}) {1e3 * auto:.0f} ms; over it: ", end="")
    print(", ".join(f"{name} {seconds / auto:.2f}" for name, seconds in found.items()))
    assert auto <= 1.25 * min(found.values())
    if n_heads == 16:
        assert found["cdist and softmax"] >= 3.5 * auto
        assert found["explicit"] >= 1.5 * auto
