"""Attention in blocks of scores that stay in a core's cache: exact, memory linear in the keys, made for narrow heads.

Forward, each block of queries x keys gives its weights relative to its own largest score, their sum and the sum of
weighted values; the blocks of a query are then put on one scale and added. Only each query's log of summed weights is
kept; backward computes the weights anew. (Source: Dao et al. 2022, arXiv:2205.14135, algorithms 1 and 4.)

What makes it fast on a CPU at head widths of 1 to 32, where no product is large:
- products are laid out so that their long side is contiguous: with a few columns of output MKL takes 1 to 3 ns a
  score, with a few rows 0.2;
- a column of ones among the values sums the weights, a column of minus the log-sum subtracts it, and a column of
  minus (gradient . output) gives the softmax's backward: each inside a product that runs anyway;
- weights are powers of two: ``exp2`` takes 0.3 ns a score here and ``exp`` 0.85.
(One thread of an AMD EPYC with AVX-512, torch 2.13.0, blocks of 256 x 256 to 256 x 1,024.)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import e, log2
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK_SCORES = 2**17  # 512 KiB in fp32, half of a core's second-level cache; with two threads no other is faster
_MAX_BLOCK_QUERIES = 512
_MIN_BLOCK_KEYS = 128
_HIDDEN = -1e30  # finite: a query with no visible key in a block gets weight 0 for it, where -inf would give NaN


def blocked_attention(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
    """softmax(scale * query key^T) value.

    Args: as for ``archopt.models.attention.attention``; float32 or float64. Differentiable once.
    """
    batch, heads, length, _ = query.shape
    merged = (x.reshape(batch * heads, *x.shape[-2:]) for x in (query, key, value))
    output: Tensor = _Blocked.apply(*merged, scale, causal)  # type: ignore[no-untyped-call]
    return output.view(batch, heads, length, value.shape[-1])


class _Blocked(torch.autograd.Function):
    """(N, m, w), (N, n, w), (N, n, c) to (N, m, c)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor:
        tiling = _Tiling(query, key, causal)
        with tiling.threads():
            output, log_mass = _forward(tiling, query, key, value, scale)
        ctx.save_for_backward(query, key, value, output, log_mass)
        ctx.scale, ctx.causal = scale, causal
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, log_mass = ctx.saved_tensors
        # transposed, as the products need them
        gradients = [
            x.new_zeros(x.mT.shape) if needed else None
            for x, needed in zip((query, key, value), ctx.needs_input_grad, strict=False)
        ]
        tiling = _Tiling(query, key, ctx.causal)
        with tiling.threads():
            _backward(tiling, query, key, value, output, log_mass, gradient, ctx.scale, gradients)
        return (*(None if x is None else x.mT for x in gradients), None, None)


