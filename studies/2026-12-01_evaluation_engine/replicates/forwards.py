"""Losses of R replicates at once: archopt's modules under ``vmap``, or the same arithmetic written out, R in front.

Both take stacked parameters and stacked batches (see ``cells.Batches``) and return what is minimised and the data
losses, each (R,).
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from archopt.models.attention import attention, choose_kernel
from archopt.models.nadaraya_watson import PROBABILITY_FLOOR, prediction_loss
from archopt.models.transformer import ByteDecoder, next_byte_loss


class Objective(nn.Module):
    """One replicate's loss as a module, so that ``functional_call`` can swap its parameters."""

    def __init__(self, model, decorrelation):
        super().__init__()
        self.model, self.decorrelation = model, decorrelation

    def forward(self, *batch):
        if isinstance(self.model, ByteDecoder):
            data_loss = next_byte_loss(self.model(batch[0]), batch[1])
        else:
            data_loss = prediction_loss(self.model(*batch[:3]), batch[3])
        if self.decorrelation > 0:
            return data_loss + self.decorrelation * self.model.decorrelation_penalty(), data_loss
        return data_loss, data_loss


def vmapped(model, decorrelation):
    """(parameters, buffers, batch) to losses through ``torch.func``."""
    skeleton = copy.deepcopy(Objective(model, decorrelation)).to("meta")

    def one(parameters, buffers, *batch):
        named = {f"model.{name}": value for name, value in (parameters | buffers).items()}
        return functional_call(skeleton, named, batch)

    def losses(parameters, buffers, batch):
        return torch.vmap(one)(parameters, buffers, *batch)

    return losses


def by_hand(model, decorrelation):
    """(parameters, buffers, batch) to losses through batched products; R joins the batch or the heads of attention."""
    forward = _decoder(model) if isinstance(model, ByteDecoder) else _nadaraya_watson(model)

    def losses(parameters, buffers, batch):
        data_loss, projections = forward(parameters, buffers, batch)
        if decorrelation == 0:
            return data_loss, data_loss
        overlap = torch.stack([_overlap(each) for each in projections]).mean(dim=0)
        return data_loss + decorrelation * overlap, data_loss

    return losses


def _nadaraya_watson(model):
    n_heads, d_model, head_dim = model.key_weight.shape

    def forward(p, buffers, batch):
        queries, context, context_targets, targets = batch
        n_replicates, m, n = len(queries), queries.shape[1], context.shape[1]
        x = torch.cat([queries, context], dim=1)
        hidden = F.gelu(torch.baddbmm(p["hidden.bias"][:, None], x, p["hidden.weight"].mT))
        embedded = torch.bmm(x, p["linear.weight"].mT)
        embedded = embedded + torch.baddbmm(p["embedding.bias"][:, None], hidden, p["embedding.weight"].mT)
        side_by_side = p["key_weight"].transpose(1, 2).reshape(n_replicates, d_model, d_model)
        keys = torch.bmm(embedded, side_by_side).view(n_replicates, m + n, n_heads, head_dim).transpose(1, 2)
        query, key = keys[:, :, :m], keys[:, :, m:]
        centre = key.detach().mean(dim=2, keepdim=True)
        query, key = query - centre, key - centre
        inverse_tau = (torch.exp(-p["log_temperature"]) / head_dim**0.5)[:, :, None, None]
        query = torch.cat([query, torch.ones_like(query[..., :1])], dim=-1) * inverse_tau
        key = torch.cat([key, -0.5 * key.square().sum(dim=-1, keepdim=True)], dim=-1)
        if model.n_outputs == 1:
            values = context_targets[..., None]
        else:
            values = F.one_hot(context_targets, model.n_outputs).to(query.dtype)
        values = values[:, None].expand(-1, n_heads, -1, -1)
        # the kernel that one replicate takes: where R times the scores would ask for another, the numbers would differ
        kernel = choose_kernel(
            "cpu", query.dtype, head_dim + 1, n_scores=n_heads * m * n, kernel=model.attention_kernel
        )
        outputs = attention(query, key, values, scale=1.0, kernel=kernel)
        weights = buffers["weighting.fixed"].to(outputs.dtype)
        prediction = torch.bmm(weights[:, None], outputs.reshape(n_replicates, n_heads, -1)).view(n_replicates, m, -1)
        return _prediction_losses(prediction, targets), [p["key_weight"]]

    return forward


