"""Weights over heads as a module: a fixed scheme, or logits that train."""

import torch
from torch import Tensor, nn

from archopt.theory.weighting import head_weights


class HeadWeighting(nn.Module):
    """Non-negative weights over heads that sum to 1.

    Args:
        scheme: "learned" (softmax of logits that start at 0, hence from uniform), or a scheme of
            ``archopt.theory.weighting.head_weights``. Heads are exchangeable at the start, so their index is
            their order.
        n_heads: H.

    Raises:
        OptionError: an unknown scheme.
    """

    fixed: Tensor

    def __init__(self, scheme: str, n_heads: int) -> None:
        super().__init__()
        self.learned = scheme == "learned"
        if self.learned:
            self.logits = nn.Parameter(torch.zeros(n_heads))
        else:
            fixed = torch.as_tensor(head_weights(scheme, n_heads), dtype=torch.float32)
            self.register_buffer("fixed", fixed, persistent=False)

    def forward(self) -> Tensor:
        """Shape (H,)."""
        return torch.softmax(self.logits, dim=0) if self.learned else self.fixed
