"""What a model costs, as exact functions of its shape: trainable numbers, and floating-point operations.

Operations are those of matrix products, a multiply-add counting two, as ``torch.utils.flop_counter`` counts. Backward
costs twice the forward, except that what needs no gradient for its input (a table's rows) costs once there. Importing
this loads no torch.
"""

from archopt.allocation import HeadAllocation

VOCABULARY = 256
"""Bytes: no tokenizer to fetch, any file is a text."""


def decoder_parameters(
    allocation: HeadAllocation, *, n_layers: int, context_length: int, weighting: str = "uniform"
) -> int:
    """Trainable numbers of ``archopt.models.transformer.ByteDecoder``.

    Args:
        allocation: H heads of d_k; H * d_k = D.
        n_layers: blocks.
        context_length: positions.
        weighting: "learned" adds H to every block.
    """
    width = allocation.d_model
    # q, k, v, W_O; an MLP of width 4 D with its two biases; two norms with scale and shift
    block = 4 * width**2 + (8 * width**2 + 5 * width) + 4 * width + _weights(allocation, weighting)
    embeddings, last_norm, output = (VOCABULARY + context_length) * width, 2 * width, VOCABULARY * width
    return n_layers * block + embeddings + last_norm + output


def nadaraya_watson_parameters(n_features: int, allocation: HeadAllocation, *, weighting: str = "uniform") -> int:
    """Trainable numbers of ``archopt.models.nadaraya_watson.NadarayaWatson``; targets are no parameters.

    Args:
        n_features: p.
        allocation: H heads of d_k; H * d_k = D.
        weighting: "learned" adds H.
    """
    width = allocation.d_model
    linear, hidden, embedding, keys = n_features * width, (n_features + 1) * width, (width + 1) * width, width**2
    return linear + hidden + embedding + keys + allocation.n_heads + _weights(allocation, weighting)


def decoder_flops_per_token(allocation: HeadAllocation, *, n_layers: int, context_length: int) -> int:
    """Forward operations of the decoder, per byte of a full window.

    Attention counts the whole square of scores, as ``flop_counter`` does; a causal kernel that skips the hidden half
    does about half of that part. Neither H nor the weighting matters: scores cost 2 H d_k = 2 D a pair of positions,
    and so do values.
    """
    width = allocation.d_model
    projections, attention, mlp = 8 * width**2, 4 * context_length * width, 16 * width**2
    return n_layers * (projections + attention + mlp) + 2 * width * VOCABULARY


def nadaraya_watson_flops(
    n_features: int, allocation: HeadAllocation, *, n_queries: int, n_context: int, n_outputs: int = 1
) -> int:
    """Forward operations of the estimator with the Gaussian kernel, for one step.

    Scores cost 2 (d_k + 1) a pair and head: the kernel's norm is one more column. Values cost 2 C, but ``flop_counter``
    counts them as wide as the kernel makes them; this counts what is needed.

    Args:
        n_features: p.
        allocation: H heads of d_k; H * d_k = D.
        n_queries: rows that are predicted at once.
        n_context: rows that they attend over.
        n_outputs: C, 1 for regression.
    """
    width, n_heads = allocation.d_model, allocation.n_heads
    per_row = 2 * (2 * n_features * width + 2 * width**2)  # linear and hidden layer; embedding and keys
    per_pair = 2 * n_heads * (allocation.head_dim + 1 + n_outputs)
    mixing = 2 * n_heads * n_outputs
    return (n_queries + n_context) * per_row + n_queries * (n_context * per_pair + mixing)


def _weights(allocation: HeadAllocation, weighting: str) -> int:
    return allocation.n_heads if weighting == "learned" else 0
