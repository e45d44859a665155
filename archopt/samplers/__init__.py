"""Samplers for Optuna studies."""

from archopt.samplers.head_allocation import HeadAllocationSampler

__all__ = ["HeadAllocationSampler"]
