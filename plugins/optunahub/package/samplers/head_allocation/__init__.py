from archopt import HeadAllocationSampler

__all__ = ["HeadAllocationSampler"]