def _forward(tiling: "_Tiling", query: Tensor, key: Tensor, value: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The output, and log2 of each query's summed weights, (N, m, 1)."""
    n_values = value.shape[-1]
    output = value.new_empty(*query.shape[:-1], n_values)
    log_mass = query.new_empty(*query.shape[:-1], 1)
    scores = tiling.scratch(query)
    for heads in tiling.heads():
        q = query[heads] * (scale * log2(e))
        k = key[heads].mT.contiguous()
        v = _with_ones(value[heads])
        for rows, tiles in tiling.rows():
            q_rows = q[:, rows]
            tops = q.new_empty(len(tiles), *q_rows.shape[:2], 1)
            sums = q.new_empty(len(tiles), len(q), n_values + 1, q_rows.shape[1])
            for (columns, hidden), top, part in zip(tiles, tops.unbind(), sums.unbind(), strict=True):
                weights = _view(scores, q_rows, k[..., columns])
                _masked_product(q_rows, k[..., columns], hidden, weights)
                torch.amax(weights, -1, keepdim=True, out=top)
                weights.sub_(top).exp2_()
                torch.bmm(v[..., columns], weights.mT, out=part)
            peak = tops.amax(0)
            total = (sums * (tops - peak).exp2_().mT).sum(0)
            mass = total[:, n_values:].mT
            torch.div(total[:, :n_values].mT, mass, out=output[heads, rows])
            torch.add(peak, mass.log2(), out=log_mass[heads, rows])
    return output, log_mass


def _backward(
    tiling: "_Tiling",
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    log_mass: Tensor,
    gradient: Tensor,
    scale: float,
    gradients: list[Tensor | None],
) -> None:
    """Add to what is asked for of ``gradients``: of the queries, the keys and the values."""
    d_query, d_key, d_value = gradients
    width = query.shape[-1]
    weights_scratch, slopes_scratch = tiling.scratch(query), tiling.scratch(query)
    for heads in tiling.heads():
        q = torch.cat([query[heads] * (scale * log2(e)), -log_mass[heads]], dim=-1)
        q_scaled = (query[heads] * scale).mT.contiguous()
        g = gradient[heads]
        mean_slope = (g * output[heads]).sum(-1, keepdim=True)
        g_mean, g = torch.cat([g, -mean_slope], dim=-1), g.mT.contiguous()
        k, v = _with_ones(key[heads]), _with_ones(value[heads])
        for rows, tiles in tiling.rows():
            for columns, hidden in tiles:
                weights = _view(weights_scratch, q[:, rows], k[..., columns])
                slopes = _view(slopes_scratch, q[:, rows], k[..., columns])
                _masked_product(q[:, rows], k[..., columns], hidden, weights)
                weights.exp2_()
                if d_value is not None:
                    d_value[heads, :, columns].baddbmm_(g[..., rows], weights)
                torch.bmm(g_mean[:, rows], v[..., columns], out=slopes).mul_(weights)
                if d_query is not None:
                    d_query[heads, :, rows].baddbmm_(k[:, :width, columns], slopes.mT)
                if d_key is not None:
                    d_key[heads, :, columns].baddbmm_(q_scaled[..., rows], slopes)
    if d_query is not None:
        d_query.mul_(scale)


class _Tiling:
    """How (N, m, w) queries by (N, n, w) keys are cut into blocks: a function of the shape alone."""

    def __init__(self, query: Tensor, key: Tensor, causal: bool) -> None:
        self.n_heads, self.n_queries, self.n_keys = query.shape[0], query.shape[1], key.shape[1]
        self.block_queries = min(self.n_queries, _MAX_BLOCK_QUERIES)
        self.block_keys = min(self.n_keys, max(_MIN_BLOCK_KEYS, _BLOCK_SCORES // max(1, self.block_queries)))
        whole = self.n_queries * self.n_keys
        self.block_heads = max(1, min(self.n_heads, _BLOCK_SCORES // max(1, whole)))
        self.by_rows = [
            (rows, list(self._tiles(rows, query, causal))) for rows in _slices(self.n_queries, self.block_queries)
        ]

    def heads(self) -> list[slice]:
        return _slices(self.n_heads, self.block_heads)

    @contextmanager
    def threads(self) -> Iterator[None]:
        """With several groups of heads one thread does it all: products so small take longer when shared out."""
        before = torch.get_num_threads()
        alone = before > 1 and len(self.heads()) > 1
        if alone:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if alone:
                torch.set_num_threads(before)

    def rows(self) -> list[tuple[slice, list[tuple[slice, Tensor | None]]]]:
        """Each block of queries with its blocks of keys, and what hides the later keys of one."""
        return self.by_rows

    def scratch(self, like: Tensor) -> Tensor:
        return like.new_empty(self.block_heads * self.block_queries * self.block_keys)

    def _tiles(self, rows: slice, like: Tensor, causal: bool) -> Iterator[tuple[slice, Tensor | None]]:
        for columns in _slices(self.n_keys, self.block_keys):
            if not causal or columns.stop <= rows.start + 1:
                yield columns, None
            elif columns.start < rows.stop:
                hidden = like.new_full((rows.stop - rows.start, columns.stop - columns.start), _HIDDEN)
                yield columns, hidden.triu_(rows.start - columns.start + 1)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, max(1, step))]


def _view(scratch: Tensor, query: Tensor, key: Tensor) -> Tensor:
    shape = (query.shape[0], query.shape[1], key.shape[2])
    return scratch[: shape[0] * shape[1] * shape[2]].view(shape)


def _masked_product(query: Tensor, key: Tensor, hidden: Tensor | None, out: Tensor) -> None:
    torch.bmm(query, key, out=out)
    if hidden is not None:
        out.add_(hidden)


def _with_ones(x: Tensor) -> Tensor:
    """(N, n, w) to its transpose with a row of ones below, (N, w + 1, n)."""
    return F.pad(x.mT, (0, 0, 0, 1), value=1.0)