def _prediction_losses(prediction, targets):
    n_outputs = prediction.shape[-1]
    if n_outputs == 1:
        return (prediction[..., 0] - targets).square().mean(dim=1)
    log_p = torch.log(prediction * (1 - PROBABILITY_FLOOR) + PROBABILITY_FLOOR / n_outputs)
    return -log_p.gather(2, targets[..., None])[..., 0].mean(dim=1)


def _decoder(model):
    n_heads, d_model, head_dim = model.blocks[0].attention.key_weight.shape
    n_layers = len(model.blocks)

    def norm(x, p, name):
        normed = F.layer_norm(x, (d_model,))
        return torch.addcmul(p[f"{name}.bias"][:, None], normed, p[f"{name}.weight"][:, None])

    def self_attention(x, p, buffers, name, batch, length):
        r = len(x)
        stacked = torch.stack([p[f"{name}.{each}_weight"] for each in ("query", "key", "value")])  # (3, R, H, D, d_k)
        side_by_side = stacked.permute(1, 3, 0, 2, 4).reshape(r, d_model, 3 * d_model)
        projected = torch.bmm(x, side_by_side).view(r * batch, length, 3, n_heads, head_dim)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        output = attention(
            query, key, value, scale=head_dim**-0.5, causal=True, kernel=model.blocks[0].attention.attention_kernel
        )
        weights = (n_heads * buffers[f"{name}.weighting.fixed"]).to(x.dtype)
        output = output.view(r, batch, n_heads, length, head_dim) * weights[:, None, :, None, None]
        merged = output.transpose(2, 3).reshape(r, batch * length, d_model)
        return torch.bmm(merged, p[f"{name}.output_weight"].reshape(r, d_model, d_model))

    def forward(p, buffers, batch):
        tokens, following = batch
        r, n_windows, length = tokens.shape
        embedding = p["byte_embedding"]
        offsets = (torch.arange(r) * embedding.shape[1])[:, None, None]
        x = F.embedding(tokens + offsets, embedding.flatten(0, 1)) + p["position_embedding"][:, None, :length]
        x = x.flatten(1, 2)  # (R, windows * length, D)
        for layer in range(n_layers):
            at = f"layers.{layer}"
            x = x + self_attention(norm(x, p, f"{at}.attention_norm"), p, buffers, f"{at}.attention", n_windows, length)
            up = torch.baddbmm(p[f"{at}.up_bias"][:, None], norm(x, p, f"{at}.mlp_norm"), p[f"{at}.up_weight"])
            x = x + torch.baddbmm(p[f"{at}.down_bias"][:, None], F.gelu(up), p[f"{at}.down_weight"])
        logits = torch.bmm(norm(x, p, "final_norm"), p["byte_weight"])
        losses = F.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none").view(r, -1).mean(dim=1)
        return losses, [p[f"layers.{layer}.attention.key_weight"] for layer in range(n_layers)]

    return forward


def _overlap(projections):
    """``subspace_overlap`` of (R, H, D, d_k): (R,)."""
    n_replicates, n_heads, d_model, head_dim = projections.shape
    if head_dim > 1:
        bases = torch.linalg.qr(projections)[0]
    else:
        bases = projections / torch.linalg.vector_norm(projections, dim=2, keepdim=True)
    side_by_side = bases.transpose(1, 2).reshape(n_replicates, d_model, n_heads * head_dim)
    gram = torch.bmm(side_by_side.mT, side_by_side)
    return (gram.square().sum(dim=(1, 2)) - n_heads * head_dim) / (n_heads * (n_heads - 1) * head_dim)
